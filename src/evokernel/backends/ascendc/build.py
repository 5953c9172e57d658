"""An operator project to one library for the twin: host side and kernel are compiled apart, as with CANN, against headers of its names."""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.entry import TYPES
from evokernel.backends.ascendc.object_checks import check_kernel
from evokernel.backends.ascendc.project import Project
from evokernel.backends.ascendc.screen import check_expanded, check_object
from evokernel.backends.native.diagnostics import refuse_failed
from evokernel.backends.native.screen import pastes_tokens
from evokernel.backends.native.toolchain import compile, find, is_gcc, key_of, missing, precompiled, version_text
from evokernel.core import paths
from evokernel.core.errors import CandidateError, InfraError, UserError

log = logging.getLogger(__name__)
TWIN = Path(__file__).parent / "twin"
LIBRARY, RUNTIME, SOURCES, BIND = "operator.so", "libtwin.so", "project", "bind.cpp"
RUNTIME_S = 300.0
LANGUAGE = ("-std=c++17", "-fPIC", "-w", "-fdiagnostics-color=never", "-fmax-errors=8")
UNWINDING = ("-fnon-call-exceptions", "-fasynchronous-unwind-tables")
"""An access to memory that is not there ends a kernel by an exception, thrown where it happened."""
DIVISION = ("-fsanitize=integer-divide-by-zero", "-fsanitize-undefined-trap-on-error")
"""Some processors divide by zero without a word."""
OPTIMISED = ("-O2", "-ftree-vectorize", "-fno-math-errno", "-fno-trapping-math")
PLACED = ("-g1", "-gdwarf-4", "-fno-tree-tail-merge", "-fno-crossjumping", "-fno-partial-inlining")
"""Each broken rule has a line of its own: equal ends of two branches stay two. addr2line mistakes the files of DWARF 5."""
KERNEL = (*LANGUAGE, *UNWINDING, *DIVISION, *OPTIMISED, *PLACED, "-DTWIN_KERNEL_TU")
HOST = (*LANGUAGE, *UNWINDING, *DIVISION, *PLACED, "-O1")
MIXED = re.compile(r"\bREGIST_MATMUL_OBJ\b|\bKERNEL_TYPE_MIX_AIC_\w+|\bCrossCoreSetFlag\b|\bASCEND_IS_AIC\b")
CUBE = re.compile(r"\b(Mmad|Fixpipe|LoadData|ASCEND_IS_AIC|KERNEL_TYPE_AIC_ONLY)\b")
MEETING = re.compile(
    r"\b(SyncAll|CrossCoreSetFlag|CrossCoreWaitFlag|IBSet|IBWait|ffts_cross_core_sync|wait_flag_dev|NotifyNextBlock|WaitPreBlock)\b"
)
DEFINITION = '#include "register/op_def_registry.h"\n'
QUALIFIER = re.compile(r"\[\s*aicore\s*\]")
"""How CANN's own compiler lets `__aicore__` be written; no other does."""


NUMBERED = {"DT_FLOAT": 0, "DT_FLOAT16": 1, "DT_INT8": 2, "DT_INT32": 3, "DT_UINT8": 4, "DT_INT16": 6, "DT_UINT16": 7, "DT_UINT32": 8}
NUMBERED |= {"DT_INT64": 9, "DT_UINT64": 10, "DT_DOUBLE": 11, "DT_BOOL": 12, "DT_BF16": 27, "DT_INT4": 29}
LAUNCH = re.compile(r"\b\w+(?:<[^<>;]*>)?\s*<<<[^;{}]*?>>>\s*\([^;{}]*\)(?=\s*;)")
C_NAMES = """abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh div erf erfc exp exp2 expm1 fabs fdim floor fma fmax
    fmin fmod frexp gamma hypot ilogb index ldexp ldiv lgamma log log10 log1p log2 logb lround modf nan nearbyint pow remainder rint
    round scalbn select signbit sin sinh sqrt tan tanh tgamma trunc y0 y1 j0 j1"""
"""Operators that are called like functions which a standard header declares."""


def build(project: Project, workdir: Path, compiler: str = "", timeout_s: float = 120.0) -> None:
    """Leaves the operator and the twin it runs on in `workdir`, or raises CandidateError with the compiler's first errors."""
    path = find(compiler)
    if path is None:
        raise UserError(missing(compiler) or "no C++ compiler")
    runtime = runtime_library(path)
    root = workdir / SOURCES
    try:
        for name, text in project.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text if name in project.hosts else for_gcc(text, project.entry))
        (workdir / "glue.cpp").write_text(glue(project))
        if project.bind:
            (root / BIND).write_text(project.bind)
        shutil.copy(runtime, workdir / RUNTIME)
    except OSError as error:
        raise InfraError(f"cannot write to {workdir}: {error}") from error
    compile_all(path, project, workdir, timeout_s)
    check_object(workdir / LIBRARY, workdir / RUNTIME)


