"""The gate's contract: pure, importable anywhere, and cheap enough to simulate."""

import math
import subprocess
import sys

import pytest

from pytest_llmperf.gate._student import fisher, student
from pytest_llmperf.gate._words import count, moved, percent


def test_imports_without_pytest_gpu_or_network():
    """Importing and using the gate loads neither pytest nor httpx nor NVML."""
    code = (
        "import sys\n"
        "import pytest_llmperf.gate as gate\n"
        "assert gate.judge_values([[1.0]], [[[1.0]]]).status is gate.Status.PASSED\n"
        "heavy = {'pytest', '_pytest', 'httpx', 'pynvml', 'plotly', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("probability", "df", "quantile"),
    [
        (0.95, 9, 1.833113),
        (0.99, 9, 2.821438),
        (0.95, 1, 6.313752),
        (0.99, math.inf, 2.326348),
    ],
)
def test_students_quantile(probability, df, quantile):
    """The table at the end of every statistics book; infinite df is the normal one."""
    assert student(probability, df) == pytest.approx(quantile, abs=1e-6)


@pytest.mark.parametrize(
    ("probability", "df", "beside", "quantile"),
    [(0.95, 9, 9, 3.18), (0.9, 9, 27, 1.87), (0.9, 9, math.inf, 1.63)],
)
def test_fishers_quantile(probability, df, beside, quantile):
    """The next table; infinite df below is chi-square over df."""
    assert fisher(probability, df, beside) == pytest.approx(quantile, abs=0.005)


def test_numbers_in_words():
    """Percentages to a tenth, small ones to a hundredth; plurals."""
    assert [percent(x) for x in (0.048, 0.0004, 0.0, -0.02)] == [
        "4.8 %",
        "0.04 %",
        "0.0 %",
        "−2.0 %",
    ]
    assert [moved(x) for x in (-0.048, 0.003, 0.0)] == ["4.8 % lower", "0.3 % higher", "unchanged"]
    assert [count(n, w) for n, w in ((1, "night"), (3, "night"), (2, "launch"))] == [
        "1 night",
        "3 nights",
        "2 launches",
    ]
