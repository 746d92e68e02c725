"""Total throughput: ``total_tps``, in tok/s, higher is better.

Formula: prompt + output tokens of completed requests, as the server counted them, / duration.
Prompt tokens that came from the prefix cache count: ``uncached_tps`` leaves them out. Absent
where the server did not count the prompts.
Source: ``total_token_throughput`` of ``vllm bench serve``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import completed, output_tokens, per_second, prompt_tokens
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return tokens a second; None where no request completed or prompts were not counted."""
    records = completed(replay)
    prompts = prompt_tokens(records)
    if prompts is None:
        return None
    return per_second(replay, prompts + sum(output_tokens(r) for r in records))


METRIC = Scalar("total_tps", "Total throughput", "tok/s", Better.HIGHER, value, throughput=True)
