"""Runs a candidate's tiling function at one size, for programs that launch a kernel directly: blocks, tiling key, workspace, tiling data.

The host code runs in a separate process, in the operator library of the simulator's build. A launch function that only records its
arguments replaces the simulator's.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
from pathlib import Path

from evokernel.backends.ascendc.build import OPERATOR_LIBRARY, RUNTIME_LIBRARY, SIMULATOR_FOLDER
from evokernel.backends.ascendc.cann import worker
from evokernel.backends.ascendc.cann.quick_compile import LAUNCH_FOLDER, TilingResult
from evokernel.backends.ascendc.cann.tools import run_tool
from evokernel.backends.native.toolchain import find_compiler, missing_compiler_message, run_compiler
from evokernel.core.backend import Arguments
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.sandbox import isolated_python

RECORDER_LIBRARY, RECORD_FILE, RECORD_VARIABLE = "record_launch.so", "tiling.bin", "EVOKERNEL_TILING_FILE"
COMPILE_TIMEOUT_S, TILING_TIMEOUT_S = 60.0, 60.0
HEAD = struct.Struct("=4Q")


def probe_tiling(workdir: Path, arguments: Arguments, chip_config: str, compiler: str = "") -> TilingResult:
    """Run the tiling function. `workdir` has the simulator's build and plan; `chip_config` has the simulator's settings of the chip."""
    compile_launch_recorder(workdir, compiler)
    folder = workdir / "tiling"
    order = worker.write_order(folder, workdir, arguments, 1)
    (folder / "chip.txt").write_text(chip_config)
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), RECORD_VARIABLE: str(folder / RECORD_FILE)}
    command = isolated_python.isolated_command(__name__, "main", str(order))
    result = run_tool(command, workdir, environment, TILING_TIMEOUT_S)
    if result.timed_out:
        raise CandidateError("timeout", f"the tiling function did not finish within {TILING_TIMEOUT_S:g} s")
    answer = folder / worker.ANSWER_FILE
    if answer.exists() and (outcome := json.loads(answer.read_text()))["reason"]:
        raise CandidateError(outcome["reason"], outcome["detail"])
    if result.code or not (folder / RECORD_FILE).exists():
        raise CandidateError("tiling", f"the host code launches no kernel: {result.text.strip()[-300:] or 'no output'}")
    return parse_tiling((folder / RECORD_FILE).read_bytes())


def parse_tiling(record: bytes) -> TilingResult:
    """Parse a record: four numbers, then the tiling data."""
    if len(record) < HEAD.size:
        raise InfraError("The tiling probe wrote an incomplete record; run the verification again")
    blocks, key, workspace, size = HEAD.unpack_from(record)
    return TilingResult(blocks, key, workspace, record[HEAD.size : HEAD.size + size])


def compile_launch_recorder(folder: Path, compiler: str) -> None:
    """Compile the launch function that replaces the simulator's and records its arguments."""
    path = find_compiler(compiler)
    if path is None:
        raise UserError(missing_compiler_message(compiler) or "no C++ compiler")
    (folder / "record_launch.cpp").write_text((LAUNCH_FOLDER / "record_launch.cpp").read_text())
    command = ["-std=c++17", "-shared", "-fPIC", f"-I{SIMULATOR_FOLDER / 'runtime'}", "record_launch.cpp", "-o", RECORDER_LIBRARY]
    result = run_compiler(path, command, folder, COMPILE_TIMEOUT_S, [SIMULATOR_FOLDER])
    if result.code:
        raise InfraError(f"Compiling the launch recorder failed: {result.text[-300:].strip()}")


def main() -> None:
    """Entry point of the process with the candidate's host code."""
    from evokernel.backends.ascendc.loader import AscendcKernel

    path = Path(sys.argv[-1])
    order = json.loads(path.read_text())
    folder = Path(order["workdir"])
    ctypes.CDLL(str(folder / RECORDER_LIBRARY), mode=ctypes.RTLD_GLOBAL)
    answer = {"reason": "", "detail": ""}
    try:
        kernel = AscendcKernel(
            folder, RUNTIME_LIBRARY, OPERATOR_LIBRARY, "strict", (path.parent / "chip.txt").read_text(), TILING_TIMEOUT_S
        )
        kernel.bind(worker.read_arguments(order, path.parent))()
    except CandidateError as error:
        answer = {"reason": "tiling", "detail": error.detail.rpartition("\t")[2]}
    (path.parent / worker.ANSWER_FILE).write_text(json.dumps(answer))
