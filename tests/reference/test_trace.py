"""References traced at several sizes: what is computed, and which numbers follow the size."""

import pytest

from evokernel.core.records import Task
from evokernel.reference.program import Program, Ref, Varied, checking, program, program_of
from evokernel.tasks.loader import load

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nA = 24\nB = 40\n"
TAIL = "\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
SMALL = (("A", 6), ("B", 10))


def traced(body, inputs="torch.randn(A, B)", names="x", head=""):
    text = f"{HEAD}{head}class Model(nn.Module):\n    def forward(self, {names}):\n{body}\n{TAIL.format(inputs=inputs)}"
    return program(text, "task.py", SMALL)


def test_operators_are_those_of_pytorch_whatever_the_text_calls_them():
    text = "        scores = x - x.max(dim=-1, keepdim=True).values\n        return F.gelu(scores.softmax(-1)) @ x.T"
    found = traced(text)
    assert [step.op.split(".")[1] for step in found.steps] == ["max", "sub", "softmax", "gelu", "numpy_T", "matmul"]
    assert found.steps[1].args == (Ref(name="x"), Ref(name="v0"))
    assert found.outputs == (Ref(name="v5"),)


def test_numbers_that_follow_the_size_are_told_from_those_that_do_not():
    found = traced("        return (x * x.shape[1] ** -0.5).reshape(-1, 2) * 3.0")
    x, scaled, shaped, tripled = found.arguments[0], *found.steps
    assert all(isinstance(extent, Varied) and len(extent.at) == found.sizes for extent in x.shape)
    assert scaled.args[1].at[0] == pytest.approx(40**-0.5)
    assert shaped.shapes[0][1] == 2
    assert isinstance(shaped.shapes[0][0], Varied)
    assert tripled.args[1] == 3.0


def test_every_constant_changes_alone_somewhere():
    found = traced("        return x + 1.0")
    rows, columns = (extent.at for extent in found.arguments[0].shape)
    assert any(r != rows[1] and c == columns[1] for r, c in zip(rows, columns))
    assert any(r == rows[1] and c != columns[1] for r, c in zip(rows, columns))


def test_layers_give_their_parameters_by_the_names_a_kernel_gets():
    part = "class Part(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = nn.Linear(B, 3)\n"
    part += "        self.shift = torch.ones(3)\n    def forward(self, x):\n        return self.inner(x) + self.shift\n\n\n"
    text = f"{HEAD}{part}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.part = Part()\n"
    text += f"    def forward(self, x):\n        return self.part(x)\n{TAIL.format(inputs='torch.randn(A, B)')}"
    found = program(text, "task.py", SMALL)
    assert [argument.name for argument in found.arguments] == ["x", "part_inner_weight", "part_inner_bias", "part_shift"]
    assert found.steps[-1].args[1] == Ref(name="part_shift")


@pytest.mark.parametrize(
    ("body", "gap"),
    [
        ("        return x if x.sum() > 0 else -x", "cannot be traced"),
        ("        for _ in range(x.shape[0] // 6):\n            x = x + 1\n        return x", "steps that depend on the size"),
    ],
)
def test_what_cannot_be_traced_is_said(body, gap):
    assert gap in traced(body).gap


def test_held_out_sizes_are_not_traced():
    task = load("starter/softmax")[0]
    hidden = task.sizes["held_out"]
    assert {key for key, _ in checking(task)} >= set(hidden)
    assert not any(value and value == hidden.get(key) != task.sizes["small"].get(key) for key, value in checking(task))


def test_a_program_is_kept_and_read_again_without_torch(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path))
    program.cache_clear()
    task = load("starter/gelu")[0]
    first = program_of(task)
    program.cache_clear()
    monkeypatch.setattr("evokernel.reference.trace.trace", lambda *_: pytest.fail("traced again"))
    assert program_of(task) == first
    program.cache_clear()


def test_records_survive_the_disk():
    found = program_of(load("starter/attention_head")[0])
    assert Program.model_validate_json(found.model_dump_json()) == found
    assert isinstance(load("starter/gelu")[0], Task)
