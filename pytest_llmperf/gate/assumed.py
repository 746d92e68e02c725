"""The noise to assume of a figure while a machine has too little history of its own.

A night mean's standard deviation, as a share. Two sources, both in "How a verdict is reached"
(shared/GATE.md): five launches of five replays of one unchanged server on an H200 give the
noise between replays and between launches; public series of unchanged commits give the level
above, from night to night: TPOT 0.3 % (A10G), 0.9 % (L4), 1.1 % (MI355X), TTFT 0.6 to 5 %.

==================== ======= ========== ============ =======
figure               replays launches   nights       assumed
==================== ======= ========== ============ =======
output TPS, duration  0.38 % 0.19 %     as TPOT         1 %
ITL median            0.07 % 0.02 %     as TPOT         1 %
ITL and TPOT mean     1.1 %  0.5 %      0.3 to 1.1 %    1 %
TTFT p99              1.8 %  0.5 %      0.6 to 5 %      2 %
TTFT mean, median     5.2 %  0 to 1.4 % 0.6 to 5 %      5 %
ITL p99              32 %    5 %        unknown        32 %
everything else      unknown unknown    unknown         2 %
==================== ======= ========== ============ =======
"""

from __future__ import annotations

ASSUMED_DF = 6
"""How sure an assumption is, in degrees of freedom: as sure as seven nights would make.

A host may be noisier than the table. With six, and with launches that differ more than the
table expects taken as a warning (``history.Evidence``), a host whose nights differ by 1.6 %
where 1 % is assumed raises 0.5 % false alarms at a nominal 1 % on one accepted night, 0.7 %
on three (``benchmarks/gate_power.py``); the table taken for certain would raise 8 and 6 %.
"""

DEFAULT = 0.02
THROUGHPUT = 0.01
STEP = 0.01
FIRST_TOKEN = 0.05
TAIL_OF_STEPS = 0.32

BY_FIGURE = {
    "output_tps": THROUGHPUT,
    "total_tps": THROUGHPUT,
    "uncached_tps": THROUGHPUT,
    "steady_output_tps": THROUGHPUT,
    "request_rate": THROUGHPUT,
    "duration": THROUGHPUT,
    "ttft.p99": 0.02,
}
BY_METRIC = {
    # statistic → share; "*" for those the table does not tell apart
    "itl": {"mean": STEP, "median": STEP, "*": TAIL_OF_STEPS},
    "icl": {"mean": STEP, "median": STEP, "*": TAIL_OF_STEPS},
    "tpot": {"mean": STEP, "median": STEP, "*": DEFAULT},
    "ttft": {"*": FIRST_TOKEN},
    "ttft_due": {"*": FIRST_TOKEN},
}


def assumed_sd(figure: str) -> float:
    """Return the standard deviation of night means to assume of ``figure``, as a share."""
    if figure in BY_FIGURE:
        return BY_FIGURE[figure]
    metric, _, statistic = figure.partition(".")
    statistics = BY_METRIC.get(metric, {})
    return statistics.get(statistic, statistics.get("*", DEFAULT))
