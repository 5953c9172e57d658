"""Size classes derived from the constants of KernelBench-like task files."""

from __future__ import annotations

import math

import pytest
import torch

from evokernel.core.errors import UserError
from evokernel.reference.describe import describe_task
from evokernel.reference.measure import measure_shapes
from evokernel.reference.module import Reference
from evokernel.reference.signature import make_signature
from evokernel.reference.sizes import MAX_CHECK_ELEMENTS, ragged_neighbours
from evokernel.reference.work import count_work

HEAD = "import torch\nimport torch.nn as nn\n"

GROUPED = f"""{HEAD}
class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=(1, 1), groups=1):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, groups=groups, bias=False)

    def forward(self, x):
        return self.conv(x)

batch_size = 4
in_channels = 64
out_channels = 128
kernel_size = (5, 7)
height = 96
width = 64
groups = 32

def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, (2, 1), groups]
"""

HEADS = f"""{HEAD}
BATCH, HEADS, WIDTH = 2, 8, 512
LENGTH = 128
DEPTH = WIDTH // HEADS

class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x, y):
        parts = x.reshape(x.shape[0], x.shape[1], self.heads, -1)
        return (parts * y).sum(-1)

def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.randn(HEADS, DEPTH)]

def get_init_inputs():
    return [HEADS]
"""

RESIDUAL = f"""{HEAD}
WIDE = 256
ALSO = 256

class Model(nn.Module):
    def forward(self, x, y):
        return x + y.t().reshape(x.shape)

def get_inputs():
    return [torch.randn(WIDE, 300), torch.randn(300, ALSO)]
"""

LITERALS = f"""{HEAD}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(500, 48)

    def forward(self, rows, x):
        return self.table(rows) * x[:, None]

SEED = 12345

def get_inputs():
    return [torch.randint(0, 500, (64, 4)), torch.randn(64, 48)]
"""
FIXED = f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        return x.softmax(-1)

SEED = 12345

def get_inputs():
    return [torch.randn(*map(int, "64 300".split()))]
