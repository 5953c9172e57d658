"""Contents of the suites: number of tasks, families and names."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from evokernel.reference.module import Reference
from evokernel.suites import suite_paths
from evokernel.suites.loader import find_task_files, load_tasks, suite_names, suites_folder

COUNTS = {"attention": 70, "gradients": 40, "level1": 100, "level2": 100, "level3": 20, "mhc": 15, "starter": 16}
MHC = """
    sinkhorn_knopp mhc_projector stream_weighted_sum stream_mix stream_write mhc_update fused_mhc_kernels mhc_block_2d
    mhc_block_bottleneck_2d orthostochastic_project mhc_module optimized_mhc_layer_with_fusion static_mhc_hyper_connections
    mhc_pre_block mhc_post_block
"""


@pytest.mark.parametrize("suite", COUNTS)
def test_suite_is_complete(suite):
    files = find_task_files(suite)
    assert len({file.id for file in files}) == len(files) == COUNTS[suite]
    assert suite_paths.read_suite(suites_folder() / suite).title
    assert all(file.id.startswith(f"{suite}/") for file in files)
    assert all(len(file.path.read_text().splitlines()) <= 70 for file in files)


def test_there_are_no_other_suites():
    assert suite_names() == sorted(COUNTS)


def test_levels_and_categories_of_suites():
    assert {suite: {file.level for file in find_task_files(suite)} for suite in COUNTS} == {
        "attention": {2}, "gradients": {1, 2}, "level1": {1}, "level2": {2}, "level3": {3}, "mhc": {2}, "starter": {1},
    }  # fmt: skip
    assert set(Counter(file.category for file in find_task_files("level1"))) == {
        "activation", "convolution", "gather", "loss", "matmul", "normalisation", "optimiser", "pooling", "quantise", "reduction",
        "resize", "scan", "softmax", "sorting",
    }  # fmt: skip
    assert {file.category for file in find_task_files("level2")} == {"fuse"}
    assert len({file.category for file in find_task_files("attention")}) == 8
    assert {file.id.removeprefix("mhc/") for file in find_task_files("mhc")} == set(MHC.split())


def test_families_match_the_folders_of_level1():
    other_families = {"matmul": {"elementwise"}}  # products with a diagonal matrix or a scalar are elementwise
    mismatches = [
        file.id for file in find_task_files("level1") if file.family not in {file.category} | other_families.get(file.category, set())
    ]
    assert mismatches == []


def test_starter_covers_common_families():
    assert {file.family for file in find_task_files("starter")} == {
        "activation", "attention", "convolution", "elementwise", "fuse", "gather", "loss",
        "matmul", "normalisation", "pooling", "reduction", "scan", "softmax",
    }  # fmt: skip


@pytest.mark.slow(one_in=5)
def test_baseline_call_of_every_starter_task_works(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path))
    for task in load_tasks("starter"):
        reference = Reference(task.source, task.id, task.sizes["small"])
        sample = reference.sample(0)
        assert torch.equal(reference.baseline_call(sample)(), reference.run(sample)[0].tensor)
