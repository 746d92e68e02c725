"""Charts as data: small, valid JSON, and safe wherever the names in it come from."""

from __future__ import annotations

import json
import math

import numpy as np

from pytest_llmperf.report.charts import SERIES, Chart, series


def test_data_is_rounded_and_without_nan() -> None:
    """Five digits are more than a screen shows; JSON has no NaN."""
    chart = Chart([{"y": np.array([1234.5678, math.nan, 2.0]), "x": [0.1 + 0.2, None]}], alt="")
    assert json.loads(chart.json)["data"] == [{"y": [1234.6, None, 2], "x": [0.3, None]}]


def test_names_are_text_to_html_and_to_plotly() -> None:
    """A name ends no script element, and plotly, which reads tags in texts, sees none."""
    hostile = "</script><b>bold</b><a href='javascript:alert(1)'>"
    chart = Chart([{"name": hostile, "hovertemplate": "%{y}<extra></extra>"}], alt="")
    assert "<" not in chart.json
    trace = json.loads(chart.json)["data"][0]
    assert trace["name"].startswith("&lt;/script&gt;&lt;b&gt;bold")
    assert trace["hovertemplate"] == "%{y}<extra></extra>"


def test_colours_go_round() -> None:
    """The ninth series has the first one's colour."""
    assert series(0) == series(len(SERIES)) == "--series-1"
