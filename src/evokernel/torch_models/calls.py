"""Intercepts a model's outermost torch calls and gives equal calls an equal key."""

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
COPYING_CALLS = frozenset({"clone", "contiguous", "copy", "detach", "expand", "flatten", "requires_grad", "reshape", "to_dense", "view"})
"""Calls that at most copy data, so that a kernel has nothing to compute."""
IGNORED_ARGUMENTS = frozenset({"inplace", "_stacklevel"})
"""Arguments that do not influence the values of the result."""
COMPOSITE_FUNCTIONS = {torch.nn.functional.multi_head_attention_forward}
"""Torch functions that consist of many operators; their inner calls are intercepted instead."""


class UnsupportedArgument(Exception):
    """An argument that a task file cannot express."""


@dataclass(frozen=True)
class TensorSlot:
    """Placeholder for a tensor argument."""

    index: int


@dataclass(frozen=True, eq=False)
class TorchCall:
    """One torch call; an in-place call is represented by its out-of-place form."""

    name: str
    """Documented name: `torch.nn.functional.linear`, `torch.Tensor.add`."""
    leaves: tuple[object, ...]
    """All arguments flattened, with a `TensorSlot` for every tensor."""
    tree_spec: TreeSpec
    """Structure for restoring positional and keyword arguments from the leaves."""
    tensors: tuple[torch.Tensor, ...]
    target: int | None
    """Index of the tensor that the call overwrites with the result, if any."""

    @cached_property
    def key(self) -> str:
        """Key that is equal for calls of one function with equal shapes, dtypes and other arguments."""
        try:
            return f"{self.name}({self.format_arguments([format_tensor_type(tensor) for tensor in self.tensors])})"
        except UnsupportedArgument as error:
            return f"{self.name}({error})"

    def format_arguments(self, tensor_names: Sequence[str], leaves: Sequence[object] | None = None) -> str:
        """Return the arguments as source text, with names for the tensors."""
        args, kwargs = tree_unflatten(list(self.leaves if leaves is None else leaves), self.tree_spec)
        return ", ".join(
            [
                *(format_value(value, tensor_names) for value in args),
                *(f"{key}={format_value(kwargs[key], tensor_names)}" for key in sorted(kwargs)),
            ]
        )

    def call_with(self, tensors: Sequence[torch.Tensor], leaves: Sequence[object] | None = None) -> Any:
        """Repeat the call out of place with other tensors."""
        arguments = [tensors[leaf.index] if isinstance(leaf, TensorSlot) else leaf for leaf in (self.leaves if leaves is None else leaves)]
        args, kwargs = tree_unflatten(arguments, self.tree_spec)
        function = resolve_function(self.name)
        assert function, "canonical_call only accepts functions that can be resolved"
        return function(*args, **kwargs)


class OuterCallMode(TorchFunctionMode):  # type: ignore[misc]
    """Torch function mode that passes every outermost call of a model to `handle_call`; inner calls are not intercepted."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in COMPOSITE_FUNCTIONS:
            with self:
                return without_override_check(func)(*args, **(kwargs or {}))
        return self.handle_call(func, args, kwargs or {})

    def handle_call(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Execute a call and return its result to the model."""
        return func(*args, **kwargs)


class InterceptedModule(torch.nn.Module):  # type: ignore[misc]
    """A module that runs under a torch function mode."""

    def __init__(self, module: torch.nn.Module, mode: OuterCallMode) -> None:
        super().__init__()
        self.module, self.mode = module, mode

    def forward(self, *args: object) -> object:
        with self.mode:
            return self.module(*args)


