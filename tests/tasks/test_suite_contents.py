"""What ships: how many tasks, of which kinds, under which names."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from evokernel.reference.module import Reference
from evokernel.tasks import suite_paths
from evokernel.tasks.loader import files, home, load, suites

COUNTS = {"attention": 70, "level1": 100, "level2": 100, "level3": 20, "mhc": 15, "starter": 16}
MHC = """
    sinkhorn_knopp mhc_projector stream_weighted_sum stream_mix stream_write mhc_update fused_mhc_kernels mhc_block_2d
    mhc_block_bottleneck_2d orthostochastic_project mhc_module optimized_mhc_layer_with_fusion static_mhc_hyper_connections
    mhc_pre_block mhc_post_block
"""


@pytest.mark.parametrize("suite", COUNTS)
def test_a_suite_is_whole(suite):
    found = files(suite)
    assert len({file.id for file in found}) == len(found) == COUNTS[suite]
    assert suite_paths.read(home() / suite).title
    assert all(file.id.startswith(f"{suite}/") for file in found)
    assert all(len(file.path.read_text().splitlines()) <= 70 for file in found)


def test_nothing_else_ships():
    assert suites() == sorted(COUNTS)


def test_levels_and_categories():
    assert {suite: {file.level for file in files(suite)} for suite in COUNTS} == {
        "attention": {2}, "level1": {1}, "level2": {2}, "level3": {3}, "mhc": {2}, "starter": {1},
    }  # fmt: skip
    assert set(Counter(file.category for file in files("level1"))) == {
        "activation", "convolution", "gather", "loss", "matmul", "normalisation", "optimiser", "pooling", "quantise", "reduction",
        "resize", "scan", "softmax", "sorting",
    }  # fmt: skip
    assert {file.category for file in files("level2")} == {"fuse"}
    assert len({file.category for file in files("attention")}) == 8
    assert {file.id.removeprefix("mhc/") for file in files("mhc")} == set(MHC.split())


def test_families_agree_with_the_folders_of_level1():
    kin = {"matmul": {"elementwise"}}  # a diagonal matrix and a scalar multiply element by element
    wrong = [file.id for file in files("level1") if file.family not in {file.category} | kin.get(file.category, set())]
    assert wrong == []


def test_starter_covers_the_usual_families():
    assert {file.family for file in files("starter")} == {
        "activation", "attention", "convolution", "elementwise", "fuse", "gather", "loss",
        "matmul", "normalisation", "pooling", "reduction", "scan", "softmax",
    }  # fmt: skip


def test_a_baseline_of_every_starter_task_can_be_called_without_arguments(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path))
    for task in load("starter"):
        reference = Reference(task.source, task.id, task.sizes["small"])
        sample = reference.sample(0)
        assert torch.equal(reference.baseline(sample)(), reference.run(sample)[0].tensor)
