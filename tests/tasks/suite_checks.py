"""Checks that every task of this package must pass; one test file per suite, so that suites can be tested in parallel."""

from __future__ import annotations

import time

import pytest
from sampling import one_in

from evokernel.core.records import Task
from evokernel.reference.module import Reference
from evokernel.reference.signature import make_signature
from evokernel.reference.sizes import MAX_CHECK_ELEMENTS
from evokernel.suites.lint_workers import SIZES, find_issues
from evokernel.suites.loader import TaskFile, derive_task, find_task_files, read_source

MAX_SECONDS = 10
"""CPU time limit of a reference at small size."""
MAX_BENCH_ELEMENTS = 1 << 23
"""Largest total number of elements at bench size, so that a laptop can verify the task."""


def parametrize_tasks(suite: str):
    """Parametrize a test with the tasks of a suite, of which one in ten runs by default."""
    return pytest.mark.parametrize("file", one_in(10, find_task_files(suite), lambda file: file.id))


def check_task(file: TaskFile) -> Task:
    """Check that a task runs at three sizes, and that no trivial kernel passes at either tolerance; return the task."""
    task = derive_task(file, read_source(file.path))
    assert task.tags == ()
    assert list(find_issues(task)) == []
    bench = [tensor.shape for tensor in (*task.signature.inputs, *task.signature.params, *task.signature.outputs)]
    shapes = [bench, *(shapes_at(task, size) for size in SIZES[1:])]
    assert shapes[0] != shapes[1] != shapes[2] != shapes[0]
    assert count_elements(shapes[0]) <= MAX_BENCH_ELEMENTS
    copies = 4 if file.is_backward else 1  # a backward pass has the sizes of its forward pass, and more tensors
    assert count_elements(shapes[1]) <= copies * MAX_CHECK_ELEMENTS
    new_values = {key: value for key, value in task.sizes["held_out"].items() if task.sizes["small"].get(key) != value}
    assert any(value % 2 for value in new_values.values()), f"no odd value in {task.sizes['held_out']}"
    assert task.work.flops > 0 or task.family in ("gather", "sorting")
    assert task.work.bytes > 0 < task.work.peak_bytes
    return task


def shapes_at(task: Task, size: str) -> list[tuple[int, ...]]:
    """Return the shapes of all tensors at a size; names and dtypes must equal those at bench size."""
    reference = Reference(task.source, task.id, task.sizes[size])
    started = time.process_time()
    sample = reference.sample(7)
    signature = make_signature(sample, reference.run(sample))
    assert size != "small" or time.process_time() - started < MAX_SECONDS
    expected = task.signature
    assert [(t.name, t.dtype) for t in (*signature.inputs, *signature.params)] == [
        (t.name, t.dtype) for t in (*expected.inputs, *expected.params)
    ]
    assert [(n.name, n.kind) for n in signature.scalars] == [(n.name, n.kind) for n in expected.scalars]
    return [tensor.shape for tensor in (*signature.inputs, *signature.params, *signature.outputs)]


def count_elements(shapes: list[tuple[int, ...]]) -> int:
    """Return the total number of elements."""
    total = 0
    for shape in shapes:
        count = 1
        for n in shape:
            count *= n
        total += count
    return total
