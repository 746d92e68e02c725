"""The engine's parts as the arguments ask for them; what serves them, and what measures them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pytest_llmperf.engines.sim.async_scheduler import AsyncScheduler
from pytest_llmperf.engines.sim.drafting import Drafting
from pytest_llmperf.engines.sim.scheduler import Limits, Scheduler, Sequence

if TYPE_CHECKING:
    from pytest_llmperf.engines.sim.memory import Budget
    from pytest_llmperf.engines.sim.options import SimOptions

S = TypeVar("S", bound=Sequence)


def build_scheduler(options: SimOptions, budget: Budget) -> Scheduler[S]:
    """Return the scheduler, within what arguments and memory set."""
    limits = Limits(
        options.max_num_seqs,
        options.max_scheduled_tokens,
        budget.kv_blocks,
        budget.block_size,
        budget.max_model_len,
    )
    kind: type[Scheduler[S]] = AsyncScheduler if options.async_scheduling else Scheduler
    return kind(
        limits,
        prefix_caching=options.enable_prefix_caching,
        chunked_prefill=options.enable_chunked_prefill,
    )


def build_drafting(options: SimOptions) -> Drafting | None:
    """Return what proposes and accepts drafts; None without speculation."""
    return None if options.speculation is None else Drafting(options.speculation)
