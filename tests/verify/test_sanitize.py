"""The sanitizer gate: faults that values do not show are found, named and shown where they are; honest kernels pass."""

import os
import re
import shutil
import stat
from pathlib import Path

import pytest
from sampling import one_in

from evokernel.backends.cpp import sanitizer_build
from evokernel.backends.cpp.backend import CppBackend
from evokernel.backends.native import toolchain
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate, Job
from evokernel.tasks.loader import load
from evokernel.verify import sanitize, verify
from evokernel.verify.trial import Trial

HERE = Path(__file__).parent
CODE = (HERE / "watched_faults.cpp").read_text()
pytestmark = pytest.mark.skipif(not CppBackend().sanitizer().is_available, reason=CppBackend().sanitizer().detail)
FAULTS = {
    "reads 8 bytes past the end of `x`": (1, "out_of_bounds"),
    "reads 4 bytes before the start of `x`": (2, "out_of_bounds"),
    "reads past the end of `out`": (3, "out_of_bounds"),
    "reads past the end of `x_shape`": (4, "out_of_bounds"),
    "writes past the end of the local array `local`": (5, "out_of_bounds"),
    "writes past the end of the static array `table`": (6, "out_of_bounds"),
    "writes past the end of memory it allocated": (7, "out_of_bounds"),
    "reads memory that was freed": (8, "use_after_free"),
    "reads a local variable of a function that has returned": (9, "use_after_free"),
    "division by zero": (10, "undefined"),
    "shift exponent 32 is too large for 32-bit type 'int'": (11, "undefined"),
    "an index out of bounds for type 'float [32]'": (12, "out_of_bounds"),
    "without returning a value": (13, "undefined"),
    "1 of 2048 elements": (14, "undefined"),
    "the kernel gives other results": (15, "undefined"),
    "every call leaves memory allocated": (16, "leak"),
    "asks for more memory than it may use": (17, "memory"),
    "reads past the end of `x` (an access of 16 bytes)": (18, "out_of_bounds"),
}


@pytest.fixture(scope="module")
def numbered():
    """Doubling, with a number that tells the kernel which fault to commit."""
    return load(str(HERE / "doubling_with_a_number.py"))[0]


@pytest.fixture(scope="module")
def built(numbered, tmp_path_factory):
    """The instrumented kernel with all faults in it."""
    folder = tmp_path_factory.mktemp("watched")
    return folder, CppBackend().build_sanitized(numbered, job_of(numbered, CODE).candidate, folder)


def job_of(task, code, **settings):
    return Job(backend="cpp", task=task, candidate=Candidate(backend="cpp", files={"kernel.cpp": code}), clock="synthetic", **settings)


def commit(fault, task, built):
    """The gate's second half, on a kernel that is taken for right."""
    with Trial(job_of(task, CODE), CppBackend(), built[0]) as trial:
        trial.case("small", 0)
        for case in trial.drawn["small"]:
            case.scalars = (("fault", "int", fault),)
        sanitize.run(trial, *built)
        return trial.skipped_checks


@pytest.mark.parametrize(("words", "fault", "reason"), one_in(3, [(words, *found) for words, found in FAULTS.items()]))
def test_a_fault_is_found_and_shown(numbered, built, words, fault, reason):
    if fault == 9 and "detect_stack_use_after_return=0" in built[1]["ASAN_OPTIONS"]:
        pytest.skip("this compiler cannot keep frames")
    with pytest.raises(CandidateError) as caught:
        commit(fault, numbered, built)
    found = caught.value
    assert (found.reason, words in found.detail) == (reason, True), found.detail
    assert not re.search(r"(^|\s)/\w|0x[0-9a-f]{6}", found.detail), found.detail
    if at := [number for number, line in enumerate(CODE.splitlines(), 1) if line.endswith(f"// fault {fault}")]:
        assert re.search(rf"^line {at[0]}: ", found.detail, re.MULTILINE), found.detail


def test_the_same_kernel_without_a_fault_passes(numbered, built):
    assert commit(0, numbered, built) == []


