from __future__ import annotations

import pytest

from pytest_llmperf.engines import ENGINES, Place
from pytest_llmperf.engines.attach import ENGINE, attach
from pytest_llmperf.errors import UsageError
from pytest_llmperf.model.launch import LaunchFacts
from pytest_llmperf.model.server import ServerSpec

PLACE = Place(None, "m", "127.0.0.1", 8000, None)


def test_the_model_may_be_left_out():
    """It is then whichever the server serves."""
    assert attach("staging") == ServerSpec("staging", "attach", "served")
    assert attach("staging", "qwen").model == "qwen"


def test_the_engine_starts_nothing():
    """It is real, runs already, and needs no GPU here."""
    engine = ENGINES["attach"]
    assert (engine.simulated, engine.managed, engine.uses_gpu) == (False, False, False)
    ENGINE.check(attach("staging"), PLACE)
    with pytest.raises(UsageError, match=r"'staging' runs already at http://127\.0\.0\.1:8000"):
        ENGINE.command(attach("staging"), PLACE)


def test_there_is_no_log():
    """Its log is where it runs."""
    assert ENGINE.facts("GPU KV cache size: 9 tokens") == LaunchFacts()
    assert ENGINE.failure("ValueError: bad") is None
