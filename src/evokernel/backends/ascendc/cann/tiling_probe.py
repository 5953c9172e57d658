"""What a candidate's host code asks for at a size: blocks, tiling key, workspace, tiling data. For programs that launch a kernel directly.

The host code runs in the operator that the twin's build made, in a process of its own, with a launch that only writes down what it is told.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
from pathlib import Path

from evokernel.backends.ascendc.build import LIBRARY, RUNTIME, TWIN
from evokernel.backends.ascendc.cann import worker
from evokernel.backends.ascendc.cann.quick_compile import OURS, Tiled
from evokernel.backends.ascendc.cann.tools import run
from evokernel.backends.native.toolchain import compile, find, missing
from evokernel.core import isolated_python
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.protocols import Arguments

INTERCEPTED, TOLD, VARIABLE = "tiled.so", "tiled.bin", "EVOKERNEL_TILED"
COMPILE_S, TILE_S = 60.0, 60.0
HEAD = struct.Struct("=4Q")


def tiled(twin_built: Path, arguments: Arguments, chip: str, compiler: str = "") -> Tiled:
    """`twin_built` is a folder that the twin's build filled, with its plan; `chip` the chip's settings, as the twin reads them."""
    intercept(twin_built, compiler)
    folder = twin_built / "tiled"
    order = worker.write_order(folder, twin_built, arguments, 1)
    (folder / "chip.txt").write_text(chip)
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), VARIABLE: str(folder / TOLD)}
    command = isolated_python.isolated_command(__name__, "main", str(order))
    done = run(command, twin_built, environment, TILE_S)
    if done.timed_out:
        raise CandidateError("timeout", f"the tiling function did not end within {TILE_S:g} s")
    answer = folder / worker.ANSWER
    if answer.exists() and (told := json.loads(answer.read_text()))["reason"]:
        raise CandidateError(told["reason"], told["detail"])
    if done.code or not (folder / TOLD).exists():
        raise CandidateError("tiling", f"the host code launches no kernel: {done.text.strip()[-300:] or 'it said nothing'}")
    return read((folder / TOLD).read_bytes())


def read(told: bytes) -> Tiled:
    """Four numbers, then the tiling data."""
    if len(told) < HEAD.size:
        raise InfraError("what the host code asked for was not written down")
    blocks, key, workspace, size = HEAD.unpack_from(told)
    return Tiled(blocks, key, workspace, told[HEAD.size : HEAD.size + size])


def intercept(folder: Path, compiler: str) -> None:
    """Compiles the launch that stands before the twin's."""
    path = find(compiler)
    if path is None:
        raise UserError(missing(compiler) or "no C++ compiler")
    (folder / "tiled.cpp").write_text((OURS / "tiled.cpp").read_text())
    command = ["-std=c++17", "-shared", "-fPIC", f"-I{TWIN / 'runtime'}", "tiled.cpp", "-o", INTERCEPTED]
    done = compile(path, command, folder, COMPILE_S, [TWIN])
    if done.code:
        raise InfraError(f"the twin's launch cannot be stood in for: {done.text[-300:].strip()}")


def main() -> None:
    """In the process with the candidate's host code."""
    from evokernel.backends.ascendc.loader import AscendcKernel

    path = Path(sys.argv[-1])
    order = json.loads(path.read_text())
    folder = Path(order["workdir"])
    ctypes.CDLL(str(folder / INTERCEPTED), mode=ctypes.RTLD_GLOBAL)
    answer = {"reason": "", "detail": ""}
    try:
        kernel = AscendcKernel(folder, RUNTIME, LIBRARY, "strict", (path.parent / "chip.txt").read_text(), TILE_S)
        kernel.bind(worker.arguments_in(order, path.parent))()
    except CandidateError as error:
        answer = {"reason": "tiling", "detail": error.detail.rpartition("\t")[2]}
    (path.parent / worker.ANSWER).write_text(json.dumps(answer))
