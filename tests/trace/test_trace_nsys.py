"""Nsight Systems as a source: SQLite exports of several schemas, recordings, kernel summaries."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from infer_forge import pipeline, profile, trace
from infer_forge.base.errors import InputUnusable
from infer_forge.pipeline.model import Options as PipelineOptions
from infer_forge.profile.model import Options
from infer_forge.trace.columns import WorkKind
from infer_forge.trace.kernel_sum import read_kernel_sum

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
PID = 4711
PROCESS = (1 << 56) | (PID << 24)
NORM = "void flashinfer::norm::FusedAddRMSNormKernel<8u>(int)"
GEMM = "nvjet_tst_{}_64x4_2x1_v_bz_coopA_TNN"
LAYER = (
    *(NORM, GEMM.format("192x128"), "void flash_fwd_splitkv_kernel<int>(int)", GEMM.format("128x128")),
    *(
        NORM,
        GEMM.format("256x128"),
        "void flashinfer::activation::act_and_mul_kernel<int>(int)",
        GEMM.format("128x256"),
    ),
)
HEAD = "void at::native::(anonymous namespace)::indexSelectSmallIndex<int>(int)"
TAIL = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>(int)"


RUNTIME = "start! end! eventClass! globalTid correlationId nameId! returnValue! callchainId"
SHAPE = "gridX! gridY! gridZ! blockX! blockY! blockZ! staticSharedMemory! dynamicSharedMemory! localMemoryPerThread! localMemoryTotal!"
NVTX = "start! end eventType! rangeId category color text globalTid endGlobalTid textId domainId uint64Value jsonText"
KERNEL_NAMES = "demangledName! shortName! mangledName launchType cacheConfig registersPerThread!"
BEGIN, PROCESS_OF = "start! end! deviceId! contextId!", "streamId! correlationId globalPid"
COPIES, NODE = "bytes! copyKind!", "graphNodeId"
KERNEL = f"{KERNEL_NAMES} {SHAPE} gridId!"
SCHEMAS = {
    "2022.4": {
        "meta": "EXPORT_META_DATA",
        "version": "3.0.0",
        KERNELS: f"{BEGIN} {PROCESS_OF} {KERNEL} sharedMemoryExecuted {NODE}",
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"{BEGIN} {PROCESS_OF} {COPIES} deprecatedSrcId srcKind dstKind {NODE}",
    },
    "2025.1": {
        "meta": "META_DATA_EXPORT",
        "version": "3.17.2",
        KERNELS: f"{BEGIN} greenContextId {PROCESS_OF} {KERNEL} sharedMemoryExecuted {NODE}",
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"{BEGIN} greenContextId {PROCESS_OF} {COPIES} srcKind dstKind {NODE}",
    },
    "without graph nodes": {
        "meta": "META_DATA_EXPORT",
        "version": "3.1.7",
        KERNELS: f"{BEGIN} {PROCESS_OF} {KERNEL}",
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"{BEGIN} {PROCESS_OF} {COPIES} srcKind dstKind",
    },
}
"""Columns in the exporter's own order, `!` for NOT NULL: schema 3.0.0 as an export of 2022.4 states it, and the one with green
contexts and META_DATA_EXPORT of 2025 ("SQLite Schema Reference" of the user guide)."""


class Export:
    """A made-up export: kernels of steps with launches and NVTX marks, as the schema of a year holds them."""

    def __init__(self, path: Path, schema: str = "2025.1") -> None:
        self.db = sqlite3.connect(path)
        self.schema = SCHEMAS[schema]
        self.strings: dict[str, int] = {}
        self.table("StringIds", "id! value!")
        self.table(KERNELS, self.schema[KERNELS])
        self.table("CUPTI_ACTIVITY_KIND_RUNTIME", RUNTIME)
        self.table("NVTX_EVENTS", NVTX)
        self.table(self.schema["meta"], "name! value")
        self.insert(self.schema["meta"], name="EXPORT_SCHEMA_VERSION", value=self.schema["version"])
        self.table("TARGET_INFO_GPU", "vmId! id! name totalMemory smCount computeMajor computeMinor")
        self.insert(
            "TARGET_INFO_GPU", vmId=0, id=0, name="NVIDIA H100 80GB HBM3", computeMajor=9, computeMinor=0, smCount=132
        )
        self.now, self.correlation = 1_000_000, 0

    def table(self, name: str, columns: str) -> None:
        listed = [f"{c[:-1]} NOT NULL" if c.endswith("!") else c for c in columns.split()]
        self.db.execute(f"CREATE TABLE {name} ({', '.join(listed)})")

    def insert(self, table: str, **values: object) -> None:
        """A row; columns that must not be NULL and are not given are 0, those that the schema lacks are left out."""
        info = self.db.execute(f"PRAGMA table_info({table})").fetchall()
        row = {c[1]: values.get(c[1], 0 if c[3] else None) for c in info}
        self.db.execute(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
        )

    def text(self, value: str) -> int:
        if value not in self.strings:
            self.strings[value] = len(self.strings)
            self.insert("StringIds", id=self.strings[value], value=value)
        return self.strings[value]

    def kernel(self, name: str, dur: int = 5000, node: int | None = None, launch: bool = True) -> None:
        self.correlation += 1 if launch else 0
        if launch:
            api = self.text("cudaGraphLaunch_v10000" if node is not None else "cudaLaunchKernel_v7000")
            self.insert(
                "CUPTI_ACTIVITY_KIND_RUNTIME", start=self.now, end=self.now + 900, globalTid=PROCESS | 1,
                correlationId=self.correlation, nameId=api,
            )  # fmt: skip
        start = self.now + 2000
        self.insert(
            KERNELS, start=start, end=start + dur, deviceId=0, contextId=1, streamId=7, correlationId=self.correlation,
            globalPid=PROCESS, demangledName=self.text(name), shortName=self.text(name.split("<")[0]), gridX=4, gridY=1, gridZ=1,
            blockX=128, blockY=1, blockZ=1, graphNodeId=node,
        )  # fmt: skip
        self.now = start + dur

    def mark(self, name: str, start: int, end: int | None, kind: int = 59, registered: bool = False) -> None:
        """An NVTX event; a registered string stands in StringIds, and `text` is NULL."""
        self.insert(
            "NVTX_EVENTS", start=start, end=end, eventType=kind, globalTid=PROCESS | 1, domainId=0,
            text=None if registered else name, textId=self.text(name) if registered else None,
        )  # fmt: skip

    def step(self, name: str, layers: int, **more: bool) -> None:
        begin = self.now
        for kernel in (HEAD, *(k for _ in range(layers) for k in LAYER), TAIL):
            self.kernel(kernel)
        self.mark(name, begin - 10, self.now, **more)
        self.now += 50_000

    def close(self) -> None:
        self.db.commit()
        self.db.close()


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_kernels_launches_and_marks_of_an_export_become_the_same_columns(
    tmp_path: Path, schema: str, registered: bool
) -> None:
    export = Export(tmp_path / "t.sqlite", schema)
    for _ in range(3):
        export.step("step[DECODE bs=16]", 6, registered=registered)
    export.mark("step[DECODE bs=99]", 5, None, kind=34)  # a mark is no range
    export.mark("NCCL", 6, None, kind=75)  # neither is the making of a domain
    export.close()
    made = trace.load(tmp_path / "t.sqlite", cache=False)
    assert len(made.work) == 3 * 50
    assert (made.work.call >= 0).all()
    assert {made.names[n] for n in made.calls.name.tolist()} == {"cudaLaunchKernel"}
    assert made.header.devices[0]["name"] == "NVIDIA H100 80GB HBM3"
    assert made.header.extra["EXPORT_SCHEMA_VERSION"] == SCHEMAS[schema]["version"]
    assert made.work.stream.tolist() == [7] * len(made.work)
    assert len(made.windows) == 3
    report = pipeline.analyse_pipeline([tmp_path / "t.sqlite"], PipelineOptions(no_triage=True, keep=False))
    assert [(r["stage"], r["batch"], r["layers"]) for r in report.tables["passes"].dicts()] == [("decode", 16, 6)] * 3


def test_a_triage_of_an_export_sums_exactly_and_comes_from_the_cache_again(tmp_path: Path) -> None:
    export = Export(tmp_path / "t.sqlite")
    export.step("step[EXTEND bs=1 toks=64]", 4)
    export.close()
    for _ in range(2):
        table = profile.triage([tmp_path / "t.sqlite"], Options(min_share=0)).tables["kernel"]
        assert sum(r["time_us"] for r in table.dicts()) == pytest.approx(34 * 5.0)


@pytest.mark.parametrize("schema", ["2022.4", "2025.1"])
def test_nodes_of_a_graph_are_graph_work(tmp_path: Path, schema: str) -> None:
    export = Export(tmp_path / "t.sqlite", schema)
    for node in range(8):
        export.kernel(LAYER[node], node=node + 1, launch=node == 0)
    export.close()
    made = trace.load(tmp_path / "t.sqlite", cache=False)
    assert made.work.graph.all()
    assert made.work.graph_pos.tolist() == list(range(8))
    assert made.work.graph_node.tolist() == list(range(1, 9))
    assert made.coverage.graph_launches == 1


def test_copies_have_direction_memory_and_bytes_and_torch_ranges_are_ops(tmp_path: Path) -> None:
    export = Export(tmp_path / "t.sqlite")
    begin = export.now
    export.kernel(LAYER[1])
    export.mark("aten::mm, seq = 12, op_id = 3, sizes = [[16, 4096], [4096, 4096]]", begin - 10, begin + 950)
    table = "CUPTI_ACTIVITY_KIND_MEMCPY"
    export.table(table, export.schema[table])
    export.insert(
        table, start=5_000_000, end=5_001_000, streamId=7, correlationId=99, globalPid=PROCESS, bytes=4096, copyKind=1, srcKind=1,
        dstKind=2,
    )  # fmt: skip
    export.close()
    made = trace.load(tmp_path / "t.sqlite", cache=False)
    copy = int((made.work.kind == WorkKind.MEMCPY).argmax())
    assert made.names[made.work.name[copy]] == "Memcpy HtoD (Pinned -> Device)"
    assert int(made.work.bytes[copy]) == 4096
    assert made.name(int(made.work.op[0])) == "aten::mm"
    assert made.op_texts[int(made.ops.dims[0])] == "[[16, 4096], [4096, 4096]]"


def test_an_export_without_gpu_work_says_which_tables_it_has(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "t.sqlite")
    db.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    db.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER)"
    )
    db.commit()
    db.close()
    with pytest.raises(InputUnusable, match=r"no kernel, memcpy or memset table.*CUPTI_ACTIVITY_KIND_RUNTIME"):
        trace.load(tmp_path / "t.sqlite", cache=False)


def test_a_database_of_something_else_or_a_cut_one_is_refused(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "other.sqlite")
    db.execute("CREATE TABLE people (name TEXT)")
    db.commit()
    db.close()
    export = Export(tmp_path / "whole.sqlite")
    export.step("step[DECODE bs=1]", 30)
    export.close()
    whole = (tmp_path / "whole.sqlite").read_bytes()
    for size in (40, 4096, len(whole) // 2):
        (tmp_path / f"cut{size}.sqlite").write_bytes(whole[:size])
    for file in sorted(tmp_path.glob("*.sqlite")):
        if file.name != "whole.sqlite":
            with pytest.raises(InputUnusable):
                trace.load(file, cache=False)


def test_text_where_numbers_belong_is_a_damaged_export(tmp_path: Path) -> None:
    export = Export(tmp_path / "t.sqlite")
    export.kernel(LAYER[0])
    export.db.execute(f"UPDATE {KERNELS} SET streamId = 'seven'")
    export.close()
    with pytest.raises(InputUnusable, match="damaged"):
        trace.load(tmp_path / "t.sqlite", cache=False)


def test_an_export_with_copies_but_no_kernel_is_told_as_such(tmp_path: Path) -> None:
    export = Export(tmp_path / "t.sqlite")
    copies = "CUPTI_ACTIVITY_KIND_MEMCPY"
    export.table(copies, export.schema[copies])
    for place in range(3):
        export.insert(copies, start=1000 * place, end=1000 * place + 500, streamId=7, copyKind=1, bytes=64)
    export.close()
    for report in (
        profile.triage([tmp_path / "t.sqlite"], Options(cache=False)),
        pipeline.analyse_pipeline([tmp_path / "t.sqlite"], PipelineOptions(no_triage=True, cache=False, keep=False)),
    ):
        codes = {f.code for f in report.findings}
        assert "NO_KERNELS" in codes
        assert "NO_LAYERS" not in codes


@pytest.mark.parametrize("end", [(1 << 63) - 1, 0])
def test_a_kernel_without_a_possible_end_is_in_no_sum_and_told(tmp_path: Path, end: int) -> None:
    export = Export(tmp_path / "t.sqlite")
    for _ in range(4):
        export.kernel(LAYER[0])
    export.db.execute(f"UPDATE {KERNELS} SET end = {end} WHERE correlationId < 3")
    export.close()
    loaded = trace.load(tmp_path / "t.sqlite", cache=False)
    assert (len(loaded.work), loaded.coverage.device_events_unusable) == (2, 2)
    options = PipelineOptions(no_triage=True, cache=False, keep=False)
    report = pipeline.analyse_pipeline([tmp_path / "t.sqlite"], options)
    assert [f.figure for f in report.findings if f.code == "UNUSABLE_EVENTS"] == [2]


def test_a_device_number_below_every_other_is_a_device_of_its_own(tmp_path: Path) -> None:
    export = Export(tmp_path / "t.sqlite")
    for _ in range(4):
        export.kernel(LAYER[0])
    export.db.execute(f"UPDATE {KERNELS} SET deviceId = -7 WHERE correlationId < 3")
    export.close()
    report = profile.triage([tmp_path / "t.sqlite"], Options(cache=False, rank="all", min_share=0.0))
    assert sum(r["launches"] for r in report.tables["kernel"].dicts()) == 4


def test_a_kernel_summary_as_text_names_the_command_that_writes_the_csv(tmp_path: Path) -> None:
    file = tmp_path / "sum.txt"
    file.write_text(
        " ** CUDA GPU Kernel Summary:\n\n Time (%)  Total Time (ns)  Instances  Name\n 75.0  3000  3  kernel\n"
    )
    with pytest.raises(InputUnusable) as told:
        profile.triage([file], Options())
    assert "--format csv" in str(told.value.next_step)


def test_a_recording_is_exit_3_with_the_line_that_exports_it(tmp_path: Path) -> None:
    (tmp_path / "run.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report" + bytes(200))
    words = [sys.executable, "-m", "infer_forge.cli.main", "triage", str(tmp_path / "run.nsys-rep")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "nsys export --type sqlite --output run.sqlite run.nsys-rep" in done.stderr


def test_a_kernel_summary_gives_the_kernel_table_alone(tmp_path: Path) -> None:
    file = tmp_path / "sum.csv"
    header = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    file.write_text(
        f"Processing [x.sqlite] with [cuda_gpu_kern_sum.py]...\n\n{header}\n"
        '75.0,3000,3,1000.0,1000.0,900,1100,1.0,"void flash_fwd_kernel<int, 4>(int)"\n'
        "25.0,1000,1,1000.0,1000.0,1000,1000,0.0,nvjet_tst_64x8\n"
    )
    assert [k.launches for k in read_kernel_sum(file)] == [3, 1]
    report = profile.triage([file], Options())
    assert list(report.tables) == ["kernel"]
    assert [(r["category"], r["time_us"], r["launches"]) for r in report.tables["kernel"].dicts()] == [
        ("attention", 3.0, 3),
        ("gemm", 1.0, 1),
    ]
    assert [f.code for f in report.findings] == ["KERNEL_SUM_ONLY"]
    for ask in (lambda: profile.triage([file, file], Options()), lambda: profile.compare([file], [file], Options())):
        with pytest.raises(InputUnusable) as told:  # the step is another one than the command just typed
            ask()
        assert "one such summary, alone and without --against" in str(told.value.next_step)
        assert "nsys export --type sqlite" in str(told.value.next_step)
    file.write_text(f"{header}\n75.0,many,3,1,1,1,1,1,kernel\n")
    with pytest.raises(InputUnusable, match="row 1"):
        read_kernel_sum(file)


def test_real_exports_and_summaries_are_read_or_refused_with_a_reason(corpus: Path) -> None:
    made = trace.load(corpus / "nsys" / "t4_nsys2022.4_schema3.0.0.sqlite", cache=False)
    assert (made.work.kind == WorkKind.KERNEL).sum() == 2
    assert (made.work.kind == WorkKind.MEMCPY).sum() == 6
    with pytest.raises(InputUnusable, match="no kernel, memcpy or memset table"):
        trace.load(corpus / "nsys" / "rtx4090_nsys_memTransfer.sqlite", cache=False)
    for file in sorted((corpus / "nsys").glob("*kern_sum.csv")):
        rows = read_kernel_sum(file)
        assert sum(k.time_ns for k in rows) > 0


def test_the_made_up_schema_and_the_numbers_of_ranges_and_copies_are_those_of_real_exports(corpus: Path) -> None:
    from infer_forge.trace import nsys

    for name in ("t4_nsys2022.4_schema3.0.0.sqlite", "rtx4090_nsys_memTransfer.sqlite"):
        db = sqlite3.connect(f"{(corpus / 'nsys' / name).as_uri()}?mode=ro&immutable=1", uri=True)
        kinds = dict(db.execute("SELECT name, id FROM ENUM_NSYS_EVENT_TYPE"))
        ranges = ("NvtxPushPopRange", "NvtxStartEndRange", "NvtxtPushPopRange", "NvtxtStartEndRange")
        assert tuple(kinds[k] for k in ranges) == nsys._RANGES  # pyright: ignore[reportPrivateUsage]
        copies = dict(db.execute("SELECT id, name FROM ENUM_CUDA_MEMCPY_OPER"))
        short = {k: v.removeprefix("CUDA_MEMCPY_KIND_").replace("_", " ") for k, v in copies.items() if k}
        assert short == {k: v.upper() for k, v in nsys._COPY.items()}  # pyright: ignore[reportPrivateUsage]
        for table in (KERNELS, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME"):
            real = {(r[1], bool(r[3])) for r in db.execute(f"PRAGMA table_info({table})")}
            ours = SCHEMAS["2022.4"].get(table, RUNTIME).split()
            assert {(c.rstrip("!"), c.endswith("!")) for c in ours} <= real or not real
        db.close()
