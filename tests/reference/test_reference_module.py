"""The reference: samples from seeds, names, outputs, and one-line errors for invalid task files."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from evokernel.core.backend import Array
from evokernel.core.errors import UserError
from evokernel.reference.arrays import from_array, to_array
from evokernel.reference.module import Reference
from evokernel.reference.signature import make_signature

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def task_source(forward: str, inputs: str, init: str = "pass", arguments: str = "", init_inputs: str = "[]", top: str = "N = 8") -> str:
    """Return the source of a task file with these parts."""
    return (
        f"{HEAD}{top}\nclass Model(nn.Module):\n    def __init__(self{arguments}):\n        super().__init__()\n        {init}\n"
        f"    {forward}\ndef get_inputs():\n    return {inputs}\ndef get_init_inputs():\n    return {init_inputs}\n"
    )


def signature_of(source: str):
    reference = Reference(source, "task.py")
    sample = reference.sample(0)
    return make_signature(sample, reference.run(sample))


def name_dtype_shape(tensors) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(t.name, t.dtype, t.shape) for t in tensors]


ADD = task_source("def forward(self, x, y): return x + y", "[torch.randn(N, 3), torch.randn(3)]")


def test_seed_determines_the_sample_and_random_state_is_restored():
    source = task_source("def forward(self, x): return self.part(x)", "[torch.randn(4, N)]", "self.part = nn.Linear(N, 2)")
    reference = Reference(source)
    torch.manual_seed(5)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    first, repeated, other = reference.sample(1), reference.sample(1), reference.sample(2)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert random.getstate() == before[2]
    for a, b, c in zip(first.to_arrays(), repeated.to_arrays(), other.to_arrays()):
        assert np.array_equal(a.data, b.data)
        assert a.data.shape == c.data.shape
        assert not np.array_equal(a.data, c.data)
    assert torch.equal(reference.run(first)[0].tensor, reference.run(repeated)[0].tensor)


def test_numpy_and_random_are_seeded_too():
    top = "import random\nimport numpy as np\nN = 8"
    source = task_source("def forward(self, x): return x * 1", "[torch.tensor([random.random(), np.random.rand()])]", top=top)
    reference = Reference(source)
    assert torch.equal(reference.sample(3).inputs[0].tensor, reference.sample(3).inputs[0].tensor)


def test_module_is_in_evaluation_mode():
    source = task_source("def forward(self, x): return self.drop(x)", "[torch.ones(64)]", "self.drop = nn.Dropout(0.5)")
    reference = Reference(source)
    assert reference.run(reference.sample(0))[0].tensor.eq(1).all()


def test_constants_and_values_computed_from_them_are_replaced():
    top = "N: int = 4 * 8\nA, B = 6, 7\nshape = (3, 5)\nTWICE = 2 * N\nSCALE = 1.5\nFLAG = True"
    source = task_source("def forward(self, x, y): return x * 1, y * 1", "[torch.ones(TWICE, A, B), torch.ones(*shape)]", top=top)
    reference = Reference(source, "task.py", {"N": 5, "B": 2, "shape[1]": 9})
    assert reference.constants == {"N": 5, "A": 6, "B": 2, "shape[0]": 3, "shape[1]": 9}
    assert [tuple(x.tensor.shape) for x in reference.sample(0).inputs] == [(10, 6, 2), (3, 9)]
    with pytest.raises(UserError, match="'M' is not an integer constant of the module; its constants: N, A, B"):
        Reference(source, "task.py", {"M": 1})


def test_nested_outputs_are_flattened_without_none():
    forward = "def forward(self, x): return {'top': torch.max(x, dim=1), 'none': None, 'second_output': [x > 0]}"
    signature = signature_of(task_source(forward, "[torch.randn(N, 3)]"))
    assert name_dtype_shape(signature.outputs) == [("out0", "float32", (8,)), ("out1", "int64", (8,)), ("out2", "bool", (8, 3))]


def test_nested_inputs_scalars_and_constructor_arguments_are_named():
    signature = signature_of(
        task_source(
            "def forward(self, xs, index, alpha, flip, mode=None, extra=None): return xs[0] * alpha + xs[1][index].sum()",
            "[[torch.randn(N), torch.randn(N)], torch.arange(3), 0.5, True, 'text', {'left': torch.ones(1), 'count': 3}]",
            arguments=", size, rates, name, alpha, dilation=1",
            init_inputs="[N, (1, 2.5), 'relu', None]",
        )
    )
    assert name_dtype_shape(signature.inputs) == [
        ("xs_0", "float32", (8,)),
        ("xs_1", "float32", (8,)),
        ("index", "int64", (3,)),
        ("extra_left", "float32", (1,)),
    ]
    assert [(n.name, n.kind, n.value) for n in signature.scalars] == [
        ("alpha", "float", 0.5),
        ("flip", "bool", 1.0),
        ("extra_count", "int", 3.0),
        ("size", "int", 8.0),
        ("rates_0", "int", 1.0),
        ("rates_1", "float", 2.5),
    ]


def test_parameters_buffers_and_attributes_have_unique_valid_names():
    init = (
        "self.norm = nn.BatchNorm1d(N); self.register_buffer('mask', torch.ones(N, dtype=torch.bool)); "
        "self.weight = nn.Parameter(torch.randn(N)); self.table = torch.arange(N)"
    )
    signature = signature_of(
        task_source("def forward(self, weight, int, x_shape, x): return self.norm(weight) * self.mask + x", "[torch.randn(4, N)] * 4", init)
    )
    assert [t.name for t in signature.inputs] == ["weight", "int_", "x_shape", "x_2"]
    assert [t.name for t in signature.params] == [
        "weight_2",
        "norm_weight",
        "norm_bias",
        "mask",
        "norm_running_mean",
        "norm_running_var",
        "table",
    ]
    names = [t.name for t in signature.inputs + signature.params + signature.outputs] + [n.name for n in signature.scalars]
    assert len(names) == len(set(names))


def test_variable_arguments_are_numbered():
    signature = signature_of(task_source("def forward(self, first, *others): return first + sum(others)", "[torch.randn(N)] * 3"))
    assert [t.name for t in signature.inputs] == ["first", "others_0", "others_1"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_every_dtype_round_trips_through_arrays(dtype):
    source = task_source("def forward(self, x): return x.t().clone().t()", f"[(torch.randn(N, 3) * 3).abs().to(torch.{dtype}).t()]")
    reference = Reference(source)
    sample = reference.sample(0)
    (array,) = sample.to_arrays()
    assert (array.dtype, array.data.shape) == (dtype, (3, 8))
    assert array.data.flags.c_contiguous
    assert array.data.dtype == (np.uint16 if dtype == "bfloat16" else np.dtype(dtype))
    assert torch.equal(from_array(array), sample.inputs[0].tensor)
    (out,) = reference.run(sample)
    assert out.tensor.is_contiguous()
    assert torch.equal(out.tensor, sample.inputs[0].tensor)


def test_scalar_tensor_keeps_its_rank():
    array = to_array("x", torch.tensor(2.0, dtype=torch.bfloat16))
    assert array.data.shape == ()
    assert from_array(Array("x", "bfloat16", array.data)) == 2


def test_reference_that_writes_into_its_inputs_leaves_the_sample_unchanged():
    source = task_source(
        "def forward(self, x): self.calls += 1; return x.mul_(2), x", "[torch.randn(N)]", "self.register_buffer('calls', torch.zeros(1))"
    )
    reference = Reference(source)
    sample = reference.sample(0)
    before = [array.data.copy() for array in sample.to_arrays()]
    first, second = reference.run(sample), reference.run(sample)
    assert all(np.array_equal(a, b.data) for a, b in zip(before, sample.to_arrays()))
    assert torch.equal(first[0].tensor, torch.from_numpy(before[0] * 2))
    assert torch.equal(first[1].tensor, second[1].tensor)
    call = reference.baseline_call(sample)
    call(), call()
    assert np.array_equal(sample.to_arrays()[0].data, before[0])


def test_outputs_never_share_memory_with_the_sample():
    reference = Reference(task_source("def forward(self, x): return x, x[1:]", "[torch.randn(N)]"))
    sample = reference.sample(0)
    first_output, second_output = reference.run(sample)
    first_output.tensor.zero_(), second_output.tensor.zero_()
    assert sample.inputs[0].tensor.abs().min() > 0


def test_baseline_call_uses_the_given_module():
    reference = Reference(ADD)
    sample = reference.sample(0)
    assert torch.equal(reference.baseline_call(sample)(), reference.run(sample)[0].tensor)
    assert reference.baseline_call(sample, lambda x, y: "compiled")() == "compiled"


def test_dataclasses_in_a_task_file_work():
    top = "from __future__ import annotations\nfrom dataclasses import dataclass\nN = 8\n@dataclass\nclass Shape:\n    n: int = 4"
    source = task_source("def forward(self, x): return x + Shape().n", "[torch.zeros(N)]", top=top).replace(HEAD, "", 1)
    source = source.replace("from dataclasses", f"{HEAD}from dataclasses", 1)
    reference = Reference(source)
    assert reference.run(reference.sample(0))[0].tensor.eq(4).all()


BAD = {
    "syntax": ("def f(:\n", r"task file bad\.py, line 1: reading it raised SyntaxError: .*; fix the task file"),
    "import": ("\nimport no_such_thing\n", r"bad\.py, line 2: loading it raised ModuleNotFoundError: No module named 'no_such_thing'"),
    "exit": ("import sys\nsys.exit(3)\n", r"bad\.py, line 2: loading it raised SystemExit: 3"),
    "no model": (f"{HEAD}def get_inputs(): return []\n", r"bad\.py does not define Model; add `class Model\(nn.Module\)`"),
    "no inputs": (f"{HEAD}class Model(nn.Module): pass\n", r"bad\.py does not define get_inputs; add `def get_inputs\(\)`"),
    "no module": ("class Model: pass\ndef get_inputs(): return []\n", r"Model is not a torch\.nn\.Module"),
    "raises": (
        task_source("def forward(self, x): return x @ x", "[torch.randn(2, 3)]"),
        r"bad\.py, line 9: Model\.forward raised RuntimeError: mat1 and mat2",
    ),
    "inputs raise": (
        task_source("def forward(self, x): return x", "[1 / 0]"),
        r"get_inputs\(\) raised ZeroDivisionError: division by zero",
    ),
    "init raises": (
        task_source("def forward(self, x): return x", "[1]", "raise ValueError"),
        r"line 8: Model\(\.\.\.\) raised ValueError; fix",
    ),
    "not a list": (
        task_source("def forward(self, x): return x", "torch.ones(2)"),
        r"get_inputs\(\) returned a Tensor; return a list of arguments",
    ),
    "complex": (
        task_source("def forward(self, x): return x", "[torch.ones(2, dtype=torch.complex128)]"),
        r"'x': complex128 tensors are not supported; use one of float32",
    ),
    "sparse": (task_source("def forward(self, x): return x", "[torch.eye(2).to_sparse()]"), r"'x': sparse_coo tensors are not supported"),
    "no output": (task_source("def forward(self, x): return None", "[torch.ones(2)]"), r"Model\.forward returned nothing"),
    "no tensor": (
        task_source("def forward(self, x): return x.sum().item()", "[torch.ones(2)]"),
        r"Model\.forward returned a float; return tensors",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_task_file_error_is_one_line_with_a_fix(case):
    source, message = BAD[case]
    with pytest.raises(UserError) as caught:
        run_task_file(source)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


def run_task_file(source: str) -> None:
    reference = Reference(source, "bad.py")
    reference.run(reference.sample(0))


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_half_precision_matmul_prints_nothing():
    """On processors without half-precision instructions torch prints a stack trace once per process."""
    source = (
        "import torch\nclass Model(torch.nn.Linear):\n    pass\ndef get_init_inputs():\n    return [64, 64, True, None, torch.bfloat16]\n"
        "def get_inputs():\n    return [torch.randn(64, 64, dtype=torch.bfloat16)]\n"
    )
    code = "import sys; from evokernel.reference.module import Reference; r = Reference(sys.argv[1]); r.run(r.sample(0))"
    process = subprocess.run([sys.executable, "-c", code, source], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
