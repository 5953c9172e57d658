"""Collects the extensions of a KernelBench solution and compiles them with PyTorch's headers for the recording CUDA runtime."""

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

from evokernel.backends.cuda.build import PTXAS, build_recording_runtime, normalize_messages, toolkit_folder
from evokernel.backends.cuda.model import CLASS, COLLECTED, EXTENSIONS, FILE, ORDER, TENSOR_LIBRARY
from evokernel.backends.cuda.model.compile_cache import CompileStep, ObjectCache
from evokernel.backends.cuda.record import DEVICE_FILE, RECORDER
from evokernel.backends.gpu.model_facts import NOMINAL
from evokernel.backends.native import toolchain
from evokernel.backends.native.diagnostics import raise_for_failed_compile
from evokernel.backends.native.toolchain import CompilerRun, cache_key, compiler_version_text, precompiled, run_compiler
from evokernel.core import paths
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Candidate, Task
from evokernel.sandbox import isolated_python
from evokernel.sandbox.allowed_paths import is_package_folder

HERE = Path(__file__).parent
ALWAYS, LIGHT = (HERE / "headers" / name for name in ("always", "light"))
"""Our replacements of PyTorch's CUDA headers; and of all PyTorch headers, which take a quarter of the time."""
LONGER = 5.0
"""Factor on the build time-out of a kernel file for an extension."""
COLLECT_S = 120.0
SLOWEST_S = 600.0
MOST_EXTENSIONS, MOST_BYTES = 16, 1 << 20
MODULE = re.compile(r"[A-Za-z_]\w{0,99}")
FLAG = re.compile(
    r"-O[0-3]|-?-(?:use_fast_math|restrict|extra-device-vectorization|expt-relaxed-constexpr|expt-extended-lambda|extended-lambda)"
    r"|-?-(?:fmad|ftz|prec-div|prec-sqrt)=(?:true|false)|-?-maxrregcount[= ]?\d+|-Xptxas[= ]?-(?:O[0-3]|dlcm=\w+)|-D\w+(?:=[\w.+-]*)?"
)
"""nvcc options that affect kernels; all other options of an extension are dropped."""
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
"""PyTorch's options for extensions, except that host code is not optimised, because it runs once."""
LIBRARY_HEADER = re.compile(r"(?:cublas|cudnn|cusparse|cusolver|cufft|curand|nccl|cutlass)\w*[./]")
NO_HEADER = re.compile(r"fatal error: ([^\s:]+): No such file")
BINDS = "-DEVOKERNEL_BINDS"
BASE_HEADER = "#include <torch/extension.h>\n"
"""Header that is precompiled for the bindings, once per machine and version of PyTorch."""


class ExtensionTools(NamedTuple):
    """Compilers and limits for building extensions."""

    nvcc: str
    host: str
    architecture: str
    timeout_s: float


class Extension(NamedTuple):
    """The arguments of a model's `load_inline` call."""

    name: str
    cpp: str
    cuda: str
    functions: list[str] | None
    flags: list[str]


def build_model(
    nvcc: str, architecture: str, facts: Mapping[str, int], task: Task, candidate: Candidate, workdir: Path, timeout_s: float
) -> None:
    """Builds the extensions and writes the recording runtime, the tensor library and the task description."""
    if CLASS not in candidate.files[FILE]:
        raise CandidateError("symbol", f"the file defines no class {CLASS}(nn.Module); define it")
    host = toolchain.find_compiler("")
    if host is None:
        raise UserError(toolchain.missing_compiler_message("") or "")
    tools = ExtensionTools(nvcc, host, architecture, LONGER * timeout_s)
    known = {**NOMINAL, **facts}
    order = {"source": task.source, "name": f"{task.id}.py", "sizes": task.sizes["bench"], "small": task.sizes["small"], "facts": known}
    try:
        (workdir / FILE).write_text(candidate.files[FILE])
        (workdir / DEVICE_FILE).write_text(json.dumps(known))
        (workdir / ORDER).write_text(json.dumps(order))
        shutil.copy(build_recording_runtime(nvcc), workdir / RECORDER)
        shutil.copy(build_tensor_library(host, nvcc), workdir / TENSOR_LIBRARY)
    except OSError as error:
        raise InfraError(f"cannot write to {workdir}: {error}") from error
    extensions = collect_extensions(workdir)
    for number, extension in enumerate(extensions):
        compile_extension(tools, extension, number, workdir)
    (workdir / EXTENSIONS).write_text(json.dumps([extension.name for extension in extensions]))


