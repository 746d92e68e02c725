"""How true the clock is: replays against truthd, which says when it really sent each token.

    python benchmarks/load.py [--rates 10000 20000 40000] [--requests 3]

True TTFT 50 ms, true ITL 20 ms, 200 tokens a request, closed loop; RATE * 20 ms streams, all
started at once. Errors are ours minus what truthd says left it. Its TTFT starts when it reads a
request, ours when the request is sent: what lies unread before truthd counts as our error.
Needs gcc; truthd shares the host, so leave it two idle cores.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_llmperf.model.launch import Target
from pytest_llmperf.model.traffic import Prompt, Request, Traffic, TrafficSpec
from pytest_llmperf.replay import replay

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay

SOURCE = Path(__file__).parents[1] / "tests" / "truth" / "truthd.c"
TTFT_S, ITL_S, TOKENS = 0.05, 0.02, 200


def closed_loop(streams: int, requests: int) -> Traffic:
    """Return ``requests`` requests for each of ``streams`` streams, all due at once."""
    count = streams * requests
    spec = TrafficSpec("truth", "literal", num_prompts=count, max_concurrency=streams)
    prompt = Prompt("count to two hundred", 8, TOKENS)
    return Traffic(spec, tuple(Request(index, 0, prompt) for index in range(count)))


def build(folder: Path) -> Path:
    """Compile truthd."""
    program = folder / "truthd"
    subprocess.run(["gcc", "-O2", "-o", program, SOURCE], check=True)
    return program


def get(port: int, path: str) -> bytes:
    """Ask truthd."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        body: bytes = answer.read()
    return body


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def show(
    streams: int, replayed: Replay, truth: dict[str, dict[str, float]], parse_s: float
) -> None:
    """Print one line a figure."""
    records = replayed.records
    ttft = [(r.chunk_ns[0] - r.sent_ns) / 1e6 for r in records if r.chunk_ns and r.sent_ns]
    itl = np.concatenate([np.diff(np.asarray(r.chunk_ns)) for r in records]) / 1e6
    tokens = sum(sum(r.chunk_tokens) for r in records)
    health = replayed.health
    failed = [r.error for r in records if r.error]
    print(
        f"{streams} streams, {tokens / health.wall_s:,.0f} events/s, clock {replayed.clock}: "
        f"{tokens:,} of {len(records) * TOKENS:,} tokens, {len(failed)} failed {failed[:1]}"
    )
    for name, ours in (("ttft", np.asarray(ttft)), ("itl", itl)):
        theirs = truth[name]
        row = ", ".join(
            f"p{q} {np.percentile(ours, q):.2f} ({np.percentile(ours, q) - theirs[f'p{q}']:+.2f})"
            for q in (50, 90, 99)
        )
        print(f"  {name} ms (error): {row}, max {ours.max():.1f} (sent {theirs['max']:.1f})")
    print(
        f"  CPU {health.cpu_s / tokens * 1e6:.1f} µs an event in the replay, "
        f"{parse_s / tokens * 1e6:.1f} µs around it; start {health.start_s:.2f} s; "
        f"send lag p99 {health.send_lag_p99_ns / 1e6:.1f} max {health.send_lag_max_ns / 1e6:.1f} ms; "
        f"loop lag max {health.loop_lag_max_ns / 1e6:.1f} ms; reconnects {health.reconnects}"
    )


def main() -> None:
    """Run each rate once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rates", type=int, nargs="+", default=[10_000, 20_000])
    parser.add_argument("--requests", type=int, default=3, help="requests a stream")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = free_port()
        truthd = subprocess.Popen([build(folder), str(port), str(ITL_S), str(TTFT_S)])
        try:
            time.sleep(0.2)
            for rate in options.rates:
                streams = int(rate * ITL_S)
                get(port, "/reset")
                before = time.monotonic()
                target = Target("127.0.0.1", port, "m")
                replayed = replay(
                    closed_loop(streams, options.requests), target, work=folder, salt="s"
                )
                around_s = time.monotonic() - before - replayed.health.wall_s
                show(streams, replayed, json.loads(get(port, "/stats")), around_s)
        finally:
            truthd.kill()
            truthd.wait()


if __name__ == "__main__":
    main()
