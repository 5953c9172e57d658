"""Compiles an operator project to a library for the simulator: host code and kernel separately, as with CANN, against the same headers."""

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
from platform import machine

from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.class_scope import rewrite_class_scope
from evokernel.backends.ascendc.entry import TYPES
from evokernel.backends.ascendc.object_checks import GM_SECTION, check_kernel_object
from evokernel.backends.ascendc.project import Project
from evokernel.backends.ascendc.scalar_functions import check_scalar_functions
from evokernel.backends.ascendc.screen import check_library_symbols, check_preprocessed
from evokernel.backends.native.diagnostics import raise_for_failed_compile
from evokernel.backends.native.screen import pastes_tokens
from evokernel.backends.native.toolchain import (
    cache_key,
    compiler_version_text,
    find_compiler,
    is_gcc,
    missing_compiler_message,
    precompiled,
    run_compiler,
)
from evokernel.core import paths
from evokernel.core.errors import CandidateError, InfraError, UserError

log = logging.getLogger(__name__)
SIMULATOR_FOLDER = Path(__file__).parent / "simulator"
OPERATOR_LIBRARY, RUNTIME_LIBRARY, SOURCE_FOLDER, BIND_FILE = "operator.so", "libsimulator.so", "project", "bind.cpp"
RUNTIME_TIMEOUT_S = 300.0
LANGUAGE_FLAGS = ("-std=c++17", "-fPIC", "-w", "-fdiagnostics-color=never", "-fmax-errors=8")
UNWIND_FLAGS = ("-fnon-call-exceptions", "-fasynchronous-unwind-tables")
"""An access to unmapped memory ends a kernel with an exception, thrown at the faulting instruction."""
FRAME_FLAGS = ("-fno-omit-frame-pointer",)
"""The simulator finds the line of an instruction by walking the frames."""
TRAPPING_MACHINES = ("x86_64", "AMD64")
DIVIDE_TRAP_FLAGS = () if machine() in TRAPPING_MACHINES else ("-fsanitize=integer-divide-by-zero", "-fsanitize-undefined-trap-on-error")
"""Some processors divide integers by zero without a trap. Where they trap, level `hardware` continues after the instruction."""
OPTIMIZE_FLAGS = ("-O2", "-ftree-vectorize", "-fno-math-errno", "-fno-trapping-math")
LINE_INFO_FLAGS = ("-g1", "-gdwarf-4", "-fno-var-tracking", "-fno-tree-tail-merge", "-fno-crossjumping", "-fno-partial-inlining")
"""Each violation must map to one source line, so the compiler must not merge equal branches. addr2line misreads the files of DWARF 5."""
KERNEL_FLAGS = (
    *LANGUAGE_FLAGS,
    *UNWIND_FLAGS,
    *FRAME_FLAGS,
    *DIVIDE_TRAP_FLAGS,
    *OPTIMIZE_FLAGS,
    *LINE_INFO_FLAGS,
    "-DSIMULATOR_KERNEL_TU",
)
HOST_FLAGS = (*LANGUAGE_FLAGS, *UNWIND_FLAGS, *DIVIDE_TRAP_FLAGS, *LINE_INFO_FLAGS, "-O1")
MIXED_KERNEL = re.compile(r"\bREGIST_MATMUL_OBJ\b|\bMatmul(?:Impl)?\s*<|\bKERNEL_TYPE_MIX_AIC_\w+|\bCrossCoreSetFlag\b|\bASCEND_IS_AIC\b")
CUBE_KERNEL = re.compile(r"\b(Mmad|Fixpipe|LoadData|ASCEND_IS_AIC|KERNEL_TYPE_AIC_ONLY)\b")
CUBE_ONLY_KERNEL = re.compile(r"\bKERNEL_TASK_TYPE_DEFAULT\s*\(\s*KERNEL_TYPE_AIC_ONLY\b")
"""Starts the cube cores alone: no time passes until vector cores and cube cores are together."""
CROSS_CORE_SYNC = re.compile(
    r"\b(SyncAll|CrossCoreSetFlag|CrossCoreWaitFlag|IBSet|IBWait|ffts_cross_core_sync|wait_flag_dev|NotifyNextBlock|WaitPreBlock)\b"
)
OP_DEF_INCLUDE = '#include "register/op_def_registry.h"\n'
AICORE_QUALIFIER = re.compile(r"\[\s*(?:(?:host|aicore)\s*,\s*)?(?:host|aicore)\s*\]")
"""CANN's compiler accepts this spelling of `__aicore__`; other compilers do not."""
CORE_CONSTANT = re.compile(r"=\s*g_coreType\b|<[^;{}()]*\bg_coreType\b|\bconstexpr\b[^;{}]*\bg_coreType\b|\b__DAV_C220_(?:CUBE|VEC)__\b")
"""A kernel that chooses code by the core at compile time. CANN compiles every kernel once for each kind of core."""
VECTOR_CORE = re.compile(r"\bAIV\b|\bASCEND_IS_AIV\b|\b__DAV_C220_VEC__\b|\bKERNEL_TYPE_MIX_AIC_1_[12]\b")
"""CANN finds the cores of a kernel by its code: one that names no vector core runs on cube cores only."""
CUBE_SUFFIX = "_on_cube"
CORE_FLAGS = ("-fno-weak",)
"""Without weak symbols, the instances of a template in the objects of the two cores stay apart."""
VECTOR_CORE_FLAGS = (*CORE_FLAGS, "-DSIMULATOR_CORE=1", "-D__DAV_C220_VEC__=1")
CUBE_CORE_FLAGS = (*CORE_FLAGS, "-DSIMULATOR_CORE=2", "-D__DAV_C220_CUBE__=1")


