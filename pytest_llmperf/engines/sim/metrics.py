"""What the engine counts, as vLLM's ``/metrics`` defines it (v1/metrics/stats.py)."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence as Items

TTFT_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0),
)
REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
ITERATION = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)

RECENT_REQUESTS = 1000
"""Requests whose prefix hits make the rate in the log."""

Finished = Literal["stop", "length"]


class Counted(Protocol):
    """What is read of a job."""

    prompt_tokens: int
    generated: int
    asked_tokens: int
    cached_tokens: int | None
    arrived: float
    scheduled: float | None
    first_token: float | None
    last_token: float | None


class Histogram:
    """Counts of values up to each bound, and their sum."""

    def __init__(self, bounds: Items[float]) -> None:
        self.bounds = tuple(float(bound) for bound in bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


def token_bounds(max_model_len: int) -> tuple[float, ...]:
    """Return vLLM's bounds for token counts: 1, 2, 5, 10, ... up to the greatest length."""
    bounds: list[float] = []
    power = 1
    while power <= max_model_len:
        bounds += [power * step for step in (1, 2, 5) if power * step <= max_model_len]
        power *= 10
    return tuple(bounds)


class SpecCounts:
    """What speculative decoding did with up to ``tokens`` drafts a step and sequence."""

    def __init__(self, tokens: int) -> None:
        self.drafts = 0
        self.draft_tokens = 0
        self.accepted_tokens = 0
        self.accepted_by_position = [0] * tokens

    def observe(self, drafted: int, accepted: int) -> None:
        """Count one sequence's draft of ``drafted`` tokens; one of none is no draft."""
        if not drafted:
            return
        self.drafts += 1
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        for position in range(accepted):
            self.accepted_by_position[position] += 1

    def values(self) -> tuple[int, ...]:
        """Return drafts, draft tokens, accepted tokens, and these at each position."""
        return self.drafts, self.draft_tokens, self.accepted_tokens, *self.accepted_by_position


class Metrics:
    """Counters and histograms of one engine, from its start on.

    ``histograms`` has each under the name that it has after ``vllm:``. ``spec_decode`` is there
    where drafts are verified.
    """

    def __init__(self, max_model_len: int, *, prefix_caching: bool) -> None:
        self._prefix_caching = prefix_caching
        self.prompt_tokens = 0
        self.cached_prompt_tokens = 0
        self.generation_tokens = 0
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.preemptions = 0
        self.spec_decode: SpecCounts | None = None
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT_REQUESTS)
        self.finished_by_reason: dict[str, int] = dict.fromkeys(
            ("stop", "length", "abort", "error", "repetition"), 0
        )
        tokens = token_bounds(max_model_len)
        self.histograms = {
            "request_prompt_tokens": Histogram(tokens),
            "request_generation_tokens": Histogram(tokens),
            "iteration_tokens_total": Histogram(ITERATION),
            "request_max_num_generation_tokens": Histogram(tokens),
            "request_params_n": Histogram((1, 2, 5, 10, 20)),
            "request_params_max_tokens": Histogram(tokens),
            "time_to_first_token_seconds": Histogram(TTFT_S),
            "inter_token_latency_seconds": Histogram(TOKEN_S),
            "request_time_per_output_token_seconds": Histogram(TOKEN_S),
            "e2e_request_latency_seconds": Histogram(REQUEST_S),
            "request_queue_time_seconds": Histogram(REQUEST_S),
            "request_inference_time_seconds": Histogram(REQUEST_S),
            "request_prefill_time_seconds": Histogram(REQUEST_S),
            "request_decode_time_seconds": Histogram(REQUEST_S),
            "request_prefill_kv_computed_tokens": Histogram(tokens),
        }

    @property
    def recent_hit_rate(self) -> float:
        """Share of prompt tokens found in the prefix cache, of the last 1,000 requests."""
        queries = sum(tokens for tokens, _ in self._recent)
        return sum(hits for _, hits in self._recent) / queries if queries else 0.0

    def admitted(self, job: Counted) -> None:
        """Count a job that runs for the first time: its prompt asks the prefix cache."""
        if not self._prefix_caching:
            return
        hits = job.cached_tokens or 0
        self.prefix_queries += job.prompt_tokens
        self.prefix_hits += hits
        self._recent.append((job.prompt_tokens, hits))

    def preempted(self, count: int) -> None:
        """Count jobs that lost their KV blocks."""
        self.preemptions += count

    def stepped(self, sampled: Items[Counted], tokens: int, now: float) -> None:
        """Count a step that gave ``sampled`` so many ``tokens``; moves their last token's time.

        Tokens that come together are one latency, as in vLLM.
        """
        if not sampled:
            return
        ttft = self.histograms["time_to_first_token_seconds"]
        itl = self.histograms["inter_token_latency_seconds"]
        prompt_tokens = 0
        for job in sampled:
            if job.last_token is None:
                job.first_token = now
                prompt_tokens += job.prompt_tokens
                self.cached_prompt_tokens += job.cached_tokens or 0
                ttft.observe(now - job.arrived)
            else:
                itl.observe(now - job.last_token)
            job.last_token = now
        self.prompt_tokens += prompt_tokens
        self.generation_tokens += tokens
        self.histograms["iteration_tokens_total"].observe(prompt_tokens + tokens)

    def aborted(self) -> None:
        """Count a job whose client went away: it is in no histogram."""
        self.finished_by_reason["abort"] += 1

    def finished(self, job: Counted, reason: Finished, now: float) -> None:
        """Count a job that brought all its tokens."""
        self.finished_by_reason[reason] += 1
        observe = self._observe
        observe("e2e_request_latency_seconds", now - job.arrived)
        observe("request_prompt_tokens", job.prompt_tokens)
        observe("request_generation_tokens", job.generated)
        observe("request_max_num_generation_tokens", job.generated)
        observe("request_params_n", 1)
        observe("request_params_max_tokens", job.asked_tokens)
        if job.scheduled is None or job.first_token is None or job.last_token is None:
            raise ValueError("a job that never ran cannot have finished")
        decode = job.last_token - job.first_token
        observe("request_queue_time_seconds", job.scheduled - job.arrived)
        observe("request_prefill_time_seconds", job.first_token - job.scheduled)
        observe("request_decode_time_seconds", decode)
        observe("request_inference_time_seconds", job.last_token - job.scheduled)
        computed = job.prompt_tokens - (job.cached_tokens or 0)
        observe("request_prefill_kv_computed_tokens", computed)
        per_token = decode / (job.generated - 1) if job.generated > 1 else 0.0
        observe("request_time_per_output_token_seconds", per_token)

    def _observe(self, name: str, value: float) -> None:
        self.histograms[name].observe(value)
