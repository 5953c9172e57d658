"""Traces a reference with torch.fx at several sizes and merges the traces into one program."""

from __future__ import annotations

import ast
import logging
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import fx
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from evokernel.core.errors import UserError
from evokernel.reference.arrays import DTYPES
from evokernel.reference.constants import FORWARD_CLASS, find_constants
from evokernel.reference.measure import probe_size
from evokernel.reference.module import Reference, Sample, TaskFileErrors
from evokernel.reference.program import Argument, Program, SizeDependent, Step, ValueRef

MAX_SIZES = 18
MAX_LINKED_TRIALS = 60
"""How many sets of constants are tried to find those that only work if they change together."""
IGNORED_SETTINGS = ("device", "layout", "memory_format", "pin_memory", "generator", "implicit")
"""Keyword arguments that do not influence the result."""


def trace_program(source: str, name: str, small: Mapping[str, int]) -> Program:
    """Trace a reference at its own size, at the checking size, and with each variable constant changed separately.

    Constants that only work together, such as the width of an input and of its weight, change together. Sizes at which the reference
    raises are skipped. Held-out sizes are never traced, because generators must not know them.
    """
    try:
        programs = [trace_at_size(source, name, {})]
    except UserError as error:
        return Program(unsupported_reason=f"a forward method that cannot be traced ({error})")
    structure = program_structure(programs[0])
    constants = find_constants(ast.parse(source))
    checking_size = {key: value or constants[key] for key, value in small.items() if key in constants}
    stuck = set(checking_size)
    for overrides in sizes_to_trace(checking_size):
        other = try_size(source, name, overrides)
        if other is None:
            continue
        stuck -= {key for key, value in overrides.items() if value != checking_size[key]}
        if program_structure(other) != structure:
            return Program(unsupported_reason="steps that depend on the size")
        programs.append(other)
    trace = partial(try_size, source, name)
    linked = find_linked_sizes({key: value for key, value in checking_size.items() if key in stuck}, checking_size, trace)
    programs += [program for program in linked if program_structure(program) == structure]
    try:
        return merge_programs(programs)
    except UserError as error:
        return Program(unsupported_reason=str(error))


def sizes_to_trace(checking_size: Mapping[str, int]) -> list[dict[str, int]]:
    """Return the checking size, then variants of it with one constant doubled or increased by one."""
    alone = [
        {**checking_size, key: new_value}
        for one in (False, True)
        for key, value in checking_size.items()
        for new_value in [value + 1 if one else 2 * value]
    ]
    return [dict(checking_size), *alone][:MAX_SIZES] if checking_size else []


