"""Suites declare sizes of real workloads; a task at size full keeps its smaller sizes, and nothing is allocated to describe it."""

import ast
from math import prod

import pytest
from sampling import one_in

from evokernel.core.errors import UserError
from evokernel.core.memory_limits import check_memory, estimate_memory_bytes
from evokernel.reference.constants import find_constants, rewrite_constants
from evokernel.suites import suite_paths
from evokernel.suites.loader import describe_task, find_task_files, load_tasks, suite_names, suites_folder

WITHOUT_FULL = {"level3/mixture_of_experts"}
"""Its shapes depend on values."""
DEVICES = {"v5e": (819e9, 33e12), "910B2": (1.6e12, 88e12)}
"""Bytes and float32 operations per second."""
MIN_US = 100
SHORT_AS_PUBLISHED = (
    "conv3d_multiply_instancenorm",
    "conv3d_softmax_maxpool",
    "conv_transpose3d_batchnorm_avgpool",
    "conv_transpose3d_leakyrelu",
    "conv_transpose3d_logsumexp",
    "conv_transpose3d_maxpool_softmax",
    "conv_transpose3d_multiply",
    "conv_transpose3d_scale_avgpool",
)
"""Operators of level 2 that take 48 to 90 µs on a 910B2 at their published sizes."""
FILES = [file for suite in suite_names() if suite_paths.read_suite(suites_folder() / suite).full for file in find_task_files(suite)]


def test_every_shipped_task_has_a_full_size():
    missing = {file.id for file in FILES if suite_paths.find_full_size(file.path) is None}
    assert missing == WITHOUT_FULL


@pytest.mark.parametrize("suite", sorted({file.id.partition("/")[0] for file in FILES}))
def test_full_sizes_name_tasks_and_their_constants(suite):
    declared = suite_paths.read_suite(suites_folder() / suite).full
    constants = {file.path.stem: find_constants(ast.parse(file.path.read_text())) for file in find_task_files(suite)}
    assert set(declared) <= set(constants)
    assert {name: set(values) - set(constants[name]) for name, values in declared.items() if set(values) - set(constants[name])} == {}


@pytest.mark.toolchain
@pytest.mark.parametrize("file", one_in(12, [file for file in FILES if file.id not in WITHOUT_FULL], lambda file: file.id))
def test_task_at_full_size_is_real_work_and_keeps_its_smaller_sizes(file):
    laptop, full = describe_task(file), describe_task(file, "full")
    assert rewrite_constants(full.source, full.sizes["laptop"]) == laptop.source
    assert {**full.sizes["laptop"], **laptop.sizes["small"]} == full.sizes["small"]
    tensors = (*full.signature.inputs, *full.signature.params, *full.signature.outputs)
    assert max(prod(tensor.shape) for tensor in tensors) < 2**31
    assert sum(tensor.nbytes for tensor in tensors) < 16e9
    least_us = min(max(full.work.bytes / moved, full.work.flops / computed) * 1e6 for moved, computed in DEVICES.values())
    assert least_us >= MIN_US or file.path.stem.startswith(SHORT_AS_PUBLISHED)


def test_rewritten_constants_leave_everything_else_as_it_was():
    source = "ROWS = 8 * 4  # rows: µ\nSHAPE = (2, 3)\nA, B = 5, 6\nNAME = 'ROWS'\n"
    assert (
        rewrite_constants(source, {"ROWS": 64, "SHAPE[1]": 9, "B": 7})
        == "ROWS = 64  # rows: µ\nSHAPE = (2, 9)\nA, B = 5, 7\nNAME = 'ROWS'\n"
    )
    assert rewrite_constants(source, {"ROWS": 32}) == source


@pytest.mark.toolchain
def test_task_by_path_keeps_its_own_size(tmp_path):
    path = tmp_path / "own.py"
    path.write_text((suites_folder() / "starter" / "gelu.py").read_text())
    assert load_tasks(str(path), "full") == load_tasks(str(path))


@pytest.mark.toolchain
def test_unknown_constant_in_a_suite_is_refused(tmp_path):
    (tmp_path / "suite.toml").write_text('title = "Mine"\n[full]\ngelu = { LINES = 3 }\n')
    (tmp_path / "gelu.py").write_text((suites_folder() / "starter" / "gelu.py").read_text())
    with pytest.raises(UserError, match="LINES is not a constant of the task; its constants: ROWS, COLS"):
        load_tasks(str(tmp_path), "full")


@pytest.mark.toolchain
def test_task_that_does_not_fit_into_memory_is_refused_before_anything_is_allocated():
    tasks = load_tasks("level1/relu", "full")
    assert estimate_memory_bytes(tasks[0]) > 50e9 > estimate_memory_bytes(tasks[0], in_parts=True)
    with pytest.raises(UserError, match=r"level1/relu needs about 51.5 GB of memory, but this machine has .* Choose --size laptop"):
        check_memory(tasks)
    check_memory(tasks, in_parts=True)
