"""The fingerprint of a host."""

import hashlib
import json
from dataclasses import dataclass, replace

from pytest_llmperf.model.machine import IDENTITY, Machine

H200 = Machine(
    gpu_model="NVIDIA H200",
    gpu_count=1,
    driver_branch="580",
    cuda_major=13,
    mig=False,
    power_limit_w=700,
    cpu_model="Intel(R) Xeon(R)",
)


def test_the_key_is_a_folder_that_a_person_can_read():
    """GPU, count, and a digest of everything that must match."""
    assert H200.key.startswith("nvidia-h200-x1-")
    assert len(H200.key) == len("nvidia-h200-x1-") + 8


def test_whatever_must_match_changes_the_key():
    """A lowered power limit is another machine."""
    assert replace(H200, power_limit_w=500).key != H200.key


def test_simulated_results_have_a_folder_of_their_own():
    """They never meet a real baseline."""
    assert replace(H200, simulated=True).key.startswith("simulated-")


def test_the_key_is_of_what_must_match_and_is_known():
    """Pinned: a key that moved would leave every accepted baseline behind.

    SHA-256 of {"cpu_model": …, "cuda_major": 13, …} without interconnect and simulated.
    """
    known = {
        "cpu_model": "Intel(R) Xeon(R)",
        "cuda_major": 13,
        "driver_branch": "580",
        "gpu_count": 1,
        "gpu_model": "NVIDIA H200",
        "mig": False,
        "power_limit_w": 700,
    }
    assert H200.identity == known
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    assert H200.key == f"nvidia-h200-x1-{digest[:8]}"


def test_a_field_that_a_later_version_adds_leaves_the_key_alone():
    """At its default it is not in the digest; recorded only, it is not in it either."""

    @dataclass(frozen=True, slots=True)
    class Later(Machine):
        nvlink_version: int | None = None

    values = {name: getattr(H200, name) for name in IDENTITY}
    assert Later(**values, nvlink_version=4).key == H200.key
    assert Later(**values).differences(H200) == []


def test_fields_of_a_later_version_are_left_out():
    """A file that says more is read all the same."""
    assert Machine.of({"gpu_model": "NVIDIA H200", "colour": "red"}) == Machine("NVIDIA H200")


def test_differences_name_the_field_and_both_values():
    """So that a refusal says what differs."""
    assert H200.differences(replace(H200, driver_branch="570")) == ["driver_branch: 580 → 570"]
