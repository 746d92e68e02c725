"""Frozen mappings."""

import pickle

from pytest_llmperf.model.pairs import Json, freeze


def test_a_frozen_value_equals_its_like_alone():
    """In any order of comparison, in a dictionary and in another process."""
    (pair,) = freeze({"a": {"y": 1, "x": [2]}})
    frozen = pair[1]
    assert frozen == freeze({"a": {"x": [2], "y": 1}})[0][1] == Json('{"x": [2], "y": 1}')
    assert not frozen != Json(str(frozen))  # noqa: SIM202 # what != says is tested
    assert frozen != str(frozen)
    assert str(frozen) != frozen
    assert len({frozen: 1, str(frozen): 2}) == 2
    assert pickle.loads(pickle.dumps(frozen)) == frozen  # noqa: S301 # its own
