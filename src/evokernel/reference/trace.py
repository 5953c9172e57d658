"""Traces a reference with torch.fx at several sizes and lays the traces over each other."""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from evokernel.core.errors import UserError
from evokernel.reference.arrays import DTYPES
from evokernel.reference.constants import constants
from evokernel.reference.module import Reference, Sample, blame
from evokernel.reference.program import Argument, Program, Ref, Step, Varied

MOST_SIZES = 18
DROPPED = ("device", "layout", "memory_format", "pin_memory", "generator", "implicit")
"""Settings that say nothing about what is computed."""


def trace(source: str, name: str, small: Mapping[str, int]) -> Program:
    """The program of a reference: at its own size, at the checking size, and with the constants that can differ changed one by one.

    A size the reference cannot do is left out. Held-out sizes are not for writers of kernels, and are not traced.
    """
    try:
        found = [at_size(source, name, {})]
    except UserError as error:
        return Program(gap=f"a forward that cannot be traced ({error})")
    for overrides in sizes(source, small):
        try:
            other = at_size(source, name, overrides)
        except UserError:
            continue
        if outline(other) != outline(found[0]):
            return Program(gap="steps that depend on the size")
        found.append(other)
    try:
        return laid_over(found)
    except UserError as error:
        return Program(gap=str(error))


def sizes(source: str, small: Mapping[str, int]) -> list[dict[str, int]]:
    """The checking size, then each of its constants doubled and increased by one, others as they were."""
    known = constants(ast.parse(source))
    checked = {key: value or known[key] for key, value in small.items() if key in known}
    alone = [
        checked | {key: changed} for one in (False, True) for key, value in checked.items() for changed in [value + 1 if one else 2 * value]
    ]
    return [checked, *alone][:MOST_SIZES] if checked else []


def at_size(source: str, name: str, overrides: Mapping[str, int]) -> Program:
    """The program at one size, with plain numbers in it; values are looked at only where shapes do not do."""
    reference = Reference(source, name, overrides)
    try:
        with torch.device("meta"):
            return followed(name, reference.sample(0), "real")
    except UserError:
        return followed(name, reference.sample(0), "fake")


def followed(name: str, sample: Sample, mode: str) -> Program:
    """One call of the module, operation by operation."""
    held = [*sample.inputs, *sample.params]
    flat, spec = tree_flatten(sample.args)
    places = {id(tensor): i for i, (_, tensor) in enumerate(held)}
    registered = dict([*sample.module.named_parameters(), *sample.module.named_buffers()])
    plain = [(part, key, value) for part in sample.module.modules() for key, value in vars(part).items() if isinstance(value, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        def taken(tensor: torch.Tensor) -> torch.Tensor:
            return tensors[places[id(tensor)]] if id(tensor) in places else tensor

        for part, key, value in plain:
            setattr(part, key, taken(value))
        args = tree_unflatten([taken(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in flat], spec)
        return functional_call(sample.module, {key: taken(tensor) for key, tensor in registered.items()}, args)

    try:
        with blame(name, "Model.forward"), torch.no_grad():
            graph = make_fx(call, tracing_mode=mode, pre_dispatch=True)(*(tensor for _, tensor in held))
    finally:
        for part, key, value in plain:
            setattr(part, key, value)
    return written(graph, sample)


def written(graph: fx.GraphModule, sample: Sample) -> Program:
    """A graph as records; dead steps are left out."""
    graph.graph.eliminate_dead_code()
    names = [name for name, _ in (*sample.inputs, *sample.params)]
    given: dict[fx.Node, Ref] = {}
    arguments: list[Argument] = []
    steps: list[Step] = []
    outputs: tuple[Ref, ...] = ()
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            arguments.append(Argument(name=names[len(arguments)], shape=tuple(node.meta["val"].shape), dtype=dtype_of(node.meta["val"])))
            given[node] = Ref(name=arguments[-1].name)
        elif node.op == "call_function" and node.target is operator.getitem:
            whole, part = node.args
            given[node] = Ref(name=given[whole].name, part=part)
        elif node.op == "output":
            leaves = [leaf for leaf in tree_flatten(node.args[0])[0] if leaf is not None]
            outputs = tuple(given[leaf] for leaf in leaves if isinstance(leaf, fx.Node))
        elif node.op == "call_function":
            given[node] = Ref(name=f"v{len(steps)}")
            steps.append(step(node, given))
        else:
            raise UserError(f"a tensor the module makes for itself ({node.target})")
    scalars = {number.name: plain_number(number.kind, number.value) for number in sample.scalars}
    return Program(arguments=tuple(arguments), scalars=scalars, steps=tuple(steps), outputs=outputs, sizes=1)


def step(node: fx.Node, given: Mapping[fx.Node, Ref]) -> Step:
    """One operation with its arguments."""
    results = [value for value in tree_flatten(node.meta.get("val"))[0] if isinstance(value, torch.Tensor)]
    if len(results) == 0:
        raise UserError(f"{node.target} gives no tensor")
    if not all(isinstance(n, int) for result in results for n in result.shape):
        raise UserError(f"{node.target} gives as many elements as the data say")
    return Step(
        name=given[node].name,
        op=str(node.target),
        args=tuple(value_of(arg, given) for arg in node.args),
        settings={key: value_of(arg, given) for key, arg in node.kwargs.items() if key not in DROPPED},
        shapes=tuple(tuple(result.shape) for result in results),
        dtypes=tuple(dtype_of(result) for result in results),
    )


def value_of(arg: Any, given: Mapping[fx.Node, Ref]) -> Any:
    """An argument of an operation."""
    if isinstance(arg, fx.Node):
        return given[arg]
    if isinstance(arg, torch.dtype):
        return DTYPES.get(arg, str(arg))
    if isinstance(arg, list | tuple):
        return tuple(value_of(item, given) for item in arg)
    return arg if arg is None or isinstance(arg, bool | int | float | str) else str(arg)


def dtype_of(tensor: torch.Tensor) -> str:
    """As signatures spell it; others as torch does."""
    return DTYPES.get(tensor.dtype, str(tensor.dtype))


def plain_number(kind: str, value: float) -> bool | int | float:
    """A scalar argument as Python would write it."""
    return bool(value) if kind == "bool" else int(value) if kind == "int" else value


def outline(program: Program) -> list[object]:
    """What must not change with the size."""
    ranks = [[len(shape) for shape in one.shapes] for one in program.steps]
    return [[one.op for one in program.steps], [one.dtypes for one in program.steps], ranks, program.outputs]


def laid_over(programs: Sequence[Program]) -> Program:
    """One program, in which numbers that differ between the sizes stand with all their values."""
    found = over([program.model_dump() for program in programs])
    return Program.model_validate(found | {"sizes": len(programs)})


def over(values: Sequence[Any]) -> Any:
    """Equal structures, number by number."""
    first = values[0]
    if isinstance(first, dict):
        return {key: over([value[key] for value in values]) for key in first}
    if isinstance(first, tuple) and len({len(value) for value in values}) == 1:
        return tuple(over(list(items)) for items in zip(*values))
    if all(value == first for value in values):
        return first
    if all(isinstance(value, int | float) for value in values):
        return Varied(at=tuple(values)).model_dump()
    raise UserError("a list or a word that depends on the size")
