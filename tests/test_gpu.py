from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_llmperf import gpu
from pytest_llmperf.gpu import Gpu, GpuProcess, Link

GIB = 1 << 30


class FakeNvml:
    """Answers as the NVML of an H200 host did; what is refused raises NVMLError."""

    class NVMLError(Exception):
        """NVML's own."""

    NVML_P2P_CAPS_INDEX_NVLINK = 2
    nvmlMemory_v2 = 2  # noqa: N815 - NVML's name

    def __init__(self, count: int = 1, *, refuses: tuple[str, ...] = (), nvlink: int = 0) -> None:
        self.open = 0
        self._refuses = refuses
        self._count = count
        self._nvlink = nvlink

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
        """Open."""
        if "nvmlInit" in self._refuses:
            raise self.NVMLError
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802 - NVML's name
        """Close."""
        self.open -= 1

    def __getattr__(self, name: str) -> object:
        """Return the function of that name."""
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def answer(*arguments: object) -> object:
            if name in self._refuses or (*arguments[1:], name) in self._refuses:
                raise self.NVMLError
            return self._answers(*arguments)[name]

        return answer

    def _answers(self, handle: object = 0, *_: object) -> dict[str, object]:
        return {
            "nvmlDeviceGetCount": self._count,
            "nvmlDeviceGetHandleByIndex": handle,
            "nvmlSystemGetDriverVersion": "580.95.05",
            "nvmlSystemGetCudaDriverVersion": 13000,
            "nvmlDeviceGetUUID": f"GPU-{'abcd'[int(handle)]}111",
            "nvmlDeviceGetName": b"NVIDIA H200",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(
                total=140 * GIB, used=GIB // 2, free=139 * GIB
            ),
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=40),
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetPowerUsage": 412_500,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetTemperature": 51,
            "nvmlDeviceGetTotalEnergyConsumption": 123_456,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4 | 0x40 | 0x1,
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=9, usedGpuMemory=None)],
            "nvmlDeviceGetGraphicsRunningProcesses": [SimpleNamespace(pid=7, usedGpuMemory=GIB)],
            "nvmlDeviceGetP2PStatus": self._nvlink,
            "nvmlDeviceGetTopologyCommonAncestor": 50,
        }


QUESTIONS = sorted(FakeNvml()._answers())


@pytest.fixture(autouse=True)
def all_visible(monkeypatch):
    """Let these tests see every GPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_gpu_is_read_whole():
    """Every field, in the unit that it says."""
    nvml = FakeNvml()
    assert gpu.gpus(nvml) == (
        Gpu(
            index=0,
            uuid="GPU-a111",
            name="NVIDIA H200",
            memory_total=140 * GIB,
            memory_used=GIB // 2,
            memory_free=139 * GIB,
            driver_version="580.95.05",
            cuda_version="13.0",
            compute_capability="9.0",
            power_limit_w=700.0,
            mig=False,
            pcie=(5, 16),
            processes=(GpuProcess(7, GIB), GpuProcess(9, None)),
            utilization=97,
            sm_clock_mhz=1980,
            sm_clock_max_mhz=1980,
            memory_clock_mhz=1980,
            temperature_c=51,
            power_w=412.5,
            energy_mj=123_456,
            throttles=("power cap", "thermal (hardware)"),
        ),
    )
    assert nvml.open == 0


@pytest.mark.parametrize(
    "question",
    [q for q in QUESTIONS if q not in {"nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"}],
)
def test_what_nvml_refuses_is_none(question):
    """One question refused leaves the other answers."""
    (found,) = gpu.gpus(FakeNvml(refuses=(question,)))
    whole = gpu.gpus(FakeNvml())[0]
    changed = [name for name in Gpu.__slots__ if getattr(found, name) != getattr(whole, name)]
    assert len(changed) == {
        "nvmlDeviceGetMemoryInfo": 3,
        "nvmlDeviceGetClockInfo": 2,
        "nvmlDeviceGetP2PStatus": 0,
        "nvmlDeviceGetTopologyCommonAncestor": 0,
    }.get(question, 1)


def test_memory_of_an_older_driver():
    """Where version 2 is refused, version 1 answers."""
    (found,) = gpu.gpus(FakeNvml(refuses=((2, "nvmlDeviceGetMemoryInfo"),)))
    assert found.memory_total == 140 * GIB


def test_a_host_without_a_driver_has_no_gpus():
    """That is no error."""
    nvml = FakeNvml(refuses=("nvmlInit",))
    assert gpu.gpus(nvml) == ()
    assert gpu.links(nvml) == ()
    with gpu.session(nvml) as opened:
        assert opened is None


def test_a_session_reads_many_times():
    """NVML is opened once and closed, also after an error."""
    nvml = FakeNvml()
    with gpu.session(nvml) as opened:
        assert opened.gpus() == opened.gpus()
        assert nvml.open == 1
    assert nvml.open == 0
    with pytest.raises(KeyError), gpu.session(nvml):
        raise KeyError
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        ("", []),
        ("2", [2]),
        ("2,0", [2, 0]),
        ("GPU-b111", [1]),
        ("GPU-b, 3", [1, 3]),
        ("1,7,2", [1]),
        ("-1", []),
        ("1,1", [1]),
    ],
)
def test_visible_devices_are_respected(monkeypatch, visible, indices):
    """As CUDA reads them: indices or UUIDs, in their order, up to the first that is none."""
    assert [g.index for g in gpu.gpus(FakeNvml(4), visible)] == indices
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [g.index for g in gpu.gpus(FakeNvml(4))] == indices


def test_nvlink_between_gpus():
    """The peer-to-peer status says it; link states are not supported everywhere."""
    assert gpu.links(FakeNvml(3)) == (
        Link(0, 1, "NVLink"),
        Link(0, 2, "NVLink"),
        Link(1, 2, "NVLink"),
    )


def test_pcie_between_gpus():
    """Without NVLink it is the distance, as nvidia-smi topo -m names it."""
    assert gpu.links(FakeNvml(2, nvlink=1)) == (Link(0, 1, "SYS"),)
    silent = ("nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor")
    assert gpu.links(FakeNvml(2, refuses=silent)) == (Link(0, 1, None),)


@pytest.mark.parametrize(
    ("kinds", "word"),
    [
        ([], None),
        ([None], None),
        (["NVLink", None], None),
        (["NVLink"], "NVLink"),
        (["PHB", "SYS"], "PCIe"),
        (["NVLink", "SYS"], "mixed"),
    ],
)
def test_one_word_for_the_interconnect(kinds, word):
    """All pairs alike, or mixed; not known is not guessed."""
    assert gpu.interconnect(tuple(Link(0, 1, kind) for kind in kinds)) == word


def test_a_gpu_is_free_enough_below_a_gibibyte():
    """A desktop's context is tolerated, a model is not."""
    (found,) = gpu.gpus(FakeNvml())
    assert found.free_enough
    assert not Gpu(0, "u", "n", 140 * GIB, GIB, 139 * GIB).free_enough


def test_this_host_can_be_asked():
    """With or without a driver the real module answers."""
    assert isinstance(gpu.gpus(), tuple)
