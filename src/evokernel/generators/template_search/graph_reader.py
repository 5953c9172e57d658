"""A traced program as a graph of nodes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import lru_cache

from evokernel.core.errors import UserError
from evokernel.core.records import Task
from evokernel.generators.template_search.graph import Node, NoSketch, Num, apply, as_node, leaf, walk
from evokernel.generators.template_search.operators import lowerings
from evokernel.generators.template_search.sizes import Sizes
from evokernel.reference.program import Extent, Program, Ref, Step, Value, Varied, checking, program

SEEN_THROUGH = frozenset(
    {
        "alias", "broadcast_tensors", "broadcast_to", "chunk", "contiguous", "detach", "diagonal", "dropout", "expand", "expand_as",
        "flatten", "movedim", "mT", "narrow", "numpy_T", "permute", "reshape", "select", "slice", "split", "split_with_sizes", "squeeze",
        "t", "to", "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as", "_unsafe_view",
    }
)  # fmt: skip
"""What gives the same elements another name, not a copy."""


@dataclass(frozen=True)
class Graph:
    """The outputs of a reference as nodes, and which operator of the reference each node comes from."""

    outputs: tuple[Node, ...]
    origin: dict[Node, int]
    """Steps of the program by number; nodes two operators share belong to the first."""


def graph_of(program: Program) -> Graph:
    """The graph of a program; raises NoSketch, saying in a few words what is not understood."""
    if program.gap:
        raise NoSketch(program.gap)
    return Reader(program).graph()


@lru_cache(maxsize=512)
def graph_of_text(source: str, name: str, small: tuple[tuple[str, int], ...]) -> Graph | str:
    """The graph of a text, or why there is none."""
    try:
        return graph_of(program(source, name, small))
    except (NoSketch, UserError) as gap:
        return str(gap)


def read(task: Task) -> Graph:
    """What a task computes; raises NoSketch, saying in a few words what is not understood."""
    found = graph_of_text(task.source, task.id, checking(task))
    if isinstance(found, str):
        raise NoSketch(found)
    return found


class Reader:
    """The values of a program's names while it is read."""

    def __init__(self, program: Program) -> None:
        self.program, self.sizes = program, Sizes(program)
        self.values: dict[str, tuple[object, ...]] = {
            a.name: (leaf(f"in_{a.name}", tuple(self.extent(n) for n in a.shape), a.dtype),) for a in program.arguments
        }

    def graph(self) -> Graph:
        """Step by step."""
        if is_changed_elsewhere(self.program):
            raise NoSketch("a change in place that is seen under another name")
        origin: dict[Node, int] = {}
        for i, step in enumerate(self.program.steps):
            result = self.lowered(step)
            parts = result if isinstance(result, tuple) else (result,)
            self.values[step.name] = parts
            for node in parts:
                self.sizes.learn(node.shape if isinstance(node, Node) else ())
            for node in walk(*(as_node(part) for part in parts)):
                origin.setdefault(node, i)
        outputs = tuple(self.output(ref, origin) for ref in self.program.outputs)
        return Graph(outputs, origin)

    def output(self, ref: Ref, origin: dict[Node, int]) -> Node:
        """A result in the type the reference returns: nodes compute in float32 whatever the reference does."""
        node = as_node(self.values[ref.name][ref.part])
        dtypes = {step.name: (i, step.dtypes) for i, step in enumerate(self.program.steps)}
        if ref.name not in dtypes or dtypes[ref.name][1][ref.part] == node.dtype:
            return node
        i, kinds = dtypes[ref.name]
        turned = replace(apply("cast", node), name=kinds[ref.part], dtype=kinds[ref.part])
        origin.setdefault(turned, i)
        return turned

    def lowered(self, step: Step) -> object:
        """The value of one operation."""
        full = step.op.removeprefix("aten.")
        name = full.split(".")[0]
        table = lowerings()
        function = table.get(full) or table.get(name) or (table.get(name.removesuffix("_")) if name.endswith("_") else None)
        if function is None:
            raise NoSketch(f"{name}()")
        settings = {key: self.value(value) for key, value in step.settings.items()}
        takes = inspect.signature(function).parameters
        if "shape" in takes:
            settings["shape"] = tuple(self.extent(n) for n in step.shapes[0])
        if "shapes" in takes:
            settings["shapes"] = tuple(tuple(self.extent(n) for n in shape) for shape in step.shapes)
        if "dtypes" in takes:
            settings["dtypes"] = step.dtypes
        try:
            return function(*(self.value(arg) for arg in step.args), **settings)
        except TypeError as error:
            raise NoSketch(f"{name}() with these arguments") from error

    def value(self, value: Value) -> object:
        """An argument of an operation."""
        if isinstance(value, Ref):
            return self.values[value.name][value.part]
        if isinstance(value, tuple):
            return tuple(self.value(item) for item in value)
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return value
        return self.sizes.number(value)

    def extent(self, extent: Extent) -> Num:
        """An extent as a number."""
        return self.sizes.number(extent) if isinstance(extent, Varied) else Num.of(int(extent))


def is_changed_elsewhere(program: Program) -> bool:
    """Whether a step changes elements in place that are looked at again under a name they had before."""
    behind: dict[str, str] = {}
    latest = {name: i for i, step in enumerate(program.steps) for name in names_in((*step.args, *step.settings.values()))}
    latest |= {ref.name: len(program.steps) for ref in program.outputs}
    for i, step in enumerate(program.steps):
        op = step.op.removeprefix("aten.").split(".")[0]
        first = next(iter(names_in(step.args)), "")
        base = behind.get(first, first)
        if op.endswith("_") and not op.startswith("_"):
            aliases = {base, *(name for name, other in behind.items() if other == base)}
            if any(latest.get(name, -1) > i for name in aliases):
                return True
        elif op in SEEN_THROUGH:
            behind[step.name] = base
    return False


def names_in(value: Value | tuple[Value, ...]) -> list[str]:
    """The values an argument refers to."""
    if isinstance(value, tuple):
        return [name for item in value for name in names_in(item)]
    return [value.name] if isinstance(value, Ref) else []
