"""The screen refuses what reaches outside and leaves honest text alone."""

import pytest

from evokernel.backends.cpp.screen import screen_rules
from evokernel.backends.native.screen import find_violations, pastes_tokens, preprocessor_tokens


def violations(text):
    return list(find_violations("kernel.cpp", text, screen_rules()))


@pytest.mark.parametrize(
    "text",
    [
        "// system(\"rm\"), asm, dlopen: only a comment\nint x;",
        "/* fopen\n mmap */ int x;",
        'static const char* words = "syscall asm fork";',
        'auto raw = R"x(asm "quoted" )" fork)x";',
        "char c = '\"'; // fopen\nint y;",
        "#include <cmath>\n#include <vector>\n#  include <omp.h>\n#include <immintrin.h>\n",
        "#pragma omp parallel for simd collapse(2)\n#pragma GCC unroll 4\n#pragma GCC ivdep\n",
        "#define TILE 64\n#if TILE > 32\n#error no\n#endif\n",
        "float time = 0, clock = 1, signal = 2; int read = 3, open = 4, thread = 5;",
        "struct Pool { void read(int); static int open(); }; void f(Pool p) { p.read(1); Pool::open(); }",
        "static void write(float* to, float value) { *to = value; }  void g(float* p) { write(p, 1); }",
        "int n = 1'000'000; float x = 1.5e-3f;",
        "int lines;\r\n// of Windows\r\nint more;\r\n",
        "__attribute__((always_inline)) inline float f(float x) { return x; }",
        "typedef float vec __attribute__((vector_size(32), aligned(4)));",
        "[[maybe_unused]] int a[2] = {0, 1}; int b = a[a[0]];",
        '__attribute__((visibility("default"))) int z;',
        "\ufeff#include <cstdio>\n#include <cmath>\n",
        "#if defined(__AVX512F__) || __GNUC__ >= 12 || defined(_OPENMP) && __cplusplus > 201402L\n#elif defined(__ARM_FEATURE_SVE)\n#endif",
        "#if __has_include(<omp.h>) && __has_builtin(__builtin_assume)\n#endif\n#\n#define MINE 2\n#if MINE > 1\n#endif",
        "#define __UNROLL 4\n#if __UNROLL > 2\n#endif\n#define JOIN(a, b) a##b\n#define SIMD _Pragma(\"omp simd\")",
        "#pragma GCC target(\"avx2\")\n#pragma GCC diagnostic push\n#pragma STDC FP_CONTRACT ON\n#pragma unroll(4)\n#pragma once",
        "float constructor = 1, section = 2, alias = 3; float q = a[constructor[section]];",
    ],
)  # fmt: skip
def test_honest_source_passes_the_screen(text):
    assert violations(text) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('asm("nop");', "asm"),
        ('int x; // a comment\rint y = system("ls");', "\\r"),
        ('void f() { __asm__ volatile("svc 0"); }', "__asm__"),
        ("int sys\\\ncall(int);", "syscall"),
        ("#include <fstream>", "fstream"),
        ('#include "/etc/passwd"', "/etc/passwd"),
        ("#include MACRO", "MACRO"),
        ("%:include <unistd.h>", "unistd.h"),
        ("#inc\\\nlude <dlfcn.h>", "dlfcn.h"),
        ("#include_next <cmath>", "include_next"),
        ("#pragma redefine_extname a b", "redefine_extname"),
        ("/* */ # /* */ include <thread>", "thread"),
        ("void f() { std::thread t; }", "thread"),
        ("long f() { return ::time(nullptr); }", "time"),
        ("std::chrono::steady_clock c;", "chrono"),
        ("double t = omp_get_wtime();", "omp_get_wtime"),
        ("[[gnu::constructor]] void f();", "constructor"),
        ('__attribute__((section(".init_array"))) int x;', "section"),
        ('__attribute__((visibility("default"), alias("f"))) void g();', "alias"),
        ("auto x = R\"(\n)\"; int y = fork();", "fork"),
        ("int \u0430sm;", "ASCII"),
        ("int a; \x1b[2J", "control character"),
        ("as\\\v\nm(\"nop\");", "asm"),
        ('auto t = R"(a)\\\n" )" asm("nop"); //";', "raw string"),
        ("#line 1 \"a.h\"", "line"),
        ("# 1 \"a.h\" 3", "#1"),
        ('_Pragma("redefine_extname a b")', "redefine_extname"),
        ('#pragma GCC dependency "/etc/passwd"', "dependency"),
        ("#ifdef __SANITIZE_ADDRESS__\n#endif", "__SANITIZE_ADDRESS__"),
        ("#if __SSP_STRONG__\n#endif", "conditions may only test"),
        ('#if __has_include("/etc/passwd")\n#endif', "/etc/passwd"),
        ("#define J(a, b) a##b\n#define W J(__SANI, TIZE__)\n#if W\n#endif\n#undef W\n#define W 1", "cannot expand"),
        ("char c = __TIME__[0];", "__TIME__"),
        ("__attribute__((no_sanitize(\"address\"))) void f();", "no_sanitize"),
        ("void* p = __builtin_return_address(0);", "__builtin_return_address"),
    ],
)  # fmt: skip
def test_forbidden_constructs_are_refused_and_named(text, word):
    assert any(word in line for line in violations(text)), violations(text)


def test_violations_name_the_line_of_the_source():
    text = "int a;\n#define X \\\n  1\n/* two\nlines */\nvoid f() { fork(); }\n"
    assert violations(text) == ["kernel.cpp line 6: `fork` gives access to other processes, which a kernel may not use"]


def test_large_tables_are_refused():
    assert "literals" in violations("float t[] = {" + "1.5f," * 5000 + "};")[0]
    assert "KiB" in violations("//" + "x" * 300_000)[0]


def test_token_pasting_is_detected_in_every_spelling():
    assert pastes_tokens("#define J(a, b) a##b")
    assert pastes_tokens("%:define J(a, b) a %:%: b")
    assert not pastes_tokens("// a##b\n#define S(a) #a\n")


def test_unterminated_source_is_still_screened():
    for text in ('"never closed', "/* never closed", "'", 'R"(never closed', "\\"):
        assert "".join(token.text for token in preprocessor_tokens(text)) == ("" if text.startswith("/*") else text)
