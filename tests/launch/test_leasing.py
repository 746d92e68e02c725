from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

import pytest

from pytest_llmperf.errors import LeaseError
from pytest_llmperf.gpu import Gpu, GpuProcess
from pytest_llmperf.launch import Host, family, launch_engine
from pytest_llmperf.launch.leasing import gpus_needed
from pytest_llmperf.launch.settings import Keep
from pytest_llmperf.launch.shelf import Shelf, end_kept, kept_servers

GIB = 1 << 30


def gpu(index: int, used: int = 0, processes: tuple[GpuProcess, ...] = ()) -> Gpu:
    return Gpu(
        index, f"GPU-fake-{index}", "H200", 140 * GIB, used, 140 * GIB - used, processes=processes
    )


@pytest.fixture
def host(tmp_path):
    """Two GPUs that do not exist, and a folder for their leases."""
    return Host(gpus=lambda: (gpu(0), gpu(1)), leases=tmp_path / "leases")


def test_a_server_sees_the_gpus_it_leases(engine, fake, settings, tmp_path, host):
    """CUDA_VISIBLE_DEVICES is the lease, by index in the order of the PCI bus."""
    seen = []
    one, two = (fake("--environment", str(tmp_path / n), name=n) for n in ("one", "two"))
    leased = replace(settings, gpus=1)
    with (
        launch_engine(engine, one, tmp_path / "1", leased, host),
        launch_engine(engine, two, tmp_path / "2", leased, host),
    ):
        for name in ("one", "two"):
            environment = json.loads((tmp_path / name).read_text())
            seen.append((environment["CUDA_VISIBLE_DEVICES"], environment["CUDA_DEVICE_ORDER"]))
    assert seen == [("0", "PCI_BUS_ID"), ("1", "PCI_BUS_ID")]


def test_a_held_gpu_is_refused_until_its_server_is_stopped(engine, fake, settings, tmp_path, host):
    """The refusal names the holding server and process; afterwards the GPUs are free."""
    both = replace(settings, gpus=2)
    with launch_engine(engine, fake(name="holder"), tmp_path / "1", both, host):
        with (
            pytest.raises(LeaseError) as caught,
            launch_engine(engine, fake(), tmp_path / "2", replace(settings, gpus=1), host),
        ):
            pass
        assert "server 'fake' needs 1 GPU(s), too few are free: GPU 0 (H200): leased since" in str(
            caught.value
        )
        assert f"by server 'holder' of pid {os.getpid()}" in str(caught.value)
    with launch_engine(engine, fake(), tmp_path / "2", both, host) as running:
        running.check_alive()


def test_a_lease_is_waited_for(engine, fake, settings, tmp_path):
    """With a timeout the launch waits, says so, and goes on once the GPU is free."""
    said: list[str] = []
    looks = iter([90 * GIB, 90 * GIB, 0, 0, 0])
    host = Host(
        gpus=lambda: (gpu(0, used=next(looks), processes=(GpuProcess(7, 90 * GIB),)),),
        leases=tmp_path / "leases",
    )
    patient = replace(settings, gpus=1, lease_timeout=30, on_progress=said.append)
    with launch_engine(engine, fake(), tmp_path, patient, host):
        pass
    assert said == ["waiting for 1 GPU(s): GPU 0 (H200): 90.00 GiB in use by pid 7"] * 2


def test_too_few_gpus_are_counted(engine, fake, settings, tmp_path, host):
    """More than the host has cannot be leased, wait or not."""
    with (
        pytest.raises(LeaseError, match=r"needs 4 GPU\(s\), 2 can be seen here"),
        launch_engine(engine, fake(), tmp_path, replace(settings, gpus=4), host),
    ):
        pass


def test_a_killed_supervisor_frees_its_lease(engine, fake, settings, tmp_path, host, gone):
    """The next launch gets the GPU and ends what the dead one's server left behind."""
    path = tmp_path / "escaped"
    both = replace(settings, gpus=2)
    first = launch_engine(engine, fake("--escape", str(path)), tmp_path / "1", both, host)
    with first as running:
        os.kill(family.member(running.pid).parent, signal.SIGKILL)
        assert gone(running.pid)
        escaped = int(path.read_text())
        assert family.member(escaped).alive
        with launch_engine(engine, fake(), tmp_path / "2", both, host) as second:
            second.check_alive()
            assert gone(escaped)


def test_an_idle_kept_server_makes_room(engine, fake, settings, tmp_path, host, gone):
    """For a server that is kept too; whoever keeps none waits, and reads what ends it."""
    folder = tmp_path / "servers"
    both = replace(settings, gpus=2)
    keeping = replace(both, keep=Keep(folder))
    with launch_engine(engine, fake(name="first"), tmp_path / "1", keeping, host) as first:
        pass
    with (
        pytest.raises(LeaseError, match=f"by server 'first' .*, kept in {folder}: pytest --llm"),
        launch_engine(engine, fake(name="second"), tmp_path / "2", both, host),
    ):
        pass
    said: list[str] = []
    telling = replace(keeping, on_progress=said.append)
    with launch_engine(engine, fake(name="second"), tmp_path / "3", telling, host) as second:
        assert gone(first.pid)
        assert "kept server first was ended: its GPUs are needed" in said
        with (
            pytest.raises(LeaseError, match="too few are free"),
            launch_engine(engine, fake(name="third"), tmp_path / "4", keeping, host),
        ):
            pass  # the second is in use
        second.check_alive()
    (kept,) = kept_servers(folder)
    assert (kept.name, kept.gpus) == ("second", 2)
    assert end_kept(Shelf(folder / kept.name), 5)
    with launch_engine(engine, fake(), tmp_path / "5", both, host) as after:
        after.check_alive()


def test_how_many_gpus_are_needed(engine, fake, settings, host):
    """What is set counts; else what the arguments say, if the engine uses GPUs and any exist."""
    spec = fake("--tensor-parallel-size", "2")
    on_gpu = replace(engine, uses_gpu=True)
    none = Host(gpus=tuple)
    assert gpus_needed(on_gpu, spec, settings, host) == 2
    assert gpus_needed(on_gpu, spec, replace(settings, gpus=0), host) == 0
    assert gpus_needed(on_gpu, spec, settings, none) == 0
    assert gpus_needed(engine, spec, settings, host) == 0