def for_gcc(text: str, entry: str) -> str:
    """A kernel's text without what only CANN's compiler takes; lines stay where they are. A launch in it is for programs that start the
    kernel themselves: here nobody calls it. An entry that is called like a function of C's gets another name, its calls of C do not."""
    plain = QUALIFIER.sub("", text)
    while launch := LAUNCH.search(seen(plain)):
        start, end = block(seen(plain), launch.start(), launch.end())
        plain = plain[:start] + " AscendC::Trap(); " + "\n" * plain.count("\n", start, end) + plain[end:]
    if entry not in C_NAMES.split():
        return plain
    return re.sub(rf"(\b__global__\b[^;{{}}()]*\s){entry}(\s*\()", rf"\g<1>{own_name(entry)}\g<2>", plain)


def seen(text: str) -> str:
    """The text without its comments, every character where it was."""
    plain = source_parser.code(text)
    return plain if len(plain) == len(text) else text


def block(text: str, first: int, last: int) -> tuple[int, int]:
    """What stands between the braces around a place, or the place itself where there are none."""
    depth, start, end = 0, first - 1, last
    while start >= 0 and (depth or text[start] != "{"):
        depth += (text[start] == "}") - (text[start] == "{")
        start -= 1
    while end < len(text) and (depth or text[end] != "}"):
        depth += (text[end] == "{") - (text[end] == "}")
        end += 1
    return (start + 1, end) if start >= 0 and end < len(text) else (first, last)


def own_name(entry: str) -> str:
    """What the kernel's function is called in the library."""
    return f"{entry}_kernel" if entry in C_NAMES.split() else entry


def compile_all(path: str, project: Project, workdir: Path, timeout_s: float) -> None:
    """Every source by itself, two at a time, then one library."""
    folders_of = sorted({str(Path(SOURCES, name).parent) for name in project.files})
    places = [f"-I{TWIN / 'include'}", f"-I{TWIN / 'runtime'}", f"-I{SOURCES}", *(f"-I{folder}" for folder in folders_of)]
    jobs = [(f"{SOURCES}/{project.kernel}", "kernel.o", kernel_options(path, project, places))]
    for number, name in enumerate(project.hosts):
        jobs.append((f"{SOURCES}/{name}", f"host{number}.o", host_options(path, project.files[name], places)))
    jobs += [("glue.cpp", "glue.o", [*HOST, *places])]
    jobs += [(f"{SOURCES}/{BIND}", "bind.o", [*HOST, *places])] if project.bind else []
    texts = {f"{SOURCES}/{name}": text for name, text in project.files.items()} | {f"{SOURCES}/{BIND}": project.bind}

    is_pasted = any(pastes_tokens(text) for text in texts.values())

    def one(job: tuple[str, str, list[str]]) -> None:
        source, made, options = job
        if is_pasted and source in texts:  # words that the text does not hold
            compile(path, [*options, "-E", source, "-o", f"{made}.ii"], workdir, timeout_s, [TWIN])
            check_expanded((workdir / f"{made}.ii").read_text(errors="replace") if (workdir / f"{made}.ii").exists() else "", texts)
        done = compile(path, [*options, "-c", source, "-o", made], workdir, timeout_s, [TWIN])
        try:
            refuse_failed(done, workdir / made, texts, timeout_s)
        except CandidateError as error:
            raise explained(error, done.text) from error

    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(one, jobs):
            pass
    check_kernel(workdir / jobs[0][1], [workdir / made for _, made, _ in jobs[1:]])
    linked = ["-shared", "-o", LIBRARY, *(made for _, made, _ in jobs), "-Wl,-z,relro,-z,now,-z,noexecstack,-z,text"]
    refuse_failed(compile(path, linked, workdir, timeout_s), workdir / LIBRARY, texts, timeout_s)


def kernel_options(path: str, project: Project, places: Sequence[str]) -> list[str]:
    """For the kernel: the API first, from a header that is compiled once per machine, then what CANN would show it of the tiling."""
    base = precompiled(path, [*KERNEL, *places[:2]], '#include "kernel_operator.h"\n', [TWIN], contents())
    found = [*KERNEL, *places, "-include", base or "kernel_operator.h"]
    if project.header:
        found += ["-include", f"{SOURCES}/{project.header}"]
    if project.tiling:
        found.append(f"-DTWIN_TILING_STRUCT={project.tiling}")
    return found + told_types(project)


