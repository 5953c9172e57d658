"""Reductions over some loops of an iteration space as passes over blocks, with the kept loops as rows and the reduced ones as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evokernel.generators.template_search.dialects.blocks import BlockAxes, BlockRead, call_text
from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, apply, is_same_shape, reachable_nodes
from evokernel.generators.template_search.patterns import KernelPattern


@dataclass(frozen=True)
class ReductionForm:
    """How a language writes a reduction, as formats."""

    neutral: str
    """The neutral element."""
    join: str
    """The combination of two values."""
    fold: str
    """The reduction of the partial results of a row."""
    finish: str = "{0}"
    """The result from the reduced value."""


@dataclass(frozen=True)
class Step:
    """A function over a block: its call, and the operands that it reads."""

    call: str
    reads: tuple[BlockRead, ...]
    uses: tuple[int, ...]
    """The earlier reductions that it uses."""


@dataclass(frozen=True)
class Pass:
    """One reduction."""

    number: int
    kind: str
    step: Step
    form: ReductionForm
    group: int = 0
    """Reductions of one group are independent of each other, so that one loop computes them."""

    @property
    def neutral(self) -> str:
        return self.form.neutral

    def join(self, before: str, value: str) -> str:
        return self.form.join.format(before, value)

    def fold(self, value: str) -> str:
        return self.form.finish.format(self.fold_part(value))

    def fold_part(self, value: str) -> str:
        """The reduction of a part of a row, which a mean divides once, at the end."""
        return self.form.fold.format(value)


def split_axes(pattern: KernelPattern) -> BlockAxes:
    """The kept loops as rows and the reduced ones as columns."""
    if not pattern.axes:
        raise UnsupportedPattern("a reduction of a single element")
    return BlockAxes(
        tuple(i for i, a in enumerate(pattern.axes) if not a.is_reduced), tuple(i for i, a in enumerate(pattern.axes) if a.is_reduced)
    )


class Nest:
    """The passes of a pattern with reductions, and the functions over blocks that they call."""

    def __init__(
        self, pattern: KernelPattern, reads: tuple[BlockRead, ...], free: Mapping[Num, str], forms: Mapping[str, ReductionForm],
        result: str = "r{0}",
    ) -> None:  # fmt: skip
        """Plans the passes; `result` is the format of an earlier reduction's result in a call."""
        self.reads, self.free, self.result = reads, free, result
        self.results: dict[Node, int] = {}
        self.functions: list[tuple[str, Node, dict[Node, str]]] = []
        self.passes: list[Pass] = []
        for node in pattern.main_nodes:
            if node.name not in forms:
                raise UnsupportedPattern(f"a reduction by {node.name}")
            step, last = self.add_step(node.args[0]), self.passes[-1].group if self.passes else 0
            is_joint = bool(self.passes) and not any(self.passes[i].group == last for i in step.uses)
            self.passes.append(Pass(len(self.passes), node.name, step, forms[node.name], last if is_joint else len(self.passes)))
            self.results[node] = len(self.passes) - 1
        self.final = self.add_step(pattern.root)
        has_columns = any(axis.is_reduced for axis in pattern.axes)
        self.is_full = has_columns and is_same_shape(pattern.root.shape, pattern.main_nodes[0].args[0].shape)

    def add_step(self, tree: Node) -> Step:
        """Adds a function that computes a tree from operands and earlier reductions."""
        used_nodes = reachable_nodes(tree, set(self.results))
        reads = tuple(r for r in self.reads if r.node in used_nodes)
        uses = tuple(number for node, number in self.results.items() if node in used_nodes)
        names = {r.node: r.name for r in reads} | {node: f"r{number}" for node, number in self.results.items() if number in uses}
        label = f"step{len(self.functions)}"
        self.functions.append((label, tree, names))
        values = {r.node: r.value for r in reads} | {node: self.result.format(self.results[node]) for node in names if node in self.results}
        return Step(call_text(label, values, list(self.free.values())), reads, uses)

    @property
    def groups(self) -> list[list[Pass]]:
        """The passes by group, in order."""
        return [[p for p in self.passes if p.group == group] for group in dict.fromkeys(p.group for p in self.passes)]


def find_softmax(pattern: KernelPattern) -> bool:
    """Whether the first two reductions are a maximum and the sum of exponentials relative to it."""
    if len(pattern.main_nodes) < 2:
        return False
    high, total = pattern.main_nodes[:2]
    return high.name == "max" and total.name == "sum" and total.args[0] == apply("exp", apply("sub", high.args[0], high))
