"""Test cases of the strict protocol: the float64 reference, shared cases, structured inputs and hidden sizes."""

from random import Random

import numpy as np
import pytest
import torch

from evokernel.core.backend import Array
from evokernel.core.numeric_contract import ToleranceRule
from evokernel.reference.float64_reference import run_in_float64
from evokernel.reference.input_distributions import change_one_element, classify_structure
from evokernel.reference.module import Reference
from evokernel.suites.loader import load_tasks
from evokernel.verifier import cases as case_module
from evokernel.verifier.cases import Cases
from evokernel.verifier.compare import ExpectedOutput, ValueRange
from evokernel.verifier.odd_sizes import draw_odd_size
from evokernel.verifier.shared_buffers import NAN_GAP_BYTE, Arena

HEAD = "import torch\nfrom torch import nn\nN = 40\n"
TEXT = HEAD + "class Model(nn.Module):\n    def forward(self, x):\n        return {}\ndef get_inputs():\n    return [torch.randn(N, 24)]\n"


def run_task_in_float64(body):
    reference = Reference(TEXT.format(body))
    sample = reference.sample(3)
    return run_in_float64(reference, sample, reference.run(sample)), sample


def test_float64_reference_rounds_nothing():
    body = "torch.exp(x.float().half().float() + torch.zeros(24))"
    result, sample = run_task_in_float64(body)
    truth = torch.exp(sample.inputs[0].tensor.double())
    assert torch.equal(result.outputs[0].tensor, truth), "no intermediate value was rounded"
    assert result.rounds_to_half
    assert not run_task_in_float64("torch.exp(x)")[0].rounds_to_half


@pytest.mark.parametrize(
    ("body", "length"),
    [
        ("x.sum(1)", 24),
        ("x.T @ x", 40),
        ("torch.softmax(x, 1)", 40),
        ("x + 1", 1),
        ("x.amax(1)", 1),
        ("x.topk(3, 1)[0]", 1),
        ("torch.linalg.vector_norm(x)", 960),
        ("nn.functional.layer_norm(x[None], x.shape)", 960),
        ("nn.functional.group_norm(x.T[None], 4)", 240),
        ("nn.functional.instance_norm(x[None])", 24),
        ("nn.functional.batch_norm(x, x[0], x[1].abs())", 1),
        ("nn.functional.conv1d(x[None], x[:6, :3].expand(6, 3)[:, None].expand(6, 40, 3))", 120),
        ("nn.functional.conv1d(x[None], x[:, None, :3], groups=40)", 3),
        ("nn.functional.conv_transpose1d(x[None], x[:, None, :3].expand(40, 7, 3))", 120),
    ],
)
def test_reduction_length_is_known(body, length):
    assert run_task_in_float64(body)[0].reduction_length == length


def test_reference_bound_to_float32_has_no_float64_result():
    assert run_task_in_float64("x + 1 if x.dtype == torch.float32 else None")[0] is None
    assert run_task_in_float64("x[:5] if x.dtype == torch.float32 else x")[0] is None


def test_float64_run_leaves_the_sample_unchanged():
    reference = Reference(TEXT.format("x.mul_(2)"))
    sample = reference.sample(1)
    before = sample.inputs[0].tensor.clone()
    assert torch.equal(run_in_float64(reference, sample, reference.run(sample)).outputs[0].tensor, before.double() * 2)
    assert torch.equal(sample.inputs[0].tensor, before)


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (torch.randn(9, 9), "free"),
        (torch.rand(3, 50), "free"),
        (torch.softmax(torch.randn(9, 7), 1), "fixed"),
        (torch.nn.functional.normalize(torch.randn(9, 7), dim=1), "fixed"),
        ((torch.randn(9, 9) > 0).float(), "fixed"),
        (torch.randint(0, 100, (50,)).float(), "fixed"),
        (torch.full((9, 9), float("-inf")).triu(1), "fixed"),
        (torch.randn(9, 9).tril(), "scaled"),
        ((lambda t: t + t.T)(torch.randn(9, 9)), "scaled"),
        (torch.rand(3, 20).cumsum(1), "scaled"),
    ],
)
def test_structure_is_classified(tensor, kind):
    assert classify_structure(tensor.double()) == kind


def test_change_one_element_changes_one_element():
    reference = Reference(TEXT.format("x"))
    sample = reference.sample(5)
    before = sample.inputs[0].tensor.clone()
    assert change_one_element(sample, 5)
    row, column = torch.nonzero(sample.inputs[0].tensor != before)[0].tolist()
    assert (sample.inputs[0].tensor != before).sum() == 1
    assert 0 < row < 39
    assert 0 < column < 23


def test_only_expensive_cases_are_shared_and_redrawn(doubling, monkeypatch):
    monkeypatch.setattr(case_module, "FACTORIES", type(case_module.FACTORIES)())
    monkeypatch.setattr(case_module, "MAX_USES", 2)
    drawn_inputs = []
    for seed in (1, 2, 3):
        cases = Cases(doubling, seed, is_secret=True)
        drawn_inputs.append(
            [cases.get_planned_case(*which).inputs[0].data for which in (("small", 0, "own"), ("bench", 0, "own"), ("bench", 0, "wide"))]
        )
        cases.close()
    for first, second in ((0, 1), (1, 2)):
        assert not np.array_equal(drawn_inputs[first][0], drawn_inputs[second][0])
        assert not np.array_equal(drawn_inputs[first][1], drawn_inputs[second][1])
    assert drawn_inputs[0][2] is drawn_inputs[1][2]
    assert not np.array_equal(drawn_inputs[0][2], drawn_inputs[2][2])


