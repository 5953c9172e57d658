"""What backends that compile C++ share: errors in several files, headers compiled once, rules with a backend's own added."""

import os
import signal

import pytest

from evokernel.backends.native import diagnostics, screen, toolchain
from evokernel.core import plugins
from evokernel.core.errors import CandidateError

OWN = """
[headers]
added = "blocks.h"
quoted = ['kernel_operator\\.h', 'register/\\w+\\.h']
allowed = "the headers of this test"
[directives]
conditions = ['__CCE_\\w+']
[names]
free = "printf"
[reaches]
"the simulator" = "simulator"
[forms]
"the simulator's internals" = 'simulator_\\w+'
[symbols]
allowed = ['own_call']
"""
FILES = ("op_host/tiling.h", "op_kernel/kernel.cpp")


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "screen.toml"
    path.write_text(OWN)
    return screen.read_rules(path)


def violations(text, rules, name="op_kernel/kernel.cpp"):
    return list(screen.find_violations(name, text, rules, FILES))


def test_native_is_not_a_plugin():
    assert "native" not in plugins.plugin_names("backend")


@pytest.mark.parametrize(
    "text",
    [
        '#include "kernel_operator.h"\n#include "register/op_def_registry.h"\n#include <cmath>\n#include <blocks.h>',
        '#include "tiling.h"\n#include "op_host/tiling.h"\n#include "../op_host/tiling.h"',
        '#if __has_include("tiling.h")\n#endif\n#ifdef __CCE_AICORE__\n#endif',
        'void f() { printf("%d", 1); }',
    ],
)
def test_backend_rules_can_allow_more(text, rules):
    assert violations(text, rules) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('#include "core.h"', "only the headers of this test"),
        ('#include "../../op_host/tiling.h"', "is not allowed"),
        ('#include "/op_host/tiling.h"', "is not allowed"),
        ('#include ""', "is not allowed"),
        ("#include <tiling.h>", "is not allowed"),
        ("#include <omp.h>", "is not allowed"),
        ('#if __has_include("secret.h")\n#endif', "secret.h"),
        ("void f() { simulator::stop(); }", "the simulator"),
        ("int x = simulator_error();", "the simulator's internals"),
        ("void f() { puts(nullptr); ::puts(nullptr); }", "the terminal"),
    ],
)
def test_backend_rules_can_refuse_more(text, words, rules):
    assert any(words in line for line in violations(text, rules)), violations(text, rules)


def test_backend_rules_extend_allowed_symbols(rules):
    assert rules.allowed_symbols.fullmatch("own_call")
    assert rules.allowed_symbols.fullmatch("memcpy")
    assert not rules.allowed_symbols.fullmatch("GOMP_parallel")


def test_only_the_candidates_part_of_expanded_text_is_screened(rules):
    expanded = '# 1 "/usr/include/a.h"\nint simulator_a;\n# 1 "op_kernel/kernel.cpp"\nint simulator_b;\n'
    assert screen.check_expanded_text(expanded, rules, FILES) == [
        "`simulator_b` gives access to the simulator's internals, which a kernel may not use"
    ]


def test_errors_name_the_file_if_there_are_several():
    text = (
        "/tmp/w/op_kernel/kernel.cpp:2:1: error: first\n    2 | b\n      | ^\n"
        "op_host/tiling.h:1:1: error: second\n/package/simulator/queue.h:7:1: error: third\n"
    )
    sources = {"op_kernel/kernel.cpp": "a\nb\n", "op_host/tiling.h": "c\n"}
    said = diagnostics.summarize_errors(text, sources).splitlines()
    assert said[:3] == ["op_kernel/kernel.cpp line 2: error: first", "    b", "    ^"]
    assert said[3:] == ["op_host/tiling.h line 1: error: second", "    c", "queue.h: error: third"]
    alone = diagnostics.summarize_errors(text, {"op_kernel/kernel.cpp": "a\nb\n"}).splitlines()
    assert alone[0] == "line 2: error: first"
    assert "tiling.h: error: second" in alone


def test_longest_matching_file_name_wins():
    sources = {"tiling.h": "outer\n", "op_host/tiling.h": "inner\n"}
    assert "inner" in diagnostics.summarize_errors("/w/op_host/tiling.h:1:1: error: x\n", sources)


def gcc():
    path = toolchain.find_compiler("")
    return path if path and toolchain.is_gcc(path) else None


@pytest.mark.toolchain
@pytest.mark.skipif(gcc() is None, reason="needs g++")
def test_header_is_precompiled_once_per_content(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    include, work = tmp_path / "include", tmp_path / "work"
    for folder in (include, work):
        folder.mkdir()
    (include / "given.h").write_text("inline int given() { return 3; }\n")
    (work / "a.cpp").write_text("int main() { return given(); }\n")
    options, text = ["-std=c++17", "-I", str(include)], '#include "given.h"\n'
    first = toolchain.precompiled(gcc(), options, text, [include], "one")
    assert first == toolchain.precompiled(gcc(), options, text, [include], "one")
    assert (
        len({first, toolchain.precompiled(gcc(), options, text, [include], "two"), toolchain.precompiled(gcc(), options, "int a;\n")}) == 3
    )
    done = toolchain.run_compiler(gcc(), [*options, "-include", first, "a.cpp", "-o", "a"], work, 60, [include])
    assert done.code == 0, done.text
    assert os.waitstatus_to_exitcode(os.system(str(work / "a"))) == 3


@pytest.mark.toolchain
@pytest.mark.skipif(gcc() is None, reason="needs g++")
def test_header_that_does_not_compile_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path))
    assert toolchain.precompiled(gcc(), ["-std=c++17"], '#include "nowhere.h"\n') is None


@pytest.mark.parametrize(
    ("sent", "reason"), [(signal.SIGSEGV, "compile_error"), (signal.SIGABRT, "compile_error"), (signal.SIGKILL, "killed")]
)
def test_compiler_that_crashes_is_told_from_one_that_is_killed(sent, reason, tmp_path):
    with pytest.raises(CandidateError) as error:
        diagnostics.raise_for_failed_compile(toolchain.CompilerRun(-sent, ""), tmp_path / "kernel.so", {}, 60)
    assert error.value.reason == reason
