"""Writes a task file for one torch call of a model: the same function on tensors of the same shapes and similar values."""

from __future__ import annotations

import inspect
import re
import textwrap
from functools import lru_cache
from typing import Any

from torch.overrides import get_testing_overrides
from torch.utils._pytree import tree_unflatten

from evokernel.reference.names import NameAllocator
from evokernel.torch_models.calls import RawText, TensorSlot, TorchCall, python_signature, resolve_function
from evokernel.torch_models.dimensions import RECURRENT, CallSizes, name_sizes
from evokernel.torch_models.profiles import Operator

INFIX = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "matmul": "{0} @ {1}",
    "__pow__": "{0} ** {1}",
    "__rsub__": "{1} - {0}",
    "__rpow__": "{1} ** {0}",
    "__rdiv__": "{1} / {0}",
    "__rtruediv__": "{1} / {0}",
    "gt": "{0} > {1}",
    "lt": "{0} < {1}",
    "ge": "{0} >= {1}",
    "le": "{0} <= {1}",
    "__eq__": "{0} == {1}",
    "__ne__": "{0} != {1}",
    "__and__": "{0} & {1}",
    "__or__": "{0} | {1}",
}
"""Methods that are written as operators."""
TENSOR_NAMES = {
    "input": "x",
    "self": "x",
    "data": "x",
    "tensors": "x",
    "indices": "index",
    "running_mean": "mean",
    "running_var": "variance",
}
INDEXED_TENSORS = {"embedding": (1, 0), "cross_entropy": (0, 1), "nll_loss": (0, 1), "__getitem__": (0, 0)}
"""Functions whose integer tensors are indices: the indexed tensor and axis. For `AXIS_FUNCTIONS` the axis is an argument."""
AXIS_FUNCTIONS = frozenset({"gather", "index_select", "scatter", "scatter_add", "take_along_dim"})
WIDTH = 120
NON_WORDS = re.compile(r"[^A-Za-z0-9]+")


def write_task_source(operator: Operator, model: str, scale: bool = False) -> str:
    """Return the source of a task file; `scale` adds a random factor to all float inputs. Raises UnsupportedArgument."""
    call = operator.call
    words = name_tensors(call)
    sizes = name_sizes(call, operator.roles, words)
    constants = [f"{name} = {value}" for name, value in sizes.constants.items()]
    factor = "(0.5 + torch.rand(1))" if scale else ""
    input_expressions = [
        one.sampling_expression(shape, index_limit(call, sizes, index), factor)
        for index, (one, shape) in enumerate(zip(operator.tensor_stats, sizes.shapes))
    ]
    body = f"        return {format_call(call, words, sizes)}"
    functional = ["import torch.nn.functional as F"] if "F." in body or any("F." in text for text in input_expressions) else []
    return "\n".join(
        [
            f'"""{describe_origin(operator, model)}"""',
            "",
            *("import torch", "import torch.nn as nn", *functional, ""),
            *([*constants, ""] if constants else []),
            *("", "class Model(nn.Module):", wrap_line(f"    def forward(self, {', '.join(words)}):"), wrap_line(body), "", ""),
            *("def get_inputs():", "    return [", *(f"        {text}," for text in input_expressions), "    ]", "", ""),
            *("def get_init_inputs():", "    return []", ""),
        ]
    )


def wrap_line(line: str) -> str:
    """Wrap a long line inside its brackets; a line with quotes stays unchanged."""
    if len(line) <= WIDTH or "'" in line or '"' in line:
        return line
    return textwrap.fill(line, WIDTH, initial_indent="", subsequent_indent=" " * 12, break_long_words=False, break_on_hyphens=False)


def describe_origin(operator: Operator, model: str) -> str:
    """Return one line about the origin of a task."""
    calls = f"{operator.calls} call{'s' * (operator.calls != 1)}"
    note = "; inputs that are constant there are varied here" if any(one.is_constant_in_model for one in operator.tensor_stats) else ""
    plain = NON_WORDS.sub(" ", model).strip()
    return f"{bare_function_name(operator.call)} as {plain} calls it: {calls}, {100 * operator.share:.1f} % of that model's time{note}."


