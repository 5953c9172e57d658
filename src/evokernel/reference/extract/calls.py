"""What a model asks of torch while it runs: every outermost call of torch's interface, with a key that equal calls share."""

from __future__ import annotations

import inspect
import json
import math
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from evokernel.reference.arrays import DTYPES

Function = Callable[..., Any]
COPIES = frozenset({"clone", "contiguous", "copy", "detach", "expand", "flatten", "requires_grad", "reshape", "to_dense", "view"})
"""Calls that at most copy: whoever writes kernels has nothing to compute there."""
UNSAID = frozenset({"inplace", "_stacklevel"})
"""Arguments that say how a result is given back, not what it is."""
OPENED = {torch.nn.functional.multi_head_attention_forward}
"""Functions of torch that are many operators; what they call is looked at in their place."""


class Unwritable(Exception):
    """An argument that has no form in a task's text."""


@dataclass(frozen=True)
class Place:
    """Stands where a tensor stood."""

    index: int


@dataclass(frozen=True, eq=False)
class Call:
    """One call, its in-place form written as the usual one."""

    name: str
    """As torch documents it: `torch.nn.functional.linear`, `torch.Tensor.add`."""
    leaves: tuple[object, ...]
    """All arguments taken apart, a `Place` for every tensor."""
    form: TreeSpec
    """How they are put together again, as positional and named arguments."""
    tensors: tuple[torch.Tensor, ...]
    target: int | None
    """The tensor that is overwritten with the result, if any."""

    @cached_property
    def key(self) -> str:
        """Equal for calls of one function with tensors of equal shapes and types and with equal other arguments."""
        try:
            return f"{self.name}({self.arguments([described(tensor) for tensor in self.tensors])})"
        except Unwritable as error:
            return f"{self.name}({error})"

    def arguments(self, words: Sequence[str], leaves: Sequence[object] | None = None) -> str:
        """The arguments as text, with words for the tensors."""
        args, kwargs = tree_unflatten(list(self.leaves if leaves is None else leaves), self.form)
        return ", ".join([*(written(value, words) for value in args), *(f"{key}={written(kwargs[key], words)}" for key in sorted(kwargs))])

    def again(self, tensors: Sequence[torch.Tensor], leaves: Sequence[object] | None = None) -> Any:
        """The same call with other tensors; nothing is overwritten."""
        given = [tensors[leaf.index] if isinstance(leaf, Place) else leaf for leaf in (self.leaves if leaves is None else leaves)]
        args, kwargs = tree_unflatten(given, self.form)
        function = resolved(self.name)
        assert function, "a call is only made of what has a name"
        return function(*args, **kwargs)


class Outermost(TorchFunctionMode):  # type: ignore[misc]
    """While it is in force, `called` is asked in place of whatever the model calls; what that calls in turn is not seen."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in OPENED:
            with self:
                return opened(func)(*args, **(kwargs or {}))
        return self.called(func, args, kwargs or {})

    def called(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Gives what the model is to get."""
        return func(*args, **kwargs)


class Watched(torch.nn.Module):  # type: ignore[misc]
    """A module with a mode in force while it runs."""

    def __init__(self, module: torch.nn.Module, mode: Outermost) -> None:
        super().__init__()
        self.module, self.mode = module, mode

    def forward(self, *args: object) -> object:
        with self.mode:
            return self.module(*args)


