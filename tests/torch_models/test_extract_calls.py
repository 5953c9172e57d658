"""Extraction of torch calls from a model: which calls count, which sizes belong together, and the tasks written from them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evokernel.reference.describe import describe_task
from evokernel.reference.module import Reference
from evokernel.torch_models.dimensions import name_sizes
from evokernel.torch_models.profiles import ModelProfile, profile_calls
from evokernel.torch_models.single_call import CallCollector, find_single_call
from evokernel.torch_models.task_source import name_tensors, task_file_name, write_task_source
from evokernel.torch_models.tensor_stats import summarize_tensor

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def model(forward: str, inputs: str, init: str = "pass", before: str = "") -> Reference:
    indented = "\n        ".join(forward.splitlines())
    return Reference(
        f"{HEAD}{before}\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, x):\n        {indented}\ndef get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


def call_counts(profile: ModelProfile) -> dict[str, int]:
    return {operator.call.name.rpartition(".")[2]: operator.calls for operator in profile.operators}


def collect_calls(function, *tensors):
    collector = CallCollector()
    with torch.no_grad(), collector:
        function(*tensors)
    return [call for call, _ in collector.calls]


def test_views_copies_and_shape_queries_are_not_operators():
    profile = profile_calls(
        model("y = x.view(8, -1).transpose(0, 1).contiguous()\nb, c = y.shape\nreturn F.relu(y[:2]) * y.size(0)", "torch.randn(4, 6)"), 0
    )
    assert call_counts(profile) == {"relu": 1, "mul": 1}


def test_shares_refer_to_the_model_and_limit_its_speedup():
    profile = profile_calls(model("return F.softmax(self.a(self.a(x)), dim=-1)", "torch.randn(32, 64)", "self.a = nn.Linear(64, 64)"), 0)
    assert call_counts(profile) == {"linear": 2, "softmax": 1}
    assert sum(operator.share for operator in profile.operators) + profile.rest_s / profile.seconds == pytest.approx(1)
    first = profile.operators[0]
    assert first.max_model_speedup == pytest.approx(1 / (1 - first.share))
    assert [operator.roles for operator in profile.operators if "linear" in operator.call.name] == [
        ("activation", "parameter", "parameter")
    ]


def test_model_with_autograd_function_and_data_dependent_branch():
    own = "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return torch.exp(x)\n"
    reference = model("y = Own.apply(x)\nreturn torch.tanh(y) if y.sum() > 0 else torch.sigmoid(y)", "torch.randn(4, 6)", before=own)
    assert {"exp": 1, "tanh": 1}.items() <= call_counts(profile_calls(reference, 0)).items()


def test_attention_is_split_into_its_operators():
    profile = profile_calls(model("return self.a(x, x, x)[0]", "torch.randn(4, 6, 8)", "self.a = nn.MultiheadAttention(8, 2)"), 0)
    assert {"linear", "bmm", "softmax"} <= set(call_counts(profile))


def test_in_place_call_has_the_same_key():
    first, second = collect_calls(lambda x: (F.relu(x), F.relu(x.clone(), inplace=True)), torch.randn(3))
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
def test_linked_sizes_share_a_constant(module, shape, expected):
    (call,) = collect_calls(module, torch.randn(shape))
    roles = ["activation" if index == 0 else "parameter" for index in range(len(call.tensors))]
    assert name_sizes(call, roles, name_tensors(call)).shapes == expected


torch.manual_seed(0)


@pytest.mark.parametrize(
    ("tensor", "distribution"),
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
def test_sampling_expression_draws_similar_values(tensor, distribution):
    stats = summarize_tensor(tensor)
    assert stats.distribution == distribution
    sample = eval(stats.sampling_expression([str(size) for size in tensor.shape]), {"torch": torch, "F": F})
    assert (sample.shape, sample.dtype) == (tensor.shape, tensor.dtype)
    if not stats.is_constant_in_model:
        assert summarize_tensor(sample).distribution == distribution
    if distribution in ("normal", "uniform", "rectified") and not stats.is_constant_in_model:
        assert float(sample.mean()) == pytest.approx(float(tensor.mean()), abs=0.3 * float(tensor.std()))
    if distribution == "integer":
        assert int(sample.min()) >= 2
        assert int(sample.max()) <= 8


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
def test_extracted_task_is_the_original_call(name):
    call, inputs, init = OPERATORS[name]
    (operator,) = profile_calls(model(f"return {call}", inputs, init), 0).operators
    assert task_file_name(operator, 3).startswith(f"3_{name}_")
    text = write_task_source(operator, "a model", scale=name == "mean")
    task = describe_task(text, "task.py")
    assert task.tags == ()
    assert task.sizes["held_out"]
    reference = Reference(text)
    single_call = find_single_call(reference, reference.sample(0))
    assert single_call is not None
    assert single_call.key == operator.call.key