def host_options(path: str, text: str, places: Sequence[str]) -> list[str]:
    """For the host side: what it includes of the definition of operators comes precompiled; what it does not include stays unknown."""
    base = precompiled(path, [*HOST, *places[:2]], DEFINITION, [TWIN], contents()) if DEFINITION.strip() in source_parser.code(text) else ""
    return [*HOST, *places, *(["-include", base] if base else [])]


def told_types(project: Project) -> list[str]:
    """The element types and formats as CANN tells a kernel: as C++ types, and as numbers for its preprocessor where it asks."""
    text = "\n".join(text for name, text in project.files.items() if name not in project.hosts)
    found = [f"-DDTYPE_{name}={kind}" for name, kind in project.dtypes.items()]
    if "ORIG_DTYPE_" in text:
        called = {kind: code for code, kind in TYPES.values()}
        found += [f"-D{name}={number}" for name, number in NUMBERED.items()]
        found += [f"-DORIG_DTYPE_{name}={called[kind]}" for name, kind in project.dtypes.items()]
    if re.search(r"\b(?:ORIG_)?FORMAT_", text):
        found += ["-DFORMAT_ND=2", *(f"-D{word}_{name}=FORMAT_ND" for name in project.dtypes for word in ("FORMAT", "ORIG_FORMAT"))]
    return found


def glue(project: Project) -> str:
    """What tells the twin where the kernel is, and what it needs to be run."""
    kernel = "\n".join(text for name, text in project.files.items() if name not in project.hosts)
    number = project.parameters
    passed = ", ".join(f"static_cast<unsigned char*>(a[{i}])" for i in range(number))
    is_mix, on_cube = bool(MIXED.search(kernel)), bool(CUBE.search(kernel))
    meets, entry = bool(MEETING.search(kernel)), own_name(project.entry)
    return "\n".join(
        [
            '#include "entry.h"',
            f'extern "C" void {entry}({", ".join(["unsigned char*"] * number)});',
            f"static void call(void** a) {{ {entry}({passed}); }}",
            f"static const bool known = (twin::entry() = {{call, {number}, {int(is_mix)}, {int(on_cube)}, {int(meets)}}}, true);",
            "",
        ]
    )


@lru_cache
def contents() -> str:
    """Stands for every file of the twin."""
    digest = hashlib.sha256()
    for file in sorted(path for path in TWIN.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(TWIN)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def runtime_library(path: str) -> Path:
    """The twin's own library, compiled once per machine."""
    folder = paths.cache_folder() / "ascendc" / key_of(contents(), version_text(path))
    made = folder / RUNTIME
    if made.exists():
        return made
    try:
        with paths.hold_lock(folder / "lock"):  # for whoever comes while another compiles it
            if not made.exists():
                log.warning("the twin of the device is compiled, once on this machine: some 20 s")
                with tempfile.TemporaryDirectory(dir=folder) as building:
                    compile_runtime(path, Path(building))
                    (Path(building) / RUNTIME).replace(made)
    except OSError as error:
        raise InfraError(f"cannot write to {folder}: {error}") from error
    return made


def compile_runtime(path: str, workdir: Path) -> None:
    """Its sources two at a time, then the library."""
    options = [*LANGUAGE, *UNWINDING, "-O2", f"-I{TWIN / 'include'}", f"-I{TWIN / 'runtime'}"]
    sources = sorted((TWIN / "runtime").glob("*.cpp"), key=lambda source: -source.stat().st_size)

    def one(arguments: Sequence[str]) -> None:
        done = compile(path, [*options, *arguments], workdir, RUNTIME_S, [TWIN])
        if done.code:
            raise InfraError(f"the twin does not compile with {path}: {done.text[-800:]}")

    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(one, [["-c", str(source), "-o", f"{source.stem}.o"] for source in sources]):
            pass
    one(["-shared", *(f"{source.stem}.o" for source in sources), "-o", RUNTIME, "-ldl"])


def explained(error: CandidateError, text: str) -> CandidateError:
    """A compiler's error with the name that was meant, where there is none of that name."""
    from evokernel.backends.ascendc.api_names import meant

    more = meant(text)
    return CandidateError(error.reason, "\n".join([error.detail, *more])) if more else error


def can_compile(path: str) -> bool:
    """Whether headers are precompiled with this compiler: without, every candidate takes seconds longer."""
    return is_gcc(path)
