"""Cuts a graph into stages, each a kernel of its own: how much goes into one is a decision like any other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from evokernel.generators.template_search.forms import Form, form_of
from evokernel.generators.template_search.graph import Node, NoSketch, Shape, leaf, rebuilt, reshape, walk
from evokernel.generators.template_search.graph_reader import Graph
from evokernel.generators.template_search.sink_reshapes import settled

FUSE = ("none", "all", "after", "before")
"""A kernel per operator; as much as a sketch takes; elementwise steps in the kernel of the heavy one before them; of the one after."""


@dataclass(frozen=True)
class Buffer:
    """Memory between stages, or an output of the kernel."""

    name: str
    shape: Shape
    dtype: str
    is_output: bool


@dataclass(frozen=True)
class Stage:
    """One kernel of a plan: what it computes and where to."""

    form: Form
    out: Buffer


@dataclass(frozen=True)
class Plan:
    """The stages in order, and the buffers they write."""

    stages: tuple[Stage, ...]

    @cached_property
    def buffers(self) -> dict[str, Buffer]:
        return {stage.out.name: stage.out for stage in self.stages}

    @property
    def outline(self) -> tuple[tuple[str, int], ...]:
        """What two plans are compared by."""
        return tuple((stage.form.family, stage.form.root.key) for stage in self.stages)


def plan(graph: Graph, outputs: tuple[str, ...], fuse: str, accepts: Callable[[Form], object]) -> Plan:
    """Stages for all outputs; `accepts` raises NoSketch for a form that the backend has no sketch for."""
    return Planner(graph, outputs, fuse, accepts).plan()


class Planner:
    """Grows each stage from its result upwards, as far as fusion is wanted and a sketch takes it."""

    def __init__(self, graph: Graph, names: tuple[str, ...], fuse: str, accepts: Callable[[Form], object]) -> None:
        self.roots, became = settled(graph.outputs)
        self.origin: dict[Node, int] = {}
        for old, step in graph.origin.items():
            for node in walk(became[old]) if old in became else ():
                self.origin.setdefault(bare(node), step)
        self.heavy = {step for node, step in self.origin.items() if not node.is_elementwise and not node.is_given}
        self.fuse, self.accepts = fuse, accepts
        self.named = {bare(root): (name, root.shape) for name, root in zip(names, self.roots)}
        self.order = walk(*self.roots)
        self.users: dict[Node, set[Node]] = defaultdict(set)
        for node in self.order:
            for arg in node.args:
                self.users[arg].add(node)
        self.made: dict[Node, Buffer] = {}
        self.stages: list[Stage] = []

    def plan(self) -> Plan:
        """All outputs, one after the other."""
        if len(self.named) < len(self.roots) or any(root.is_given for root in self.named):
            raise NoSketch("an output that is an input, or another output")
        for root in self.named:
            if root not in self.made:
                self.stage(root)
        return Plan(tuple(self.stages))

    def stage(self, root: Node) -> None:
        """Computes a value into memory, after everything it reads; under a name of its own unless it is an output."""
        region = self.pattern(root)
        self.form(root, region)
        grown = True
        while grown:
            grown = False
            for node in self.edge(region):
                if node not in region and self.may(node, root, region):
                    try:
                        self.form(root, region | {node})
                    except NoSketch:
                        continue
                    region.add(node)
                    grown = True
        for node in self.edge(region):
            if not node.is_given and bare(node) not in self.made:
                self.stage(bare(node))
        form = self.form(root, region)
        name, shape = self.named.get(root, ("", root.shape))
        self.made[root] = Buffer(name or f"t{len(self.made)}", shape, root.dtype, bool(name))
        self.stages.append(Stage(form, self.made[root]))

    def pattern(self, root: Node) -> set[Node]:
        """What a stage starts from: the value alone, or everything between two products where that is a form of its own."""
        found, stack = {root}, list(root.args) if root.op == "matmul" and self.fuse == "all" else []
        while stack:
            node = stack.pop()
            if node in found or node.is_given or node.op == "reshape" or bare(node) in self.made or bare(node) in self.named:
                continue
            found.add(node)
            stack += [arg for arg in node.args if node.op != "matmul" or arg.op == "permute"]
        try:
            self.form(root, found)
        except NoSketch:
            return {root}
        return found if all(self.users[node] <= found for node in found - {root}) else {root}

    def form(self, root: Node, region: set[Node]) -> Form:
        """The region as a form whose leaves lie in memory; raises NoSketch where no sketch takes it."""
        found = form_of(rebuilt(root, {node: self.read(node) for node in self.edge(region) if not node.is_given}))
        self.accepts(found)
        return found

    def read(self, node: Node) -> Node:
        """A value from memory: by its buffer's name once it has one."""
        base = bare(node)
        if base.is_given:
            return reshape(base, node.shape)
        name = self.made[base].name if base in self.made else f"t{base.key & 0xFFFFFFFF:x}"
        return leaf(name, node.shape, node.dtype)

    def edge(self, region: set[Node]) -> list[Node]:
        """What a region reads, last computed first."""
        found = {arg for node in region for arg in node.args if arg not in region}
        return [node for node in reversed(self.order) if node in found]

    def may(self, node: Node, root: Node, region: set[Node]) -> bool:
        """Whether a value should be computed where it is used, as far as fusion is wanted."""
        if node.is_given or bare(node) in self.made or bare(node) in self.named or node.op == "reshape":
            return False
        if not any(n.op == "leaf" for n in walk(node)):
            return True  # positions and numbers alone are no stage of their own
        if not self.users[node] <= region:
            return False
        if node.op == "permute" or self.fuse == "all":
            return True
        if self.step(node) in {self.step(n) for n in region}:
            return True
        begun = any(not n.is_elementwise for n in region)
        if node.is_elementwise and self.step(node) not in self.heavy:
            return self.fuse != "none" and (not begun or self.fuse == "before")
        return self.fuse == "after" and not begun

    def step(self, node: Node) -> int:
        """The operator of the reference a value belongs to."""
        return self.origin.get(bare(node), -1)


def bare(node: Node) -> Node:
    """The value behind reshapes, which lies in the same memory."""
    while node.op == "reshape":
        node = node.args[0]
    return node
