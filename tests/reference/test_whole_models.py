"""A model's calls of torch: which count, what belongs together, and tasks made of them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evokernel.reference.describe import describe
from evokernel.reference.extract.dimensions import sizes
from evokernel.reference.extract.profiles import Profile, profile
from evokernel.reference.extract.single_call import Collector, alone
from evokernel.reference.extract.task_source import excerpt, file_name, tensor_names
from evokernel.reference.extract.tensor_stats import likeness
from evokernel.reference.module import Reference

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def model(forward: str, inputs: str, init: str = "pass", before: str = "") -> Reference:
    indented = "\n        ".join(forward.splitlines())
    return Reference(
        f"{HEAD}{before}\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, x):\n        {indented}\ndef get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


def names(found: Profile) -> dict[str, int]:
    return {operator.call.name.rpartition(".")[2]: operator.calls for operator in found.operators}


def collected(function, *tensors):
    collector = Collector()
    with torch.no_grad(), collector:
        function(*tensors)
    return [call for call, _ in collector.found]


def test_views_copies_and_questions_are_no_operators():
    found = profile(
        model("y = x.view(8, -1).transpose(0, 1).contiguous()\nb, c = y.shape\nreturn F.relu(y[:2]) * y.size(0)", "torch.randn(4, 6)"), 0
    )
    assert names(found) == {"relu": 1, "mul": 1}


def test_shares_are_of_the_whole_model_and_bound_what_can_be_won():
    found = profile(model("return F.softmax(self.a(self.a(x)), dim=-1)", "torch.randn(32, 64)", "self.a = nn.Linear(64, 64)"), 0)
    assert names(found) == {"linear": 2, "softmax": 1}
    assert sum(operator.share for operator in found.operators) + found.rest_s / found.seconds == pytest.approx(1)
    first = found.operators[0]
    assert first.bound == pytest.approx(1 / (1 - first.share))
    assert [operator.roles for operator in found.operators if "linear" in operator.call.name] == [("activation", "parameter", "parameter")]


def test_a_model_with_a_function_of_its_own_and_branches_on_data():
    own = "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return torch.exp(x)\n"
    reference = model("y = Own.apply(x)\nreturn torch.tanh(y) if y.sum() > 0 else torch.sigmoid(y)", "torch.randn(4, 6)", before=own)
    assert {"exp": 1, "tanh": 1}.items() <= names(profile(reference, 0)).items()


def test_attention_is_seen_in_its_parts():
    found = profile(model("return self.a(x, x, x)[0]", "torch.randn(4, 6, 8)", "self.a = nn.MultiheadAttention(8, 2)"), 0)
    assert {"linear", "bmm", "softmax"} <= set(names(found))


def test_calls_in_place_are_the_same_operator():
    first, second = collected(lambda x: (F.relu(x), F.relu(x.clone(), inplace=True)), torch.randn(3))
    assert first.key == second.key
    assert (first.target, second.target) == (None, 0)


@pytest.mark.parametrize(
    ("module", "shape", "expected"),
    [
        (nn.Linear(64, 64), (64, 64), [["ROWS", "COLS"], ["OUT_COLS", "COLS"], ["OUT_COLS"]]),
        (
            nn.Conv2d(8, 24, 3, groups=2),
            (5, 8, 9, 9),
            [["BATCH", "2 * CHANNELS", "HEIGHT", "WIDTH"], ["OUT_CHANNELS", "CHANNELS", "3", "3"], ["OUT_CHANNELS"]],
        ),
        (nn.LayerNorm(32), (32, 32), [["ROWS", "COLS"], ["COLS"], ["COLS"]]),
        (
            nn.GRU(16, 24, bias=False),
            (5, 3, 16),
            [["STEPS", "BATCH", "INPUTS"], ["1", "BATCH", "HIDDEN"], ["3 * HIDDEN", "INPUTS"], ["3 * HIDDEN", "HIDDEN"]],
        ),
    ],
    ids=["linear", "grouped convolution", "layer norm", "gru"],
)
def test_sizes_that_belong_together_share_a_constant(module, shape, expected):
    (call,) = collected(module, torch.randn(shape))
    roles = ["activation" if index == 0 else "parameter" for index in range(len(call.tensors))]
    assert sizes(call, roles, tensor_names(call)).shapes == expected


torch.manual_seed(0)


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (torch.randn(1000) * 3 - 1, "normal"),
        (torch.rand(1000), "uniform"),
        (torch.relu(torch.randn(1000)), "rectified"),
        (torch.softmax(torch.randn(9, 40), -1), "probability"),
        (F.normalize(torch.randn(9, 40), dim=-1), "unit"),
        (torch.randn(8, 8).masked_fill(torch.ones(8, 8).triu(1).bool(), float("-inf")), "causal"),
        (torch.randint(2, 9, (40,)), "integer"),
        (torch.rand(1000) < 0.3, "bool"),
        (torch.ones(64), "positive"),
        (torch.zeros(64), "normal"),
    ],
)
def test_what_is_drawn_is_like_what_was_seen(tensor, kind):
    found = likeness(tensor)
    assert found.kind == kind
    drawn = eval(found.text([str(size) for size in tensor.shape]), {"torch": torch, "F": F})
    assert (drawn.shape, drawn.dtype) == (tensor.shape, tensor.dtype)
    if not found.is_varied:
        assert likeness(drawn).kind == kind
    if kind in ("normal", "uniform", "rectified") and not found.is_varied:
        assert float(drawn.mean()) == pytest.approx(float(tensor.mean()), abs=0.3 * float(tensor.std()))
    if kind == "integer":
        assert int(drawn.min()) >= 2
        assert int(drawn.max()) <= 8


OPERATORS = {
    "linear": ("self.a(x)", "torch.randn(32, 64)", "self.a = nn.Linear(64, 48)"),
    "batch_norm": ("self.a(x)", "torch.randn(4, 20, 9, 9)", "self.a = nn.BatchNorm2d(20)"),
    "embedding": ("self.a(x)", "torch.randint(0, 50, (4, 20))", "self.a = nn.Embedding(50, 24)"),
    "conv_transpose2d": ("self.a(x)", "torch.randn(2, 20, 9, 9)", "self.a = nn.ConvTranspose2d(20, 24, 3)"),
    "max": ("torch.max(x, dim=1)", "torch.randn(32, 64)", "pass"),
    "cat": ("torch.cat([x, x], dim=1)", "torch.randn(32, 64)", "pass"),
    "einsum": ('torch.einsum("ij,kj->ik", x, x)', "torch.randn(32, 64)", "pass"),
    "rsub": ("1 - x", "torch.randn(32, 64)", "pass"),
    "mean": ("x.mean()", "torch.randn(32, 64)", "pass"),
    "gru": ("self.a(x)", "torch.randn(6, 3, 20)", "self.a = nn.GRU(20, 24)"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_task_is_the_call_it_was_made_of(name):
    call, inputs, init = OPERATORS[name]
    (operator,) = profile(model(f"return {call}", inputs, init), 0).operators
    assert file_name(operator, 3).startswith(f"3_{name}_")
    text = excerpt(operator, "a model", scale=name == "mean")
    task = describe(text, "task.py")
    assert task.tags == ()
    assert task.sizes["held_out"]
    reference = Reference(text)
    found = alone(reference, reference.sample(0))
    assert found is not None
    assert found.key == operator.call.key