def test_honest_kernels_pass(doubling):
    outcome = verify(job_of(doubling, (HERE / "watched_honest.cpp").read_text()))
    assert outcome.feasible, outcome.failure
    assert "sanitize" in [gate.gate for gate in outcome.gates]


def test_sizes_that_are_not_shown_are_watched_and_not_told(numbered):
    """A tail that is read too far only where the length is no multiple of four."""
    failure = verify(job_of(numbered, CODE.replace("switch (fault)", "switch (n % 4 ? 1 : 0)"))).failure
    assert failure is not None
    assert (failure.gate, failure.reason) == ("sanitize", "out_of_bounds")
    assert not re.search(r"\d{4}", failure.detail)


def test_only_the_strict_protocol_asks_for_it(numbered):
    outcome = verify(job_of(numbered, CODE.replace("switch (fault)", "switch (2)"), protocol="paper"))
    assert outcome.feasible, outcome.failure
    assert "sanitize" not in [gate.gate for gate in outcome.gates]


def test_the_build_for_the_sanitizer_does_not_show(numbered, tmp_path):
    told = "#ifdef __SANITIZE_ADDRESS__\n#error watched\n#endif\n"
    assert CppBackend().build_sanitized(numbered, job_of(numbered, told + CODE).candidate, tmp_path)["LD_PRELOAD"]


def test_a_text_that_compiles_only_unwatched_is_refused(numbered, tmp_path):
    with pytest.raises(CandidateError) as caught:
        CppBackend().build_sanitized(numbered, job_of(numbered, "#error not here\n").candidate, tmp_path)
    assert (caught.value.reason, "not for the sanitizer" in caught.value.detail) == ("compile_error", True)


@pytest.fixture
def poor_compiler(tmp_path, monkeypatch):
    """A compiler first on the path that has no sanitizer, as one without its package has."""
    folder, real = tmp_path / "bin", shutil.which("g++")
    if real is None:
        pytest.skip("no g++")
    folder.mkdir()
    wrapper = folder / "poor-g++"
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in -print-file-name=libasan.so) echo libasan.so;; *) exec {real} "$@";; esac\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return "poor-g++"


def test_without_a_sanitizer_the_verdict_says_so(numbered, poor_compiler):
    backend = CppBackend(compiler=poor_compiler)
    assert not backend.sanitizer().is_available
    assert backend.sanitizer() in list(backend.optional_tools())
    outcome = verify(job_of(numbered, CODE.replace("switch (fault)", "switch (2)"), settings={"compiler": poor_compiler}))
    assert outcome.feasible, outcome.failure
    assert "sanitize" not in [gate.gate for gate in outcome.gates], "a gate that was not run is not passed"
    assert [line for line in outcome.skipped_checks if line.startswith("sanitizer: poor-g++ has none") and "apt install" in line], (
        outcome.skipped_checks
    )


@pytest.mark.parametrize(
    ("machine", "version", "expected"),
    [
        ("x86_64", "g++ (Debian 12.2.0-14) 12.2.0", True),
        ("x86_64", "g++ (GCC) 13.2.1 20231011 (Red Hat 13.2.1-4)", True),
        ("x86_64", "g++ (Ubuntu 13.3.0-6ubuntu2) 13.3.0", False),
        ("x86_64", "g++ (Ubuntu 12.4.0-2) 12.4.0", False),
        ("aarch64", "g++ (Debian 12.2.0-14) 12.2.0", False),
        ("x86_64", "clang version 12.0.1", False),
    ],
)
def test_frames_are_not_kept_where_that_would_break_wide_vectors(monkeypatch, machine, version, expected):
    said = version + ("\nCopyright (C) Free Software Foundation, Inc." if version.startswith("g++") else "")
    for module in (sanitizer_build, toolchain):
        monkeypatch.setattr(module, "version_text", lambda path: said)
    monkeypatch.setattr(sanitizer_build.platform, "machine", lambda: machine)
    assert sanitizer_build.misplaces_vectors("g++") == expected
