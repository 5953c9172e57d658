"""References traced at several sizes: operations, and numbers that depend on the size."""

import pytest

from evokernel.core.records import Task
from evokernel.reference.program import Program, SizeDependent, ValueRef
from evokernel.reference.program_cache import checking_constants, load_program, load_task_program
from evokernel.suites.loader import load_tasks

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nA = 24\nB = 40\n"
TAIL = "\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
SMALL = (("A", 6), ("B", 10))


def trace_forward(body, inputs="torch.randn(A, B)", names="x", head=""):
    text = f"{HEAD}{head}class Model(nn.Module):\n    def forward(self, {names}):\n{body}\n{TAIL.format(inputs=inputs)}"
    return load_program(text, "task.py", SMALL)


def test_operators_have_their_pytorch_names():
    text = "        scores = x - x.max(dim=-1, keepdim=True).values\n        return F.gelu(scores.softmax(-1)) @ x.T"
    program = trace_forward(text)
    assert [step.op.split(".")[1] for step in program.steps] == ["max", "sub", "softmax", "gelu", "numpy_T", "matmul"]
    assert program.steps[1].args == (ValueRef(name="x"), ValueRef(name="v0"))
    assert program.outputs == (ValueRef(name="v5"),)


def test_size_dependent_numbers_are_marked():
    program = trace_forward("        return (x * x.shape[1] ** -0.5).reshape(-1, 2) * 3.0")
    x, scaled, reshaped, tripled = program.arguments[0], *program.steps
    assert all(isinstance(extent, SizeDependent) and len(extent.values) == program.sizes for extent in x.shape)
    assert scaled.args[1].values[0] == pytest.approx(40**-0.5)
    assert reshaped.shapes[0][1] == 2
    assert isinstance(reshaped.shapes[0][0], SizeDependent)
    assert tripled.args[1] == 3.0


def test_each_constant_changes_separately_in_some_size():
    program = trace_forward("        return x + 1.0")
    rows, columns = (extent.values for extent in program.arguments[0].shape)
    assert any(r != rows[1] and c == columns[1] for r, c in zip(rows, columns))
    assert any(r == rows[1] and c != columns[1] for r, c in zip(rows, columns))


def test_constants_that_only_work_together_change_together():
    text = "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def forward(self, x, y, w):\n"
    text += "        return (x + y) * torch.cat((w, w), -1)\n\n\ndef get_inputs():\n"
    text += "    return [torch.randn(24, 24), torch.randn(24, 24), torch.randn(12)]\n\n\ndef get_init_inputs():\n    return []\n"
    program = load_program(text, "task.py", tuple((f"get_inputs[{i}]", 0) for i in range(5)))
    x, y, w = (tuple(extent.values for extent in argument.shape) for argument in program.arguments)
    assert x == y
    assert x[1] == tuple(2 * n for n in w[0])
    assert (24, 48) in zip(*x)
    assert (48, 24) in zip(*x)


def test_sizes_at_which_the_reference_raises_print_nothing(capfd):
    program = trace_forward("        return x + y", "torch.randn(A, B), torch.randn(24, B)", "x, y", head="# silent\n")
    assert program.sizes == 1
    assert capfd.readouterr() == ("", "")


def test_parameters_have_the_names_of_the_signature():
    part = "class Part(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = nn.Linear(B, 3)\n"
    part += "        self.shift = torch.ones(3)\n    def forward(self, x):\n        return self.inner(x) + self.shift\n\n\n"
    text = f"{HEAD}{part}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.part = Part()\n"
    text += f"    def forward(self, x):\n        return self.part(x)\n{TAIL.format(inputs='torch.randn(A, B)')}"
    program = load_program(text, "task.py", SMALL)
    assert [argument.name for argument in program.arguments] == ["x", "part_inner_weight", "part_inner_bias", "part_shift"]
    assert program.steps[-1].args[1] == ValueRef(name="part_shift")


@pytest.mark.parametrize(
    ("body", "unsupported_reason"),
    [
        ("        return x if x.sum() > 0 else -x", "cannot be traced"),
        ("        for _ in range(x.shape[0] // 6):\n            x = x + 1\n        return x", "steps that depend on the size"),
    ],
)
def test_untraceable_reference_has_a_reason(body, unsupported_reason):
    assert unsupported_reason in trace_forward(body).unsupported_reason


def test_held_out_sizes_are_not_traced():
    task = load_tasks("starter/softmax")[0]
    hidden = task.sizes["held_out"]
    assert {key for key, _ in checking_constants(task)} >= set(hidden)
    assert not any(value and value == hidden.get(key) != task.sizes["small"].get(key) for key, value in checking_constants(task))


def test_program_is_cached_and_not_traced_again(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path))
    load_program.cache_clear()
    task = load_tasks("starter/gelu")[0]
    first = load_task_program(task)
    load_program.cache_clear()
    monkeypatch.setattr("evokernel.reference.trace.trace_program", lambda *_: pytest.fail("trace_forward again"))
    assert load_task_program(task) == first
    load_program.cache_clear()


def test_program_round_trips_through_json():
    program = load_task_program(load_tasks("starter/attention_head")[0])
    assert Program.model_validate_json(program.model_dump_json()) == program
    assert isinstance(load_tasks("starter/gelu")[0], Task)