def test_facts_about_a_task_outlast_its_cases_and_seed(doubling, monkeypatch):
    monkeypatch.setattr(case_module, "FACTORIES", type(case_module.FACTORIES)())
    monkeypatch.setattr(case_module, "compute_cache_capacity", lambda: 0)
    first = case_module.get_factory(doubling, "strict", True)
    first.get_case("bench", 0, "wide", 1)
    other = case_module.get_factory(doubling.model_copy(update={"id": "starter/other"}), "strict", True)
    assert not first.shared_cases
    other.get_case("bench", 0, "wide", 1)
    assert case_module.get_factory(doubling, "strict", True) is first
    assert not other.shared_cases
    monkeypatch.setattr(case_module, "MAX_USES", 2)
    new_factory = case_module.get_factory(doubling, "strict", True)
    assert new_factory.seed != first.seed
    assert new_factory.draw_options["wide"]


def test_equal_seeds_give_equal_cases(doubling):
    inputs_by_seed = [Cases(doubling, seed).get_planned_case("small", 0).inputs[0].data for seed in (1, 1, 2)]
    assert np.array_equal(inputs_by_seed[0], inputs_by_seed[1])
    assert not np.array_equal(inputs_by_seed[0], inputs_by_seed[2])


def test_odd_sizes_differ_between_factories(doubling):
    factories = [case_module.CaseFactory(doubling, "strict", seed) for seed in range(8)]
    sizes = {factory.has_size("odd") and factory.size_overrides["odd"]["N"] for factory in factories}
    assert len(sizes) > 3
    assert all(size % 2 for size in sizes)


def test_axis_that_would_broadcast_by_accident_is_not_made_one(tmp_path):
    path = tmp_path / "gate.py"
    inputs = "def get_inputs():\n    return [torch.randn(M, W), torch.randn(N, W)]\n"
    path.write_text(HEAD + "M = 40\nW = 24\nclass Model(nn.Module):\n    def forward(self, x, y):\n        return x * y\n" + inputs)
    (task,) = load_tasks(str(path))
    sizes = [draw_odd_size(task, Random(seed)) or {} for seed in range(20)]
    assert any(sizes)
    assert not {1} & {size.get(name) for size in sizes for name in "MN"}
    assert 1 in {size.get("W") for size in sizes}


def test_an_axis_is_sometimes_made_one(doubling):
    assert any(1 in (draw_odd_size(doubling, Random(seed)) or {}).values() for seed in range(20))


def test_task_of_one_size_has_no_odd_size(tmp_path):
    path = tmp_path / "task.py"
    path.write_text(TEXT.format("2 * x").replace("N = 40\n", "").replace("N, 24", "'abcd'.__len__(), 'ab'.__len__()"))
    assert not Cases(load_tasks(str(path))[0], 1).has_size("odd")


def test_changed_inputs_are_named():
    arena = Arena(1 << 16, 1 << 16, 1)
    inputs = [Array(name, "float32", np.arange(6, dtype=np.float32)) for name in "xy"]
    slot = arena.add_slot(inputs, inputs[:1])
    arena.write_inputs(slot, inputs)
    assert arena.find_changed_inputs(slot, inputs) == []
    place = slot.input_span[0] + slot.inputs[1].offset
    assert arena.inputs.bytes[place - 1] == NAN_GAP_BYTE
    arena.fill_input_gaps(slot, 0x41)
    assert arena.inputs.bytes[place - 1] == 0x41
    assert arena.find_changed_inputs(slot, inputs) == []
    arena.inputs.bytes[place] ^= 1
    assert arena.find_changed_inputs(slot, inputs) == ["`y`"]
    arena.close()


def test_only_a_jump_explains_a_wrong_element():
    data = np.zeros(100, np.float32)
    actual = data.copy()
    actual[7] = 1.0

    def expected(high):
        return ExpectedOutput(
            Array("out", "float32", data),
            ToleranceRule(1e-4, 1e-4),
            None,
            lambda index: [ValueRange(data, np.where(np.arange(100) == 7, high, data))],
        )

    assert expected(1.0).find_difference(actual) is None
    assert expected(0.0).find_difference(actual) is not None
    assert expected(0.1).find_difference(actual) is not None, "the jump is too small"
    many = np.full(100, 1.0, np.float32)
    assert (
        ExpectedOutput(
            Array("out", "float32", data), ToleranceRule(1e-4, 1e-4), None, lambda index: [ValueRange(data, many)]
        ).find_difference(many)
        is not None
    )


def test_integers_within_the_rounding_range_are_correct():
    data = np.zeros(100, np.int64)
    actual = data.copy()
    actual[7] = 2
    for high, is_correct in ((2, True), (1, False)):
        result = ExpectedOutput(
            Array("out", "int64", data),
            ToleranceRule(0, 0),
            None,
            lambda index, high=high: [ValueRange(data, data + high * (np.arange(100) == 7))],
        )
        assert (result.find_difference(actual) is None) is is_correct
