"""Backward passes as tasks: names, sizes, refusals, and gradients that agree with finite differences."""

from __future__ import annotations

import pytest
import torch
from sampling import one_in

from evokernel.core.errors import UserError
from evokernel.reference import describe
from evokernel.reference.float64_reference import Float64Mode, run_in_float64, widen_arguments, widen_module
from evokernel.reference.module import Reference
from evokernel.reference.program_cache import load_task_program
from evokernel.suites.loader import find_task_files, load_tasks

HEAD = "import torch\nimport torch.nn as nn\n\nROWS = 24\nCOLS = 40\n\n\n"
TAIL = "\n\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"


@pytest.fixture
def write_task(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))

    def write(forward, inputs="torch.randn(ROWS, COLS)", name="own.py"):
        (tmp_path / "tasks").mkdir(exist_ok=True)
        path = tmp_path / "tasks" / name
        path.write_text(f"{HEAD}class Model(nn.Module):\n{forward}{TAIL.format(inputs=inputs)}")
        return str(path)

    return write


def load_one(spec):
    (task,) = load_tasks(spec)
    return task


def input_names(task):
    return [tensor.name for tensor in (*task.signature.inputs, *task.signature.params)]


def output_shapes(task):
    return {tensor.name: tensor.shape for tensor in task.signature.outputs}


def run_small(task):
    """The named inputs and outputs of the reference at the small size."""
    reference = Reference(task.source, task.id, task.sizes["small"])
    sample = reference.sample(3)
    return {**dict(sample.inputs), **dict(reference.run(sample))}


def test_backward_task_takes_inputs_output_gradient_and_parameters():
    forward, backward = load_one("starter/linear_gelu"), load_one("starter/linear_gelu:backward")
    assert backward.id == "starter/linear_gelu:backward"
    assert input_names(backward) == ["x", "grad_out", "linear_weight", "linear_bias"]
    assert output_shapes(backward) == {"grad_x": (128, 512), "grad_linear_weight": (512, 512), "grad_linear_bias": (512,)}
    for field in ("sizes", "atol", "rtol", "tags", "family", "families", "category", "level"):
        assert getattr(backward, field) == getattr(forward, field), field
    assert "SIZES" not in backward.source
    assert backward.work.flops > forward.work.flops


def test_patterns_name_backward_passes():
    ids = [file.id for file in find_task_files("starter/*norm:backward,level1/silu:backward")]
    assert ids == ["starter/layernorm:backward", "starter/rmsnorm:backward", "level1/silu:backward"]


def test_backward_pass_comes_from_the_cache(write_task, monkeypatch):
    path = write_task("    def forward(self, x):\n        return x.sin()")
    first = load_one(f"{path}:backward")
    monkeypatch.setattr(describe, "describe_task", None)
    assert load_one(f"{path}:backward") == first
    assert load_one(path).signature != first.signature


