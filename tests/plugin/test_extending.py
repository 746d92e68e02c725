"""One new file and no edit: the examples of docs/extending.md, dropped in as they stand."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
BLOCK = re.compile(r"`pytest_llmperf/([a-z/]+)/([a-z_]+)\.py`.*?```python\n(.*?)```", re.S)

# What a file in the package's own folder would need nothing of: the test must not write there.
CONFTEST = """
import importlib
from pathlib import Path

for package in ("metrics", "datasets", "report.sections"):
    module = importlib.import_module(f"pytest_llmperf.{package}")
    module.__path__.append(str(Path(__file__).parent / package.replace(".", "/")))
"""


def test_a_metric_a_dataset_and_a_section_take_one_file_each(suite):
    """The figure has limits and a baseline, the dataset is in the suite, the section shows."""
    found = BLOCK.findall(PAGE.read_text())
    assert [f"{package}/{name}" for package, name, _ in found] == [
        "metrics/first_gap",
        "datasets/greeting",
        "report/sections/motto",
    ]
    for package, name, code in found:
        folder = suite.pytester.path / package
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(code)
    suite.pytester.makeconftest(CONFTEST)
    suite.write("""
    from pytest_llmperf import greeting

    HELLO = greeting("hello", num_prompts=8, max_concurrency=4)

    @pytest.mark.llmperf(servers=[BASE], traffic=[HELLO], gate=["first_gap.mean"])
    def test_greetings(llm_verdict):
        llm_verdict.check(slo={"first_gap.p99": "< 1 s"})
    """)
    suite.run("--llmperf-accept", launches=1, replays=1).assert_outcomes(passed=1)
    result = suite.run("--llmperf-inconclusive", "pass", launches=1, replays=1)
    result.assert_outcomes(passed=1)
    figures = {f["figure"] for v in suite.outcome()["verdicts"] for f in v["findings"]}
    assert figures == {"first_gap.p99", "first_gap.mean"}
    report = (suite.pytester.path / ".llmperf/report").glob("*.html")
    assert sum("This page rests on 8 requests." in page.read_text() for page in report) == 2
