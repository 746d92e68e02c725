from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_llmperf import gpu
from pytest_llmperf.launch import machine
from pytest_llmperf.launch.machine import cpu_model, read_machine
from pytest_llmperf.model.machine import Machine

H200 = gpu.Gpu(
    index=0,
    uuid="GPU-a",
    name="NVIDIA H200",
    memory_total=140 << 30,
    memory_used=0,
    memory_free=140 << 30,
    driver_version="580.95.05",
    cuda_version="13.0",
    power_limit_w=700.0,
    mig=False,
)


@pytest.fixture
def cpuinfo(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Intel(R)  Xeon(R)   Platinum 8480C\nflags : x\n")
    return path


@pytest.fixture
def two_gpus(monkeypatch):
    """Make this a host with two H200s over NVLink."""
    link = gpu.Link(0, 1, "NVLink")
    fake = SimpleNamespace(
        gpus=lambda _: (H200, H200), links=lambda _: (link,), interconnect=gpu.interconnect
    )
    monkeypatch.setattr(machine, "gpu", fake)


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_hosts_fingerprint(cpuinfo):
    """Models, count, wiring and the driver's branch, not its version."""
    assert read_machine(simulated=False, cpuinfo=cpuinfo) == Machine(
        gpu_model="NVIDIA H200",
        gpu_count=2,
        interconnect="NVLink",
        driver_branch="580",
        cuda_major=13,
        mig=False,
        power_limit_w=700,
        cpu_model="Intel(R) Xeon(R) Platinum 8480C",
    )


@pytest.mark.usefixtures("two_gpus")
def test_a_simulated_machine_has_no_gpu(cpuinfo):
    """What is simulated is no fact of the host."""
    assert read_machine(simulated=True, cpuinfo=cpuinfo) == Machine(
        cpu_model="Intel(R) Xeon(R) Platinum 8480C", simulated=True
    )


def test_a_cpu_without_a_name_is_its_architecture(tmp_path):
    """Arm's /proc/cpuinfo names no model."""
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nCPU part\t: 0xd4f\n")
    assert cpu_model(path) == cpu_model(tmp_path / "missing")
    assert cpu_model(path)
