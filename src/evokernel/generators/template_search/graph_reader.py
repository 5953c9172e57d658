"""Reads a traced program into a graph of nodes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import lru_cache

from evokernel.core.errors import UserError
from evokernel.core.records import Task
from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, apply, as_node, make_leaf, strip_reshapes, walk
from evokernel.generators.template_search.operators import load_lowerings
from evokernel.generators.template_search.sizes import SizeExpressions
from evokernel.reference.program import Extent, Program, SizeDependent, Step, Value, ValueRef
from evokernel.reference.program_cache import checking_constants, load_program

VIEW_OPS = frozenset(
    {
        "alias", "broadcast_tensors", "broadcast_to", "chunk", "contiguous", "detach", "diagonal", "dropout", "expand", "expand_as",
        "flatten", "movedim", "mT", "narrow", "numpy_T", "permute", "reshape", "select", "slice", "split", "split_with_sizes", "squeeze",
        "t", "to", "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as", "_unsafe_view",
    }
)  # fmt: skip
"""Operators whose result may share memory with their argument."""


@dataclass(frozen=True)
class Graph:
    """The outputs of a reference as nodes, and the operator of the reference that each node comes from."""

    outputs: tuple[Node, ...]
    origin: dict[Node, int]
    """The number of the program's step; a node that two operators share belongs to the first."""


def build_graph(program: Program) -> Graph:
    """The graph of a program; raises UnsupportedPattern with a short description of what it does not support."""
    if program.unsupported_reason:
        raise UnsupportedPattern(program.unsupported_reason)
    return GraphReader(program).read_graph()


@lru_cache(maxsize=512)
def cached_graph(source: str, name: str, small: tuple[tuple[str, int], ...]) -> Graph | str:
    """The graph of a reference's source, or the reason why there is none."""
    try:
        return build_graph(load_program(source, name, small))
    except (UnsupportedPattern, UserError) as reason:
        return str(reason)


def read_task_graph(task: Task) -> Graph:
    """The graph of a task; raises UnsupportedPattern with a short description of what it does not support."""
    graph = cached_graph(task.source, task.id, checking_constants(task))
    if isinstance(graph, str):
        raise UnsupportedPattern(graph)
    return graph


class GraphReader:
    """Lowers the steps of a program one by one and holds the values of its names."""

    def __init__(self, program: Program) -> None:
        self.program, self.sizes = program, SizeExpressions(program)
        self.values: dict[str, tuple[object, ...]] = {
            a.name: (make_leaf(f"in_{a.name}", tuple(self.extent_num(n) for n in a.shape), a.dtype),) for a in program.arguments
        }

    def read_graph(self) -> Graph:
        """The graph of all outputs."""
        if has_aliased_write(self.program):
            raise UnsupportedPattern("an in-place change that is visible under another name")
        origin: dict[Node, int] = {}
        for i, step in enumerate(self.program.steps):
            result = self.lower_step(step)
            parts = result if isinstance(result, tuple) else (result,)
            self.values[step.name] = parts
            for node in parts:
                self.sizes.record_shape(node.shape if isinstance(node, Node) else ())
            for node in walk(*(as_node(part) for part in parts)):
                origin.setdefault(node, i)
        outputs: list[Node] = []
        for ref in self.program.outputs:
            node = self.output_node(ref, origin)
            is_copy = strip_reshapes(node).is_input or strip_reshapes(node) in map(strip_reshapes, outputs)
            outputs.append(replace(apply("cast", node), name=node.dtype, dtype=node.dtype) if is_copy else node)
            origin.setdefault(outputs[-1], len(self.program.steps))
        return Graph(tuple(outputs), origin)

    def output_node(self, ref: ValueRef, origin: dict[Node, int]) -> Node:
        """An output in the type that the reference returns; nodes compute in float32 regardless of the reference's type."""
        node = as_node(self.values[ref.name][ref.result_index])
        dtypes = {step.name: (i, step.dtypes) for i, step in enumerate(self.program.steps)}
        if ref.name not in dtypes or dtypes[ref.name][1][ref.result_index] == node.dtype:
            return node
        i, kinds = dtypes[ref.name]
        converted = replace(apply("cast", node), name=kinds[ref.result_index], dtype=kinds[ref.result_index])
        origin.setdefault(converted, i)
        return converted

    def lower_step(self, step: Step) -> object:
        """The value of one step, or a tuple of values."""
        full = step.op.removeprefix("aten.")
        name = full.split(".")[0]
        table = load_lowerings()
        function = table.get(full) or table.get(name) or (table.get(name.removesuffix("_")) if name.endswith("_") else None)
        if function is None:
            raise UnsupportedPattern(f"{name}()")
        settings = {key: self.resolve_argument(value) for key, value in step.settings.items()}
        parameters = inspect.signature(function).parameters
        if "shape" in parameters:
            settings["shape"] = tuple(self.extent_num(n) for n in step.shapes[0])
        if "shapes" in parameters:
            settings["shapes"] = tuple(tuple(self.extent_num(n) for n in shape) for shape in step.shapes)
        if "dtypes" in parameters:
            settings["dtypes"] = step.dtypes
        try:
            return function(*(self.resolve_argument(arg) for arg in step.args), **settings)
        except TypeError as error:
            raise UnsupportedPattern(f"{name}() with these arguments") from error

    def resolve_argument(self, value: Value) -> object:
        """An argument of a step as nodes and numbers."""
        if isinstance(value, ValueRef):
            return self.values[value.name][value.result_index]
        if isinstance(value, tuple):
            return tuple(self.resolve_argument(item) for item in value)
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return value
        return self.sizes.express(value)

    def extent_num(self, extent: Extent) -> Num:
        """An extent as a number."""
        return self.sizes.express(extent) if isinstance(extent, SizeDependent) else Num.of(int(extent))


def has_aliased_write(program: Program) -> bool:
    """Whether a step changes elements in place that a later step reads under an earlier name."""
    base_of: dict[str, str] = {}
    last_use = {name: i for i, step in enumerate(program.steps) for name in referenced_names((*step.args, *step.settings.values()))}
    last_use |= {ref.name: len(program.steps) for ref in program.outputs}
    for i, step in enumerate(program.steps):
        op = step.op.removeprefix("aten.").split(".")[0]
        first = next(iter(referenced_names(step.args)), "")
        base = base_of.get(first, first)
        if op.endswith("_") and not op.startswith("_"):
            aliases = {base, *(name for name, other in base_of.items() if other == base)}
            if any(last_use.get(name, -1) > i for name in aliases):
                return True
        elif op in VIEW_OPS:
            base_of[step.name] = base
    return False


def referenced_names(value: Value | tuple[Value, ...]) -> list[str]:
    """The names of the values that an argument refers to."""
    if isinstance(value, tuple):
        return [name for item in value for name in referenced_names(item)]
    return [value.name] if isinstance(value, ValueRef) else []