def task_file_name(operator: Operator, rank: int) -> str:
    """Return a file name such as `1_linear_128x512.py`."""
    shape = "x".join(str(size) for size in operator.call.tensors[0].shape) or "scalar"
    return f"{rank}_{bare_function_name(operator.call).strip('_')}_{shape}.py"


def bare_function_name(call: TorchCall) -> str:
    """Return the function's name without module and underscores."""
    return call.name.rpartition(".")[2].strip("_")


def name_tensors(call: TorchCall) -> list[str]:
    """Return names for the tensors of a call: the function's parameter names if they are known."""
    names = NameAllocator()
    args, kwargs = unflatten_arguments(call)
    parameters = parameter_names(call)
    tensor_names: list[str] = []
    for index, value in enumerate(args):
        name = parameters[index] if index < len(parameters) else f"x{index}"
        tensor_names += allocate_names(names, TENSOR_NAMES.get(name, name), value)
    for key in kwargs:
        tensor_names += allocate_names(names, TENSOR_NAMES.get(key, key), kwargs[key])
    return tensor_names


def unflatten_arguments(call: TorchCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments of a call, with slots for its tensors."""
    args, kwargs = tree_unflatten(list(call.leaves), call.tree_spec)
    return args, kwargs


def allocate_names(names: NameAllocator, name: str, value: object) -> list[str]:
    """Return names for the tensors in one argument."""
    if isinstance(value, TensorSlot):
        return [names.allocate(name)]
    if isinstance(value, list | tuple):
        return [tensor_name for index, item in enumerate(value) for tensor_name in allocate_names(names, f"{name}_{index}", item)]
    return []


@lru_cache(maxsize=1)
def documented_signatures() -> dict[Any, Any]:
    """Return torch functions with a Python function that has the same parameter names."""
    signatures: dict[Any, Any] = get_testing_overrides()
    return signatures


def parameter_names(call: TorchCall) -> list[str]:
    """Return the parameter names of a function in order; empty if torch does not document them."""
    if call.name.rpartition(".")[2] in RECURRENT:
        return ["x", "state", "weights"]
    func = resolve_function(call.name)
    known_signature = python_signature(func) if func else None
    if known_signature is None and func in documented_signatures():
        known_signature = inspect.signature(documented_signatures()[func])
    if known_signature is None or any(one.kind is one.VAR_POSITIONAL for one in known_signature.parameters.values()):
        return []
    return list(known_signature.parameters)


def format_call(call: TorchCall, tensor_names: list[str], sizes: CallSizes) -> str:
    """Return the call as Python source, with named sizes."""
    leaves = [RawText(sizes.arguments[index]) if index in sizes.arguments else leaf for index, leaf in enumerate(call.leaves)]
    method = call.name.removeprefix("torch.Tensor.")
    if method == call.name:
        return f"{call.name.replace('torch.nn.functional.', 'F.')}({call.format_arguments(tensor_names, leaves)})"
    args, kwargs = unflatten_arguments(call)
    text = call.format_arguments(tensor_names, leaves)
    own, _, rest = text.partition(", ")
    if method in INFIX and len(args) == 2 and not kwargs:
        return INFIX[method].format(own, rest if not rest.startswith("-") else f"({rest})")
    return f"{own}[{rest}]" if method == "__getitem__" else f"{own}.{method}({rest})"


def index_limit(call: TorchCall, sizes: CallSizes, index: int) -> str:
    """Return the exclusive upper bound of an index tensor: the size of the indexed axis; empty if that is unknown."""
    bare = call.name.rpartition(".")[2]
    tensor = call.tensors[index]
    if tensor.is_floating_point() or len(call.tensors) < 2:
        return ""
    if bare in AXIS_FUNCTIONS:
        args, kwargs = unflatten_arguments(call)
        axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
        return sizes.shapes[0][axis] if isinstance(axis, int) and index else ""
    table, axis = INDEXED_TENSORS.get(bare, (index, 0))
    if table == index:
        return ""
    shape = sizes.shapes[table]
    return shape[min(axis, len(shape) - 1)]