DTYPE_NUMBERS = {"DT_FLOAT": 0, "DT_FLOAT16": 1, "DT_INT8": 2, "DT_INT32": 3, "DT_UINT8": 4, "DT_INT16": 6, "DT_UINT16": 7, "DT_UINT32": 8}
DTYPE_NUMBERS |= {"DT_INT64": 9, "DT_UINT64": 10, "DT_DOUBLE": 11, "DT_BOOL": 12, "DT_COMPLEX64": 16, "DT_BF16": 27, "DT_INT4": 29}
KERNEL_LAUNCH = re.compile(r"\b\w+(?:<[^<>;]*>)?\s*<<<[^;{}]*?>>>\s*\([^;{}]*\)(?=\s*;)")
GM_VARIABLE = re.compile(
    r"(?<=[;{}\n])[ \t]*(?:(?:static|volatile|inline|extern|const|constexpr)\s+)*(?P<qualifier>__gm__)\s+[^;{}()=]*?\w\s*(?=[\[;={])"
)
LOCAL_VARIABLE, UNNAMED_NAMESPACE = re.compile(r"\b(?:static|inline|extern)\b"), re.compile(r"\bnamespace\s*\{")
C_LIBRARY_NAMES = """
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh div erf erfc exp exp2 expm1 fabs fdim floor fma fmax
    fmin fmod frexp gamma hypot ilogb index ldexp ldiv lgamma log log10 log1p log2 logb lround modf nan nearbyint pow remainder rint
    round scalbn select signbit sin sinh sqrt tan tanh tgamma trunc y0 y1 j0 j1"""
"""Operator names that collide with functions of the C library."""


def build(project: Project, workdir: Path, compiler: str = "", timeout_s: float = 120.0) -> None:
    """Write the operator library and the simulator library to `workdir`, or raise CandidateError with the compiler's first errors."""
    check_scalar_functions(project.files, project.kernel_file, project.host_files)
    compiler_path = find_compiler(compiler)
    if compiler_path is None:
        raise UserError(missing_compiler_message(compiler) or "no C++ compiler")
    runtime = ensure_runtime_library(compiler_path)
    root = workdir / SOURCE_FOLDER
    try:
        for name, text in project.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text if name in project.host_files else rewrite_for_gcc(text, project.entry))
        (workdir / "glue.cpp").write_text(glue_source(project))
        if project.bind_source:
            (root / BIND_FILE).write_text(project.bind_source)
        shutil.copy(runtime, workdir / RUNTIME_LIBRARY)
    except OSError as error:
        raise InfraError(f"cannot write to {workdir}: {error}") from error
    compile_and_link(compiler_path, project, workdir, timeout_s)
    check_library_symbols(workdir / OPERATOR_LIBRARY, workdir / RUNTIME_LIBRARY)