def collect_extensions(workdir: Path) -> list[Extension]:
    """Collects the extensions of the file by running it in the sandbox."""
    program, *arguments = isolated_python.isolated_command("evokernel.backends.cuda.model.collect", "main", str(workdir))
    packages = [path for path in map(os.path.abspath, sys.path) if is_package_folder(path)]
    seen = [Path(path) for path in {*packages, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}]
    done = run_compiler(program, arguments, workdir, COLLECT_S, [*seen, HERE.parents[3], Path(sys.base_prefix), Path(sys.prefix)])
    if done.timed_out:
        raise CandidateError("timeout", f"loading the file took longer than {COLLECT_S:g} s")
    try:
        found = json.loads((workdir / COLLECTED).read_text()) if done.code == 0 else {}
        if "refused" in found:
            reason, detail = found["refused"]
            raise CandidateError(str(reason), str(detail))
        extensions = [parse_extension(one) for one in found.get("extensions", ())]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CandidateError("forbidden", f"the description of this file's extensions is invalid, so it was modified: {error}") from error
    if done.code:
        said = [line for line in done.text.splitlines() if line.strip()]
        raise CandidateError("trace_error", f"loading the file failed: {said[-1][:400] if said else 'it was killed'}")
    if not extensions:
        raise CandidateError("no_code", "the file compiles no kernels; use load_inline(..., cuda_sources=...)")
    return extensions


def parse_extension(found: dict[str, Any]) -> Extension:
    """Parses an extension description from an untrusted process."""
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


def compile_extension(tools: ExtensionTools, extension: Extension, number: int, workdir: Path) -> None:
    """Compiles an extension with our headers, and with PyTorch's if that fails."""
    try:
        compile_with_headers(tools, extension, number, workdir, [ALWAYS, LIGHT])
    except CandidateError as error:
        if error.reason != "compile_error":
            raise
        compile_with_headers(tools, extension, number, workdir, [ALWAYS])


def compile_with_headers(tools: ExtensionTools, extension: Extension, number: int, workdir: Path, headers: Sequence[Path]) -> None:
    """Compiles device code and binding in parallel, then links them into one library."""
    includes = [
        f"-I{path}" for path in [*headers, *torch_header_folders(), sysconfig.get_path("include"), toolkit_folder(tools.nvcc) / "include"]
    ]
    options = [*includes, "-DTORCH_API_INCLUDE_EXTENSION_H"]
    named = f"-DTORCH_EXTENSION_NAME={extension.name}"
    header_key, readable = header_versions(tools, headers), readable_folders(tools, headers)
    bind_options = [*HOST, *options, BINDS]
    sources = {f"{extension.name}.cu": extension.cuda, f"{extension.name}.cpp": extension.cpp}

    def include_base() -> list[str]:
        base = precompiled(tools.host, bind_options, BASE_HEADER, readable, header_key)
        return ["-include", base] if base else []

    steps = [CompileStep(tools.host, [*bind_options, named, "-x", "c++"], binding_source(extension), f"bind{number}", include_base)]
    if extension.cuda.strip():
        flags = [flag for flag in extension.flags if FLAG.fullmatch(flag)]
        binds = [BINDS] if "pybind" in extension.cuda.lower() else []
        text = f'#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n#line 1 "{extension.name}.cu"\n{extension.cuda}\n'
        architecture = f"-gencode=arch=compute_{tools.architecture.removeprefix('sm_')},code={tools.architecture}"  # without PTX
        device_options = [*DEVICE, *flags, architecture, *options, named, *binds, "-x", "cu"]
        steps.append(CompileStep(tools.nvcc, device_options, text, f"device{number}"))

    def run(step: CompileStep) -> None:
        done = ObjectCache().compile(step, workdir, header_key, min(tools.timeout_s, SLOWEST_S), readable)
        raise_for_failed_build(done._replace(text=normalize_messages(done.text)), workdir / f"{step.name}.o", sources, tools.timeout_s)

    with ThreadPoolExecutor(len(steps)) as pool:
        list(pool.map(run, steps))
    objects = [f"{step.name}.o" for step in steps]
    link_extension(tools, [*objects, "-L.", f"-l:{RECORDER}"], f"{extension.name}.so", workdir)


