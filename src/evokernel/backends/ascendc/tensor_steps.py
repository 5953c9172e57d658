"""Steps that prepare an argument of a bound function: shapes, order of axes and element types, but no arithmetic.

`model_call` reads the steps from the text of a model, the loader applies them to the verifier's arrays. A step is `("reshape", 4, -1)`,
`("permute", 1, 0)`, `("flatten", 0, -1)`, `("squeeze", 1)`, `("unsqueeze", 0)`, `("transpose", 0, 1)`, `("contiguous",)` or
`("cast", "float16")`. A number may be `("size", argument, axis)`, the size of an axis of an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

METHODS = {
    "view": "reshape", "reshape": "reshape", "permute": "permute", "transpose": "transpose", "swapaxes": "transpose", "t": "transpose",
    "flatten": "flatten", "squeeze": "squeeze", "unsqueeze": "unsqueeze",
}  # fmt: skip
"""Methods of a tensor, also functions of torch, with the name of their step."""
CASTS = {"half": "float16", "float": "float32", "int": "int32", "long": "int64", "bool": "bool"}
MOVING = ("permute", "transpose")


def make_step(method: str, numbers: Sequence[Any]) -> tuple[Any, ...] | None:
    """The step of a method with these arguments; None if they do not fit."""
    name = METHODS[method]
    if name == "reshape":
        return (name, *numbers) if numbers else None
    if name == "permute":
        return (name, *numbers) if numbers else None
    if name == "transpose":
        axes = (0, 1) if method == "t" and not numbers else tuple(numbers)
        return (name, *axes) if len(axes) == 2 else None
    if name == "flatten":
        return (name, *numbers, *(0, -1)[len(numbers) :]) if len(numbers) <= 2 else None
    if name == "squeeze":
        return (name, *numbers) if len(numbers) <= 1 else None
    return (name, *numbers) if len(numbers) == 1 else None


def final_dtype(dtype: str, steps: Sequence[Sequence[Any]]) -> str:
    """The element type of a tensor of this type after these steps."""
    return str(next((step[1] for step in reversed(steps) if step[0] == "cast"), dtype))


def has_copying_step(steps: Sequence[Sequence[Any]]) -> bool:
    """Whether a step changes the order or the type of the elements, so that the tensor is copied."""
    return any(step[0] in (*MOVING, "cast") for step in steps)


def is_contiguous(steps: Sequence[Sequence[Any]]) -> bool:
    """Whether a tensor is contiguous after these steps."""
    order = [step[0] for step in steps if step[0] in MOVING or step[0] == "contiguous"]
    return not order or order[-1] == "contiguous"


def apply_steps(array: NDArray[Any], steps: Sequence[Sequence[Any]], size_of: Callable[[Sequence[Any]], int]) -> NDArray[Any]:
    """The array after these steps: a view where that is possible, else a copy."""
    for name, *given in steps:
        if name == "cast":
            array = array.astype(given[0])
            continue
        numbers = [size_of(number) if isinstance(number, list | tuple) else int(number) for number in given]
        if name == "reshape":
            array = array.reshape(numbers)
        elif name == "permute":
            array = array.transpose(numbers)
        elif name == "transpose":
            array = array.swapaxes(*numbers)
        elif name == "flatten":
            first, last = (number % max(array.ndim, 1) for number in numbers)
            array = array.reshape([*array.shape[:first], -1, *array.shape[last + 1 :]])
        elif name == "squeeze":
            axes = [axis % array.ndim for axis in numbers] or range(array.ndim)
            array = array.reshape([size for axis, size in enumerate(array.shape) if axis not in axes or size != 1])
        elif name == "unsqueeze":
            array = np.expand_dims(array, numbers[0])
    return np.ascontiguousarray(array)
