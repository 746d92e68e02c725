"""Student's quantile, and Fisher's, cached: a session asks for the same few again and again."""

from __future__ import annotations

import math
from functools import lru_cache


@lru_cache(maxsize=1024)
def student(probability: float, df: float) -> float:
    """Return the ``probability`` quantile of Student's t with ``df`` degrees of freedom.

    Infinite degrees of freedom give the normal distribution's.
    """
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


@lru_cache(maxsize=1024)
def fisher(probability: float, df: float, beside: float) -> float:
    """Return the ``probability`` quantile of a variance ratio F with ``df`` over ``beside``.

    Infinite degrees of freedom in the denominator give chi-square over ``df``.
    """
    from scipy.special import chdtri, fdtri

    if math.isinf(beside):
        return float(chdtri(df, 1 - probability)) / df
    return float(fdtri(df, beside, probability))
