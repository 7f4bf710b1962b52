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


class Export:
    """A made-up export: kernels of steps with launches and NVTX marks, as the schema of a year holds them."""

    def __init__(self, path: Path, *, graph_column: bool = True, meta: str = "EXPORT_META_DATA") -> None:
        self.db = sqlite3.connect(path)
        self.strings: dict[str, int] = {}
        self.table("StringIds", "id value")
        kernel = "start end deviceId contextId streamId correlationId globalPid demangledName shortName"
        self.table(KERNELS, f"{kernel} gridX gridY gridZ blockX blockY blockZ{' graphNodeId' if graph_column else ''}")
        self.graph = graph_column
        self.table("CUPTI_ACTIVITY_KIND_RUNTIME", "start end globalTid correlationId nameId")
        self.table("NVTX_EVENTS", "start end eventType text textId globalTid")
        self.table(meta, "name value")
        self.db.execute(f"INSERT INTO {meta} VALUES ('EXPORT_SCHEMA_VERSION', '3.17.2')")
        self.table("TARGET_INFO_GPU", "id name computeMajor computeMinor smCount")
        self.db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 9, 0, 132)")
        self.now, self.correlation = 1_000_000, 0

    def table(self, name: str, columns: str) -> None:
        self.db.execute(f"CREATE TABLE {name} ({', '.join(columns.split())})")

    def text(self, value: str) -> int:
        if value not in self.strings:
            self.strings[value] = len(self.strings)
            self.db.execute("INSERT INTO StringIds VALUES (?, ?)", (self.strings[value], value))
        return self.strings[value]

    def kernel(self, name: str, dur: int = 5000, node: int | None = None, launch: bool = True) -> None:
        self.correlation += 1 if launch else 0
        if launch:
            api = self.text("cudaGraphLaunch_v10000" if node is not None else "cudaLaunchKernel_v7000")
            self.db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)",
                (self.now, self.now + 900, PROCESS | 1, self.correlation, api),
            )
        start = self.now + 2000
        row = [
            start,
            start + dur,
            0,
            1,
            7,
            self.correlation,
            PROCESS,
            self.text(name),
            self.text(name),
            4,
            1,
            1,
            128,
            1,
            1,
        ]
        self.db.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * (15 + self.graph))})",
            [*row, node] if self.graph else row,
        )
        self.now = start + dur

    def mark(self, name: str, start: int, end: int) -> None:
        self.db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, NULL, ?)", (start, end, name, PROCESS | 1))

    def step(self, name: str, layers: int) -> None:
        begin = self.now
        for kernel in (HEAD, *(k for _ in range(layers) for k in LAYER), TAIL):
            self.kernel(kernel)
        self.mark(name, begin - 10, self.now)
        self.now += 50_000

    def close(self) -> None:
        self.db.commit()
        self.db.close()


@pytest.mark.parametrize(("graph_column", "meta"), [(True, "EXPORT_META_DATA"), (False, "META_DATA_EXPORT")])
def test_kernels_launches_and_marks_of_an_export_become_the_same_columns(
    tmp_path: Path, graph_column: bool, meta: str
) -> None:
    export = Export(tmp_path / "t.sqlite", graph_column=graph_column, meta=meta)
    for _ in range(3):
        export.step("step[DECODE bs=16]", 6)
    export.close()
    made = trace.load(tmp_path / "t.sqlite", cache=False)
    assert len(made.work) == 3 * 50
    assert (made.work.call >= 0).all()
    assert {made.names[n] for n in made.calls.name.tolist()} == {"cudaLaunchKernel"}
    assert made.header.devices[0]["name"] == "NVIDIA H100 80GB HBM3"
    assert made.header.extra["EXPORT_SCHEMA_VERSION"] == "3.17.2"
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


def test_nodes_of_a_graph_are_graph_work(tmp_path: Path) -> None:
    export = Export(tmp_path / "t.sqlite")
    for node in range(8):
        export.kernel(LAYER[node], node=node + 1, launch=node == 0)
    export.close()
    made = trace.load(tmp_path / "t.sqlite", cache=False)
    assert made.work.graph.all()
    assert made.work.graph_pos.tolist() == list(range(8))
    assert made.coverage.graph_launches == 1


def test_copies_have_direction_memory_and_bytes_and_torch_ranges_are_ops(tmp_path: Path) -> None:
    export = Export(tmp_path / "t.sqlite")
    begin = export.now
    export.kernel(LAYER[1])
    export.mark("aten::mm, seq = 12, op_id = 3, sizes = [[16, 4096], [4096, 4096]]", begin - 10, begin + 950)
    columns = "start end deviceId streamId correlationId globalPid bytes copyKind srcKind dstKind"
    export.table("CUPTI_ACTIVITY_KIND_MEMCPY", columns)
    export.db.execute(
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, 7, 99, ?, 4096, 1, 1, 2)",
        (5_000_000, 5_001_000, PROCESS),
    )
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