"""


def shapes(source: str, overrides: dict[str, int]) -> list[tuple[int, ...]]:
    reference = Reference(source, "t.py", overrides)
    sample = reference.sample(0)
    return [tuple(x.tensor.shape) for x in (*sample.inputs, *sample.params, *reference.run(sample))]


@pytest.mark.parametrize("source", [GROUPED, HEADS, RESIDUAL], ids=["grouped", "heads", "residual"])
def test_small_is_small_and_held_out_differs_from_small_and_bench(source):
    task = describe_task(source, "t.py")
    bench, small, held_out = (shapes(source, task.sizes[name]) for name in ("bench", "small", "held_out"))
    assert sum(map(math.prod, small)) <= MAX_CHECK_ELEMENTS
    assert sum(map(math.prod, small)) < sum(map(math.prod, bench))
    assert held_out not in (small, bench)
    assert [len(s) for s in bench] == [len(s) for s in small] == [len(s) for s in held_out]
    assert any(n % 2 for shape in held_out for n in shape)
    assert task.tags == ()
    assert describe_task(source, "t.py") == task


def test_hyperparameters_are_not_changed():
    task = describe_task(GROUPED, "t.py")
    for overrides in task.sizes.values():
        assert not {"kernel_size[0]", "kernel_size[1]"} & set(overrides)
    channels = {**Reference(GROUPED).constants, **task.sizes["held_out"]}
    assert channels["in_channels"] % channels["groups"] == channels["out_channels"] % channels["groups"] == 0


def test_dependent_constants_change_together():
    task = describe_task(RESIDUAL, "t.py")
    for name in ("small", "held_out"):
        assert task.sizes[name]["WIDE"] == task.sizes[name]["ALSO"]
    assert task.sizes["held_out"]["WIDE"] != task.sizes["small"]["WIDE"]
    depth = describe_task(HEADS, "t.py").sizes["held_out"]
    assert depth["WIDTH"] % Reference(HEADS, "t.py", depth).namespace["HEADS"] == 0


def test_literals_in_functions_are_sizes_without_constants():
    task = describe_task(LITERALS, "t.py")
    assert task.tags == ()
    small, held_out = shapes(LITERALS, task.sizes["small"]), shapes(LITERALS, task.sizes["held_out"])
    assert small != held_out != shapes(LITERALS, {}) != small
    assert all(n % 2 for shape in held_out for n in shape if n > 4)
    named = LITERALS.replace("(64, 4)", "(SEED // 200, 4)").replace("randn(64,", "randn(SEED // 200,")
    assert set(Reference(named).constants) == {"SEED"}


def test_file_without_size_constants_is_tagged_fixed_size():
    task = describe_task(FIXED, "t.py")
    assert shapes(FIXED, task.sizes["small"]) == shapes(FIXED, task.sizes["held_out"]) == shapes(FIXED, {})
    assert task.tags == ("fixed-size",)


def test_declared_sizes_are_used_and_hidden_from_generators():
    source = (
        RESIDUAL
        + 'SIZES = {\n    "small": {"WIDE": 32, "ALSO": 32},\n    "held_out": {"WIDE": 37, "ALSO": 37},\n}\nATOL = 1e-3\nRTOL = 0\n'
    )
    task = describe_task(source, "t.py")
    assert task.sizes == {"bench": {}, "small": {"WIDE": 32, "ALSO": 32}, "held_out": {"WIDE": 37, "ALSO": 37}}
    assert "SIZES" not in task.source
    assert "37" not in task.source
    assert (task.atol, task.rtol) == (1e-3, 0)
    assert shapes(task.source, task.sizes["held_out"])[0] == (37, 300)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('SIZES = {"tiny": {"WIDE": 3}}', "SIZES must map small and held_out"),
        ('SIZES = {"small": {"WIDE": 2.5}}', r"SIZES\['small'\] must map names of constants to integers"),
        ('SIZES = {"small": {"NOPE": 3}}', "'NOPE' is not an integer constant"),
        ('SIZES = {"small": {"WIDE": 3}}', "raised RuntimeError"),
        ("ATOL = -1", "ATOL is -1. Give a non-negative number"),
        ("RTOL = 'loose'", "RTOL is 'loose'"),
    ],
)
def test_invalid_declarations_are_refused(line, message):
    with pytest.raises(UserError, match=message):
        describe_task(f"{RESIDUAL}{line}\n", "t.py")


def test_tolerance_follows_the_output_dtype():
    half = RESIDUAL.replace("reshape(x.shape)", "reshape(x.shape).to(torch.bfloat16)").replace("x + ", "x.bfloat16() + ")
    double = (
        "N = 64\nclass Model(nn.Module):\n    def forward(self, x): return x * 2\ndef get_inputs(): return [torch.randn(N, N).double()]\n"
    )
    tasks = [describe_task(text, "t.py") for text in (half, RESIDUAL, HEAD + double, HEAD + double.replace("x * 2", "(x * 2).float()"))]
    assert [task.atol for task in tasks] == [1e-2, 1e-4, 1e-9, 1e-4]


def test_problematic_references_are_tagged():
    def tags(forward: str, inputs: str = "torch.randn(N, 64)") -> tuple[str, ...]:
        body = f"{HEAD}N = 64\nclass Model(nn.Module):\n    def forward(self, x): return {forward}\ndef get_inputs(): return [{inputs}]\n"
        return describe_task(body, "t.py").tags

    assert tags("x * 2") == ()
    assert tags("torch.log(x)") == ("non-finite",)
    assert tags("x + torch.rand_like(x)") == ("random",)
    assert tags("torch.relu(x)", "torch.rand(N, 64)") == ("vacuous",)  # a copy of the input passes
    assert tags("x * 0") == ("vacuous",)
    assert tags("x.masked_fill(x > 1, float('-inf'))") == ("non-finite",)  # a copy of the input misses the infinities
    assert tags("(x - x.mean(1, keepdim=True)).mean() * 0 + 3") == ("vacuous",)  # the output for other inputs passes


def test_empty_output_is_refused():
    source = f"{HEAD}class Model(nn.Module):\n    def forward(self, x): return x[:0]\ndef get_inputs(): return [torch.randn(4)]\n"
    with pytest.raises(UserError, match=r"returned an empty tensor \(out\)\. Check the sizes in get_inputs"):
        describe_task(source, "t.py")


def test_large_task_is_described_by_shapes_only():
    source = RESIDUAL.replace("WIDE = 256", "WIDE = 1 << 30").replace("ALSO = 256", "ALSO = 2 ** 30")
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    task = describe_task(source, "t.py")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert task.signature.inputs[0].shape == (1 << 30, 300)
    assert task.work.bytes == 3 * 4 * 300 * 2**30
    assert sum(map(math.prod, shapes(source, task.sizes["small"]))) <= MAX_CHECK_ELEMENTS
    assert shapes(source, task.sizes["held_out"]) != shapes(source, task.sizes["small"])


def test_ragged_neighbours_are_primes_and_odd_multiples():
    assert ragged_neighbours(64, upwards=True)[:3] == [67, 61, 71]
    assert ragged_neighbours(64, upwards=False)[0] == 61
    assert {68, 72, 80, 96, 192} <= set(ragged_neighbours(64, upwards=True))
    assert all(n > 1 and n != 2 for n in ragged_neighbours(2, upwards=False))


@pytest.mark.parametrize(
    ("forward", "inputs", "flops", "read"),
    [
        ("x @ y", "[torch.randn(4, 8), torch.randn(8, 16)]", 2 * 4 * 8 * 16, 4 * (4 * 8 + 8 * 16 + 4 * 16)),
        ("x + y", "[torch.randn(4, 8), torch.randn(8)]", 32, 4 * (32 + 8 + 32)),
        ("x.sum(1)", "[torch.randn(4, 8)]", 32, 4 * (32 + 4)),
        ("torch.relu(x.exp())", "[torch.randn(4, 8)]", 64, 4 * 64),
        ("x.t().contiguous()", "[torch.randn(4, 8)]", 0, 4 * 64),
        ("x[y]", "[torch.randn(100, 8), torch.arange(3)]", 0, 4 * 24 + 8 * 3 + 4 * 24),
        ("x * 2", "[torch.randn(4), torch.randn(9)]", 4, 4 * 8),
        ("torch.nn.functional.scaled_dot_product_attention(x, x, x)", "[torch.randn(1, 2, 16, 8)]", 2 * 2 * 16 * 16 * 16, 4 * 512),
        ("torch.nn.functional.conv2d(x, y)", "[torch.randn(1, 2, 8, 8), torch.randn(4, 2, 3, 3)]", 2 * 4 * 36 * 18, 4 * (128 + 72 + 144)),
    ],
)
def test_work_is_counted(forward, inputs, flops, read):
    source = f"{HEAD}class Model(nn.Module):\n    def forward(self, x, y=None): return {forward}\ndef get_inputs(): return {inputs}\n"
    reference = Reference(source)
    sample = reference.sample(0)
    work, _ = count_work(reference, sample)
    assert (work.flops, work.bytes) == (flops, read)
    from_shapes = measure_shapes(source, "t.py", {})
    assert from_shapes is not None
    assert (from_shapes.work.bytes, from_shapes.signature) == (work.bytes, make_signature(sample, reference.run(sample)))
    if "attention" not in forward:  # without values torch splits attention into products and a softmax
        assert from_shapes.work.flops == flops
