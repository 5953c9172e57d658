"""A kernel compiled by bisheng alone, without an operator project: seconds instead of minutes.

It serves two ends. A candidate that does not compile is told so before the long build begins. And a program made in this way runs the
kernel on a card or on the simulator, given the tiling data. Limits: no operator definition is involved, so what OpDef gets wrong is not
seen; the tiling data comes from the host code as the twin runs it, and the library's own Matmul tiling is the twin's; a kernel that is
told apart by tiling keys is compiled for the one key that is in force.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evokernel.backends.ascendc.cann import errors
from evokernel.backends.ascendc.cann.tools import Ran, run
from evokernel.core.errors import CandidateError
from evokernel.core.protocols import Arguments, Array

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project

OURS = Path(__file__).parent / "launch"
ARCHITECTURE = "dav-2201"
"""All of 910B."""
FLAGS = (f"--npu-arch={ARCHITECTURE}", "-xasc", "-std=c++17")
LINKED = ("-lascendcl", "-lplatform", "-lregister", "-ltiling_api", "-lruntime")
UNSUPPORTED = re.compile(
    r"(?i)(unknown|unsupported|unrecognized|invalid)[\w\s-]*(argument|option|value|language)[^\n]*(npu-arch|xasc|-x|asc|run-mode|dav-2201)"
    r"|language not recognized: '?asc"
)
FOLDER, ORDER = "direct", "order.txt"
COMPILE_S = 120.0


class Tiled(NamedTuple):
    """What a candidate's host code asks for at a size."""

    block_dim: int
    key: int
    workspace_bytes: int
    data: bytes


def write(project: Project, workdir: Path, key: int = 0) -> Path:
    """The candidate's files as they are, and what tells our programs about them."""
    folder = workdir / FOLDER
    for name, text in project.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "call.h").write_text(call_header(project, key))
    return folder


def call_header(project: Project, key: int) -> str:
    """The entry, its parameters and the macros that CANN's build would define."""
    values = {
        "EVOKERNEL_ENTRY": project.entry,
        "EVOKERNEL_PARAMETERS": str(project.parameters),
        "EVOKERNEL_ARGUMENTS(a)": ", ".join(f"a[{index}]" for index in range(project.parameters)),
        "EVOKERNEL_KERNEL": f'"{project.kernel}"',
        "EVOKERNEL_KEY": str(key),
        **({"EVOKERNEL_HEADER": f'"{project.header}"'} if project.header else {}),
        **({"EVOKERNEL_TILING": project.tiling} if project.tiling else {}),
        **{f"DTYPE_{name}": kind for name, kind in project.dtypes.items()},
    }
    return "".join(f"#define {name} {value}\n" for name, value in values.items())


def check(project: Project, bisheng: str | None, workdir: Path, environment: Mapping[str, str], timeout_s: float = COMPILE_S) -> bool:
    """Compiles the kernel: False when this toolkit cannot do it in this way, CandidateError when the candidate is at fault."""
    if bisheng is None:
        return False
    folder = write(project, workdir)
    (folder / "check.cpp").write_text('#include "entry.h"\n')
    done = compiled([bisheng, *FLAGS, "-fPIC", "-c", "check.cpp", "-o", "check.o"], folder, workdir, environment, timeout_s)
    return judged(done, project, timeout_s)


def program(
    project: Project,
    bisheng: str,
    workdir: Path,
    environment: Mapping[str, str],
    key: int,
    options: Sequence[str] = (),
    name: str = "program",
) -> Path | None:
    """A program that runs the kernel, given an order; None when this toolkit cannot make one in this way."""
    folder = write(project, workdir, key)
    command = [bisheng, *FLAGS, *options, str(OURS / "device_main.cpp"), "-o", name, *LINKED]
    done = compiled(command, folder, workdir, environment, COMPILE_S)
    return folder / name if judged(done, project, COMPILE_S) else None


def compiled(command: Sequence[str], folder: Path, workdir: Path, environment: Mapping[str, str], timeout_s: float) -> Ran:
    home = environment["ASCEND_HOME_PATH"]
    includes = [f"-I{OURS}", "-I.", "-Iop_kernel", "-Iop_host", f"-I{home}/include", f"-L{home}/lib64"]
    return run([command[0], *includes, *command[1:]], folder, environment, timeout_s, [str(OURS)], writable=workdir)


def judged(done: Ran, project: Project, timeout_s: float) -> bool:
    """Whose fault it is that nothing came out."""
    if done.timed_out:
        raise CandidateError("build_timeout", f"bisheng did not compile the kernel within {timeout_s:g} s: fewer templates, less unrolling")
    if done.is_killed:
        raise CandidateError("killed", "bisheng was killed from outside, perhaps for lack of memory")
    if done.code == 0:
        return True
    if UNSUPPORTED.search(done.text):
        return False
    raise errors.explain(done.text, errors.COMPILE, {name: name for name in project.files})


def write_order(folder: Path, arguments: Arguments, tiled: Tiled) -> Path:
    """Tensors, workspace and tiling data in the order of the kernel's parameters."""
    lines = [f"blocks {tiled.block_dim}"]
    for kind, arrays in (("in", arguments.inputs), ("out", arguments.outputs)):
        for index, array in enumerate(arrays):
            file = tensor_file(kind, index)
            (folder / file).write_bytes(array.data.tobytes())
            lines.append(f"{kind} {array.data.nbytes} {file}")
    (folder / "tiling.bin").write_bytes(tiled.data)
    lines += [f"scratch {tiled.workspace_bytes} -", f"in {len(tiled.data)} tiling.bin"]
    path = folder / ORDER
    path.write_text("\n".join(lines) + "\n")
    return path


def read_outputs(folder: Path, outputs: Sequence[Array]) -> None:
    """What the program left, into the caller's tensors."""
    for index, array in enumerate(outputs):
        data = (folder / tensor_file("out", index)).read_bytes()
        if len(data) != array.data.nbytes:
            raise CandidateError("shape", f"the output {array.name} came back with {len(data)} bytes, not {array.data.nbytes}")
        array.data.reshape(-1).view("uint8")[...] = bytearray(data)


def tensor_file(kind: str, index: int) -> str:
    return f"{kind}_{index}.bin"
