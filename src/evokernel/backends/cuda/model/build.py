"""Finds out what a model has compiled, and compiles it: with PyTorch's headers, for the stand-in instead of the CUDA runtime."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.backends.cuda.build import NOMINAL, PTXAS, plain, recording_library, root
from evokernel.backends.cuda.model import CLASS, EXTENSIONS, FILE, FOUND, ORDER, STAND_IN
from evokernel.backends.cuda.record import KNOWN, RECORDER
from evokernel.backends.native import toolchain
from evokernel.backends.native.diagnostics import refuse_failed
from evokernel.backends.native.toolchain import Compiled, compile, key_of, version_text
from evokernel.core import isolated_python, paths
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Candidate, Task
from evokernel.sandbox.allowed_paths import is_for_packages

HERE = Path(__file__).parent
ALWAYS, LIGHT = (HERE / "headers" / name for name in ("always", "light"))
"""Headers of ours in place of PyTorch's own for CUDA; and in place of all of PyTorch, which take a quarter of the time."""
LONGER = 5.0
"""How many times as long as a kernel's file an extension may take to compile."""
COLLECT_S = 120.0
SLOWEST_S = 600.0
MOST_EXTENSIONS, MOST_BYTES = 16, 1 << 20
MODULE = re.compile(r"[A-Za-z_]\w{0,99}")
FLAG = re.compile(
    r"-O[0-3]|-?-(?:use_fast_math|restrict|extra-device-vectorization|expt-relaxed-constexpr|expt-extended-lambda|extended-lambda)"
    r"|-?-(?:fmad|ftz|prec-div|prec-sqrt)=(?:true|false)|-?-maxrregcount[= ]?\d+|-Xptxas[= ]?-(?:O[0-3]|dlcm=\w+)|-D\w+(?:=[\w.+-]*)?"
)
"""Options of nvcc that have to do with the kernels; all others of an extension's are left out."""
HOST = ("-std=c++20", "-O0", "-fPIC", "-w")
DEVICE = (
    *("-std=c++20", "-O3", "--no-compress", "-cudart", "none", "-w", "-Xcompiler", "-fPIC,-w,-O0", "-lineinfo", "--expt-relaxed-constexpr"),
    *(
        "-D__CUDA_NO_HALF_OPERATORS__",
        "-D__CUDA_NO_HALF_CONVERSIONS__",
        "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
        "-D__CUDA_NO_HALF2_OPERATORS__",
    ),
)
"""As PyTorch compiles extensions; but that code for the host runs once, and is not worth the compiler's time."""
LIBRARY_HEADER = re.compile(r"(?:cublas|cudnn|cusparse|cusolver|cufft|curand|nccl|cutlass)\w*[./]")
NO_HEADER = re.compile(r"fatal error: ([^\s:]+): No such file")
BINDS = "-DEVOKERNEL_BINDS"


class Tools(NamedTuple):
    """What extensions are compiled with."""

    nvcc: str
    host: str
    architecture: str
    timeout_s: float


class Extension(NamedTuple):
    """What a model gave to `load_inline`."""

    name: str
    cpp: str
    cuda: str
    functions: list[str] | None
    flags: list[str]


def build(
    nvcc: str, architecture: str, facts: Mapping[str, int], task: Task, candidate: Candidate, workdir: Path, timeout_s: float
) -> None:
    """Leaves the extensions, the stand-ins they are recorded with, and what is to be known of the task."""
    if CLASS not in candidate.files[FILE]:
        raise CandidateError("symbol", f"no class {CLASS}(nn.Module) in the file")
    host = toolchain.find("")
    if host is None:
        raise UserError(toolchain.missing("") or "")
    tools = Tools(nvcc, host, architecture, LONGER * timeout_s)
    known = {**NOMINAL, **facts}
    order = {"source": task.source, "name": f"{task.id}.py", "sizes": task.sizes["bench"], "small": task.sizes["small"], "facts": known}
    try:
        (workdir / FILE).write_text(candidate.files[FILE])
        (workdir / KNOWN).write_text(json.dumps(known))
        (workdir / ORDER).write_text(json.dumps(order))
        shutil.copy(recording_library(nvcc), workdir / RECORDER)
        shutil.copy(tensor_library(host, nvcc), workdir / STAND_IN)
    except OSError as error:
        raise InfraError(f"cannot write to {workdir}: {error}") from error
    extensions = collected(workdir)
    for number, extension in enumerate(extensions):
        compiled(tools, extension, number, workdir)
    (workdir / EXTENSIONS).write_text(json.dumps([extension.name for extension in extensions]))


