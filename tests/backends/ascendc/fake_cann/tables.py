"""The tables that the fake profiler writes, in the ways that versions differ: "na" (N/A in columns), "extra" (unknown columns),
"order" (another order and case), "newer" (bandwidth columns, times behind names), "two-ops", "empty" (no table), "summary" and "details"
(the tables of the plain profiler and of torch_npu's)."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

BASIC = ["Op Name", "Op Type", "Task Duration(us)", "Block Dim", "Mix Block Dim", "Device Id", "Pid", "Current Freq", "Rated Freq"]


def run(command, output, options, mode, simulated):
    """Run the program like the real profiler, then write its tables."""
    earlier = len(reported())
    done = subprocess.run(command)
    if done.returncode:
        sys.exit(done.returncode)
    folder = output / "OPPROF_20260105102231_ABCDEFGH"
    folder.mkdir(parents=True)
    if mode == "empty":
        return
    if simulated:
        write_trace(folder / "simulator")
        return
    write(folder, options.get("--kernel-name", "KernelCustom"), mode, launches(earlier, int(options.get("--launch-count", 1))))


def reported():
    """What the operator itself left about its launches, where the simulator ran it."""
    path = Path(os.environ.get("ASCEND_CUSTOM_OPP_PATH", "/nonexistent")) / "report.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def launches(earlier, most):
    """Of the program that was watched; two made-up ones where nothing was left."""
    if not reported():
        return [{"us": 12.5, "block_dim": 8, "busy": {"V": 0.5}}, {"us": 13.5, "block_dim": 8, "busy": {"V": 0.5}}]
    return [
        {"us": one["us"], "block_dim": one["block_dim"], "busy": {pipe: time / one["end"] for pipe, time in one["busy"].items()}}
        for one in map(json.loads, reported()[earlier:][:most])
    ]


def write(folder, op, mode, found):
    """Every launch has a separate folder."""
    if mode == "summary":
        return write_summary(folder / "mindstudio_profiler_output" / "op_summary_20260105.csv", op, found, "Op Name", "Task Duration(us)")
    if mode == "details":
        return write_summary(folder / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv", op, found, "Name", "Duration(us)")
    names = ["SomethingElse", op] if mode == "two-ops" else [op]
    for name in names:
        for index, launch in enumerate(found):
            place = folder / name / str(index)
            time = launch["us"] * (1 if name == op else 100)
            basic = [f"{name}_9f2c_0", name, time, launch["block_dim"], "N/A", 0, 4711, 1800, 1850]
            table(place / "OpBasicInfo.csv", BASIC, [basic], mode)
            columns, rows = pipes(launch, mode)
            table(place / "PipeUtilization.csv", columns, rows, mode)
            table(place / "Memory.csv", ["block_id", "aiv_gm_to_ub_bw(GB/s)", "GM_to_UB_datas(KB)"], [[0, 100.0, 64], [1, 300.0, 64]], mode)
            table(place / "L2Cache.csv", ["block_id", "aiv_total_hit_rate(%)"], [[0, 80.0], [1, 90.0]], mode)
    return None


def pipes(launch, mode):
    """One row per block."""
    missing = "N/A"
    vector = launch["busy"].get("V", 0.0)
    columns = ["block_id", "sub_block_id", "aic_time(us)", "aic_cube_ratio", "aiv_time(us)", "aiv_vec_ratio", "aiv_mte2_ratio"]
    mte2 = missing if mode == "na" else launch["busy"].get("MTE2", 0.25)
    rows = [[block, "vector0", missing, missing, launch["us"], vector, mte2] for block in range(2)]
    if mode == "newer":
        columns = [*columns, "aiv_mte2_active_bw(GB/s)"]
        rows = [[*row, 41.5] for row in rows]
    return columns, rows


def write_summary(path, op, found, name, duration):
    columns = ["Device_id", name, "OP Type", "Task Type", duration, "Block Dim", "aiv_vec_ratio", "cube_utilization(%)"]
    rows = [[0, "aclnnMul_MulAiCore_Mul", "Mul", "AI_VECTOR_CORE", 3.0, 40, 0.9, "N/A"]]
    rows += [
        [0, f"aclnn{op}_{op}AiCore_{op}", op, "AI_VECTOR_CORE", one["us"], one["block_dim"], one["busy"].get("V", 0), "N/A"]
        for one in found
    ]
    table(path, columns, rows, "")


def write_trace(folder):
    """Two cores of a simulated kernel, in microseconds."""
    events = [{"ph": "M", "name": "thread_name"}]
    events += [{"ph": "X", "name": "vadd", "ts": 1.0 + core, "dur": 2.5, "pid": core} for core in range(2)]
    folder.mkdir()
    (folder / "trace.json").write_text(json.dumps({"traceEvents": events}))
    for core in range(2):
        place = folder / f"core{core}.veccore0"
        table(place / f"core{core}_instr_exe.csv", ["instr", "pipe", "call_count", "cycles"], [["vadd", "VECTOR", 1, 100 * (core + 1)]], "")


def table(path, columns, rows, mode):
    """Writes one table as the version in question would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == "extra":
        columns, rows = [*columns, "brand_new_ratio", "Remark"], [[*row, 0.75, "so it is"] for row in rows]
    if mode == "order":
        columns, rows = [name.upper() for name in reversed(columns)], [list(reversed(row)) for row in rows]
    if mode == "newer":
        path = path.with_stem(f"{path.stem}_20260105102231")
    with path.open("w", newline="", encoding="utf-8-sig" if mode == "order" else "utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
