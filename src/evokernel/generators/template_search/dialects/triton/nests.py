"""Reductions over some loops of an iteration space: passes over blocks, with the kept loops as rows and the reduced ones as columns."""

from __future__ import annotations

from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.loop_text import extent_arguments, number_arguments
from evokernel.generators.template_search.dialects.triton.blocks import (
    BlockAxes,
    BlockRead,
    call_text,
    plan_reads,
    read_arguments,
    split_position,
)
from evokernel.generators.template_search.dialects.triton.common_decisions import WARPS
from evokernel.generators.template_search.dialects.triton.emit import emit_function, require_float32
from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, apply, is_same_shape, reachable_nodes
from evokernel.generators.template_search.kernel_template import PatternDescription, TemplateVariables, name_free_numbers
from evokernel.generators.template_search.patterns import KernelPattern

NEUTRAL = {"sum": "0.0", "mean": "0.0", "max": 'float("-inf")', "min": 'float("inf")', "prod": "1.0"}
JOIN = {"sum": "{0} + {1}", "mean": "{0} + {1}", "max": "tl.maximum({0}, {1})", "min": "tl.minimum({0}, {1})", "prod": "{0} * {1}"}
FOLD = {
    "sum": "tl.sum({0}, axis=1)", "mean": "tl.sum({0}, axis=1) / cols", "max": "tl.max({0}, axis=1)", "min": "tl.min({0}, axis=1)",
    "prod": "tl.reduce({0}, 1, multiply)",
}  # fmt: skip
"""The neutral element of a reduction, the combination of two values, and the reduction of a block along its columns."""


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
    group: int = 0
    """Reductions of one group are independent of each other, so that one loop computes them."""

    @property
    def neutral(self) -> str:
        return NEUTRAL[self.kind]

    def join(self, before: str, value: str) -> str:
        return JOIN[self.kind].format(before, value)

    def fold(self, value: str) -> str:
        return FOLD[self.kind].format(value)

    def fold_sum(self, value: str) -> str:
        """The reduction of a block of partial results, which a mean divides once, at the end."""
        return FOLD["sum" if self.kind == "mean" else self.kind].format(value)


class NestWriter:
    """Collects the functions of a nest."""

    def __init__(self, pattern: KernelPattern, reads: tuple[BlockRead, ...], free: dict[Num, str]) -> None:
        self.reads, self.free = reads, free
        self.results: dict[Node, int] = {}
        self.functions: list[tuple[str, Node, dict[Node, str]]] = []

    def add_step(self, tree: Node) -> Step:
        """Adds a function that computes a tree from operands and earlier reductions."""
        used_nodes = reachable_nodes(tree, set(self.results))
        reads = tuple(r for r in self.reads if r.node in used_nodes)
        uses = tuple(number for node, number in self.results.items() if node in used_nodes)
        names = {r.node: r.name for r in reads} | {node: f"r{number}" for node, number in self.results.items() if number in uses}
        label = f"step{len(self.functions)}"
        self.functions.append((label, tree, names))
        values = {node: name if node in self.results else f"v_{name}" for node, name in names.items()}
        return Step(call_text(label, values, list(self.free.values())), reads, uses)


def describe_nest(pattern: KernelPattern) -> PatternDescription:
    """Describes a pattern with reductions as passes over blocks."""
    require_float32(pattern.root)
    if not pattern.axes:
        raise UnsupportedPattern("a reduction of a single element")
    rows = tuple(i for i, a in enumerate(pattern.axes) if not a.is_reduced)
    axes = BlockAxes(rows, tuple(i for i, a in enumerate(pattern.axes) if a.is_reduced))
    free = name_free_numbers(pattern.root)
    writer = NestWriter(pattern, plan_reads(pattern.operands, axes), free)
    passes: list[Pass] = []
    for node in pattern.main_nodes:
        if node.name not in NEUTRAL:
            raise UnsupportedPattern(f"a reduction by {node.name}")
        step = writer.add_step(node.args[0])
        group = passes[-1].group if passes and not any(passes[i].group == passes[-1].group for i in step.uses) else len(passes)
        passes.append(Pass(len(passes), node.name, step, group))
        writer.results[node] = len(passes) - 1
    final = writer.add_step(pattern.root)
    is_full = bool(axes.cols) and is_same_shape(pattern.root.shape, pattern.main_nodes[0].args[0].shape)
    variables = {
        **block_variables(writer.reads, axes, is_full, len(pattern.axes)), "passes": passes, "final": final,
        "groups": [[p for p in passes if p.group == group] for group in dict.fromkeys(p.group for p in passes)],
        "functions": writer.functions, "emit": emit_function, "free": free, "is_full": is_full,
        "softmax": find_softmax(pattern),
    }  # fmt: skip
    traits = {"strided" if pattern.axes[-1].is_reduced is False else "inner"}
    traits |= {"softmax"} if variables["softmax"] else set()
    arguments = (*read_arguments(writer.reads), *extent_arguments(pattern.axes), *number_arguments(free))
    return PatternDescription(arguments, variables, frozenset(traits))


def block_variables(reads: tuple[BlockRead, ...], axes: BlockAxes, is_full: bool, loops: int) -> TemplateVariables:
    """The positions of a block and of its result."""
    out = axes.offset(list(range(loops))) if is_full else "k"
    used = " ".join([out, *(r.offset for r in reads)])
    return {
        "axes": axes, "out_offset": out, "row_lines": split_position("k", axes.rows, used),
        "col_lines": split_position("r", axes.cols, used), "row_reads": [r for r in reads if not r.has_cols],
    }  # fmt: skip


def find_softmax(pattern: KernelPattern) -> bool:
    """Whether the first two reductions are a maximum and the sum of exponentials relative to it."""
    if len(pattern.main_nodes) < 2:
        return False
    high, total = pattern.main_nodes[:2]
    return high.name == "max" and total.name == "sum" and total.args[0] == apply("exp", apply("sub", high.args[0], high))


def has_chunks(choice: Choice) -> bool:
    """Whether a loop reads a row in chunks."""
    return choice.get("algorithm") != "whole"


NEST_DECISIONS = (
    Decision("algorithm", ("whole", "chunks", "split", "online"), trait="softmax"),
    Decision("algorithm", ("whole", "chunks", "split")),
    Decision("splits", ("4", "16", "64", "256"), one_of("algorithm", "split")),
    Decision("rows", ("1", "2", "4", "8", "16", "32"), trait="inner"),
    Decision("rows", ("16", "32", "64", "128", "256"), trait="strided"),
    Decision("cols", ("256", "512", "1024", "2048", "4096", "8192"), has_chunks, trait="inner"),
    Decision("cols", ("1", "2", "4", "8", "16", "32", "64"), has_chunks, trait="strided"),
    WARPS,
)
"""`whole` holds a row in registers, `chunks` reads it once per reduction, `online` once for softmax; `split` spreads it over programs."""
