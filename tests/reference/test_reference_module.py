"""The reference: samples from seeds, names, outputs, and one clear line when a task file is at fault."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from evokernel.core.errors import UserError
from evokernel.core.protocols import Array
from evokernel.reference.arrays import from_array, to_array
from evokernel.reference.module import Reference
from evokernel.reference.signature import signature

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def task(forward: str, inputs: str, init: str = "pass", arguments: str = "", init_inputs: str = "[]", top: str = "N = 8") -> str:
    """A task file with these pieces."""
    return (
        f"{HEAD}{top}\nclass Model(nn.Module):\n    def __init__(self{arguments}):\n        super().__init__()\n        {init}\n"
        f"    {forward}\ndef get_inputs():\n    return {inputs}\ndef get_init_inputs():\n    return {init_inputs}\n"
    )


def describe(source: str):
    reference = Reference(source, "task.py")
    sample = reference.sample(0)
    return signature(sample, reference.run(sample))


def shown(tensors) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(t.name, t.dtype, t.shape) for t in tensors]


ADD = task("def forward(self, x, y): return x + y", "[torch.randn(N, 3), torch.randn(3)]")


def test_a_seed_decides_everything_and_leaves_the_callers_chance_alone():
    source = task("def forward(self, x): return self.part(x)", "[torch.randn(4, N)]", "self.part = nn.Linear(N, 2)")
    reference = Reference(source)
    torch.manual_seed(5)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    first, again, other = reference.sample(1), reference.sample(1), reference.sample(2)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert random.getstate() == before[2]
    for a, b, c in zip(first.arrays(), again.arrays(), other.arrays()):
        assert np.array_equal(a.data, b.data)
        assert a.data.shape == c.data.shape
        assert not np.array_equal(a.data, c.data)
    assert torch.equal(reference.run(first)[0].tensor, reference.run(again)[0].tensor)


def test_numpy_and_random_are_seeded_too():
    top = "import random\nimport numpy as np\nN = 8"
    source = task("def forward(self, x): return x * 1", "[torch.tensor([random.random(), np.random.rand()])]", top=top)
    reference = Reference(source)
    assert torch.equal(reference.sample(3).inputs[0].tensor, reference.sample(3).inputs[0].tensor)


def test_the_module_is_in_evaluation_mode():
    source = task("def forward(self, x): return self.drop(x)", "[torch.ones(64)]", "self.drop = nn.Dropout(0.5)")
    reference = Reference(source)
    assert reference.run(reference.sample(0))[0].tensor.eq(1).all()


def test_constants_are_replaced_and_what_follows_from_them_follows():
    top = "N: int = 4 * 8\nA, B = 6, 7\nshape = (3, 5)\nTWICE = 2 * N\nSCALE = 1.5\nFLAG = True"
    source = task("def forward(self, x, y): return x * 1, y * 1", "[torch.ones(TWICE, A, B), torch.ones(*shape)]", top=top)
    reference = Reference(source, "task.py", {"N": 5, "B": 2, "shape[1]": 9})
    assert reference.constants == {"N": 5, "A": 6, "B": 2, "shape[0]": 3, "shape[1]": 9}
    assert [tuple(x.tensor.shape) for x in reference.sample(0).inputs] == [(10, 6, 2), (3, 9)]
    with pytest.raises(UserError, match="'M' is no integer constant of the module; it has: N, A, B"):
        Reference(source, "task.py", {"M": 1})


def test_several_outputs_are_flattened_and_absent_ones_left_out():
    forward = "def forward(self, x): return {'top': torch.max(x, dim=1), 'none': None, 'rest': [x > 0]}"
    got = describe(task(forward, "[torch.randn(N, 3)]"))
    assert shown(got.outputs) == [("out0", "float32", (8,)), ("out1", "int64", (8,)), ("out2", "bool", (8, 3))]


def test_nested_inputs_scalars_and_numbers_the_module_was_made_with():
    got = describe(
        task(
            "def forward(self, xs, index, alpha, flip, mode=None, extra=None): return xs[0] * alpha + xs[1][index].sum()",
            "[[torch.randn(N), torch.randn(N)], torch.arange(3), 0.5, True, 'text', {'left': torch.ones(1), 'count': 3}]",
            arguments=", size, rates, name, alpha, dilation=1",
            init_inputs="[N, (1, 2.5), 'relu', None]",
        )
    )
    assert shown(got.inputs) == [
        ("xs_0", "float32", (8,)),
        ("xs_1", "float32", (8,)),
        ("index", "int64", (3,)),
        ("extra_left", "float32", (1,)),
    ]
    assert [(n.name, n.kind, n.value) for n in got.scalars] == [
        ("alpha", "float", 0.5),
        ("flip", "bool", 1.0),
        ("extra_count", "int", 3.0),
        ("size", "int", 8.0),
        ("rates_0", "int", 1.0),
        ("rates_1", "float", 2.5),
    ]


def test_parameters_then_buffers_then_held_tensors_with_names_no_kernel_can_trip_over():
    init = (
        "self.norm = nn.BatchNorm1d(N); self.register_buffer('mask', torch.ones(N, dtype=torch.bool)); "
        "self.weight = nn.Parameter(torch.randn(N)); self.table = torch.arange(N)"
    )
    got = describe(
        task("def forward(self, weight, int, x_shape, x): return self.norm(weight) * self.mask + x", "[torch.randn(4, N)] * 4", init)
    )
    assert [t.name for t in got.inputs] == ["weight", "int_", "x_shape", "x_2"]
    assert [t.name for t in got.params] == [
        "weight_2",
        "norm_weight",
        "norm_bias",
        "mask",
        "norm_running_mean",
        "norm_running_var",
        "table",
    ]
    names = [t.name for t in got.inputs + got.params + got.outputs] + [n.name for n in got.scalars]
    assert len(names) == len(set(names))


def test_variable_arguments_are_numbered():
    got = describe(task("def forward(self, first, *others): return first + sum(others)", "[torch.randn(N)] * 3"))
    assert [t.name for t in got.inputs] == ["first", "others_0", "others_1"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_every_dtype_survives_the_way_to_the_kernel_and_back(dtype):
    source = task("def forward(self, x): return x.t().clone().t()", f"[(torch.randn(N, 3) * 3).abs().to(torch.{dtype}).t()]")
    reference = Reference(source)
    sample = reference.sample(0)
    (array,) = sample.arrays()
    assert (array.dtype, array.data.shape) == (dtype, (3, 8))
    assert array.data.flags.c_contiguous
    assert array.data.dtype == (np.uint16 if dtype == "bfloat16" else np.dtype(dtype))
    assert torch.equal(from_array(array), sample.inputs[0].tensor)
    (out,) = reference.run(sample)
    assert out.tensor.is_contiguous()
    assert torch.equal(out.tensor, sample.inputs[0].tensor)


def test_a_scalar_tensor_keeps_its_rank():
    array = to_array("x", torch.tensor(2.0, dtype=torch.bfloat16))
    assert array.data.shape == ()
    assert from_array(Array("x", "bfloat16", array.data)) == 2


def test_a_reference_that_writes_into_its_inputs_leaves_the_sample_as_it_was():
    source = task(
        "def forward(self, x): self.calls += 1; return x.mul_(2), x", "[torch.randn(N)]", "self.register_buffer('calls', torch.zeros(1))"
    )
    reference = Reference(source)
    sample = reference.sample(0)
    before = [array.data.copy() for array in sample.arrays()]
    first, second = reference.run(sample), reference.run(sample)
    assert all(np.array_equal(a, b.data) for a, b in zip(before, sample.arrays()))
    assert torch.equal(first[0].tensor, torch.from_numpy(before[0] * 2))
    assert torch.equal(first[1].tensor, second[1].tensor)
    call = reference.baseline(sample)
    call(), call()
    assert np.array_equal(sample.arrays()[0].data, before[0])


def test_outputs_never_share_memory_with_the_sample():
    reference = Reference(task("def forward(self, x): return x, x[1:]", "[torch.randn(N)]"))
    sample = reference.sample(0)
    whole, rest = reference.run(sample)
    whole.tensor.zero_(), rest.tensor.zero_()
    assert sample.inputs[0].tensor.abs().min() > 0


def test_the_baseline_calls_what_it_is_given():
    reference = Reference(ADD)
    sample = reference.sample(0)
    assert torch.equal(reference.baseline(sample)(), reference.run(sample)[0].tensor)
    assert reference.baseline(sample, lambda x, y: "compiled")() == "compiled"


def test_dataclasses_in_a_task_file_work():
    top = "from __future__ import annotations\nfrom dataclasses import dataclass\nN = 8\n@dataclass\nclass Shape:\n    n: int = 4"
    source = task("def forward(self, x): return x + Shape().n", "[torch.zeros(N)]", top=top).replace(HEAD, "", 1)
    source = source.replace("from dataclasses", f"{HEAD}from dataclasses", 1)
    reference = Reference(source)
    assert reference.run(reference.sample(0))[0].tensor.eq(4).all()


BAD = {
    "syntax": ("def f(:\n", r"task file bad\.py, line 1: reading it raised SyntaxError: .*; fix the task file"),
    "import": ("\nimport no_such_thing\n", r"bad\.py, line 2: loading it raised ModuleNotFoundError: No module named 'no_such_thing'"),
    "exit": ("import sys\nsys.exit(3)\n", r"bad\.py, line 2: loading it raised SystemExit: 3"),
    "no model": (f"{HEAD}def get_inputs(): return []\n", r"bad\.py: it defines no Model; add `class Model\(nn.Module\)`"),
    "no inputs": (f"{HEAD}class Model(nn.Module): pass\n", r"bad\.py: it defines no get_inputs; add `def get_inputs\(\)`"),
    "no module": ("class Model: pass\ndef get_inputs(): return []\n", r"Model is no torch\.nn\.Module"),
    "raises": (
        task("def forward(self, x): return x @ x", "[torch.randn(2, 3)]"),
        r"bad\.py, line 9: Model\.forward raised RuntimeError: mat1 and mat2",
    ),
    "inputs raise": (task("def forward(self, x): return x", "[1 / 0]"), r"get_inputs\(\) raised ZeroDivisionError: division by zero"),
    "init raises": (task("def forward(self, x): return x", "[1]", "raise ValueError"), r"line 8: Model\(\.\.\.\) raised ValueError; fix"),
    "not a list": (
        task("def forward(self, x): return x", "torch.ones(2)"),
        r"get_inputs\(\) returned a Tensor; return a list of arguments",
    ),
    "complex": (
        task("def forward(self, x): return x", "[torch.ones(2) * 1j]"),
        r"'x': complex64 tensors are not supported; use one of float32",
    ),
    "sparse": (task("def forward(self, x): return x", "[torch.eye(2).to_sparse()]"), r"'x': sparse_coo tensors are not supported"),
    "no output": (task("def forward(self, x): return None", "[torch.ones(2)]"), r"Model\.forward returned nothing"),
    "no tensor": (
        task("def forward(self, x): return x.sum().item()", "[torch.ones(2)]"),
        r"Model\.forward returned a float; return tensors",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_task_file_is_one_line_that_names_the_fix(case):
    source, message = BAD[case]
    with pytest.raises(UserError) as caught:
        describe_bad(source)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


def describe_bad(source: str) -> None:
    reference = Reference(source, "bad.py")
    reference.run(reference.sample(0))


def test_a_half_precision_product_makes_no_noise():
    """On processors without instructions for it torch prints a stack trace, once per process."""
    source = (
        "import torch\nclass Model(torch.nn.Linear):\n    pass\ndef get_init_inputs():\n    return [64, 64, True, None, torch.bfloat16]\n"
        "def get_inputs():\n    return [torch.randn(64, 64, dtype=torch.bfloat16)]\n"
    )
    code = "import sys; from evokernel.reference.module import Reference; r = Reference(sys.argv[1]); r.run(r.sample(0))"
    done = subprocess.run([sys.executable, "-c", code, source], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
