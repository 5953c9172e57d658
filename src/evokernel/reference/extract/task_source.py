"""The text of a task that is one call of a model: the same function on tensors of the same shapes, drawn to be like the model's."""

from __future__ import annotations

import inspect
import re
import textwrap
from functools import lru_cache
from typing import Any

from torch.overrides import get_testing_overrides
from torch.utils._pytree import tree_unflatten

from evokernel.reference.extract.calls import Call, Place, Text, resolved, signature
from evokernel.reference.extract.dimensions import RECURRENT, Sizes, sizes
from evokernel.reference.extract.profiles import Operator
from evokernel.reference.names import Names

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
"""Methods that have a form of their own."""
CALLED = {"input": "x", "self": "x", "data": "x", "tensors": "x", "indices": "index", "running_mean": "mean", "running_var": "variance"}
TABLES = {"embedding": (1, 0), "cross_entropy": (0, 1), "nll_loss": (0, 1), "__getitem__": (0, 0)}
"""Functions whose integers point into a tensor: which one, and along which axis; for `ALONG` the axis is an argument."""
ALONG = frozenset({"gather", "index_select", "scatter", "scatter_add", "take_along_dim"})
WIDTH = 120
WORDS = re.compile(r"[^A-Za-z0-9]+")


def excerpt(operator: Operator, model: str, scale: bool = False) -> str:
    """A task file; with `scale` the size of all floating-point inputs is drawn anew each time. Raises Unwritable."""
    call = operator.call
    words = tensor_names(call)
    found = sizes(call, operator.roles, words)
    constants = [f"{name} = {value}" for name, value in found.constants.items()]
    factor = "(0.5 + torch.rand(1))" if scale else ""
    drawn = [
        one.text(shape, limit(call, found, index), factor) for index, (one, shape) in enumerate(zip(operator.likenesses, found.shapes))
    ]
    body = f"        return {invocation(call, words, found)}"
    functional = ["import torch.nn.functional as F"] if "F." in body or any("F." in text for text in drawn) else []
    return "\n".join(
        [
            f'"""{summary(operator, model)}"""',
            "",
            *("import torch", "import torch.nn as nn", *functional, ""),
            *([*constants, ""] if constants else []),
            *("", "class Model(nn.Module):", folded(f"    def forward(self, {', '.join(words)}):"), folded(body), "", ""),
            *("def get_inputs():", "    return [", *(f"        {text}," for text in drawn), "    ]", "", ""),
            *("def get_init_inputs():", "    return []", ""),
        ]
    )


def folded(line: str) -> str:
    """A long line broken inside its brackets; one with text in quotes stays as it is."""
    if len(line) <= WIDTH or "'" in line or '"' in line:
        return line
    return textwrap.fill(line, WIDTH, initial_indent="", subsequent_indent=" " * 12, break_long_words=False, break_on_hyphens=False)


def summary(operator: Operator, model: str) -> str:
    """Where a task comes from, in one line."""
    calls = f"{operator.calls} call{'s' * (operator.calls != 1)}"
    varied = "; inputs that are constant there are varied here" if any(one.is_varied for one in operator.likenesses) else ""
    plain = WORDS.sub(" ", model).strip()
    return f"{short_name(operator.call)} as {plain} calls it: {calls}, {100 * operator.share:.1f} % of that model's time{varied}."


def file_name(operator: Operator, rank: int) -> str:
    """`1_linear_128x512.py`."""
    shape = "x".join(str(size) for size in operator.call.tensors[0].shape) or "scalar"
    return f"{rank}_{short_name(operator.call).strip('_')}_{shape}.py"


def short_name(call: Call) -> str:
    """The function's bare name, as people say it."""
    return call.name.rpartition(".")[2].strip("_")


def tensor_names(call: Call) -> list[str]:
    """What the tensors are called: as the function calls its arguments, where that is known."""
    names = Names()
    args, kwargs = nested(call)
    parameters = parameter_names(call)
    found: list[str] = []
    for index, value in enumerate(args):
        name = parameters[index] if index < len(parameters) else f"x{index}"
        found += take(names, CALLED.get(name, name), value)
    for key in kwargs:
        found += take(names, CALLED.get(key, key), kwargs[key])
    return found


def nested(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with places for tensors."""
    args, kwargs = tree_unflatten(list(call.leaves), call.form)
    return args, kwargs


def take(names: Names, name: str, value: object) -> list[str]:
    """Names for the tensors in one argument."""
    if isinstance(value, Place):
        return [names.take(name)]
    if isinstance(value, list | tuple):
        return [found for index, item in enumerate(value) for found in take(names, f"{name}_{index}", item)]
    return []


@lru_cache(maxsize=1)
def documented() -> dict[Any, Any]:
    """Functions of torch, each with one that takes arguments of the same names."""
    found: dict[Any, Any] = get_testing_overrides()
    return found


def parameter_names(call: Call) -> list[str]:
    """What a function calls its arguments, in order; some of torch's own do not say."""
    if call.name.rpartition(".")[2] in RECURRENT:
        return ["x", "state", "weights"]
    func = resolved(call.name)
    known = signature(func) if func else None
    if known is None and func in documented():
        known = inspect.signature(documented()[func])
    if known is None or any(one.kind is one.VAR_POSITIONAL for one in known.parameters.values()):
        return []
    return list(known.parameters)


def invocation(call: Call, words: list[str], found: Sizes) -> str:
    """The call as Python text, sizes by their names."""
    leaves = [Text(found.arguments[index]) if index in found.arguments else leaf for index, leaf in enumerate(call.leaves)]
    method = call.name.removeprefix("torch.Tensor.")
    if method == call.name:
        return f"{call.name.replace('torch.nn.functional.', 'F.')}({call.arguments(words, leaves)})"
    args, kwargs = nested(call)
    text = call.arguments(words, leaves)
    own, _, rest = text.partition(", ")
    if method in INFIX and len(args) == 2 and not kwargs:
        return INFIX[method].format(own, rest if not rest.startswith("-") else f"({rest})")
    return f"{own}[{rest}]" if method == "__getitem__" else f"{own}.{method}({rest})"


def limit(call: Call, found: Sizes, index: int) -> str:
    """What the integers of a tensor must stay below: the size of what they point into; empty where they point into nothing known."""
    bare = call.name.rpartition(".")[2]
    tensor = call.tensors[index]
    if tensor.is_floating_point() or len(call.tensors) < 2:
        return ""
    if bare in ALONG:
        args, kwargs = nested(call)
        axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
        return found.shapes[0][axis] if isinstance(axis, int) and index else ""
    table, axis = TABLES.get(bare, (index, 0))
    if table == index:
        return ""
    shape = found.shapes[table]
    return shape[min(axis, len(shape) - 1)]
