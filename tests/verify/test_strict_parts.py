"""The parts of the strict protocol: a reference in float64, cases that are kept, inputs with a structure, sizes nobody knows."""

import numpy as np
import pytest
import torch

from evokernel.core.protocols import Array
from evokernel.reference.float64_reference import oracle
from evokernel.reference.module import Reference
from evokernel.tasks.loader import load
from evokernel.verify import case_factory
from evokernel.verify.cases import Cases
from evokernel.verify.compare import Edges, Expected, Rule
from evokernel.verify.input_distributions import nudge, structure
from evokernel.verify.shared_buffers import NAN_BYTE, Arena

HEAD = "import torch\nfrom torch import nn\nN = 40\n"
TEXT = HEAD + "class Model(nn.Module):\n    def forward(self, x):\n        return {}\ndef get_inputs():\n    return [torch.randn(N, 24)]\n"


def exact(body):
    reference = Reference(TEXT.format(body))
    sample = reference.sample(3)
    return oracle(reference, sample, reference.run(sample)), sample


def test_float64_goes_all_the_way_through():
    body = "torch.exp(x.float().half().float() + torch.zeros(24))"
    found, sample = exact(body)
    truth = torch.exp(sample.inputs[0].tensor.double())
    assert torch.equal(found.outputs[0].tensor, truth), "nothing on the way was rounded"
    assert found.halves
    assert not exact("torch.exp(x)")[0].halves


@pytest.mark.parametrize(
    ("body", "terms"),
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
def test_the_longest_sum_is_known(body, terms):
    assert exact(body)[0].length == terms


def test_a_reference_that_insists_has_no_oracle():
    assert exact("x + 1 if x.dtype == torch.float32 else None")[0] is None
    assert exact("x[:5] if x.dtype == torch.float32 else x")[0] is None


def test_the_sample_is_left_as_it_was():
    reference = Reference(TEXT.format("x.mul_(2)"))
    sample = reference.sample(1)
    before = sample.inputs[0].tensor.clone()
    assert torch.equal(oracle(reference, sample, reference.run(sample)).outputs[0].tensor, before.double() * 2)
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
def test_structure_is_seen(tensor, kind):
    assert structure(tensor.double()) == kind


def test_a_nudge_changes_one_element():
    reference = Reference(TEXT.format("x"))
    sample = reference.sample(5)
    before = sample.inputs[0].tensor.clone()
    assert nudge(sample, 5)
    row, column = torch.nonzero(sample.inputs[0].tensor != before)[0].tolist()
    assert (sample.inputs[0].tensor != before).sum() == 1
    assert 0 < row < 39
    assert 0 < column < 23


def test_only_costly_cases_serve_again_and_are_drawn_anew(doubling, monkeypatch):
    monkeypatch.setattr(case_factory, "MADE", type(case_factory.MADE)())
    monkeypatch.setattr(case_factory, "MOST_USES", 2)
    seen = []
    for seed in (1, 2, 3):
        cases = Cases(doubling, seed, is_secret=True)
        seen.append([cases.planned(*which).inputs[0].data for which in (("small", 0, "own"), ("bench", 0, "own"), ("bench", 0, "wide"))])
        cases.close()
    for first, second in ((0, 1), (1, 2)):
        assert not np.array_equal(seen[first][0], seen[second][0])
        assert not np.array_equal(seen[first][1], seen[second][1])
    assert seen[0][2] is seen[1][2]
    assert not np.array_equal(seen[0][2], seen[2][2])


def test_what_is_known_of_a_task_outlasts_its_answers_and_its_secrets(doubling, monkeypatch):
    monkeypatch.setattr(case_factory, "MADE", type(case_factory.MADE)())
    monkeypatch.setattr(case_factory, "room", lambda: 0)
    first = case_factory.made(doubling, "strict", True)
    first.case("bench", 0, "wide", 1)
    other = case_factory.made(doubling.model_copy(update={"id": "starter/other"}), "strict", True)
    assert not first.answers
    other.case("bench", 0, "wide", 1)
    assert case_factory.made(doubling, "strict", True) is first
    assert not other.answers
    monkeypatch.setattr(case_factory, "MOST_USES", 2)
    renewed = case_factory.made(doubling, "strict", True)
    assert renewed.seed != first.seed
    assert renewed.attempts["wide"]


def test_known_seeds_give_equal_cases(doubling):
    given = [Cases(doubling, seed).planned("small", 0).inputs[0].data for seed in (1, 1, 2)]
    assert np.array_equal(given[0], given[1])
    assert not np.array_equal(given[0], given[2])


def test_sizes_drawn_in_secret_differ(doubling):
    makers = [case_factory.CaseFactory(doubling, "strict", seed) for seed in range(8)]
    sizes = {made.has("odd") and made.overrides["odd"]["N"] for made in makers}
    assert len(sizes) > 3
    assert all(size % 2 for size in sizes)


def test_a_task_of_one_size_has_no_odd_one(tmp_path):
    path = tmp_path / "task.py"
    path.write_text(TEXT.format("2 * x").replace("N = 40\n", "").replace("N, 24", "'abcd'.__len__(), 'ab'.__len__()"))
    assert not Cases(load(str(path))[0], 1).has("odd")


def test_changed_inputs_are_named():
    arena = Arena(1 << 16, 1 << 16, 1)
    inputs = [Array(name, "float32", np.arange(6, dtype=np.float32)) for name in "xy"]
    slot = arena.slot(inputs, inputs[:1])
    arena.fill(slot, inputs)
    assert arena.changed(slot, inputs) == []
    place = slot.in_span[0] + slot.inputs[1].offset
    assert arena.inputs.bytes[place - 1] == NAN_BYTE
    arena.surround(slot, 0x41)
    assert arena.inputs.bytes[place - 1] == 0x41
    assert arena.changed(slot, inputs) == []
    arena.inputs.bytes[place] ^= 1
    assert arena.changed(slot, inputs) == ["`y`"]
    arena.close()


def test_only_a_jump_excuses():
    data = np.zeros(100, np.float32)
    got = data.copy()
    got[7] = 1.0

    def expected(high):
        return Expected(
            Array("out", "float32", data), Rule(1e-4, 1e-4), None, lambda index: [Edges(data, np.where(np.arange(100) == 7, high, data))]
        )

    assert expected(1.0).difference(got) is None
    assert expected(0.0).difference(got) is not None
    assert expected(0.1).difference(got) is not None, "not by as much"
    many = np.full(100, 1.0, np.float32)
    assert Expected(Array("out", "float32", data), Rule(1e-4, 1e-4), None, lambda index: [Edges(data, many)]).difference(many) is not None


def test_whole_numbers_may_be_any_of_those_that_rounding_gives():
    data = np.zeros(100, np.int64)
    got = data.copy()
    got[7] = 2
    for high, right in ((2, True), (1, False)):
        found = Expected(
            Array("out", "int64", data), Rule(0, 0), None, lambda index, high=high: [Edges(data, data + high * (np.arange(100) == 7))]
        )
        assert (found.difference(got) is None) is right
