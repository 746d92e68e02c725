"""How often the gate cries wolf, and how often it sees one: ``judge_values`` over simulated nights.

Gaussian noise in y = log(value), half of a launch's variance from night to night and half from
launch to launch; "CV" is a launch's. Each cell is the share of nights called REGRESSED when
nothing changed, when 3 % were lost and when 5 % were lost (in brackets: INCONCLUSIVE at 5 %).

    python benchmarks/gate_power.py                  # 10,000 nights a cell, under a minute
    python benchmarks/gate_power.py --nights 40000   # as in GATE.md

Exits with 1 if false alarms exceed their alpha by more than chance explains.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass

import numpy as np

from pytest_llmperf.gate import Noise, Status, estimate_noise, judge_values, pool

LOSSES = (0.0, 0.03, 0.05)
LEVEL = 1000.0
ELSEWHERE = 18
"""Degrees of freedom that the machine's other baselines add to the pooled noise."""


@dataclass(frozen=True)
class Cell:
    """One row of the table at one CV. ``gate_md``: what GATE.md's table promises, if it does."""

    rule: str
    launches: int
    nights: int
    alpha: float
    cv: float
    pooled: bool
    gate_md: str = "-"


def cells() -> list[Cell]:
    """Return every cell, in the table's order."""
    found = [
        Cell("stage 1 alone, pooled noise", 3, 10, alpha, cv, pooled=True, gate_md=promised)
        for alpha, cv, promised in (
            (0.01, 0.01, "0.7 / 85 / 100"),
            (0.01, 0.02, "1 / 26 / 70 (26)"),
            (0.0008, 0.01, "0.1 / 55 / 99"),
            (0.0008, 0.02, "0.1 / 7 / 35 (61)"),
        )
    ]
    found += [
        Cell("own noise", 3, 10, alpha, cv, pooled=False)
        for alpha in (0.01, 0.0008)
        for cv in (0.01, 0.02)
    ]
    found += [
        Cell("noise assumed", 3, nights, alpha, cv, pooled=False)
        for nights in (1, 3)
        for alpha in (0.01, 0.0008)
        for cv in (0.01, 0.02)
    ]
    return found


def simulate(cell: Cell, nights: int, rng: np.random.Generator) -> list[dict[Status, float]]:
    """Return the share of each status, one mapping a loss of ``LOSSES``."""
    sd = cell.cv * math.sqrt(0.5)
    shape = (nights, cell.nights + 1, cell.launches)
    logs = rng.normal(0, sd, (*shape[:2], 1)) + rng.normal(0, sd, shape)
    baselines = (LEVEL * np.exp(logs[:, :-1, :, None])).tolist()
    night_sd = sd * math.sqrt(1 + 1 / cell.launches)
    elsewhere = night_sd * np.sqrt(rng.chisquare(ELSEWHERE, nights) / ELSEWHERE)
    noises = [
        pool(n for n in (Noise(float(other), ELSEWHERE), estimate_noise(baseline)) if n)
        if cell.pooled
        else None
        for other, baseline in zip(elsewhere, baselines, strict=True)
    ]
    shares = []
    for loss in LOSSES:
        tonight = (LEVEL * (1 - loss) * np.exp(logs[:, -1, :, None])).tolist()
        statuses = [
            judge_values(candidate, baseline, noise=noise, alpha=cell.alpha).status
            for candidate, baseline, noise in zip(tonight, baselines, noises, strict=True)
        ]
        shares.append({status: statuses.count(status) / nights for status in Status})
    return shares


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 1 if any cell raises more false alarms than its alpha."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nights", type=int, default=10_000, help="simulated nights a cell")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    started = time.monotonic()
    too_many = 0
    print("| rule | n | m | CV | alpha | false alarms / at 3 % / at 5 % (inconclusive) | GATE.md |")
    print("|---|---|---|---|---|---|---|")
    for cell in cells():
        shares = simulate(cell, options.nights, rng)
        alarms, some, more = (100 * share[Status.REGRESSED] for share in shares)
        chance = 3 * math.sqrt(cell.alpha * (1 - cell.alpha) / options.nights)
        excess = alarms / 100 > cell.alpha + chance
        too_many += excess
        print(
            f"| {cell.rule} | {cell.launches} | {cell.nights} | {cell.cv:.0%} | "
            f"{cell.alpha:.2%} | {alarms:.2f}{' TOO MANY' if excess else ''} / {some:.0f} / "
            f"{more:.0f} ({100 * shares[2][Status.INCONCLUSIVE]:.0f}) | {cell.gate_md} |",
            flush=True,
        )
    print(f"\n{options.nights:,} nights a cell, {time.monotonic() - started:.0f} s")
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main())