def collected(workdir: Path) -> list[Extension]:
    """What the file has compiled; its own code runs for that, where it can do no harm."""
    program, *arguments = isolated_python.isolated_command("evokernel.backends.cuda.model.collect", "main", str(workdir))
    packages = [path for path in map(os.path.abspath, sys.path) if is_for_packages(path)]
    seen = [Path(path) for path in {*packages, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}]
    done = compile(program, arguments, workdir, COLLECT_S, [*seen, HERE.parents[3], Path(sys.base_prefix), Path(sys.prefix)])
    if done.timed_out:
        raise CandidateError("timeout", f"loading the file took longer than {COLLECT_S:g} s")
    try:
        found = json.loads((workdir / FOUND).read_text()) if done.code == 0 else {}
        if "refused" in found:
            reason, detail = found["refused"]
            raise CandidateError(str(reason), str(detail))
        extensions = [extension(one) for one in found.get("extensions", ())]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CandidateError("forbidden", f"what was found of this file's extensions was changed: {error}") from error
    if done.code:
        said = [line for line in done.text.splitlines() if line.strip()]
        raise CandidateError("trace_error", f"loading the file failed: {said[-1][:400] if said else 'it was killed'}")
    if not extensions:
        raise CandidateError("no_code", "the file has no kernels compiled: use load_inline(..., cuda_sources=...)")
    return extensions


def extension(found: dict[str, Any]) -> Extension:
    """As a process said that may not mean well."""
    made = Extension(
        str(found["name"]),
        str(found["cpp"]),
        str(found["cuda"]),
        None if found["functions"] is None else [str(name) for name in found["functions"]],
        [str(flag) for flag in found["flags"]],
    )
    if not all(map(MODULE.fullmatch, [made.name, *(made.functions or ())])) or len(made.cpp) + len(made.cuda) > MOST_BYTES:
        raise CandidateError(
            "unsupported", f"an extension's name and functions must be names, and its sources under {MOST_BYTES >> 20} MiB"
        )
    return made


def compiled(tools: Tools, extension: Extension, number: int, workdir: Path) -> None:
    """With our headers; with PyTorch's where something is missing in those, or is wrong in any case."""
    try:
        attempt(tools, extension, number, workdir, [ALWAYS, LIGHT])
    except CandidateError as error:
        if error.reason != "compile_error":
            raise
        attempt(tools, extension, number, workdir, [ALWAYS])


