"""The sanitize gate finds, names and locates faults that do not change values; honest kernels pass."""

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
from evokernel.suites.loader import load_tasks
from evokernel.verifier import sanitize, verify
from evokernel.verifier.evaluators import open_trial

HERE = Path(__file__).parent
CODE = (HERE / "sanitizer_faults.cpp").read_text()
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
    "every call leaks memory": (16, "leak"),
    "allocates more memory than it may use": (17, "memory"),
    "reads past the end of `x` (an access of 16 bytes)": (18, "out_of_bounds"),
}


@pytest.fixture(scope="module")
def scalar_task():
    """Doubling, with a scalar that selects the kernel's fault."""
    return load_tasks(str(HERE / "doubling_with_scalar.py"))[0]


@pytest.fixture(scope="module")
def sanitized_build(scalar_task, tmp_path_factory):
    """The instrumented kernel with all faults in it."""
    folder = tmp_path_factory.mktemp("sanitized")
    return folder, CppBackend().build_sanitized(scalar_task, make_job(scalar_task, CODE).candidate, folder)


def make_job(task, code, **settings):
    return Job(backend="cpp", task=task, candidate=Candidate(backend="cpp", files={"kernel.cpp": code}), clock="synthetic", **settings)


def run_fault(fault, task, sanitized_build):
    """Run the gate's second half on a kernel that counts as correct."""
    with open_trial(make_job(task, CODE), CppBackend(), sanitized_build[0]) as trial:
        trial.get_case("small", 0)
        for case in trial.drawn_cases["small"]:
            case.scalars = (("fault", "int", fault),)
        sanitize.run_instrumented(trial, *sanitized_build)
        return trial.skipped_checks


@pytest.mark.parametrize(("message", "fault", "reason"), one_in(3, [(message, *error) for message, error in FAULTS.items()]))
def test_fault_is_found_and_located(scalar_task, sanitized_build, message, fault, reason):
    if fault == 9 and "detect_stack_use_after_return=0" in sanitized_build[1]["ASAN_OPTIONS"]:
        pytest.skip("this compiler cannot keep frames")
    with pytest.raises(CandidateError) as error_info:
        run_fault(fault, scalar_task, sanitized_build)
    error = error_info.value
    assert (error.reason, message in error.detail) == (reason, True), error.detail
    assert not re.search(r"(^|\s)/\w|0x[0-9a-f]{6}", error.detail), error.detail
    if at := [number for number, line in enumerate(CODE.splitlines(), 1) if line.endswith(f"// fault {fault}")]:
        assert re.search(rf"^line {at[0]}: ", error.detail, re.MULTILINE), error.detail


def test_kernel_without_a_fault_passes(scalar_task, sanitized_build):
    assert run_fault(0, scalar_task, sanitized_build) == []


def test_honest_kernels_pass(doubling):
    outcome = verify(make_job(doubling, (HERE / "sanitizer_honest.cpp").read_text()))
    assert outcome.feasible, outcome.failure
    assert "sanitize" in [gate.gate for gate in outcome.gates]


def test_hidden_sizes_are_sanitized_and_not_revealed(scalar_task):
    """The kernel reads too far only if the length is not a multiple of four."""
    failure = verify(make_job(scalar_task, CODE.replace("switch (fault)", "switch (n % 4 ? 1 : 0)"))).failure
    assert failure is not None
    assert (failure.gate, failure.reason) == ("sanitize", "out_of_bounds")
    assert not re.search(r"\d{4}", failure.detail)


def test_only_the_strict_protocol_runs_the_sanitizer(scalar_task):
    outcome = verify(make_job(scalar_task, CODE.replace("switch (fault)", "switch (2)"), protocol="paper"))
    assert outcome.feasible, outcome.failure
    assert "sanitize" not in [gate.gate for gate in outcome.gates]


def test_candidate_cannot_detect_the_sanitizer_build(scalar_task, tmp_path):
    detection = "#ifdef __SANITIZE_ADDRESS__\n#error sanitized\n#endif\n"
    assert CppBackend().build_sanitized(scalar_task, make_job(scalar_task, detection + CODE).candidate, tmp_path)["LD_PRELOAD"]


def test_source_that_compiles_only_without_the_sanitizer_is_refused(scalar_task, tmp_path):
    with pytest.raises(CandidateError) as error_info:
        CppBackend().build_sanitized(scalar_task, make_job(scalar_task, "#error not here\n").candidate, tmp_path)
    assert (error_info.value.reason, "not with the sanitizer" in error_info.value.detail) == ("compile_error", True)


@pytest.fixture
def compiler_without_sanitizer(tmp_path, monkeypatch):
    """A compiler on the path without a sanitizer, as if its package were not installed."""
    folder, real = tmp_path / "bin", shutil.which("g++")
    if real is None:
        pytest.skip("no g++")
    folder.mkdir()
    wrapper = folder / "poor-g++"
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in -print-file-name=libasan.so) echo libasan.so;; *) exec {real} "$@";; esac\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return "poor-g++"


def test_missing_sanitizer_is_reported(scalar_task, compiler_without_sanitizer):
    backend = CppBackend(compiler=compiler_without_sanitizer)
    assert not backend.sanitizer().is_available
    assert backend.sanitizer() in list(backend.optional_tools())
    outcome = verify(make_job(scalar_task, CODE.replace("switch (fault)", "switch (2)"), settings={"compiler": compiler_without_sanitizer}))
    assert outcome.feasible, outcome.failure
    assert "sanitize" not in [gate.gate for gate in outcome.gates], "a gate that did not run has no result"
    assert [line for line in outcome.skipped_checks if line.startswith("sanitizer: poor-g++ has no sanitizer") and "apt install" in line], (
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
def test_stack_frames_are_not_kept_if_that_breaks_wide_vectors(monkeypatch, machine, version, expected):
    version_output = version + ("\nCopyright (C) Free Software Foundation, Inc." if version.startswith("g++") else "")
    for module in (sanitizer_build, toolchain):
        monkeypatch.setattr(module, "compiler_version_text", lambda path: version_output)
    monkeypatch.setattr(sanitizer_build.platform, "machine", lambda: machine)
    assert sanitizer_build.has_vector_alignment_bug("g++") == expected