def rewrite_for_gcc(text: str, entry: str) -> str:
    """Remove the constructs of a kernel that only CANN's compiler accepts; line numbers do not change.

    A `<<<...>>>` launch belongs to programs that start the kernel directly, so a trap replaces its block. A kernel function with the name
    of a C library function gets another name.
    """
    plain = move_gm_variables(rewrite_class_scope(AICORE_QUALIFIER.sub("", text)))
    while launch := KERNEL_LAUNCH.search(strip_comments(plain)):
        start, end = enclosing_block_span(strip_comments(plain), launch.start(), launch.end())
        plain = plain[:start] + " AscendC::Trap(); " + "\n" * plain.count("\n", start, end) + plain[end:]
    if entry not in C_LIBRARY_NAMES.split():
        return plain
    return re.sub(rf"(\b__global__\b[^;{{}}()]*\s){entry}(\s*\()", rf"\g<1>{exported_entry_name(entry)}\g<2>", plain)


def move_gm_variables(text: str) -> str:
    """Put `__gm__` variables at file scope into a section of their own, which the simulator resets before every launch."""
    plain = strip_comments(text)
    for match in reversed(list(GM_VARIABLE.finditer(plain))):
        if not source_parser.is_at_file_scope(plain, match.start()) or re.search(r"\bconst(?:expr)?\b|\*", match[0]):
            continue
        start, end = match.span("qualifier")
        is_local = LOCAL_VARIABLE.search(match[0]) or UNNAMED_NAMESPACE.search(plain, 0, start)
        weak = "" if is_local else "weak, "  # the objects of the two kinds of core have one variable
        text = f'{text[:start]}__attribute__(({weak}section("{GM_SECTION}"))){text[end:]}'
    return text


def strip_comments(text: str) -> str:
    """The text with comments blanked out; every character keeps its position."""
    plain = source_parser.strip_inactive_code(text)
    return plain if len(plain) == len(text) else text


def enclosing_block_span(text: str, first: int, last: int) -> tuple[int, int]:
    """Start and end of the text between the braces around a position; the position itself if there are no braces."""
    depth, start, end = 0, first - 1, last
    while start >= 0 and (depth or text[start] != "{"):
        depth += (text[start] == "}") - (text[start] == "{")
        start -= 1
    while end < len(text) and (depth or text[end] != "}"):
        depth += (text[end] == "{") - (text[end] == "}")
        end += 1
    return (start + 1, end) if start >= 0 and end < len(text) else (first, last)


def exported_entry_name(entry: str) -> str:
    """Name of the kernel function in the library."""
    return f"{entry}_kernel" if entry in C_LIBRARY_NAMES.split() else entry


def compile_and_link(path: str, project: Project, workdir: Path, timeout_s: float) -> None:
    """Compile the sources, two at a time, and link one library."""
    folders_of = sorted({str(Path(SOURCE_FOLDER, name).parent) for name in project.files})
    places = [
        f"-I{SIMULATOR_FOLDER / 'include'}",
        f"-I{SIMULATOR_FOLDER / 'runtime'}",
        f"-I{SOURCE_FOLDER}",
        *(f"-I{folder}" for folder in folders_of),
    ]
    kernel_source = f"{SOURCE_FOLDER}/{project.kernel_file}"
    jobs: list[tuple[str, str, list[str]]] = []
    for entry, flags in kernel_entries(project).items():
        renamed = [] if entry == exported_entry_name(project.entry) else [f"-D{exported_entry_name(project.entry)}={entry}"]
        jobs.append((kernel_source, f"kernel{len(jobs)}.o", [*kernel_options(path, project, places, flags), *renamed]))
    kernel_count = len(jobs)
    for number, name in enumerate(project.host_files):
        jobs.append((f"{SOURCE_FOLDER}/{name}", f"host{number}.o", host_options(path, project.files[name], places)))
    jobs += [("glue.cpp", "glue.o", [*HOST_FLAGS, *places])]
    jobs += [(f"{SOURCE_FOLDER}/{BIND_FILE}", "bind.o", [*HOST_FLAGS, *places])] if project.bind_source else []
    texts = {f"{SOURCE_FOLDER}/{name}": text for name, text in project.files.items()} | {
        f"{SOURCE_FOLDER}/{BIND_FILE}": project.bind_source
    }

    is_pasted = any(pastes_tokens(text) for text in texts.values())

    def compile_source(job: tuple[str, str, list[str]]) -> None:
        source, object_file, options = job
        if is_pasted and source in texts:  # pasting can create names that the source text does not contain
            run_compiler(path, [*options, "-E", source, "-o", f"{object_file}.ii"], workdir, timeout_s, [SIMULATOR_FOLDER])
            check_preprocessed(
                (workdir / f"{object_file}.ii").read_text(errors="replace") if (workdir / f"{object_file}.ii").exists() else "", texts
            )
        result = run_compiler(path, [*options, "-c", source, "-o", object_file], workdir, timeout_s, [SIMULATOR_FOLDER])
        try:
            raise_for_failed_compile(result, workdir / object_file, texts, timeout_s)
        except CandidateError as error:
            raise add_name_hints(error, result.text) from error

    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(compile_source, jobs):
            pass
    for _, kernel_object, _ in jobs[:kernel_count]:
        check_kernel_object(workdir / kernel_object, [workdir / object_file for _, object_file, _ in jobs[kernel_count:]])
    link_command = [
        "-shared",
        "-o",
        OPERATOR_LIBRARY,
        *(object_file for _, object_file, _ in jobs),
        "-Wl,-z,relro,-z,now,-z,noexecstack,-z,text",
    ]
    raise_for_failed_compile(run_compiler(path, link_command, workdir, timeout_s), workdir / OPERATOR_LIBRARY, texts, timeout_s)


