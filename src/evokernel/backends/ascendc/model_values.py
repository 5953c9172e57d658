"""Values that the reader of a model tracks, and the arguments of a call with all arguments of forward."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.backends.ascendc.bindings import BoundFunction
    from evokernel.backends.ascendc.project import CallArgument
    from evokernel.core.records import Signature


class OperatorCall(NamedTuple):
    """A bound function and its arguments."""

    function: str
    arguments: tuple[CallArgument, ...]


class AllArguments(NamedTuple):
    """All arguments of forward, such as `*inputs`."""


class BindingModule(NamedTuple):
    """The Python module of the bound functions."""


class BindingFunction(NamedTuple):
    """One function of that module."""

    name: str


class SelfAttribute(NamedTuple):
    """An attribute of `self` that is not a number: a tensor of the module, or a submodule."""

    path: str


class ArgumentValue(NamedTuple):
    """An argument in the form that the verifier passes."""

    argument: CallArgument


SymbolValue = AllArguments | BindingModule | BindingFunction | SelfAttribute | ArgumentValue | OperatorCall | str
"""The value of a name or expression; a plain string is a string of the model."""


def positional_arguments(bound: BoundFunction, signature: Signature) -> tuple[CallArgument, ...]:
    """The arguments of `function(*inputs)`: tensors for tensor parameters, numbers for number parameters.

    If the function also takes tensors of the module, they follow the arguments of forward: by name if all names match, else in order.
    """
    if any(parameter.kind == "tensors" for parameter in bound.parameters):
        raise CandidateError(
            "unsupported", f"{bound.name} takes a list of tensors: name its elements in the call, as in {bound.name}([a, b])"
        )
    tensor_parameters = [parameter for parameter in bound.parameters if parameter.kind == "tensor"]
    required_count = sum(not parameter.is_optional for parameter in tensor_parameters)
    order = list(range(len(signature.inputs)))
    if len(order) < required_count <= len(order) + len(signature.params):
        order += match_params_by_name([parameter.name for parameter in tensor_parameters[len(order) :]], signature)
    if not required_count <= len(order) <= len(tensor_parameters):
        raise CandidateError("symbol", f"{bound.name} in the binding takes {len(tensor_parameters)} tensors, but forward has {len(order)}")
    tensors, numbers = iter(order), iter(range(len(signature.scalars)))
    arguments: list[CallArgument] = []
    for parameter in bound.parameters:
        index = next(tensors if parameter.kind == "tensor" else numbers, None)
        if index is None and parameter.default is not None:
            arguments.append(parameter.default)
            continue
        if index is None and not parameter.is_optional:
            raise CandidateError(
                "symbol", f"{bound.name} in the binding takes more numbers than the {len(signature.scalars)} of the signature"
            )
        arguments.append(("absent",) if index is None else ("tensor" if parameter.kind == "tensor" else "number", index))
    return tuple(arguments)


def match_params_by_name(names: Sequence[str], signature: Signature) -> list[int]:
    """Indices of the signature's parameters for these names: `bias_opt` matches `bias`, or else the only one like `conv_bias`."""
    unmatched = {tensor.name: len(signature.inputs) + index for index, tensor in enumerate(signature.params)}
    plain_names = [name if name in unmatched else re.sub(r"_(?:opt|optional|tensor)$", "", name) for name in names]
    indices = {name: unmatched.pop(name) for name in plain_names if name in unmatched}
    for name in plain_names:
        if name not in indices and len(like := [one for one in unmatched if one.endswith(f"_{name}")]) == 1:
            indices[name] = unmatched.pop(like[0])
    if unmatched or len(indices) != len(plain_names):
        return list(range(len(signature.inputs), len(signature.inputs) + len(signature.params)))
    return [indices[name] for name in plain_names]
