"""What every task that ships must be: a check for each, to be run from a file per suite so that suites can be checked side by side."""

from __future__ import annotations

import time

import pytest
from sampling import one_in

from evokernel.core.records import Task
from evokernel.experiments.task_lint import SIZES, flaws_of
from evokernel.reference.module import Reference
from evokernel.reference.signature import signature
from evokernel.reference.sizes import ELEMENTS
from evokernel.tasks.loader import TaskFile, derived, files, read

SECONDS = 10
"""Of processor time, for a reference at small size."""
BENCH = 1 << 23
"""Elements, all tensors together: what a laptop still judges."""


def every(suite: str, part: int = 0, parts: int = 1):
    """The suite's tasks, or every so-many-th of them, as a parametrisation; a sixth of those unless all are asked for."""
    return pytest.mark.parametrize("file", one_in(10, files(suite)[part::parts], lambda file: file.id))


def check(file: TaskFile) -> Task:
    """Runs at three sizes, by its seed alone, and nothing trivial passes at either tolerance; returns what was derived."""
    task = derived(file, read(file.path))
    assert task.tags == ()
    assert list(flaws_of(task)) == []
    bench = [tensor.shape for tensor in (*task.signature.inputs, *task.signature.params, *task.signature.outputs)]
    shapes = [bench, *(shapes_at(task, size) for size in SIZES[1:])]
    assert shapes[0] != shapes[1] != shapes[2] != shapes[0]
    assert elements(shapes[0]) <= BENCH
    assert elements(shapes[1]) <= ELEMENTS
    changed = {key: value for key, value in task.sizes["held_out"].items() if task.sizes["small"].get(key) != value}
    assert any(value % 2 for value in changed.values()), f"nothing odd in {task.sizes['held_out']}"
    assert task.work.flops > 0 or task.family in ("gather", "sorting")
    assert task.work.bytes > 0 < task.work.peak_bytes
    return task


def shapes_at(task: Task, size: str) -> list[tuple[int, ...]]:
    """The shape of every tensor at a size, whose kind and names must be those of bench."""
    reference = Reference(task.source, task.id, task.sizes[size])
    started = time.process_time()
    sample = reference.sample(7)
    found = signature(sample, reference.run(sample))
    assert size != "small" or time.process_time() - started < SECONDS
    wanted = task.signature
    assert [(t.name, t.dtype) for t in (*found.inputs, *found.params)] == [(t.name, t.dtype) for t in (*wanted.inputs, *wanted.params)]
    assert [(n.name, n.kind) for n in found.scalars] == [(n.name, n.kind) for n in wanted.scalars]
    return [tensor.shape for tensor in (*found.inputs, *found.params, *found.outputs)]


def elements(shapes: list[tuple[int, ...]]) -> int:
    """All of them."""
    total = 0
    for shape in shapes:
        count = 1
        for n in shape:
            count *= n
        total += count
    return total
