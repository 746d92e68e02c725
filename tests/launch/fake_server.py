"""A server for tests of the launch: vLLM's paths, and whatever misbehaviour is asked for."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--die", help="say this and end with status 3")
    parser.add_argument("--die-with-traceback", help="raise ValueError of this")
    parser.add_argument("--hang", action="store_true", help="never listen")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--escape", type=Path, help="leave a child in a session of its own")
    parser.add_argument("--daemon", type=Path, help="leave an orphan: its parent ends at once")
    parser.add_argument("--busy", type=int, default=0, help="answer 503 to so many requests")
    parser.add_argument("--unhealthy", action="store_true")
    parser.add_argument("--chat-only", action="store_true")
    parser.add_argument("--no-models", action="store_true")
    parser.add_argument("--no-reuse", action="store_true", help="listen without SO_REUSEADDR")
    parser.add_argument("--no-metrics", action="store_true")
    parser.add_argument("--environment", type=Path, help="write the environment there")
    parser.add_argument("--flag", action="append", default=[], help="anything")
    return parser.parse_args()


class Server(ThreadingHTTPServer):
    """Answers many at once, as asked on the command line."""

    request_queue_size = 1024
    daemon_threads = True
    options: argparse.Namespace
    busy: int


class Handler(BaseHTTPRequestHandler):
    """vLLM's paths."""

    server: Server

    def do_GET(self) -> None:
        """Answer health, models, version and metrics."""
        asked = self.server.options
        if self.path == "/health":
            self.reply(500 if asked.unhealthy else 200, "")
        elif self.path == "/v1/models" and not asked.no_models:
            self.check_key()
            self.reply(200, json.dumps({"data": [{"id": asked.model, "max_model_len": 4096}]}))
        elif self.path == "/version":
            self.reply(200, '{"version": "9.9.9"}')
        elif self.path == "/metrics" and not asked.no_metrics:
            self.reply(
                200,
                "# TYPE vllm:prompt_tokens_total counter\n"
                'vllm:prompt_tokens_total{engine="0"} 3.0\n'
                'vllm:prompt_tokens_total{engine="1"} 4.0\n'
                "# TYPE vllm:cache_config_info gauge\n"
                'vllm:cache_config_info{kv_cache_size_tokens="93184",'
                'kv_cache_max_concurrency="45.5"} 1.0\n',
            )
        else:
            self.reply(404, "no such path")

    def do_POST(self) -> None:
        """Answer one token, or end when told to."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = self.server.options
        self.check_key()
        if self.path == "/die":
            self.reply(200, "")
            print("ValueError: told to die", flush=True)
            os._exit(7)
        if asked.chat_only and self.path == "/v1/completions":
            return self.reply(404, "only chat")
        if self.server.busy > 0:
            self.server.busy -= 1
            return self.reply(503, "not yet")
        if body["model"] != asked.model:
            return self.reply(404, f"no model {body['model']}")
        return self.reply(200, json.dumps({"choices": [{"text": " there"}]}))

    def check_key(self) -> None:
        """Answer 401 to a wrong key."""
        key = os.environ.get("VLLM_API_KEY")
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self.reply(401, "Unauthorized")

    def reply(self, status: int, text: str) -> None:
        """Answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        """Say nothing: the log is for what tests look for."""


def leave_child(path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", SLEEPER], start_new_session=True)
    path.write_text(str(child.pid))


def leave_orphan(path: Path) -> None:
    script = (
        "import subprocess, sys; "
        f"p = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}], start_new_session=True); "
        f"open({str(path)!r}, 'w').write(str(p.pid))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def main() -> None:
    asked = options()
    print(f"fake server, model {asked.model}", flush=True)
    if asked.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if asked.environment:
        asked.environment.write_text(json.dumps(dict(os.environ)))
    if asked.die:
        print(asked.die, flush=True)
        sys.exit(3)
    if asked.die_with_traceback:
        raise ValueError(asked.die_with_traceback)
    if asked.escape:
        leave_child(asked.escape)
    if asked.daemon:
        leave_orphan(asked.daemon)
    if asked.hang:
        time.sleep(600)
    Server.allow_reuse_address = not asked.no_reuse
    server = Server((asked.host, asked.port), Handler)
    server.options = asked
    server.busy = asked.busy
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