def attempt(tools: Tools, extension: Extension, number: int, workdir: Path, headers: Sequence[Path]) -> None:
    """Device code and binding at the same time, then both into one library."""
    includes = [f"-I{path}" for path in [*headers, *torch_headers(), sysconfig.get_path("include"), root(tools.nvcc) / "include"]]
    options = [*includes, f"-DTORCH_EXTENSION_NAME={extension.name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    sources = {f"{extension.name}.cu": extension.cuda, f"{extension.name}.cpp": extension.cpp}
    steps = [(tools.host, [*HOST, *options, BINDS, "-x", "c++"], bound(extension), f"bind{number}")]
    if extension.cuda.strip():
        flags = [flag for flag in extension.flags if FLAG.fullmatch(flag)]
        binds = [BINDS] if "pybind" in extension.cuda.lower() else []
        text = f'#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n#line 1 "{extension.name}.cu"\n{extension.cuda}\n'
        steps.append((tools.nvcc, [*DEVICE, *flags, f"-arch={tools.architecture}", *options, *binds, "-x", "cu"], text, f"device{number}"))

    def run(step: tuple[str, list[str], str, str]) -> None:
        program, given, text, name = step
        (workdir / f"{name}.src").write_text(text)
        arguments = [*given, "-c", f"{name}.src", "-o", f"{name}.o"]
        done = compile(program, arguments, workdir, min(tools.timeout_s, SLOWEST_S), readable(tools, headers))
        refuse(done._replace(text=plain(done.text)), workdir / f"{name}.o", sources, tools.timeout_s)

    with ThreadPoolExecutor(len(steps)) as pool:
        list(pool.map(run, steps))
    objects = [f"{name}.o" for *_, name in steps]
    link(tools, [*objects, "-L.", f"-l:{RECORDER}"], f"{extension.name}.so", workdir)


def bound(extension: Extension) -> str:
    """The C++ side, with the functions that Python is to see."""
    head = f'#include <torch/extension.h>\n#line 1 "{extension.name}.cpp"\n{extension.cpp}\n'
    if extension.functions is None:
        return head
    listed = "".join(f'  m.def("{name}", &{name});\n' for name in extension.functions)
    return f"{head}PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{listed}}}\n"


def refuse(done: Compiled, built: Path, sources: Mapping[str, str], timeout_s: float) -> None:
    """Whose fault it is that there is no object."""
    if done.code and (found := PTXAS.search(done.text)):
        raise CandidateError("compile_error", f"ptxas: {found['text'].strip()}")
    if done.code and (found := NO_HEADER.search(done.text)) and LIBRARY_HEADER.match(found[1]):
        raise CandidateError("forbidden", f"includes {found[1]}: kernels are written, not called from a library")
    refuse_failed(done, built, sources, timeout_s)


def link(tools: Tools, objects: Sequence[str], made: str, workdir: Path) -> None:
    """A library that finds PyTorch where it is loaded, and the recorder beside itself, before anything else."""
    libraries = torch_headers()[0].parent / "lib"
    needed = [f"-L{libraries}", "-ltorch_python", "-ltorch_cpu", "-lc10"]
    arguments = ["-shared", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", *objects, *needed, "-o", made]
    done = compile(tools.host, arguments, workdir, tools.timeout_s, readable(tools, ()))
    refuse_failed(done, workdir / made, {}, tools.timeout_s)


def readable(tools: Tools, headers: Sequence[Path]) -> list[Path]:
    return [*headers, HERE, root(tools.nvcc), torch_headers()[0].parent, Path(sysconfig.get_path("include"))]


@lru_cache
def torch_headers() -> tuple[Path, ...]:
    """Where PyTorch's own are."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise UserError("models with inline extensions need PyTorch: pip install 'evokernel[torch]'")
    include = Path(spec.origin).parent / "include"
    return include, include / "torch" / "csrc" / "api" / "include"


@lru_cache
def tensor_library(host: str, nvcc: str) -> Path:
    """What makes tensors without a device, compiled once per machine and version of PyTorch."""
    source = HERE / f"{Path(STAND_IN).stem}.cpp"
    versions = metadata.version("torch"), sysconfig.get_python_version(), str(torch_headers()[0])
    folder = paths.cache_folder() / "cuda" / key_of(source.read_text(), version_text(host), *versions)
    made = folder / STAND_IN
    with paths.hold_lock(folder / "lock"):
        if made.exists():
            return made
        includes = [f"-I{path}" for path in [*torch_headers(), sysconfig.get_path("include")]]
        tools = Tools(nvcc, host, "", COLLECT_S)
        with tempfile.TemporaryDirectory(dir=folder) as building:
            arguments = [*HOST, *includes, "-c", str(source), "-o", "made.o"]
            done = compile(host, arguments, Path(building), COLLECT_S, readable(tools, ()))
            if done.code:
                raise InfraError(f"the stand-in for PyTorch's device does not compile with {host}: {done.text[-600:]}")
            link(tools, ["made.o"], STAND_IN, Path(building))
            (Path(building) / STAND_IN).replace(made)
    return made
