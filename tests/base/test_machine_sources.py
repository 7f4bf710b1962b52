"""What NVML, nvidia-smi and amd-smi say becomes one shape; unknown stays unknown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.machine import amd_smi, nvidia_smi, nvml
from infer_forge.base.machine.looking import snapshot
from infer_forge.base.machine.model import GpuState, MachineState, ProcessUse, compare
from infer_forge.base.machine.processes import (
    bus_id,
    container_of,
    device_holders,
    job_of,
    pod_of,
    runtime_state,
    xid_errors,
)
from infer_forge.base.ownership import process_start
from tests.nodes.samples import FAKE_SMI, FakeMachine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    return FakeMachine(tmp_path, monkeypatch)


def seen(machine: FakeMachine, *gpus: dict[str, Any], **more: Any) -> list[GpuState]:
    machine.set(*gpus, **more)
    state = snapshot("smi-xml", all_visible=True)
    assert state.gpus is not None, state.errors
    return state.gpus


# nvidia-smi


@pytest.mark.parametrize("schema", [11, 12, 13])
def test_every_schema_of_nvidia_smi_gives_the_same_answer(machine: FakeMachine, schema: int) -> None:
    busy = {
        "index": 0,
        "util": 97,
        "used": 65720,
        "power": 512.25,
        "procs": [[os.getpid(), "C", "python", 65000]],
        "ecc": 3,
    }
    gpu = seen(machine, busy, {"index": 1, "minor": 5}, schema=schema)
    one = gpu[0]
    assert (one.util_gpu_pct, one.mem_used_mib, one.power_w, one.power_limit_w) == (97.0, 65720, 512.25, 700.0)
    assert (one.ecc_uncorrected, one.temp_c, one.pstate, one.mig, one.pci) == (3, 31.0, "P0", False, "0000:1b:00")
    assert one.procs is not None
    assert (one.procs[0].host_pid, one.procs[0].mem_mib, one.procs[0].type) == (os.getpid(), 65000, "C")
    assert one.procs[0].start_ticks == process_start(os.getpid())
    assert one.recovery_action == (None if schema == 11 else "none")
    assert one.energy_mj is None
    assert (gpu[1].index, gpu[1].minor) == (1, 5)


@pytest.mark.parametrize(
    ("schema", "word", "wanted"),
    [(12, "Reset", "gpu_reset"), (12, "Drain and Reset", "drain_and_reset"), (13, "Node Reboot", "node_reboot")],
)
def test_what_the_driver_asks_for_has_one_spelling(machine: FakeMachine, schema: int, word: str, wanted: str) -> None:
    assert seen(machine, {"index": 0, "recovery": word}, schema=schema)[0].recovery_action == wanted


def test_words_in_place_of_numbers_are_unknown_and_not_zero(machine: FakeMachine) -> None:
    for word in ("N/A", "[N/A]", "Not Supported", "Requested functionality has been deprecated", "Unknown Error"):
        gpu = seen(machine, {"index": 0, "util": word, "used": word, "power": word, "temp": word, "procs": "N/A"})[0]
        assert (gpu.util_gpu_pct, gpu.mem_used_mib, gpu.power_w, gpu.temp_c, gpu.procs) == (None,) * 5


def test_a_sliced_gpu_tells_its_slices_and_not_its_use(machine: FakeMachine) -> None:
    gpu = seen(machine, {"index": 0, "mig": [[1, 0, "MIG-a", 10, 9856], [2, 0, "MIG-b", 12, 9856]]})[0]
    assert (gpu.mig, gpu.util_gpu_pct) == (True, None)
    assert [(m.uuid, m.gpu_instance, m.mem_total_mib) for m in gpu.mig_devices] == [
        ("MIG-a", 1, 9856),
        ("MIG-b", 2, 9856),
    ]


def test_an_empty_list_inside_a_container_is_unknown(machine: FakeMachine) -> None:
    machine.set({"index": 0, "used": 60000})
    inside = snapshot("smi-xml", all_visible=False)
    assert inside.gpus is not None
    assert inside.gpus[0].procs is None
    machine.set({"index": 0, "procs": [[4242, "C", "x", 9]]})
    inside = snapshot("smi-xml", all_visible=False)
    assert inside.gpus is not None
    assert inside.gpus[0].procs == [ProcessUse(host_pid=4242, mem_mib=9, type="C")]


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("no-driver", "couldn't communicate"),
        ("permission", "Insufficient Permissions"),
        ("truncated", "no whole XML"),
        ("entities", "entities"),
    ],
)
def test_a_failing_nvidia_smi_is_could_not_see_and_never_nothing_there(
    machine: FakeMachine, mode: str, words: str
) -> None:
    machine.set(mode=mode)
    state = snapshot("smi-xml")
    assert (state.gpus, state.source) == (None, "none")
    assert words in state.errors[0]


def test_a_machine_with_a_driver_and_no_gpu_has_an_empty_list(machine: FakeMachine) -> None:
    text = b'<?xml version="1.0"?><nvidia_smi_log><driver_version>1</driver_version></nvidia_smi_log>'
    assert nvidia_smi.parse_nvidia_smi(text) == ("1", [])


def test_a_hanging_nvidia_smi_is_given_up(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia_smi, "TIMEOUT_S", 0.3)
    machine.set(mode="hang")
    assert "did not end" in snapshot("smi-xml").errors[0]


@pytest.mark.parametrize("text", ["", "nonsense", "<a/>", "<nvidia_smi_log>", "\0"])
def test_what_is_no_nvidia_smi_xml_is_refused(text: str) -> None:
    with pytest.raises(InputUnusable):
        nvidia_smi.parse_nvidia_smi(text)


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(UsageFault):
        snapshot("crystal ball")


def test_the_fake_is_a_program_that_anybody_can_start(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"gpus": [{"index": 0}]}')
    done = subprocess.run(
        [sys.executable, str(FAKE_SMI), "-q", "-x"],
        env=os.environ | {"FAKE_SMI": str(plan)},
        capture_output=True,
        check=True,
    )
    assert b"nvsmi_device_v13.dtd" in done.stdout


# NVML


class FakeNvml:
    """The part of pynvml that the reader asks, with one GPU; `broken` names calls that raise."""

    class NVMLError(Exception):
        pass

    class NVMLError_NotSupported(NVMLError):  # noqa: N801 - the binding's name
        pass

    nvmlMemory_v2 = 2  # noqa: N815
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "Init": None, "Shutdown": None, "SystemGetDriverVersion": "580.95.05", "DeviceGetCount": 1,
            "DeviceGetHandleByIndex": "h", "DeviceGetMinorNumber": 3, "DeviceGetUUID": b"GPU-x", "DeviceGetName": "NVIDIA H200",
            "DeviceGetMemoryInfo": SimpleNamespace(used=5 << 20, total=143771 << 20, reserved=611 << 20),
            "DeviceGetUtilizationRates": SimpleNamespace(gpu=0, memory=0), "DeviceGetMigMode": [0, 0],
            "DeviceGetPowerUsage": 76_500, "DeviceGetEnforcedPowerLimit": 700_000, "DeviceGetPerformanceState": 0,
            "DeviceGetPciInfo": SimpleNamespace(busId=b"00000000:3B:00.0"), "DeviceGetClockInfo": 345,
            "DeviceGetTotalEnergyConsumption": 123_456, "DeviceGetTemperature": 30, "DeviceGetTotalEccErrors": 0,
            "DeviceGetComputeRunningProcesses": [], "DeviceGetGraphicsRunningProcesses": [],
            "DeviceGetMPSComputeRunningProcesses": [],
            "DeviceGetFieldValues": [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=0))],
        } | answers  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name[4:] not in self.answers:
            raise AttributeError(name)
        answer = self.answers[name[4:]]

        def call(*_: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def test_nvml_gives_energy_and_everything_else() -> None:
    driver, gpus, errors = nvml.read(processes_visible=True, module=FakeNvml())
    assert (driver, errors) == ("580.95.05", [])
    gpu = gpus[0]
    assert (gpu.index, gpu.minor, gpu.uuid, gpu.pci) == (0, 3, "GPU-x", "0000:3b:00")
    assert (gpu.mem_used_mib, gpu.mem_reserved_mib, gpu.energy_mj, gpu.power_w) == (5, 611, 123_456, 76.5)
    assert (gpu.procs, gpu.mig, gpu.recovery_action, gpu.ecc_uncorrected) == ([], False, "none", 0)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("DeviceGetUtilizationRates", "util_gpu_pct"),
        ("DeviceGetTotalEnergyConsumption", "energy_mj"),
        ("DeviceGetComputeRunningProcesses", "procs"),
        ("DeviceGetPowerUsage", "power_w"),
        ("DeviceGetTotalEccErrors", "ecc_uncorrected"),
        ("DeviceGetUUID", "uuid"),
    ],
)
def test_a_call_that_nvml_does_not_support_is_none_and_one_that_fails_is_told(call: str, field: str) -> None:
    quiet = FakeNvml(**{call: FakeNvml.NVMLError_NotSupported("Not Supported")})
    _, gpus, errors = nvml.read(processes_visible=True, module=quiet)
    assert (getattr(gpus[0], field), errors) == (None, [])
    loud = FakeNvml(**{call: FakeNvml.NVMLError("GPU is lost")})
    _, gpus, errors = nvml.read(processes_visible=True, module=loud)
    assert getattr(gpus[0], field) is None
    assert any("GPU is lost" in error for error in errors)


def test_a_gpu_that_fell_off_the_bus_is_there_and_unknown() -> None:
    lost = FakeNvml(DeviceGetHandleByIndex=FakeNvml.NVMLError("GPU is lost"))
    _, gpus, errors = nvml.read(processes_visible=True, module=lost)
    assert gpus == [GpuState(index=0)]
    assert errors == ["GPU 0: GPU is lost"]


def test_a_process_of_nvml_without_memory_figure_keeps_it_unknown() -> None:
    mine = SimpleNamespace(pid=os.getpid(), usedGpuMemory=None)
    fake = FakeNvml(DeviceGetComputeRunningProcesses=[mine], DeviceGetGraphicsRunningProcesses=[mine])
    _, gpus, _ = nvml.read(processes_visible=True, module=fake)
    assert gpus[0].procs is not None
    assert [(p.mem_mib, p.type) for p in gpus[0].procs] == [(None, "C+G")]


def test_nvml_that_does_not_start_is_told() -> None:
    with pytest.raises(InputUnusable, match="does not start"):
        nvml.read(processes_visible=True, module=FakeNvml(Init=FakeNvml.NVMLError("Driver Not Loaded")))


# amd-smi

AMD: dict[str, Any] = {
    "static": [
        {
            "gpu": 0,
            "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": "0xABC"},
            "bus": {"bdf": "0000:05:00.0"},
            "limit": {"max_power": {"value": 750, "unit": "W"}},
        }
    ],
    "metric": {
        "gpu_data": [
            {
                "gpu": 0,
                "usage": {"gfx_activity": {"value": 3, "unit": "%"}, "umc_activity": {"value": 0, "unit": "%"}},
                "power": {"socket_power": {"value": 141, "unit": "W"}},
                "mem_usage": {"used_vram": {"value": 285, "unit": "MB"}, "total_vram": {"value": 196592, "unit": "MB"}},
                "energy": {"total_energy_consumption": {"value": 1234.5, "unit": "J"}},
                "temperature": {"hotspot": {"value": 40, "unit": "C"}},
                "ecc": {"total_uncorrectable_count": 0},
            }
        ]
    },
    "process": [{"gpu": 0, "process_list": [{"process_info": "No running processes detected"}]}],
}


def test_amd_smi_of_old_and_new_shape_is_read() -> None:
    gpu = amd_smi.parse_amd_smi(AMD)[0]
    assert (gpu.name, gpu.util_gpu_pct, gpu.mem_used_mib, gpu.power_w) == ("AMD Instinct MI300X", 3.0, 285, 141.0)
    assert (gpu.energy_mj, gpu.power_limit_w, gpu.pci, gpu.procs) == (1_234_500, 750.0, "0000:05:00", [])
    assert gpu.recovery_action is None
    listed = AMD | {
        "process": {
            "gpu_data": [
                {
                    "gpu": 0,
                    "process_list": [
                        {"process_info": {"pid": 12, "memory_usage": {"vram_mem": {"value": 2 << 20, "unit": "B"}}}}
                    ],
                }
            ]
        }
    }
    procs = amd_smi.parse_amd_smi(listed)[0].procs
    assert procs is not None
    assert (procs[0].host_pid, procs[0].mem_mib) == (12, 2)


NOT_AMD: list[dict[str, Any]] = [
    {},
    {"metric": 3, "static": [], "process": []},
    {"metric": [{}], "static": [], "process": []},
]


@pytest.mark.parametrize("bad", NOT_AMD)
def test_what_is_no_amd_smi_json_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputUnusable):
        amd_smi.parse_amd_smi(bad)


def test_words_of_amd_smi_are_unknown() -> None:
    gpu = amd_smi.parse_amd_smi(
        {"static": [], "process": [], "metric": [{"gpu": 0, "usage": "N/A", "power": {"socket_power": "N/A"}}]}
    )[0]
    assert (gpu.util_gpu_pct, gpu.power_w, gpu.mem_used_mib, gpu.procs) == (None, None, None, None)


# Processes


@pytest.mark.parametrize(
    ("path", "container", "job", "pod"),
    [
        ("/system.slice/docker-" + "a" * 64 + ".scope", "a" * 64, None, None),
        ("/docker/" + "b" * 64, "b" * 64, None, None),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice/"
            "cri-containerd-" + "c" * 64 + ".scope",
            "c" * 64,
            None,
            "0a1b2c3d-1111-2222-3333-444455556666",
        ),
        (
            "/kubepods/burstable/pod0a1b2c3d-1111-2222-3333-444455556666/" + "d" * 64,
            "d" * 64,
            None,
            "0a1b2c3d-1111-2222-3333-444455556666",
        ),
        ("/machine.slice/libpod-" + "e" * 64 + ".scope/container", "e" * 64, None, None),
        ("/system.slice/slurmstepd.scope/job_1234/step_0/user", None, "1234", None),
        ("/user.slice/user-1000.slice", None, None, None),
    ],
)
def test_containers_jobs_and_pods_are_read_from_cgroup_paths(
    path: str, container: str | None, job: str | None, pod: str | None
) -> None:
    assert (container_of(path), job_of(path), pod_of(path)) == (container, job, pod)


def test_a_pid_with_another_start_time_is_not_the_same_process() -> None:
    mine, start = str(os.getpid()), process_start(os.getpid())
    assert runtime_state("pid", mine, start).alive is True
    assert runtime_state("pid", mine, 1).alive is False
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert runtime_state("pid", str(gone.pid), 1, all_visible=True).alive is False
    assert runtime_state("pid", str(gone.pid), 1, all_visible=False).alive is None
    assert runtime_state("container", "a" * 64, None, all_visible=False).alive is None
    assert runtime_state("container", "a" * 64, None, all_visible=True).alive is False


def test_holders_of_a_device_are_found_by_their_open_files(tmp_path: Path) -> None:
    for pid, target in (
        ("100", "/dev/nvidia0"),
        ("101", "/dev/null"),
        ("102", "/dev/nvidia11"),
        ("103", "/dev/nvidiactl"),
    ):
        folder = tmp_path / pid / "fd"
        folder.mkdir(parents=True)
        (folder / "3").symlink_to(target)
    found = device_holders(all_visible=True, proc=str(tmp_path))
    assert found is not None
    assert sorted((h.id, h.minors) for h in found) == [("100", [0]), ("102", [11])]
    assert device_holders(all_visible=False, proc=str(tmp_path)) is None


def test_xid_errors_are_read_from_the_kernel_log(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "6,1,1000000,-;NVRM: loading\n"
        "4,2,2000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
        "4,3,9000000,-;NVRM: Xid (PCI:0000:3B:00): 31, pid=2, name=python, MMU Fault\n"
    )
    assert xid_errors(None, log=str(log)) == {"0000:3b:00": [79, 31]}
    assert xid_errors(5.0, log=str(log)) == {"0000:3b:00": [31]}
    assert xid_errors(None, log=str(tmp_path / "absent")) is None
    assert bus_id("00000000:3B:00.0") == "0000:3b:00"


# Two looks


def test_two_looks_tell_what_changed() -> None:
    def look(**fields: Any) -> MachineState:
        gpu = GpuState(index=0, mem_used_mib=5, procs=[], recovery_action="none")
        for name, value in fields.items():
            setattr(gpu, name, value)
        return MachineState(node="n", boot_id="b", t_wall=0.0, t_mono_ns=0, source="nvml", gpus=[gpu])

    assert compare(look(), look()) == []
    assert compare(look(procs=[ProcessUse(host_pid=7, start_ticks=1)]), look()) == ["GPU 0: process 7 ended"]
    assert compare(look(), look(procs=None)) == ["GPU 0: its processes could no longer be seen"]
    assert compare(look(), look(mem_used_mib=None)) == ["GPU 0: memory 5 -> unknown MiB"]
    blind = MachineState(node="n", boot_id="b", t_wall=0.0, t_mono_ns=0, source="none", gpus=None)
    assert compare(look(), blind) == ["GPUs could no longer be seen"]
