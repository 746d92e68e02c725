"""How often the gate cries wolf, and how often it sees one: ``judge_values`` over simulated nights.

Gaussian noise in y = log(value), half of a launch's variance from night to night and half from
launch to launch; "CV" is a launch's. Each cell is the share of nights called REGRESSED when
nothing changed, when 3 % were lost and when 5 % were lost (in brackets: INCONCLUSIVE at 5 %).
Pooled noise is what the store pools: this baseline's, and that of the machine's others, each of
ten nights, all as noisy (homogeneous) or not.

    python benchmarks/gate_power.py                  # 10,000 nights a cell, about a minute
    python benchmarks/gate_power.py --nights 40000   # as in GATE.md

Exits with 1 if false alarms exceed what a cell allows, its alpha, by more than chance explains.
Some cells allow more: a traffic about twice as noisy as nine others is the worst case of all
(``gate.history.DOUBT``), too near to them to be told apart by ten nights; and on a first night
only two nights' launches can contradict the pool, too few for an alpha of 0.08 %.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass

import numpy as np

from pytest_llmperf.gate import Noise, Status, estimate_noise, judge_values
from pytest_llmperf.model.noise import pool_unlike

LOSSES = (0.0, 0.03, 0.05)
LEVEL = 1000.0
OTHERS_DF = 9
"""Degrees of freedom of each of the machine's other baselines: ten nights."""
WORST, WORST_OF_MANY, FIRST = 2.5, 8.0, 1.5
"""How many times alpha the worst case (at 1 %, at 0.08 %) and a noisy first night may raise."""


@dataclass(frozen=True)
class Cell:
    """One row of the table at one CV. ``gate_md``: what GATE.md's table promises, if it does.

    ``others``: CVs of the machine's other baselines (None: the noise is this baseline's own).
    ``allowed``: false alarms, in alphas.
    """

    rule: str
    launches: int
    nights: int
    alpha: float
    cv: float
    others: tuple[float, ...] | None = None
    gate_md: str = "-"
    allowed: float = 1.0


def cells() -> list[Cell]:
    """Return every cell, in the table's order."""
    found = [
        Cell("stage 1 alone, pooled noise", 3, 10, alpha, cv, (cv, cv), promised)
        for alpha, cv, promised in (
            (0.01, 0.01, "0.7 / 85 / 100"),
            (0.01, 0.02, "1 / 26 / 70 (26)"),
            (0.0008, 0.01, "0.1 / 55 / 99"),
            (0.0008, 0.02, "0.1 / 7 / 35 (61)"),
        )
    ]
    found += [
        Cell("own noise", 3, 10, alpha, cv) for alpha in (0.01, 0.0008) for cv in (0.01, 0.02)
    ]
    found += [
        Cell("noise assumed", 3, nights, alpha, cv)
        for nights in (1, 3)
        for alpha in (0.01, 0.0008)
        for cv in (0.01, 0.02)
    ]
    found += [
        Cell(f"{rule}, pooled noise", 3, nights, alpha, cv, others)
        for rule, nights, cv, others in (
            ("one of ten alike", 10, 0.01, (0.01,) * 9),
            ("3 % among nine of 0.3 %", 10, 0.03, (0.003,) * 9),
            ("1 % among nine of 0.3 %", 10, 0.01, (0.003,) * 9),
            ("1 % beside 3 % and eight of 1 %", 10, 0.01, (0.03, *(0.01,) * 8)),
            ("0.3 % among nine of 3 %", 10, 0.003, (0.03,) * 9),
            ("new, one of ten alike", 1, 0.01, (0.01,) * 9),
            ("new, 3 % among nine of 0.3 %", 3, 0.03, (0.003,) * 9),
        )
        for alpha in (0.01, 0.0008)
    ]
    first, worst = "first night, 3 % among nine of 0.3 %", "worst case: 2 % among nine of 1 %"
    return [
        *found,
        Cell(first, 3, 1, 0.01, 0.03, (0.003,) * 9),
        Cell(first, 3, 1, 0.0008, 0.03, (0.003,) * 9, allowed=FIRST),
        Cell(worst, 3, 10, 0.01, 0.02, (0.01,) * 9, allowed=WORST),
        Cell(worst, 3, 10, 0.0008, 0.02, (0.01,) * 9, allowed=WORST_OF_MANY),
    ]


def simulate(cell: Cell, nights: int, rng: np.random.Generator) -> list[dict[Status, float]]:
    """Return the share of each status, one mapping a loss of ``LOSSES``."""
    sd = cell.cv * math.sqrt(0.5)
    shape = (nights, cell.nights + 1, cell.launches)
    logs = rng.normal(0, sd, (*shape[:2], 1)) + rng.normal(0, sd, shape)
    baselines = (LEVEL * np.exp(logs[:, :-1, :, None])).tolist()
    noises = _pooled(cell, baselines, rng)
    shares = []
    for loss in LOSSES:
        tonight = (LEVEL * (1 - loss) * np.exp(logs[:, -1, :, None])).tolist()
        statuses = [
            judge_values(candidate, baseline, noise=noise, alpha=cell.alpha).status
            for candidate, baseline, noise in zip(tonight, baselines, noises, strict=True)
        ]
        shares.append({status: statuses.count(status) / nights for status in Status})
    return shares


def _pooled(
    cell: Cell, baselines: list[list[list[list[float]]]], rng: np.random.Generator
) -> list[Noise | None]:
    """Return the machine's noise on each night, as the store pools it."""
    if cell.others is None:
        return [None] * len(baselines)
    night_sds = np.array(cell.others) * math.sqrt(0.5 * (1 + 1 / cell.launches))
    shape = (len(baselines), len(cell.others))
    estimates = night_sds * np.sqrt(rng.chisquare(OTHERS_DF, shape) / OTHERS_DF)
    return [
        pool_unlike(
            noise
            for noise in (*(Noise(sd, OTHERS_DF) for sd in sds), estimate_noise(baseline))
            if noise
        )
        for sds, baseline in zip(estimates.tolist(), baselines, strict=True)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 1 if any cell raises more false alarms than it allows."""
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
        allowed = cell.allowed * cell.alpha
        chance = 3 * math.sqrt(allowed * (1 - allowed) / options.nights)
        excess = alarms / 100 > allowed + chance
        too_many += excess
        print(
            f"| {cell.rule} | {cell.launches} | {cell.nights} | {cell.cv:.1%} | "
            f"{cell.alpha:.2%} | {alarms:.2f}{' TOO MANY' if excess else ''} / {some:.0f} / "
            f"{more:.0f} ({100 * shares[2][Status.INCONCLUSIVE]:.0f}) | {cell.gate_md} |",
            flush=True,
        )
    print(f"\n{options.nights:,} nights a cell, {time.monotonic() - started:.0f} s")
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main())