def kernel_entries(project: Project) -> dict[str, Sequence[str]]:
    """Names of the compiled kernel functions, with the compiler flags of each.

    There is one, unless the kernel chooses code by the core at compile time: then one for the vector cores, if the source names them, and
    one for the cube core.
    """
    kernel_files = [project.kernel_file, *source_parser.included_files(project.kernel_file, project.files)]
    text = "\n".join(source_parser.strip_inactive_code(project.files[name]) for name in kernel_files)
    entry = exported_entry_name(project.entry)
    if not CORE_CONSTANT.search(text):
        return {entry: ()}
    entries: dict[str, Sequence[str]] = {entry: VECTOR_CORE_FLAGS} if VECTOR_CORE.search(text) else {}
    return entries | {f"{entry}{CUBE_SUFFIX}": CUBE_CORE_FLAGS}


def kernel_options(path: str, project: Project, places: Sequence[str], core_flags: Sequence[str] = ()) -> list[str]:
    """Compiler options of the kernel: the precompiled API header, then the tiling header as CANN would include it."""
    flags = [*KERNEL_FLAGS, *core_flags]
    base = precompiled(path, [*flags, *places[:2]], '#include "kernel_operator.h"\n', [SIMULATOR_FOLDER], simulator_digest())
    options = [*flags, *places, "-include", base or "kernel_operator.h"]
    if project.tiling_header:
        options += ["-include", f"{SOURCE_FOLDER}/{project.tiling_header}"]
    if project.tiling_struct:
        options.append(f"-DSIMULATOR_TILING_STRUCT={project.tiling_struct}")
    return options + dtype_macros(project)


def host_options(path: str, text: str, places: Sequence[str]) -> list[str]:
    """Compiler options of host code. The operator definition header is precompiled, and added only if the source includes it."""
    base = (
        precompiled(path, [*HOST_FLAGS, *places[:2]], OP_DEF_INCLUDE, [SIMULATOR_FOLDER], simulator_digest())
        if OP_DEF_INCLUDE.strip() in source_parser.strip_inactive_code(text)
        else ""
    )
    return [*HOST_FLAGS, *places, *(["-include", base] if base else [])]


def dtype_macros(project: Project) -> list[str]:
    """Macros with element types and formats, as CANN defines them: C++ types, and numbers if the source tests them in #if."""
    text = "\n".join(text for name, text in project.files.items() if name not in project.host_files)
    macros = [f"-DDTYPE_{name}={kind}" for name, kind in project.dtypes.items()]
    if "ORIG_DTYPE_" in text:
        dt_names = {kind: code for code, kind in TYPES.values()}
        macros += [f"-D{name}={number}" for name, number in DTYPE_NUMBERS.items()]
        macros += [f"-DORIG_DTYPE_{name}={dt_names[kind]}" for name, kind in project.dtypes.items()]
    if re.search(r"\b(?:ORIG_)?FORMAT_", text):
        macros += ["-DFORMAT_ND=2", *(f"-D{word}_{name}=FORMAT_ND" for name in project.dtypes for word in ("FORMAT", "ORIG_FORMAT"))]
    return macros


