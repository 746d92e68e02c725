"""Output throughput: ``output_tps``, in tok/s, higher is better.

Formula: output tokens of completed requests, as the server counted them, / duration, which
goes from the first send to the last chunk of any request. The tokens of failed requests are
left out, as in vLLM. Where the offered rate was reached it measures the arrivals.
Source: ``output_throughput`` of ``vllm bench serve``, whose duration also has the client's
own start and end in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_llmperf.metrics._records import completed, output_tokens, per_second
from pytest_llmperf.model.metric import Better, Scalar

if TYPE_CHECKING:
    from pytest_llmperf.model.record import Replay


def value(replay: Replay) -> float | None:
    """Return output tokens a second; None where no request completed."""
    return per_second(replay, sum(output_tokens(r) for r in completed(replay)))


METRIC = Scalar(
    "output_tps",
    "Output throughput",
    "tok/s",
    Better.HIGHER,
    value,
    gated=("output_tps",),
    throughput=True,
)
