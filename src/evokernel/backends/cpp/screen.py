"""First look at the text, for what has no place in a kernel. The symbols of the built object are looked at as well, and those do not lie."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LIMIT_BYTES = 256 << 10
LITERALS = 4096

HEADERS = frozenset(
    "algorithm array atomic bit bitset cassert cfenv cfloat charconv cinttypes climits cmath complex concepts cstddef cstdint cstdlib cstring "
    "deque exception forward_list functional initializer_list iterator limits list map memory new numbers numeric optional queue random ratio set "
    "span stack stdexcept string string_view tuple type_traits typeinfo unordered_map unordered_set utility valarray variant vector version "
    "assert.h complex.h fenv.h float.h inttypes.h limits.h math.h stdbool.h stddef.h stdint.h stdlib.h string.h tgmath.h omp.h "
    "immintrin.h x86intrin.h xmmintrin.h emmintrin.h pmmintrin.h tmmintrin.h smmintrin.h nmmintrin.h avxintrin.h avx2intrin.h fmaintrin.h "
    "arm_neon.h arm_sve.h arm_fp16.h arm_bf16.h arm_acle.h altivec.h riscv_vector.h".split()
)

# Words by what they reach for. As identifiers only: in a comment or a string they harm nobody.
REACHES = {
    "inline assembly": "asm __asm __asm__",
    "the operating system": "syscall ioctl prctl ptrace mmap munmap mprotect mremap shm_open memfd_create process_vm_readv process_vm_writev seccomp "
    "setrlimit prlimit sched_setaffinity sched_setscheduler setpriority getpid getppid",
    "other processes": "fork vfork clone clone3 execl execlp execle execv execvp execvpe execve fexecve posix_spawn posix_spawnp system popen wait4 waitpid "
    "kill tgkill raise killpg daemon setsid",
    "other libraries": "dlopen dlmopen dlsym dlvsym dladdr dl_iterate_phdr __libc_dlopen_mode __libc_dlsym",
    "files": "fopen fdopen freopen open openat open64 creat fread fwrite fgets fputs fprintf fscanf read write pread pwrite lseek fstream ifstream ofstream "
    "filebuf basic_filebuf filesystem FILE tmpfile mkstemp unlink rename readlink opendir sendfile",
    "the terminal": "printf vprintf puts putchar scanf getchar gets cout cerr clog cin stdout stderr stdin perror",
    "the network": "socket connect bind listen accept accept4 sendto recvfrom sendmsg recvmsg getaddrinfo gethostbyname",
    "threads other than OpenMP's": "pthread_create thrd_create jthread async pthread_atfork pthread_cancel",
    "the environment": "getenv secure_getenv setenv putenv unsetenv clearenv environ __environ getauxval",
    "clocks": "clock_gettime clock_nanosleep gettimeofday nanosleep usleep chrono steady_clock system_clock high_resolution_clock "
    "omp_get_wtime omp_get_wtick __rdtsc __rdtscp _rdtsc __builtin_ia32_rdtsc __builtin_ia32_rdtscp __builtin_readcyclecounter times getrusage",
    "signals and jumps": "sigaction sigaltstack setjmp sigsetjmp _setjmp longjmp siglongjmp __builtin_setjmp __builtin_longjmp __builtin_eh_return",
    "the end of the process": "exit _exit _Exit quick_exit atexit at_quick_exit on_exit __cxa_atexit",
    "the judge's switches": "omp_set_num_threads fesetround fesetenv feenableexcept _mm_setcsr __builtin_ia32_ldmxcsr __builtin_aarch64_set_fpcr",
}
WORDS = {word: what for what, words in REACHES.items() for word in words.split()}
CALLED_ONLY = frozenset(
    "open read write kill raise bind listen accept connect socket clone system async exit rename times daemon gets puts environ creat".split()
)
"""Words that are plausible names of variables too: refused when called, or reached through `::`."""

ATTRIBUTES = frozenset(
    "constructor __constructor__ destructor __destructor__ section __section__ ifunc __ifunc__ alias __alias__ weakref __weakref__ weak __weak__ "
    "visibility __visibility__ init_priority __init_priority__ symver __symver__ naked __naked__".split()
)
DIRECTIVES = frozenset("include define undef if ifdef ifndef elif else endif pragma error warning line".split())
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(\*/|\Z))
      | (?P<raw>(u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?(\)(?P=delimiter)"|\Z))
      | (?P<string>(u8|[uUL])?"([^"\\\n]|\\.)*("|$))
      | (?P<char>(u8|[uUL])?'([^'\\\n]|\\.)*('|$))
      | (?P<number>\.?\d([eEpP][+-]|'?[\w.])*)
      | (?P<word>[^\W\d]\w*)
      | (?P<newline>\n)
      | (?P<space>[^\S\n]+)
      | (?P<sign>%:%:|%:|\#\#|\#|::|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
KINDS = ("comment", "raw", "string", "char", "number", "word", "newline", "space", "sign")


class Token(NamedTuple):
    """One token of the text, comments and blanks left out."""

    kind: str
    text: str
    line: int


def tokens(source: str) -> Iterator[Token]:
    """The text as the compiler reads it: lines joined first, comments gone, strings whole."""
    text, joints = join_lines(source)
    line = 1
    for match in TOKEN.finditer(text):
        kind = next(name for name in KINDS if match[name] is not None)
        if kind not in ("comment", "space"):
            yield Token("string" if kind == "raw" else kind, match[0].replace("%:", "#"), line + bisect_right(joints, match.start()))
        line += match[0].count("\n")


def join_lines(source: str) -> tuple[str, list[int]]:
    """The text without escaped line ends, and where in it they were."""
    pieces = re.split(r"\\[ \t]*\r?\n", source)
    joints, at = [], 0
    for piece in pieces[:-1]:
        at += len(piece)
        joints.append(at)
    return "".join(pieces), joints


def findings(name: str, source: str) -> Iterator[str]:
    """What has no place in a kernel, each with its line."""
    if len(source.encode()) > LIMIT_BYTES:
        yield f"{name} is longer than {LIMIT_BYTES >> 10} KiB: compute what a table would hold"
        return
    found = list(tokens(source))
    if sum(token.kind == "number" for token in found) > LITERALS:
        yield f"{name} holds more than {LITERALS} number literals: compute what a table would hold"
    for token in found:
        if token.kind in ("word", "sign") and not token.text.isascii():
            yield f"{name} line {token.line}: {token.text!r} is not ASCII"
    yield from (f"{name} line {at}: {what}" for at, what in sorted({*directives(source), *words(found), *attributes(found)}))


def directives(source: str) -> Iterator[tuple[int, str]]:
    """Preprocessor lines that reach outside: unknown headers, paths, anything but the common directives."""
    line: list[Token] = []
    for token in [*tokens(source), Token("newline", "\n", 0)]:
        if token.kind != "newline":
            line.append(token)
            continue
        if len(line) > 1 and line[0].text == "#":
            number, word = line[0].line, line[1].text
            if line[1].kind == "word" and word not in DIRECTIVES:
                yield number, f"#{word} is not allowed"
            elif word == "include":
                header = "".join(part.text for part in line[2:])
                if not (header.startswith("<") and header.strip("<>") in HEADERS):
                    yield (
                        number,
                        f"#include {header} is not allowed: only standard headers for mathematics and containers, <omp.h> and intrinsics",
                    )
            elif (
                word == "pragma"
                and len(line) > 2
                and line[2].text in ("weak", "redefine_extname", "extern_prefix", "push_macro", "pop_macro")
            ):
                yield number, f"#pragma {line[2].text} is not allowed"
        line = []


def words(found: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Identifiers that reach for something a kernel does not need."""
    code = [token for token in found if token.kind != "newline"]
    for index, token in enumerate(code):
        what = WORDS.get(token.text) if token.kind == "word" else None
        if what is None:
            continue
        before = code[index - 1].text if index else ""
        after = code[index + 1].text if index + 1 < len(code) else ""
        if token.text in CALLED_ONLY and (before == "." or (after != "(" and before != "::")):
            continue
        yield token.line, f"`{token.text}` reaches for {what}"


def attributes(found: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Attributes that run code while loading, or move, rename or export it."""
    code = [token for token in found if token.kind != "newline"]
    depth, inside = 0, False
    for index, token in enumerate(code):
        following = code[index + 1].text if index + 1 < len(code) else ""
        if token.text in ("__attribute__", "__attribute", "__declspec") or (token.text == "[" and following == "["):
            inside, depth = True, 0
        if inside:
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
            if token.text in ATTRIBUTES and not is_default_visibility(code[index : index + 3]):
                yield token.line, f"the attribute {token.text} is not allowed"
            inside = depth > 0 or token.text.startswith("__") or token.text == "["


def is_default_visibility(code: Sequence[Token]) -> bool:
    """`visibility("default")` is harmless: only the entry point is exported, whatever else asks for it."""
    return [token.text for token in code] == ["visibility", "(", '"default"']


def pastes_tokens(source: str) -> bool:
    """Whether macros could spell words that the text does not hold."""
    return any(token.text == "##" for token in tokens(source))


def unwanted_words(expanded: str) -> list[str]:
    """The words refused in text that the preprocessor has expanded."""
    return [what for _, what in words(list(tokens(expanded)))]