def glue_source(project: Project) -> str:
    """C++ source that registers the kernel function and its properties with the simulator."""
    kernel = "\n".join(text for name, text in project.files.items() if name not in project.host_files)
    number = project.parameter_count
    arguments = ", ".join(f"static_cast<unsigned char*>(a[{i}])" for i in range(number))
    is_mix, on_cube = bool(MIXED_KERNEL.search(strip_comments(kernel))), bool(CUBE_KERNEL.search(kernel))
    meets, entry = bool(CROSS_CORE_SYNC.search(kernel)), exported_entry_name(project.entry)
    names = kernel_entries(project)
    cube_entry = next((name for name in names if name.endswith(CUBE_SUFFIX)), "")
    is_mix, on_cube = is_mix or len(names) == 2, on_cube or bool(cube_entry)
    calls = [f"call_{name}" if name in names else "nullptr" for name in (entry, cube_entry)]
    if CUBE_ONLY_KERNEL.search(strip_comments(kernel)):
        is_mix, on_cube, calls = False, True, ["nullptr", calls[1] if cube_entry else calls[0]]
    properties = f"{number}, {int(is_mix and entry in names)}, {int(on_cube)}, {int(meets)}"
    return "\n".join(
        [
            '#include "entry.h"',
            *(f'extern "C" void {name}({", ".join(["unsigned char*"] * number)});' for name in names),
            *(f"static void call_{name}(void** a) {{ {name}({arguments}); }}" for name in names),
            f'extern "C" __attribute__((weak, visibility("hidden"))) char __start_{GM_SECTION}[], __stop_{GM_SECTION}[];',
            f"static const bool registered = (simulator::entry() = {{{calls[0]}, {properties}, "
            f"__start_{GM_SECTION}, __stop_{GM_SECTION}, {calls[1]}}}, true);",
            "",
        ]
    )


@lru_cache
def simulator_digest() -> str:
    """SHA-256 of all files of the simulator."""
    digest = hashlib.sha256()
    for file in sorted(path for path in SIMULATOR_FOLDER.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(SIMULATOR_FOLDER)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def ensure_runtime_library(path: str) -> Path:
    """Path of the simulator library, which is compiled once per machine."""
    folder = paths.cache_folder() / "ascendc" / cache_key(simulator_digest(), compiler_version_text(path))
    library = folder / RUNTIME_LIBRARY
    if library.exists():
        return library
    try:
        with paths.hold_lock(folder / "lock"):  # another process may be compiling it
            if not library.exists():
                log.warning("compiling the Ascend C simulator, once on this machine: about 20 s")
                with tempfile.TemporaryDirectory(dir=folder) as building:
                    compile_runtime(path, Path(building))
                    (Path(building) / RUNTIME_LIBRARY).replace(library)
    except OSError as error:
        raise InfraError(f"cannot write to {folder}: {error}") from error
    return library


def compile_runtime(path: str, workdir: Path) -> None:
    """Compile the sources of the simulator, two at a time, and link the library."""
    options = [
        *LANGUAGE_FLAGS,
        *UNWIND_FLAGS,
        *FRAME_FLAGS,
        "-O3",
        f"-I{SIMULATOR_FOLDER / 'include'}",
        f"-I{SIMULATOR_FOLDER / 'runtime'}",
    ]
    sources = sorted((SIMULATOR_FOLDER / "runtime").glob("*.cpp"), key=lambda source: -source.stat().st_size)

    def run_step(arguments: Sequence[str]) -> None:
        result = run_compiler(path, [*options, *arguments], workdir, RUNTIME_TIMEOUT_S, [SIMULATOR_FOLDER])
        if result.code:
            raise InfraError(f"The simulator does not compile with {path}: {result.text[-800:]}")

    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(run_step, [["-c", str(source), "-o", f"{source.stem}.o"] for source in sources]):
            pass
    run_step(["-shared", *(f"{source.stem}.o" for source in sources), "-o", RUNTIME_LIBRARY, "-ldl"])


def add_name_hints(error: CandidateError, text: str) -> CandidateError:
    """Add the existing API names to a compiler error about unknown names."""
    from evokernel.backends.ascendc.api_names import suggest_names

    more = suggest_names(text)
    return CandidateError(error.reason, "\n".join([error.detail, *more])) if more else error


def can_precompile_headers(path: str) -> bool:
    """Whether this compiler can precompile headers. Without that, every candidate takes seconds longer."""
    return is_gcc(path)
