"""Splits a graph into stages, one kernel each; how much is fused into a stage is a decision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from evokernel.generators.template_search.graph import (
    Node,
    Shape,
    UnsupportedPattern,
    make_leaf,
    replace_nodes,
    reshape,
    strip_reshapes,
    walk,
)
from evokernel.generators.template_search.graph_reader import Graph
from evokernel.generators.template_search.patterns import KernelPattern, match_fused, match_pattern
from evokernel.generators.template_search.sink_reshapes import sink_reshapes

FUSION_MODES = ("none", "all", "after", "before", "whole")
"""`none`: one kernel per operator. `all`: as much as a template for one kind of operator covers. `whole`: as `all`, and steps that no such
template covers together go into a kernel over blocks of rows, if the backend has a template for it.

`after` puts elementwise steps into the kernel of the compute-intensive operator before them, `before` into that of the one after them.
"""


@dataclass(frozen=True)
class Buffer:
    """Memory between stages, or an output of the kernel."""

    name: str
    shape: Shape
    dtype: str
    is_output: bool


@dataclass(frozen=True)
class Stage:
    """One kernel of a plan: the pattern it computes and the buffer it writes."""

    pattern: KernelPattern
    out: Buffer


@dataclass(frozen=True)
class Plan:
    """The stages in order."""

    stages: tuple[Stage, ...]

    @cached_property
    def buffers(self) -> dict[str, Buffer]:
        """The buffers that the stages write, by name."""
        return {stage.out.name: stage.out for stage in self.stages}

    @property
    def outline(self) -> tuple[tuple[str, int], ...]:
        """Equal for two plans with the same stages."""
        return tuple((stage.pattern.family, stage.pattern.root.key) for stage in self.stages)


def plan_stages(
    graph: Graph, outputs: tuple[str, ...], fuse: str, require_template: Callable[[KernelPattern], object],
    prefers_fused: Callable[[KernelPattern], bool] = lambda pattern: False,
) -> Plan:  # fmt: skip
    """Stages for all outputs; `require_template` raises UnsupportedPattern for a pattern that the backend has no template for.

    `prefers_fused` says whether a kernel over blocks of rows suits a pattern better than the pattern's own template.
    """
    return StagePlanner(graph, outputs, fuse, require_template, prefers_fused).plan_outputs()


class StagePlanner:
    """Grows each stage from its result towards the inputs, as far as the fusion mode and the templates allow."""

    def __init__(
        self, graph: Graph, names: tuple[str, ...], fuse: str, require_template: Callable[[KernelPattern], object],
        prefers_fused: Callable[[KernelPattern], bool],
    ) -> None:  # fmt: skip
        self.roots, moved_nodes = sink_reshapes(graph.outputs)
        self.origin: dict[Node, int] = {}
        for old, step in graph.origin.items():
            for node in walk(moved_nodes[old]) if old in moved_nodes else ():
                self.origin.setdefault(strip_reshapes(node), step)
        self.main_steps = {step for node, step in self.origin.items() if not node.is_elementwise and not node.is_input}
        self.fuse, self.require_template, self.prefers_fused = fuse, require_template, prefers_fused
        self.outputs = {strip_reshapes(root): (name, root.shape) for name, root in zip(names, self.roots)}
        self.order = walk(*self.roots)
        self.users: dict[Node, set[Node]] = defaultdict(set)
        for node in self.order:
            for arg in node.args:
                self.users[arg].add(node)
        self.buffers: dict[Node, Buffer] = {}
        self.stages: list[Stage] = []

    def plan_outputs(self) -> Plan:
        """The stages of all outputs, one output after the other."""
        if len(self.outputs) < len(self.roots) or any(root.is_input for root in self.outputs):
            raise UnsupportedPattern("an output that is an input, or another output")
        for root in self.outputs:
            if root not in self.buffers:
                self.add_stage(root)
        return Plan(tuple(self.stages))

    def add_stage(self, root: Node) -> None:
        """Adds a stage that computes a value into a buffer, after the stages of everything it reads."""
        region = self.initial_region(root)
        self.match_region(root, region)
        has_grown = True
        while has_grown:
            has_grown = False
            for node in self.region_inputs(region):
                if node not in region and self.can_fuse(node, region):
                    try:
                        self.match_region(root, region | {node})
                    except UnsupportedPattern:
                        continue
                    region.add(node)
                    has_grown = True
        for node in self.region_inputs(region):
            if not node.is_input and strip_reshapes(node) not in self.buffers:
                self.add_stage(strip_reshapes(node))
        pattern = self.match_region(root, region)
        name, shape = self.outputs.get(root, ("", root.shape))
        self.buffers[root] = Buffer(name or f"t{len(self.buffers)}", shape, root.dtype, bool(name))
        self.stages.append(Stage(pattern, self.buffers[root]))

    def initial_region(self, root: Node) -> set[Node]:
        """The nodes a stage starts with: the value alone, or everything between two products if that is a pattern (attention)."""
        region, stack = {root}, list(root.args) if root.op == "matmul" and self.fuse in ("all", "whole") else []
        while stack:
            node = stack.pop()
            if node in region or self.is_stage_boundary(node):
                continue
            region.add(node)
            stack += [arg for arg in node.args if node.op != "matmul" or arg.op == "permute"]
        try:
            self.match_region(root, region)
        except UnsupportedPattern:
            return {root}
        return region if all(self.users[node] <= region for node in region - {root}) else {root}

    def match_region(self, root: Node, region: set[Node]) -> KernelPattern:
        """The pattern of a region whose inputs are in memory; raises UnsupportedPattern if no template covers it."""
        inputs = {node: self.buffer_leaf(node) for node in self.region_inputs(region) if not node.is_input}
        tree = replace_nodes(root, inputs)
        try:
            pattern = match_pattern(tree)
            self.require_template(pattern)
        except UnsupportedPattern:
            if self.fuse != "whole":
                raise
            pattern = match_fused(tree)
            self.require_template(pattern)
        if self.fuse == "whole" and self.prefers_fused(pattern):
            pattern = match_fused(tree)
            self.require_template(pattern)
        return pattern

    def buffer_leaf(self, node: Node) -> Node:
        """A value as a leaf that is read from its buffer; the name is provisional until the buffer exists."""
        base = strip_reshapes(node)
        if base.is_input:
            return reshape(base, node.shape)
        name = self.buffers[base].name if base in self.buffers else f"t{base.key & 0xFFFFFFFF:x}"
        return make_leaf(name, node.shape, node.dtype)

    def region_inputs(self, region: set[Node]) -> list[Node]:
        """The nodes that a region reads, last computed first."""
        inputs = {arg for node in region for arg in node.args if arg not in region}
        return [node for node in reversed(self.order) if node in inputs]

    def is_stage_boundary(self, node: Node) -> bool:
        """Whether a value is an input, has a buffer already, is an output, or is a reshape: then no other stage computes it."""
        return node.is_input or strip_reshapes(node) in self.buffers or strip_reshapes(node) in self.outputs or node.op == "reshape"

    def can_fuse(self, node: Node, region: set[Node]) -> bool:
        """Whether the fusion mode lets a region compute a value that it reads."""
        if self.is_stage_boundary(node):
            return False
        if not any(n.op == "leaf" for n in walk(node)):
            return True  # positions and numbers alone do not need a stage
        if node.op == "slice" and self.fuse == "all":
            return True  # a part of a tensor in memory is read in place, by every stage that needs it
        if not self.users[node] <= region:
            return False
        if node.op == "permute" or self.fuse in ("all", "whole"):
            return True
        if self.source_step(node) in {self.source_step(n) for n in region}:
            return True
        has_main_node = any(not n.is_elementwise for n in region)
        if node.is_elementwise and self.source_step(node) not in self.main_steps:
            return self.fuse != "none" and (not has_main_node or self.fuse == "before")
        return self.fuse == "after" and not has_main_node

    def source_step(self, node: Node) -> int:
        """The number of the reference's operator that a value belongs to, or -1."""
        return self.origin.get(strip_reshapes(node), -1)
