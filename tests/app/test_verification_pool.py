"""A pool verifies kernels given as text, path or files, reports gates, and refuses mistakes of the caller in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import evokernel.backends.cpp
from evokernel.app.verification_pool import VerificationPool
from evokernel.core.errors import UserError

pytestmark = pytest.mark.toolchain

SAMPLES = Path(evokernel.backends.cpp.__file__).parent / "samples"
TASK = SAMPLES / "task.py"
GOOD = (SAMPLES / "good" / "kernel.cpp").read_text()


@pytest.fixture(scope="module")
def pool() -> Iterator[VerificationPool]:
    with VerificationPool(2, {"clock": "synthetic"}) as pool:
        yield pool


def test_a_kernel_may_be_text_a_path_or_files(pool: VerificationPool) -> None:
    planned = [
        pool.plan(GOOD, TASK, backend="cpp"),
        pool.plan(SAMPLES / "good", TASK),
        pool.plan(str(SAMPLES / "good" / "kernel.cpp"), TASK),
        pool.plan({"kernel.cpp": GOOD}, TASK, backend="cpp"),
    ]
    assert len({plan.candidate.id for plan in planned}) == 1
    outcomes = [future.result() for future in [pool.submit(plan) for plan in planned]]
    assert all(outcome.feasible for outcome in outcomes)


def test_progress_names_each_gate_when_it_starts_and_ends(pool: VerificationPool) -> None:
    seen: list[tuple[str, bool | None]] = []
    planned = pool.plan(SAMPLES / "mismatch-formula", TASK)
    outcome = pool.submit(
        planned, on_gate=lambda gate, result: seen.append((gate, result.passed if result else None)), ignore_cache=True
    ).result()
    assert not outcome.feasible
    assert seen[:2] == [("screen", None), ("screen", True)]
    assert seen[-1] == ("check", False)


@pytest.mark.parametrize(
    ("kernel", "task", "options", "message"),
    [
        ("int x;\n", TASK, {}, "name its language"),
        ("int x;\n", TASK, {"backend": "cppp"}, "cppp"),
        ("int x;\n", "starter/nope", {"backend": "cpp"}, "has no task 'nope'"),
        ("int x;\n", "starter", {"backend": "cpp"}, "names 16 tasks"),
        (" \n", TASK, {"backend": "cpp"}, "is empty"),
        ("nothere.cpp", TASK, {"backend": "cpp"}, "cannot read nothere.cpp: No such file"),
        ("sub/nothere.cc", TASK, {}, "cannot read sub/nothere.cc: No such file"),
        (None, TASK, {"backend": "cpp"}, "a kernel is source text.* not NoneType"),
        ("int x;\n", None, {"backend": "cpp"}, "a task is .* not NoneType"),
        (SAMPLES / "good", TASK, {"backend": 3}, "backend is 3"),
        ({"kernel.py": "x = 1"}, TASK, {"backend": "cpp"}, "takes kernel.cpp"),
        ("int x;\n", TASK, {"backend": "cpp", "overrides": ["budgett=3"]}, "unknown setting"),
    ],
)
def test_mistakes_of_the_caller_get_one_line(pool: VerificationPool, kernel: str, task: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        pool.plan(kernel, task, **options)
    assert "\n" not in str(raised.value)