def call_of(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    """A call in its canonical form; None where it cannot be an operator: nothing torch has a name for, no tensors, a write into a part."""
    name = named(func)
    if name is None:
        return None
    is_inplace = bool(kwargs.get("inplace"))
    bound = signature(func)
    if bound is not None:
        given = bound.bind(*args, **kwargs).arguments
        is_inplace = bool(given.get("inplace"))
        args, kwargs = canonical(bound, given)
    leaves, form = tree_flatten((args, {key: value for key, value in kwargs.items() if key not in UNSAID}))
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    if not tensors or "out" in kwargs or any(tensor.layout != torch.strided for tensor in tensors):
        return None
    if name.endswith("_") and not name.endswith("__"):
        name, is_inplace = name.removesuffix("_"), True
    counted = iter(range(len(tensors)))
    places = tuple(Place(next(counted)) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)
    return Call(name, places, form, tensors, 0 if is_inplace else None) if resolved(name) else None


def computes(call: Call, result: object) -> bool:
    """Whether a call gave new tensors, no view of what it was given and no copy."""
    found = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    if not found or call.name.rpartition(".")[2] in COPIES or any(tensor.layout != torch.strided for tensor in found):
        return False
    if call.name.endswith((".to", ".float", ".type", ".type_as")):
        return bool(found[0].dtype != call.tensors[0].dtype)
    owned = {storage(tensor) for tensor in call.tensors}
    return call.target is not None or not all(storage(tensor) in owned for tensor in found)


@cache
def named(func: Function) -> str | None:
    """The name torch documents a function by; None for attributes and for what has no name."""
    if getattr(func, "__name__", "") in ("__get__", "__set__", "__setitem__"):
        return None
    name: str | None = resolve_name(func)
    return None if name is None or name.endswith(".__get__") else name.replace("torch.functional.", "torch.")


@cache
def resolved(name: str) -> Function | None:
    """The function of a name; None where torch has none, such as the usual form of one that only writes in place."""
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found if callable(found) else None


@cache
def signature(func: Function) -> inspect.Signature | None:
    """What a function written in Python takes; None for others, and for those that take anything."""
    if not isinstance(func, types.FunctionType):
        return None
    try:
        found = inspect.signature(func)
    except ValueError:  # it wraps one that is not
        return None
    kinds = {parameter.kind for parameter in found.parameters.values()}
    return None if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} else found


def canonical(bound: inspect.Signature, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments without those left at their defaults: by position up to the first left out, by name after it."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in bound.parameters.items():
        if name not in given or name in UNSAID or is_default(given[name], parameter.default):
            continue
        in_order = len(args) == list(bound.parameters).index(name) and parameter.kind is not parameter.KEYWORD_ONLY
        if in_order:
            args.append(given[name])
        else:
            kwargs[name] = given[name]
    return tuple(args), kwargs


def is_default(value: object, default: object) -> bool:
    """Whether an argument might as well have been left out."""
    return value is default or (isinstance(value, bool | int | float | str) and type(value) is type(default) and value == default)


@cache
def opened(func: types.FunctionType) -> Function:
    """A function of torch's own that does not ask whether somebody stands in for it, so that its parts are seen."""
    space = {**func.__globals__, "has_torch_function": lambda *_: False}
    found = types.FunctionType(func.__code__, space, func.__name__, func.__defaults__, func.__closure__)
    found.__kwdefaults__ = func.__kwdefaults__
    return found


def described(tensor: torch.Tensor) -> str:
    """`float32[64, 32]`."""
    return f"{DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix('torch.'))}{list(tensor.shape)}"


def storage(tensor: torch.Tensor) -> int:
    """What views of one tensor have in common."""
    return int(tensor.untyped_storage()._cdata)


def written(value: Any, words: Sequence[str]) -> str:
    """An argument as Python text, with words for the tensors."""
    if isinstance(value, Place):
        return words[value.index]
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, tuple):
        return f"({', '.join(written(item, words) for item in value)}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return f"[{', '.join(written(item, words) for item in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is Ellipsis:
        return "..."
    if isinstance(value, str):
        return json.dumps(value)
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, slice) and not any(isinstance(part, torch.Tensor) for part in (value.start, value.stop, value.step)):
        return repr(value)
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return str(value)
    raise Unwritable(f"an argument of type {type(value).__name__}")


class Text(str):
    """A word that stands in a call's text in place of an argument."""