@lru_cache
def hash_headers(headers: tuple[Path, ...]) -> str:
    """Returns a hash of our headers."""
    return cache_key(*(path.read_text() for folder in headers for path in sorted(folder.rglob("*.h"))))


def header_versions(tools: ExtensionTools, headers: Sequence[Path]) -> str:
    """Returns what decides the contents of all headers: versions of PyTorch, Python and the toolkit, and our own headers."""
    compilers = compiler_version_text(tools.host), compiler_version_text(tools.nvcc)
    return cache_key(metadata.version("torch"), sysconfig.get_python_version(), *compilers, hash_headers(tuple(headers)))


def binding_source(extension: Extension) -> str:
    """Returns the C++ source with the bindings of the exported functions."""
    head = f'#include <torch/extension.h>\n#line 1 "{extension.name}.cpp"\n{extension.cpp}\n'
    if extension.functions is None:
        return head
    listed = "".join(f'  m.def("{name}", &{name});\n' for name in extension.functions)
    return f"{head}PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{listed}}}\n"


def raise_for_failed_build(done: CompilerRun, built: Path, sources: Mapping[str, str], timeout_s: float) -> None:
    """Raises the error of a failed compilation."""
    if done.code and (found := PTXAS.search(done.text)):
        raise CandidateError("compile_error", f"ptxas: {found['text'].strip()}")
    if done.code and (found := NO_HEADER.search(done.text)) and LIBRARY_HEADER.match(found[1]):
        raise CandidateError("forbidden", f"the extension includes {found[1]}; write kernels instead of calling a library")
    raise_for_failed_compile(done, built, sources, timeout_s)


def link_extension(tools: ExtensionTools, objects: Sequence[str], made: str, workdir: Path) -> None:
    """Links a library that finds PyTorch in its process and the recording runtime next to itself first."""
    libraries = torch_header_folders()[0].parent / "lib"
    needed = [f"-L{libraries}", "-ltorch_python", "-ltorch_cpu", "-lc10"]
    arguments = ["-shared", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", *objects, *needed, "-o", made]
    done = run_compiler(tools.host, arguments, workdir, tools.timeout_s, readable_folders(tools, ()))
    raise_for_failed_compile(done, workdir / made, {}, tools.timeout_s)


def readable_folders(tools: ExtensionTools, headers: Sequence[Path]) -> list[Path]:
    return [*headers, HERE, toolkit_folder(tools.nvcc), torch_header_folders()[0].parent, Path(sysconfig.get_path("include"))]


@lru_cache
def torch_header_folders() -> tuple[Path, ...]:
    """Returns PyTorch's include folders."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise UserError("models with inline extensions need PyTorch; run pip install 'evokernel[torch]'")
    include = Path(spec.origin).parent / "include"
    return include, include / "torch" / "csrc" / "api" / "include"


@lru_cache
def build_tensor_library(host: str, nvcc: str) -> Path:
    """Builds the library that creates tensors without a device, once per machine and PyTorch version."""
    source = HERE / f"{Path(TENSOR_LIBRARY).stem}.cpp"
    versions = metadata.version("torch"), sysconfig.get_python_version(), str(torch_header_folders()[0])
    folder = paths.cache_folder() / "cuda" / cache_key(source.read_text(), compiler_version_text(host), *versions)
    made = folder / TENSOR_LIBRARY
    with paths.hold_lock(folder / "lock"):
        if made.exists():
            return made
        includes = [f"-I{path}" for path in [*torch_header_folders(), sysconfig.get_path("include")]]
        tools = ExtensionTools(nvcc, host, "", COLLECT_S)
        with tempfile.TemporaryDirectory(dir=folder) as building:
            arguments = [*HOST, *includes, "-c", str(source), "-o", "made.o"]
            done = run_compiler(host, arguments, Path(building), COLLECT_S, readable_folders(tools, ()))
            if done.code:
                raise InfraError(f"the tensor library does not compile with {host}: {done.text[-600:]}")
            link_extension(tools, ["made.o"], TENSOR_LIBRARY, Path(building))
            (Path(building) / TENSOR_LIBRARY).replace(made)
    return made
