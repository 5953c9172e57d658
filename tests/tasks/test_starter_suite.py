"""Every starter task at every size: runs, is decided by its seed, and cannot be passed without computing."""

from __future__ import annotations

import pytest
import torch

from evokernel.core.records import Task
from evokernel.reference.module import Reference
from evokernel.reference.shortcuts import Tolerance, draws, shortcuts
from evokernel.reference.signature import signature
from evokernel.reference.sizes import ELEMENTS
from evokernel.tasks.loader import files, load

NAMES = [file.id for file in files("starter")]
SIZES = ("bench", "small", "held_out")


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> dict[str, Task]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOKERNEL_CACHE", str(tmp_path_factory.mktemp("cache")))
        return {task.id: task for task in load("starter")}


def test_sixteen_operators_over_all_families():
    assert len(NAMES) == 16
    assert {file.family for file in files("starter")} == {
        "activation", "attention", "convolution", "elementwise", "fuse", "gather", "loss",
        "matmul", "normalisation", "pooling", "reduction", "scan", "softmax",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_size_runs_and_is_decided_by_its_seed(suite, name):
    task = suite[name]
    seen = []
    for size in SIZES:
        reference = Reference(task.source, f"{name}.py", task.sizes[size])
        sample = reference.sample(7)
        outputs = reference.run(sample)
        for once, again in zip(outputs, reference.run(reference.sample(7))):
            assert torch.equal(once.tensor, again.tensor)
            assert torch.isfinite(once.tensor).all()
        found = signature(sample, outputs)
        assert [t.name for t in found.inputs + found.params] == [t.name for t in task.signature.inputs + task.signature.params]
        assert [(n.name, n.kind) for n in found.scalars] == [(n.name, n.kind) for n in task.signature.scalars]
        seen.append([t.shape for t in found.inputs + found.params + found.outputs])
        assert size != "bench" or found == task.signature
    assert seen[0] != seen[1] != seen[2] != seen[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_small_size_is_small_and_the_held_out_one_is_ragged(suite, name):
    task = suite[name]
    reference = Reference(task.source, name, task.sizes["small"])
    sample = reference.sample(0)
    assert sum(x.tensor.numel() for x in (*sample.inputs, *sample.params, *reference.run(sample))) <= ELEMENTS
    assert all(value % 2 for value in task.sizes["held_out"].values())
    assert "SIZES" not in task.source


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_trivial_passes(suite, name, size):
    task = suite[name]
    reference = Reference(task.source, name, task.sizes[size])
    samples = draws(reference, 11)
    assert shortcuts(samples, [reference.run(sample) for sample in samples], Tolerance(task.atol, task.rtol)) == []
    assert "vacuous" not in task.tags


@pytest.mark.parametrize("name", NAMES)
def test_every_input_and_parameter_matters(suite, name):
    task = suite[name]
    reference = Reference(task.source, name, task.sizes["small"])
    sample = reference.sample(2)
    before = reference.run(sample)
    for _, tensor in sample.inputs + sample.params:
        with torch.no_grad():
            kept = tensor.clone()
            tensor.copy_(tensor.flip(0))
            after = reference.run(sample)
            tensor.copy_(kept)
        assert any(not torch.equal(a.tensor, b.tensor) for a, b in zip(before, after))


def test_a_baseline_of_every_task_can_be_called_without_arguments(suite):
    for task in suite.values():
        reference = Reference(task.source, task.id, task.sizes["small"])
        sample = reference.sample(0)
        assert torch.equal(reference.baseline(sample)(), reference.run(sample)[0].tensor)