def find_linked_sizes(
    stuck: Mapping[str, int], checking_size: Mapping[str, int], trace: Callable[[dict[str, int]], Program | None]
) -> Iterator[Program]:
    """Yield programs of sizes in which a few constants change together, none of which can change alone: doubled, and increased by one."""
    remaining, tried = dict(stuck), set[tuple[str, ...]]()
    for candidate in candidate_links(stuck):
        keys = tuple(key for key in candidate if key in remaining)
        if len(keys) < 2 or keys in tried or len(tried) >= MAX_LINKED_TRIALS:
            continue
        tried.add(keys)
        base = min(remaining[key] for key in keys)
        variants = ({key: remaining[key] // base * new for key in keys} for new in (2 * base, base + 1))
        programs = [program for variant in variants if (program := trace({**checking_size, **variant})) is not None]
        if programs:
            remaining = {key: value for key, value in remaining.items() if key not in keys}
            yield from programs


def candidate_links(sizes: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Yield sets of constants that may have to change together: equal ones, few before many, then all multiples of one of them."""
    equal = [[key for key, value in sizes.items() if value == size] for size in dict.fromkeys(sizes.values())]
    for count in range(2, max((len(keys) for keys in equal), default=0) + 1):
        for keys in equal:
            yield from combinations(keys, count)
    for size in sorted(set(sizes.values())):
        multiples = tuple(key for key, value in sizes.items() if value % size == 0)
        yield from (
            tuple(key for key in multiples if sizes[key] in (size, other)) for other in dict.fromkeys(sizes.values()) if other > size
        )
        yield multiples


def try_size(source: str, name: str, overrides: Mapping[str, int]) -> Program | None:
    """Trace the program at one size; None if the reference raises there.

    Literals may be changed to sizes that do not fit together, which operators without values do not always notice: then the reference runs.
    """
    try:
        if any("[" in key for key in overrides):
            probe_size(source, name, overrides, with_values=True)
        return trace_at_size(source, name, overrides)
    except UserError:
        return None


def trace_at_size(source: str, name: str, overrides: Mapping[str, int]) -> Program:
    """Trace the program at one size, with plain numbers. It uses real values only if shapes do not suffice."""
    reference = Reference(source, name, overrides)
    with without_fake_tensor_log():
        try:
            with torch.device("meta"):
                return trace_call(name, reference.sample(0), "real")
        except UserError:
            return trace_call(name, reference.sample(0), "fake")


@contextmanager
def without_fake_tensor_log() -> Iterator[None]:
    """Keep torch from printing the traceback of every size at which the reference raises."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def trace_call(name: str, sample: Sample, mode: str) -> Program:
    """Trace one call of the module, operation by operation."""
    tensors = [tensor for _, tensor in (*sample.inputs, *sample.params)]
    is_backward = FORWARD_CLASS in (base.__name__ for base in type(sample.module).__mro__)
    with call_with_tensors(sample) as call, TaskFileErrors(name, "Model.forward"), torch.no_grad():
        graph = make_fx(call, tracing_mode=mode, pre_dispatch=not is_backward)(*tensors)  # gradients exist only below autograd
    remove_detach(graph)
    return program_from_graph(graph, sample)


@contextmanager
def call_with_tensors(sample: Sample) -> Iterator[Callable[..., Any]]:
    """Return a function that calls the module with other tensors in place of the sample's inputs and parameters, in their order."""
    flat, spec = tree_flatten(sample.args)
    places = {id(tensor): i for i, (_, tensor) in enumerate((*sample.inputs, *sample.params))}
    registered_tensors = dict([*sample.module.named_parameters(), *sample.module.named_buffers()])
    plain = [(part, key, value) for part in sample.module.modules() for key, value in vars(part).items() if isinstance(value, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        def substitute(tensor: torch.Tensor) -> torch.Tensor:
            return tensors[places[id(tensor)]] if id(tensor) in places else tensor

        for part, key, value in plain:
            setattr(part, key, substitute(value))
        args = tree_unflatten([substitute(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in flat], spec)
        return functional_call(sample.module, {key: substitute(tensor) for key, tensor in registered_tensors.items()}, args)

    try:
        yield call
    finally:
        for part, key, value in plain:
            setattr(part, key, value)


def remove_detach(graph: fx.GraphModule) -> None:
    """Remove the steps that only separate a tensor from autograd."""
    for node in list(graph.graph.nodes):
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)


def program_from_graph(graph: fx.GraphModule, sample: Sample) -> Program:
    """Convert an fx graph to records, without dead steps."""
    graph.graph.eliminate_dead_code()
    names = [name for name, _ in (*sample.inputs, *sample.params)]
    refs: dict[fx.Node, ValueRef] = {}
    arguments: list[Argument] = []
    steps: list[Step] = []
    outputs: tuple[ValueRef, ...] = ()
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            arguments.append(
                Argument(name=names[len(arguments)], shape=tuple(node.meta["val"].shape), dtype=dtype_name_of(node.meta["val"]))
            )
            refs[node] = ValueRef(name=arguments[-1].name)
        elif node.op == "call_function" and node.target is operator.getitem:
            source, part = node.args
            refs[node] = ValueRef(name=refs[source].name, result_index=part)
        elif node.op == "output":
            leaves = [leaf for leaf in tree_flatten(node.args[0])[0] if leaf is not None]
            outputs = tuple(refs[leaf] for leaf in leaves if isinstance(leaf, fx.Node))
        elif node.op == "call_function":
            refs[node] = ValueRef(name=f"v{len(steps)}")
            steps.append(make_step(node, refs))
        else:
            raise UserError(f"a tensor that the module creates itself ({node.target})")
    scalars = {number.name: plain_number(number.kind, number.value) for number in sample.scalars}
    return Program(arguments=tuple(arguments), scalars=scalars, steps=tuple(steps), outputs=outputs, sizes=1)


def make_step(node: fx.Node, refs: Mapping[fx.Node, ValueRef]) -> Step:
    """Convert one graph node to a step."""
    results = [value for value in tree_flatten(node.meta.get("val"))[0] if isinstance(value, torch.Tensor)]
    if len(results) == 0:
        raise UserError(f"{node.target}, which returns no tensor")
    if not all(isinstance(n, int) for result in results for n in result.shape):
        raise UserError(f"{node.target}, whose output size depends on the data")
    return Step(
        name=refs[node].name,
        op=str(node.target),
        args=tuple(convert_argument(arg, refs) for arg in node.args),
        settings={key: convert_argument(arg, refs) for key, arg in node.kwargs.items() if key not in IGNORED_SETTINGS},
        shapes=tuple(tuple(result.shape) for result in results),
        dtypes=tuple(dtype_name_of(result) for result in results),
    )


def convert_argument(arg: Any, refs: Mapping[fx.Node, ValueRef]) -> Any:
    """Convert an argument of a graph node."""
    if isinstance(arg, fx.Node):
        return refs[arg]
    if isinstance(arg, torch.dtype):
        return DTYPES.get(arg, str(arg))
    if isinstance(arg, list | tuple):
        return tuple(convert_argument(item, refs) for item in arg)
    return arg if arg is None or isinstance(arg, bool | int | float | str) else str(arg)


def dtype_name_of(tensor: torch.Tensor) -> str:
    """Return the dtype name as in signatures; torch's name for other dtypes."""
    return DTYPES.get(tensor.dtype, str(tensor.dtype))


def plain_number(kind: str, value: float) -> bool | int | float:
    """Convert the value of a scalar argument to its Python type."""
    return bool(value) if kind == "bool" else int(value) if kind == "int" else value


def program_structure(program: Program) -> list[object]:
    """Return the parts of a program that must be equal at all sizes: operators, dtypes, ranks and outputs."""
    ranks = [[len(shape) for shape in one.shapes] for one in program.steps]
    return [[one.op for one in program.steps], [one.dtypes for one in program.steps], ranks, program.outputs]


def merge_programs(programs: Sequence[Program]) -> Program:
    """Merge programs into one, in which numbers that differ become SizeDependent."""
    merged = merge_values([program.model_dump() for program in programs])
    return Program.model_validate(merged | {"sizes": len(programs)})


def merge_values(values: Sequence[Any]) -> Any:
    """Merge values of equal structure, number by number."""
    first = values[0]
    if isinstance(first, dict):
        return {key: merge_values([value[key] for value in values]) for key in first}
    if isinstance(first, tuple) and len({len(value) for value in values}) == 1:
        return tuple(merge_values(list(items)) for items in zip(*values))
    if all(value == first for value in values):
        return first
    if all(isinstance(value, int | float) for value in values):
        return SizeDependent(values=tuple(values)).model_dump()
    raise UserError("a list or text that depends on the size")
