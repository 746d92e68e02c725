"""Student's quantile, cached: a session asks for the same few again and again."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)
def student(probability: float, df: float) -> float:
    """Return the ``probability`` quantile of Student's t with ``df`` degrees of freedom.

    Infinite degrees of freedom give the normal distribution's.
    """
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))