FORWARDS = {
    "random": ("torch.nn.functional.dropout(x, 0.5)", "draws random numbers"),
    "integers": ("x.argmax(dim=-1)", "no float output depends on a float input"),
    "detached": ("x.detach() * 2", "no float output depends on a float input"),
    "steps": ("torch.round(x)", "gradients are zero everywhere"),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_task_without_gradient_is_refused_on_one_line(write_task, name):
    expression, reason = FORWARDS[name]
    with pytest.raises(UserError, match=reason) as refusal:
        load_tasks(write_task(f"    def forward(self, x):\n        return {expression}") + ":backward")
    assert "\n" not in str(refusal.value)


def test_backward_pass_of_a_backward_pass_is_refused():
    with pytest.raises(UserError, match="is a backward pass already"):
        find_task_files("gradients/softmax:backward")
    with pytest.raises(UserError, match="did you mean 'softmax'"):
        find_task_files("gradients/softmex")


def test_forward_that_writes_into_its_input(write_task):
    task = load_one(write_task("    def forward(self, x):\n        x.mul_(2)\n        return x.square()") + ":backward")
    values = run_small(task)
    torch.testing.assert_close(values["grad_x"], 8 * values["x"] * values["grad_out"])


def test_several_outputs_of_which_one_has_no_gradient(write_task):
    task = load_one(write_task("    def forward(self, x):\n        y, i = x.sort(dim=-1)\n        return y * 2, i, x * 3") + ":backward")
    assert input_names(task) == ["x", "grad_out0", "grad_out1"]
    values = run_small(task)
    order = values["x"].argsort(dim=-1)
    expected = torch.zeros_like(values["x"]).scatter(-1, order, 2 * values["grad_out0"]) + 3 * values["grad_out1"]
    torch.testing.assert_close(values["grad_x"], expected)


def test_nested_inputs_and_inputs_without_gradient(write_task):
    forward = "    def forward(self, xs, mask):\n        return xs[0] * xs[1] * (mask > 0)"
    task = load_one(write_task(forward, "[torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)], torch.randn(ROWS, COLS)") + ":backward")
    assert [*output_shapes(task)] == ["grad_xs_0", "grad_xs_1"]
    values = run_small(task)
    torch.testing.assert_close(values["grad_xs_0"], values["xs_1"] * values["grad_out"] * (values["mask"] > 0))


def test_forward_that_needs_values(write_task):
    task = load_one(write_task("    def forward(self, x):\n        return x * (2 if x.sum().item() > 1e9 else 3)") + ":backward")
    values = run_small(task)
    torch.testing.assert_close(values["grad_x"], 3 * values["grad_out"])


def test_sizes_in_get_inputs_follow_the_forward_pass(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "old_style.py"
    path.write_text(
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super(Model, self).__init__()\n        self.scale = nn.Parameter(torch.randn(96))\n\n"
        "    def forward(self, x):\n        return x * self.scale\n\n\ndef get_inputs():\n    return [torch.randn(64, 96)]\n"
    )
    forward, backward = load_one(str(path)), load_one(f"{path}:backward")
    assert backward.sizes == forward.sizes
    assert forward.sizes["small"]
    assert output_shapes(backward) == {"grad_x": (64, 96), "grad_scale": (96,)}


def test_program_of_a_backward_pass_has_its_steps():
    ops = [step.op.split(".")[1] for step in load_task_program(load_one("gradients/softmax")).steps]
    assert ops == ["_softmax", "_softmax_backward_data"]


@pytest.mark.parametrize("file", one_in(8, find_task_files("gradients"), lambda file: file.id))
def test_gradient_equals_finite_difference(file):
    task = load_one(file.id)
    reference = Reference(task.source, task.id, task.sizes["small"])
    sample = reference.sample(5)
    exact = run_in_float64(reference, sample, reference.run(sample))
    assert exact is not None
    module, args = widen_module(sample.module), widen_arguments(sample.args)
    *inputs, weight = args
    wanted = {f"grad_{name}": tensor for (name, _), tensor in zip(sample.inputs, inputs)}
    wanted |= {f"grad_{name}": tensor for (name, _), tensor in zip(sample.params, [*module.parameters(), *module.buffers()])}
    generator = torch.Generator().manual_seed(9)
    directions = {  # shorter near zero, where a logarithm ends
        name: torch.randn(out.shape, generator=generator, dtype=torch.float64) * wanted[name].detach().abs().clamp(max=1)
        for name, out in exact.outputs
    }

    def loss_at(step):
        originals = {name: wanted[name].detach().clone() for name in directions}
        with torch.no_grad(), Float64Mode():
            for name, direction in directions.items():
                wanted[name].add_(direction, alpha=step)
            loss = float((reference.namespace["ForwardModel"].forward(module, *inputs) * weight).sum())
            for name, original in originals.items():
                wanted[name].copy_(original)
        return loss

    step = 1e-6
    slope = (loss_at(step) - loss_at(-step)) / (2 * step)
    terms = [(out * directions[name]) for name, out in exact.outputs]
    size = sum(float(term.square().sum()) for term in terms) ** 0.5
    assert abs(slope - sum(float(term.sum()) for term in terms)) <= 1e-4 * size
