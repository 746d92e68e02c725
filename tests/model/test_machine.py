"""The fingerprint of a host."""

from dataclasses import replace

from pytest_llmperf.model.machine import Machine

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


def test_differences_name_the_field_and_both_values():
    """So that a refusal says what differs."""
    assert H200.differences(replace(H200, driver_branch="570")) == ["driver_branch: 580 → 570"]