def canonical_call(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TorchCall | None:
    """Return a call in canonical form; None if it is not an operator (no documented name, no tensors, or a write into a part)."""
    name = documented_name(func)
    if name is None:
        return None
    is_inplace = bool(kwargs.get("inplace"))
    bound = python_signature(func)
    if bound is not None:
        bound_arguments = bound.bind(*args, **kwargs).arguments
        is_inplace = bool(bound_arguments.get("inplace"))
        args, kwargs = canonical_arguments(bound, bound_arguments)
    leaves, form = tree_flatten((args, {key: value for key, value in kwargs.items() if key not in IGNORED_ARGUMENTS}))
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    if not tensors or "out" in kwargs or any(tensor.layout != torch.strided for tensor in tensors):
        return None
    if name.endswith("_") and not name.endswith("__"):
        name, is_inplace = name.removesuffix("_"), True
    indices = iter(range(len(tensors)))
    places = tuple(TensorSlot(next(indices)) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)
    return TorchCall(name, places, form, tensors, 0 if is_inplace else None) if resolve_function(name) else None


def computes_new_tensor(call: TorchCall, result: object) -> bool:
    """Return whether a call computed new tensors, and not only views or copies of its arguments."""
    results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    if not results or call.name.rpartition(".")[2] in COPYING_CALLS or any(tensor.layout != torch.strided for tensor in results):
        return False
    if call.name.endswith((".to", ".float", ".type", ".type_as")):
        return bool(results[0].dtype != call.tensors[0].dtype)
    input_storages = {storage_id(tensor) for tensor in call.tensors}
    return call.target is not None or not all(storage_id(tensor) in input_storages for tensor in results)


@cache
def documented_name(func: Function) -> str | None:
    """Return the documented name of a torch function; None for attributes and unnamed functions."""
    if getattr(func, "__name__", "") in ("__get__", "__set__", "__setitem__"):
        return None
    name: str | None = resolve_name(func)
    return None if name is None or name.endswith(".__get__") else name.replace("torch.functional.", "torch.")


@cache
def resolve_function(name: str) -> Function | None:
    """Return the torch function with this name; None if there is none, for example if a function exists only in place."""
    value: Any = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value if callable(value) else None


@cache
def python_signature(func: Function) -> inspect.Signature | None:
    """Return the signature of a Python function; None for built-ins and for functions with variable arguments."""
    if not isinstance(func, types.FunctionType):
        return None
    try:
        result = inspect.signature(func)
    except ValueError:  # it wraps a built-in
        return None
    kinds = {parameter.kind for parameter in result.parameters.values()}
    return None if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} else result


def canonical_arguments(function_signature: inspect.Signature, bound_arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Drop arguments with default values: positional up to the first dropped one, keywords after it."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in function_signature.parameters.items():
        if name not in bound_arguments or name in IGNORED_ARGUMENTS or is_default(bound_arguments[name], parameter.default):
            continue
        in_order = len(args) == list(function_signature.parameters).index(name) and parameter.kind is not parameter.KEYWORD_ONLY
        if in_order:
            args.append(bound_arguments[name])
        else:
            kwargs[name] = bound_arguments[name]
    return tuple(args), kwargs


def is_default(value: object, default: object) -> bool:
    """Return whether an argument equals its default."""
    return value is default or (isinstance(value, bool | int | float | str) and type(value) is type(default) and value == default)


@cache
def without_override_check(func: types.FunctionType) -> Function:
    """Copy a torch function without its override check, so that its inner calls can be intercepted."""
    space = {**func.__globals__, "has_torch_function": lambda *_: False}
    copy = types.FunctionType(func.__code__, space, func.__name__, func.__defaults__, func.__closure__)
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy


def format_tensor_type(tensor: torch.Tensor) -> str:
    """Return dtype and shape, such as `float32[64, 32]`."""
    return f"{DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix('torch.'))}{list(tensor.shape)}"


def storage_id(tensor: torch.Tensor) -> int:
    """Return an id that all views of one tensor share."""
    return int(tensor.untyped_storage()._cdata)


def format_value(value: Any, tensor_names: Sequence[str]) -> str:
    """Return an argument as Python source, with names for the tensors."""
    if isinstance(value, TensorSlot):
        return tensor_names[value.index]
    if isinstance(value, RawText):
        return str(value)
    if isinstance(value, tuple):
        return f"({', '.join(format_value(item, tensor_names) for item in value)}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return f"[{', '.join(format_value(item, tensor_names) for item in value)}]"
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
    raise UnsupportedArgument(f"an argument of type {type(value).__name__}")


class RawText(str):
    """Source text that replaces an argument of a call."""
