"""Sanitizers, core dumps, NCCL, stacks, flight recorder, kernel log, prefixes: what each form says, and the gates."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.crash import flight, names, triage
from infer_forge.crash.model import Origin
from infer_forge.crash.prefixes import Clock, clean, iso_time, parse
from tests.crash.crash_ask import verdict

IMA = "RuntimeError: CUDA error: an illegal memory access was encountered\n"


@pytest.mark.parametrize(
    ("where", "kernel", "line"),
    [
        ("    at 0xda0 in /srv/k/moe.py:175:gate_kernel", "gate_kernel", 175),
        (
            "    at 0x150 in void ns::(anonymous namespace)::gate_kernel<(int)4, float>(float const*, int)",
            "gate_kernel",
            None,
        ),
        ("    at gate_kernel+0xec0 in moe.py:43", "gate_kernel", 43),
        ("    at gate_kernel(int*, int)+0x100 in f.cu:34", "gate_kernel", 34),
    ],
)
@pytest.mark.parametrize(
    "phrase", ["Address 0x7f00 is out of bounds", "Access to 0x7f00 is out of bounds", "Access at 0x7f00 is misaligned"]
)
@pytest.mark.parametrize("prefix", ["=========", "#SAN#"])
def test_a_memcheck_record_of_any_generation_names_its_kernel(
    tmp_path: Path, where: str, kernel: str, line: int | None, phrase: str, prefix: str
) -> None:
    text = (
        f"{prefix} Invalid __shared__ write of size 1,024 bytes\n{prefix} {where}\nnoise of the "
        f"program\n{prefix}     by thread (1,2,3) in block (4,0,0)\n{prefix}     {phrase}\n{prefix} \n"
    )
    found = verdict(tmp_path, text)
    assert found["class"] == "ima_precise_sanitizer"
    assert found["certainty"] == "proven"
    assert found["kernel"] == kernel
    assert (found["location"]["line"] if found["location"] else None) == line
    assert found["facts"]["thread"] == "(1,2,3)"
    assert found["facts"]["size_bytes"] == 1024
    assert found["facts"]["address"] == "0x7f00"


def test_a_sanitizer_that_never_ran_is_no_clean_pass(tmp_path: Path) -> None:
    text = (
        "========= COMPUTE-SANITIZER\n========= Error: process didn't terminate successfully\n========= "
        "Error: Target application terminated before first instrumented API call\n"
    )
    found = verdict(tmp_path, text)
    assert found["class"] == "sanitizer_never_ran"
    assert found["certainty"] == "unknown"
    assert any("never ran" in n for n in found["not_evidence"])


def test_zero_errors_count_only_without_the_caching_allocator(tmp_path: Path) -> None:
    text = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
    assert any("caching allocator" in n for n in verdict(tmp_path, text)["not_evidence"])
    assert not verdict(tmp_path, text, caching_allocator=False)["not_evidence"]


def test_a_blocking_run_that_does_not_crash_is_inconclusive(tmp_path: Path) -> None:
    found = verdict(tmp_path, "all is well\n", launch_blocking=True)
    assert any("inconclusive" in n for n in found["not_evidence"])
    assert found["cuda_crash"] is None


def test_expandable_segments_make_an_invalid_write_doubtful(tmp_path: Path) -> None:
    text = (
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n========= Invalid "
        "__global__ write of size 16 bytes\n=========     at k+0x10 in a.cu:3\n"
    )
    found = verdict(tmp_path, text)
    assert found["certainty"] == "bounded"
    assert found["contradictory"]


def test_initcheck_of_a_look_back_scan_is_a_known_false_positive(tmp_path: Path) -> None:
    text = (
        "========= Uninitialized __global__ memory read of size 4 "
        "bytes\n=========     at 0x150 in void cub::DeviceScanKernel<int>(int*)\n"
    )
    found = verdict(tmp_path, text)
    assert found["certainty"] == "unknown"
    assert found["contradictory"]


def test_a_core_dump_without_exception_in_a_collective_is_collateral(tmp_path: Path) -> None:
    focus = (
        "[Current focus set to CUDA kernel 0, grid 1, block "
        "(0,0,0), thread (0,0,0), device {0}, sm 1, warp 0, lane 0]\n"
    )
    quiet = (
        "Opening GPU coredump: /d/cuda_coredump_n1.10.1700000000\n"
        + focus.format(0)
        + "#0  0x1 in ncclDevKernel_AllReduce<<<(1,1,1),(1,1,1)>>> ()\n"
    )
    alone = verdict(tmp_path / "a", quiet)
    assert alone["class"] == "ima_collateral_rank"
    assert alone["kernel"] is None
    guilty = (
        "Opening GPU coredump: /d/cuda_coredump_n1.13.1700000001\nCUDA Exception: Warp "
        "Illegal Address\nThe exception was triggered at PC 0x1  bmm_kernel(int*)\n" + focus.format(3)
    )
    both = verdict(tmp_path / "b", {"gdb.txt": quiet + guilty})
    assert both["class"] == "ima_coredump"
    assert both["kernel"] == "bmm_kernel"
    assert both["device"]["index"] == 3
    assert any("no exception" in n for n in both["not_evidence"])


def test_python_blame_that_disagrees_with_the_core_dump_is_told(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "/x/moe.py", line 5, in fused_moe\n    run()\n' + IMA
    dump = (
        "[06:00:00.000001] coredump: Detected an exception of type CUDBG_EXCEPTION_WARP_ILLEGAL_ADDRESS "
        "(14)\n[06:00:00.000002] coredump:   - Device: 0\n[06:00:00.000003] coredump:   #0\t0x7\t_ZN5cudnn6kernelEPi\n"
    )
    found = verdict(tmp_path, dump + trace)
    assert found["kernel"] == "kernel"
    assert any("fused_moe" in c for c in found["contradictory"])
    assert found["location"] is None


def test_the_first_xid_is_primary_and_45_never_is(tmp_path: Path) -> None:
    text = (
        "[100.000001] NVRM: Xid (PCI:0000:0a:00): 45, pid=1, name=x, Ch 1\n[101.000001] "
        "NVRM: Xid (PCI:0000:0a:00): 13, pid=1, name=x, Graphics Exception\n"
    )
    found = verdict(tmp_path, text)
    assert found["class"] == "xid_13"
    assert found["hardware"] is None


@pytest.mark.parametrize("number", [48, 62, 64, 74, 79, 94, 95, 119, 120])
def test_hardware_and_driver_xids_stop_code_debugging_and_print_the_mark(tmp_path: Path, number: int) -> None:
    text = f"Mar  1 10:00:00 node7 kernel: NVRM: Xid (PCI:0000:0a:00): {number}, pid=1, name=x, text\n"
    found = verdict(tmp_path, text + IMA)
    assert found["class"] == f"xid_{number}"
    assert found["hardware"]["stop_code_debugging"] is True
    assert found["next"]["command"].startswith("infer-forge node mark node7 --unhealthy --reason")


def test_an_xid_that_nobody_knows_is_unknown(tmp_path: Path) -> None:
    found = verdict(tmp_path, "[1.000001] NVRM: Xid (PCI:0000:0a:00): 777, pid=1, name=x, something\n")
    assert found["certainty"] == "unknown"
    assert found["hardware"] is None


def test_a_watchdog_that_observed_a_cuda_error_is_not_the_cause(tmp_path: Path) -> None:
    text = (
        f"[rank1]: Traceback (most recent call last):\n[rank1]:   File "
        f'"/x/a.py", line 1, in f\n[rank1]: {IMA}[rank2]: [PG ID 0 PG '
        f"GUID 0 Rank 2] Process group watchdog thread terminated with "
        f"exception: CUDA error: an illegal memory access was encountered\n"
    )
    found = verdict(tmp_path, text)
    assert found["class"] == "ima_async"
    assert found["rank"] == 1
    assert found["cascade_count"] == 1


def test_equal_moments_of_two_hosts_name_no_rank(tmp_path: Path) -> None:
    files = {f"rank{r}.log": f"(Worker_TP{r} pid={r}) ERROR 03-01 10:00:00 [a.py:1] {IMA}" for r in (0, 1)}
    found = verdict(tmp_path, files)
    assert found["rank"] is None
    assert len(found["suspects"]) == 2


def test_a_fault_after_shutdown_began_is_doubtful(tmp_path: Path) -> None:
    found = verdict(tmp_path, f"INFO: Shutting down\n{IMA}")
    assert any("peer" in c for c in found["contradictory"])


def test_a_watchdog_that_got_stuck_is_no_collective_timeout(tmp_path: Path) -> None:
    text = (
        "[rank0]:[F301 10:00:00.000001 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0 Rank 0] "
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n"
    )
    assert verdict(tmp_path, text)["class"] == "watchdog_hang"


def test_faulthandler_stacks_show_the_odd_one_out(tmp_path: Path) -> None:
    def stack(rank: int) -> str:
        frame = '  File "/x/tok.py", line 3 in encode' if rank == 2 else '  File "/x/dist.py", line 9 in all_reduce'
        return (
            f'Current thread 0x00007f0000000000 (most recent call first):\n{frame}\n  File "/x/s.py", line 1 in loop\n'
        )

    found = verdict(tmp_path, {f"rank{r}.log": stack(r) for r in range(4)})
    assert found["rank"] == 2
    assert found["certainty"] == "bounded"
    assert found["location"]["file"] == "/x/tok.py"


def entry(seq: int, **more: Any) -> dict[str, Any]:
    return {
        "record_id": seq,
        "process_group": ("0", "default"),
        "collective_seq_id": seq,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[8]],
        "output_sizes": [[8]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "state": "completed",
        "time_created_ns": seq,
        "frames": [],
    } | more


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"profiling_name": "nccl:broadcast"}, "COLLECTIVE_TYPE_MISMATCH"),
        ({"input_sizes": [[4]]}, "SIZE_OR_SYNTAX_MISMATCH"),
        ({"input_dtypes": ["Half"]}, "COLLECTIVE_DTYPE_MISMATCH"),
        ({"state": "scheduled"}, "COLLECTIVE_STATE_MISMATCH"),
        (None, "MISSING_RANK"),
    ],
)
def test_the_first_divergence_of_flight_recorders_is_found(change: dict[str, Any] | None, kind: str) -> None:
    dumps: dict[int, tuple[str, dict[str, Any]]] = {}
    for rank in range(4):
        entries = [entry(s) for s in range(1, 9)]
        last = entry(9, state="started")
        if rank == 2 and change is not None:
            last |= change
        if rank != 2 or change is not None:
            entries.append(last)
        dumps[rank] = (f"f{rank}", {"entries": entries[rank:], "pg_config": {}})
    found = flight.analyse(dumps)
    assert found is not None
    assert found["kind"] == kind
    assert found["ranks"] == [2]
    assert found["seq"] == 9
    assert found["certain"]


def test_matching_recorders_accuse_nobody(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"trace_{rank}").write_bytes(pickle.dumps({"version": "2", "pg_config": {}, "entries": [entry(1)]}))
    found = triage([tmp_path]).extra
    assert found["rank"] is None
    assert found["certainty"] != "proven"


class Bomb:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, (f"open({str(self.mark)!r}, 'w')",)


def test_a_pickle_bomb_is_refused_and_never_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    bomb = tmp_path / "trace_0"
    bomb.write_bytes(pickle.dumps({"entries": [Bomb(mark)], "version": "1"}))
    with pytest.raises(InputUnusable, match="would run code"):
        triage([bomb])
    assert not mark.exists()


@pytest.mark.parametrize(
    ("line", "rank", "label", "pid", "rest"),
    [
        ("[2026-01-01 10:00:00 TP2] x", 2, None, None, "x"),
        ("[2026-01-01 10:00:00 DP1 TP4] x", None, "DP1 TP4", None, "x"),
        ("(VllmWorker rank=2 pid=225) x", 2, None, 225, "x"),
        ("(Worker_TP1 pid=672838) ERROR 01-02 03:04:05 [a.py:3] x", 1, None, 672838, "x"),
        ("(Worker_TP3_EP3 pid=9) x", 3, None, 9, "x"),
        ("(EngineCore_DP0 pid=7) x", None, "DP0", 7, "x"),
        ("[rank3]: x", 3, None, None, "x"),
        ("[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] x", 0, None, None, "[Rank 0] x"),
        ("[E ProcessGroupNCCL.cpp:458] [Rank 7] x", 7, None, None, "[Rank 7] x"),
        ("2026-01-01T00:00:00.123456789Z stdout F [2026-01-01 00:00:00 TP1] x", 1, None, None, "x"),
        ("engine-1  | [rank2]: x", 2, None, None, "x"),
        ("\x1b[36m(RayWorker pid=12, ip=10.0.0.1)\x1b[0m x", None, None, 12, "x"),
        ("5: [2026-01-01 10:00:00] x", 5, None, None, "x"),
        ("node1:123:456 [2] NCCL WARN x", None, None, 123, "NCCL WARN x"),
    ],
)
def test_prefixes_tell_rank_and_pid_and_leave_the_rest(
    line: str, rank: int | None, label: str | None, pid: int | None, rest: str
) -> None:
    found = parse(clean(line), 1, Origin("f"), Clock(2026))
    assert (found.origin.rank, found.origin.label, found.origin.pid, found.text) == (rank, label, pid, rest)


def test_zones_are_honoured_and_years_borrowed() -> None:
    assert iso_time("2026-01-01T08:00:00+08:00") == iso_time("2026-01-01 00:00:00")
    clock = Clock(2020)
    parse("2026-01-01T00:00:00Z stdout F x", 1, Origin("f"), clock)
    found = parse("(Worker_TP1 pid=1) INFO 02-03 04:05:06 [a.py:1] x", 1, Origin("f"), clock)
    assert found.time == iso_time("2026-02-03 04:05:06")


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("void ns::k<int, (bool)1>(float*)", "k"),
        ("_Z25illegalMemoryAccessKernelPii", "illegalMemoryAccessKernel"),
        ("_ZN2at6native3fooEv", "foo"),
        ("at::native::(anonymous namespace)::k2<std::array<char*, 1ul> >(int)", "k2"),
        ("_fwd_kernel", "_fwd_kernel"),
    ],
)
def test_kernel_names_are_shortened(long: str, short: str) -> None:
    assert names.short(long) == short


def test_a_hazard_of_either_generation_tells_both_accesses(tmp_path: Path) -> None:
    old = (
        "========= ERROR: Potential RAW hazard detected at __shared__ 0x8c in block (0,0,0) :\n"
        "=========     Write Thread (33,0,0) at 0x00000120 in /s/race.cu:26:sum_kernel(int*)\n"
        "=========     Read Thread (0,0,0) at 0x00000150 in /s/race.cu:31:sum_kernel(int*)\n"
    )
    new = old.replace("0x00000120 in /s/race.cu:26:sum_kernel(int*)", "sum_kernel(int*)+0x120 in race.cu:26")
    for name, text in (("old", old), ("new", new)):
        found = verdict(tmp_path / name, text)
        assert found["class"] == "racecheck_hazard"
        assert found["kernel"] == "sum_kernel"
        assert found["location"]["line"] == 26
        assert [a["access"] for a in found["facts"]["accesses"]] == ["write", "read"]


def test_torchruns_first_failure_names_the_rank_where_nothing_else_does(tmp_path: Path) -> None:
    text = (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-03-01_10:00:00\n  host      : node1\n"
        "  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 4242)\n"
    )
    found = verdict(tmp_path, text)
    assert found["class"] == "killed_host"
    assert found["rank"] == 3
    assert found["certainty"] == "unknown"


@pytest.mark.parametrize(("ranks", "expected"), [((2,), 2), ((1, 2), None)])
def test_an_assertion_without_a_prefix_is_of_the_only_rank_that_reports_one(
    tmp_path: Path, ranks: tuple[int, ...], expected: int | None
) -> None:
    text = "/s/i.cu:15: gather: block: [1,0,0], thread: [3,0,0] Assertion `i < n` failed.\n"
    text += "".join(
        f"[2026-03-01 10:00:0{r} TP{r}] RuntimeError: CUDA error: device-side assert triggered\n" for r in ranks
    )
    found = verdict(tmp_path, text)
    assert found["class"] == "device_assert"
    assert found["kernel"] == "gather"
    assert found["rank"] == expected
