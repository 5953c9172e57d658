"""Compiles a kernel with bisheng alone, without an operator project, in seconds instead of minutes.

This has two uses. A compile error is reported before the long build. And a program built this way runs the kernel on an NPU or on CANN's
simulator, given the tiling data. Limits: it does not use the OpDef, so it finds no errors there. The tiling data comes from the host code
as our simulator runs it, including the simulator's Matmul tiling. A kernel with tiling keys is compiled for one key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evokernel.backends.ascendc.cann import errors
from evokernel.backends.ascendc.cann.tools import ToolResult, run_tool
from evokernel.core.backend import Arguments, Array
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project

LAUNCH_FOLDER = Path(__file__).parent / "launch"
ARCHITECTURE = "dav-2201"
"""The architecture of all 910B chips."""
FLAGS = (f"--npu-arch={ARCHITECTURE}", "-xasc", "-std=c++17")
LINK_FLAGS = ("-lascendcl", "-lplatform", "-lregister", "-ltiling_api", "-lruntime")
UNSUPPORTED = re.compile(
    r"(?i)(unknown|unsupported|unrecognized|invalid)[\w\s-]*(argument|option|value|language)[^\n]*(npu-arch|xasc|-x|asc|run-mode|dav-2201)"
    r"|language not recognized: '?asc"
)
BUILD_FOLDER, ORDER = "direct", "order.txt"
COMPILE_TIMEOUT_S = 120.0


class TilingResult(NamedTuple):
    """The result of a candidate's tiling function at one size."""

    block_dim: int
    key: int
    workspace_bytes: int
    data: bytes


def write_sources(project: Project, workdir: Path, key: int = 0) -> Path:
    """Write the candidate's files, and the header that describes them to our launch programs."""
    folder = workdir / BUILD_FOLDER
    for name, text in project.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "call.h").write_text(call_header(project, key))
    return folder


def call_header(project: Project, key: int) -> str:
    """The header with the kernel's name, its parameters and the macros of CANN's build."""
    values = {
        "EVOKERNEL_ENTRY": project.entry,
        "EVOKERNEL_PARAMETERS": str(project.parameter_count),
        "EVOKERNEL_ARGUMENTS(a)": ", ".join(f"a[{index}]" for index in range(project.parameter_count)),
        "EVOKERNEL_KERNEL": f'"{project.kernel_file}"',
        "EVOKERNEL_KEY": str(key),
        **({"EVOKERNEL_HEADER": f'"{project.tiling_header}"'} if project.tiling_header else {}),
        **({"EVOKERNEL_TILING": project.tiling_struct} if project.tiling_struct else {}),
        **{f"DTYPE_{name}": kind for name, kind in project.dtypes.items()},
    }
    return "".join(f"#define {name} {value}\n" for name, value in values.items())


def check_compiles(
    project: Project, bisheng: str | None, workdir: Path, environment: Mapping[str, str], timeout_s: float = COMPILE_TIMEOUT_S
) -> bool:
    """Compile the kernel; False if this toolkit cannot compile a single kernel. Raises CandidateError for errors of the candidate."""
    if bisheng is None:
        return False
    folder = write_sources(project, workdir)
    (folder / "check.cpp").write_text('#include "entry.h"\n')
    result = run_compiler([bisheng, *FLAGS, "-fPIC", "-c", "check.cpp", "-o", "check.o"], folder, workdir, environment, timeout_s)
    return check_compile_result(result, project, timeout_s)


def build_program(
    project: Project,
    bisheng: str,
    workdir: Path,
    environment: Mapping[str, str],
    key: int,
    options: Sequence[str] = (),
    name: str = "program",
) -> Path | None:
    """Build a program that runs the kernel for an order; None if this toolkit cannot compile a single kernel."""
    folder = write_sources(project, workdir, key)
    command = [bisheng, *FLAGS, *options, str(LAUNCH_FOLDER / "device_main.cpp"), "-o", name, *LINK_FLAGS]
    result = run_compiler(command, folder, workdir, environment, COMPILE_TIMEOUT_S)
    return folder / name if check_compile_result(result, project, COMPILE_TIMEOUT_S) else None


def run_compiler(command: Sequence[str], folder: Path, workdir: Path, environment: Mapping[str, str], timeout_s: float) -> ToolResult:
    home = environment["ASCEND_HOME_PATH"]
    includes = [f"-I{LAUNCH_FOLDER}", "-I.", "-Iop_kernel", "-Iop_host", f"-I{home}/include", f"-L{home}/lib64"]
    return run_tool([command[0], *includes, *command[1:]], folder, environment, timeout_s, [str(LAUNCH_FOLDER)], writable=workdir)


def check_compile_result(result: ToolResult, project: Project, timeout_s: float) -> bool:
    """Whether the compilation succeeded; False if this toolkit does not support it. Raises CandidateError for the candidate's errors."""
    if result.timed_out:
        raise CandidateError(
            "build_timeout", f"bisheng did not compile the kernel within {timeout_s:g} s: use fewer templates and less unrolling"
        )
    if result.is_killed:
        raise CandidateError("killed", "another process killed bisheng, perhaps for lack of memory")
    if result.code == 0:
        return True
    if UNSUPPORTED.search(result.text):
        return False
    raise errors.explain_failure(result.text, errors.COMPILE, {name: name for name in project.files})


def write_order(folder: Path, arguments: Arguments, tiling: TilingResult) -> Path:
    """Write tensors, workspace and tiling data in the order of the kernel's parameters."""
    lines = [f"blocks {tiling.block_dim}"]
    for kind, arrays in (("in", arguments.inputs), ("out", arguments.outputs)):
        for index, array in enumerate(arrays):
            file = tensor_file(kind, index)
            (folder / file).write_bytes(array.data.tobytes())
            lines.append(f"{kind} {array.data.nbytes} {file}")
    (folder / "tiling.bin").write_bytes(tiling.data)
    lines += [f"scratch {tiling.workspace_bytes} -", f"in {len(tiling.data)} tiling.bin"]
    path = folder / ORDER
    path.write_text("\n".join(lines) + "\n")
    return path


def read_outputs(folder: Path, outputs: Sequence[Array]) -> None:
    """Copy the program's output files into the caller's tensors."""
    for index, array in enumerate(outputs):
        data = (folder / tensor_file("out", index)).read_bytes()
        if len(data) != array.data.nbytes:
            raise CandidateError("shape", f"the output {array.name} has {len(data)} bytes, not {array.data.nbytes}")
        array.data.reshape(-1).view("uint8")[...] = bytearray(data)


def tensor_file(kind: str, index: int) -> str:
    return f"{kind}_{index}.bin"
