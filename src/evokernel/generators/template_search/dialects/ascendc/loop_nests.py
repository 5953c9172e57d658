"""Loop nests with or without reductions: computed row by row, chunk by chunk, or for neighbouring rows together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects import TemplateChoice
from evokernel.generators.template_search.dialects.ascendc.activation_forms import use_short_forms
from evokernel.generators.template_search.dialects.ascendc.common_decisions import multiply_extents, unravel_index
from evokernel.generators.template_search.dialects.ascendc.emit import FOLDS, JOINS, LIBRARY, STARTS, Steps, StepValue, reduction_lines
from evokernel.generators.template_search.dialects.ascendc.local_memory import MAX_QUEUE_BUFFERS, BufferUse, Room, measure_room
from evokernel.generators.template_search.dialects.ascendc.operand_access import (
    PER_BLOCK,
    TYPES,
    OperandRead,
    outer_positions,
    plan_reads,
    tensor_arguments,
)
from evokernel.generators.template_search.dialects.ascendc.row_tiles import RowTiles, plan_row_tiles
from evokernel.generators.template_search.dialects.loop_text import extent_arguments, flat_index, number_arguments
from evokernel.generators.template_search.graph import Node, UnsupportedPattern, is_same_shape, reachable_nodes, walk
from evokernel.generators.template_search.kernel_template import PatternDescription, name_free_numbers
from evokernel.generators.template_search.patterns import KernelPattern

SPLITS = 16
"""Maximum number of passes with partial results."""


@dataclass
class LoopPass:
    """One pass over the loops, or the steps after them."""

    steps: Steps
    reads: tuple[OperandRead, ...]
    """Operands that are copied in tiles."""
    scalar_reads: tuple[OperandRead, ...]
    """Operands that are one number during the pass."""
    before: list[str] = field(default_factory=list)
    name: str = ""
    start: str = ""
    join: str = ""
    mean: bool = False
    result: str = ""

    @property
    def lines(self) -> list[str]:
        return self.steps.lines


@dataclass(frozen=True)
class BufferNeeds:
    """Buffers that all passes together need."""

    temps: int
    needs: frozenset[str]


def combine_needs(parts: Sequence[LoopPass], ending: LoopPass) -> BufferNeeds:
    """The maximum over all passes."""
    every = [p.steps for p in (*parts, ending)]
    return BufferNeeds(max(s.temps for s in every), frozenset().union(*(s.needs for s in every)))


class Nest:
    """The loops of a pattern, and its steps for each way to iterate over them."""

    def __init__(self, pattern: KernelPattern) -> None:
        self.pattern, self.reads, self.free = pattern, plan_reads(pattern.operands), name_free_numbers(pattern.root)
        self.last = len(pattern.axes) - 1
        self.positions = outer_positions(pattern.operands)
        self.strided = bool(pattern.main_nodes) and not pattern.axes[self.last].is_reduced
        self.kept = [i for i, a in enumerate(pattern.axes) if not a.is_reduced and (i != self.last)]
        self.around = [i for i, a in enumerate(pattern.axes) if a.is_reduced and i != self.last]
        self.is_full = not pattern.main_nodes or is_same_shape(pattern.root.shape, pattern.main_nodes[0].args[0].shape)

    def operand_values(self) -> dict[Node, StepValue]:
        return {r.node: r.value for r in self.reads} | self.positions

    def split_reads(self, *trees: Node, stops: Iterable[Node] = ()) -> tuple[tuple[OperandRead, ...], tuple[OperandRead, ...]]:
        """The operands that some values need: those in tiles, and those that are numbers."""
        used_nodes = set[Node]().union(*(reachable_nodes(tree, set(stops)) for tree in trees))
        return tuple(r for r in self.reads if r.inner and r.node in used_nodes), tuple(
            r for r in self.reads if not r.inner and r.node in used_nodes
        )

    def row_steps(self, d: TemplateChoice | Choice) -> Steps:
        """All steps for one row: the reductions and the steps after them."""
        d = as_choice(d)
        roots = [*self.pattern.main_nodes, self.pattern.root] if d.get("keep") == "again" else [self.pattern.root]
        values, combined = self.operand_values(), Steps({}, {}, d)
        for root in roots:
            steps = Steps(values, self.free, d, first="0" if self.pattern.main_nodes or len(self.pattern.axes) > 1 else "at")
            steps.scalars = combined.scalars
            steps.count_uses(root)
            if root == self.pattern.root and self.is_full:
                steps.compute_into(root, "y")
            else:
                value = steps.value(root)
                values[root] = value
                combined.result = value.text
            combined.lines += steps.lines
            combined.temps, combined.needs, combined.scalars = max(combined.temps, steps.temps), combined.needs | steps.needs, steps.scalars
        return combined

    def chunk_passes(self, d: TemplateChoice | Choice) -> list[LoopPass]:
        """One pass per reduction, chunk by chunk."""
        d, rows, passes = as_choice(d), dict[Node, StepValue](), list[LoopPass]()
        counter = 0
        for i, node in enumerate(self.pattern.main_nodes):
            before, counter = self.compute_scalars(node.args[0], rows, d, counter)
            steps = Steps({**self.operand_values(), **rows}, self.free, d, first="c")
            steps.scalars = counter
            steps.count_uses(node.args[0])
            text = steps.fill_buffer(steps.value(node.args[0]))
            steps.lines += reduction_lines(node.name, text, "part", "count", d.get("reduce", "level"))
            steps.needs |= {"one", "work", *before.needs}
            counter = steps.scalars
            reads, single = self.split_reads(node.args[0], stops=rows)
            rows[node] = StepValue(f"r{i}", False)
            passes.append(LoopPass(steps, reads, single, before.lines, f"r{i}", STARTS[node.name],
                              JOINS[node.name].format(f"r{i}", "part"), node.name == "mean"))  # fmt: skip
        return passes

    def chunk_ending(self, d: TemplateChoice | Choice) -> LoopPass:
        """The steps after all reductions, chunk by chunk or once."""
        d = as_choice(d)
        rows = {node: StepValue(f"r{i}", False) for i, node in enumerate(self.pattern.main_nodes)}
        counter = sum(len(p.before) + p.steps.scalars for p in self.chunk_passes(d))
        for node in self.pattern.main_nodes:
            # Names of scalars from earlier passes are not used again.
            _, counter = self.compute_scalars(node.args[0], dict(rows), d, counter)
        before, counter = self.compute_scalars(self.pattern.root, rows, d, counter)
        steps = Steps({**self.operand_values(), **rows}, self.free, d, first="c")
        steps.scalars = counter
        steps.needs |= before.needs
        steps.count_uses(self.pattern.root)
        reads, single = self.split_reads(self.pattern.root, stops=rows)
        part = LoopPass(steps, reads, single, before.lines)
        if self.is_full:
            steps.compute_into(self.pattern.root, "y")
        else:
            part.result = steps.value(self.pattern.root).text
        return part

    def compute_scalars(self, tree: Node, rows: dict[Node, StepValue], d: Choice, counter: int) -> tuple[Steps, int]:
        """Steps on numbers only, computed once before a pass."""
        steps = Steps(rows, self.free, d)
        steps.scalars = counter
        for node in walk(tree):
            if node in rows or not node.is_elementwise or node.dtype == "bool":
                continue
            if all(a in rows or a.op == "const" for a in node.args) and any(a in rows for a in node.args):
                rows[node] = steps.value(node)
        return steps, steps.scalars

    def strided_passes(self, d: TemplateChoice | Choice) -> list[LoopPass]:
        """One pass per reduction, for neighbouring rows together."""
        d, rows, passes = as_choice(d), dict[Node, StepValue](), list[LoopPass]()
        for i, node in enumerate(self.pattern.main_nodes):
            before = self.store_joined(node.args[0], rows, d)
            steps = Steps({**self.operand_values(), **rows}, self.free, d, first="c")
            steps.count_uses(node.args[0])
            text = steps.fill_buffer(steps.value(node.args[0]))
            steps.emit(f"{FOLDS[node.name]}(r{i}, r{i}, {text}, count);")
            steps.temps, steps.needs = max(steps.temps, before.temps), steps.needs | before.needs
            reads, single = self.split_reads(node.args[0], stops=rows)
            rows[node] = StepValue(f"r{i}", True)
            passes.append(LoopPass(steps, reads, single, before.lines, f"r{i}", STARTS[node.name], "", node.name == "mean"))
        return passes

    def strided_ending(self, d: TemplateChoice | Choice) -> LoopPass:
        """The steps after these passes."""
        d, rows = as_choice(d), dict[Node, StepValue]()
        for i, node in enumerate(self.pattern.main_nodes):
            self.store_joined(node.args[0], rows, d)
            rows[node] = StepValue(f"r{i}", True)
        before = self.store_joined(self.pattern.root, rows, d) if self.is_full else Steps({}, {}, d)
        steps = Steps({**self.operand_values(), **rows}, self.free, d, first="c")
        steps.count_uses(self.pattern.root)
        steps.compute_into(self.pattern.root, "y")
        steps.temps, steps.needs = max(steps.temps, before.temps), steps.needs | before.needs
        reads, single = self.split_reads(self.pattern.root, stops=rows)
        return LoopPass(steps, reads, single, before.lines)

    def store_joined(self, tree: Node, rows: dict[Node, StepValue], d: Choice) -> Steps:
        """Steps on values per row, computed once before a pass; the values that the pass needs are in `j0`, `j1`, ..."""
        inside = walk(tree)
        joins: set[Node] = set()
        for node in inside:
            if node in rows or not node.is_elementwise or node.dtype == "bool":
                continue
            if all(a in rows or a in joins or a.op == "const" for a in node.args) and any(a in rows or a in joins for a in node.args):
                joins.add(node)
        needed_nodes = [
            n for n in inside if n in joins and (n == tree or any(n in m.args for m in inside if m not in joins and m not in rows))
        ]
        steps = Steps(rows, self.free, d)
        for node in needed_nodes:
            steps.count_uses(node)
        for node in needed_nodes:
            name = f"j{sum(v.text.startswith('j') for v in rows.values())}"
            steps.compute_into(node, name)
            rows[node] = steps.known[node] = StepValue(name, True)
        return steps

    def room(self, d: TemplateChoice | Choice, steps: BufferUse, shared: int = 0) -> Room:
        """The local memory for this nest's buffers."""
        reads = [r for r in self.reads if r.inner]
        is_stored = self.is_full or self.strided
        return measure_room(as_choice(d), reads, TYPES[self.pattern.root.dtype], steps, self.uses_library, shared, is_stored)

    @cached_property
    def uses_library(self) -> bool:
        """Whether a step calls a library function, which takes free local memory."""
        return any(n.op in LIBRARY or n.op == "pow" for n in walk(self.pattern.root))

    def joined_buffers(self, d: TemplateChoice | Choice) -> list[str]:
        """The names of the buffers `j0`, `j1`, ... between passes."""
        d, rows = as_choice(d), dict[Node, StepValue]()
        for i, node in enumerate(self.pattern.main_nodes):
            self.store_joined(node.args[0], rows, d)
            rows[node] = StepValue(f"r{i}", True)
        if self.is_full:
            self.store_joined(self.pattern.root, rows, d)
        return [v.text for v in rows.values() if v.text.startswith("j")]


def as_choice(d: TemplateChoice | Choice) -> Choice:
    """A choice as a mapping."""
    return d.choice if isinstance(d, TemplateChoice) else d


def describe_nest(pattern: KernelPattern) -> PatternDescription:
    """Describes a pattern as a loop nest; raises UnsupportedPattern if it does not cover it."""
    pattern = use_short_forms(pattern)
    if any(h.name not in FOLDS for h in pattern.main_nodes):
        raise UnsupportedPattern(f"a reduction by {pattern.main_nodes[0].name}")
    if pattern.main_nodes and not any(a.is_reduced for a in pattern.axes):
        raise UnsupportedPattern("a reduction over axes of extent one")
    work = Nest(pattern)
    if pattern.root.dtype not in TYPES or (pattern.root.dtype == "bfloat16" and not work.is_full):
        raise UnsupportedPattern(f"a {pattern.root.dtype} result")
    flat = not pattern.main_nodes and len(pattern.axes) <= 1
    has_rows = not flat and not work.strided and bool(work.kept) and not work.around
    is_long = has_rows and not fits_rows(work, "1")
    is_crowded = 2 * sum(r.inner and not (r.shared and has_rows and not is_long) for r in work.reads) > MAX_QUEUE_BUFFERS
    is_tight = is_crowded or (has_rows and not is_long and not fits_rows(work, "2"))
    single = bool(pattern.main_nodes) and not work.kept and not work.strided and not work.around and len(pattern.main_nodes) <= SPLITS
    if work.strided:
        all_steps: Sequence[Steps] = [*(p.steps for p in work.strided_passes({})), work.strided_ending({}).steps]
    else:
        all_steps = [work.row_steps({}), *(p.steps for p in work.chunk_passes({})), work.chunk_ending({}).steps]
    T_out = TYPES[pattern.root.dtype]
    kinds = {T_out, *(r.T for r in work.reads)}
    align = 64 if any("bits" in s.needs for s in all_steps) else max(PER_BLOCK[T] for T in kinds)
    reduced_axes = [i for i, a in enumerate(pattern.axes) if a.is_reduced]
    row_tiles = find_row_tiles(work) if has_rows and not is_long else None
    variables = {
        "row_tiles": row_tiles,
        "reads": work.reads, "flat": flat, "strided": work.strided, "is_full": work.is_full, "last": work.last, "align": align,
        "total": multiply_extents(range(len(pattern.axes))), "T_out": T_out, "out": "y" if T_out == "float" else "y_raw",
        "narrow": "uint8_t" in kinds, "has_outer": bool(work.positions) or any(not r.inner for r in work.reads),
        "rows": multiply_extents(work.kept), "around": multiply_extents(work.around), "reduced": multiply_extents(reduced_axes),
        "indices": unravel_index(work.kept, "row"), "around_indices": unravel_index(work.around, "k"),
        "out_at": out_position(work), "program": work.row_steps, "passes_of": work.chunk_passes, "ending_of": work.chunk_ending,
        "needed": combine_needs, "room": work.room,
        "folds_of": work.strided_passes, "finish_of": work.strided_ending, "joins_of": work.joined_buffers, "partials": single,
    }  # fmt: skip
    return PatternDescription(
        (*tensor_arguments(work.reads), *extent_arguments(pattern.axes), *number_arguments(work.free)),
        variables,
        frozenset(
            nest_traits(work, flat, has_rows and not is_long, single)
            | {n for n, there in (("long", is_long), ("tight", is_tight), ("together", row_tiles)) if there}
        ),
    )


def find_row_tiles(work: Nest) -> RowTiles | None:
    """How several rows are reduced together; None if they cannot be, or too few of them fit into local memory at some size."""
    pattern = work.pattern
    if not pattern.main_nodes:
        return None
    try:
        plan = plan_row_tiles(pattern.operands, work.reads, pattern.root, work.free, work.is_full, pattern.root.dtype)
    except UnsupportedPattern:
        return None
    return plan if plan.fits(int(max(pattern.axes[work.last].extent.values))) else None


def fits_rows(work: Nest, depth: str) -> bool:
    """Whether a complete row fits into every buffer, at every traced size, with this number of buffers per queue."""
    room = work.room({"depth": depth}, work.row_steps({}))
    return max(work.pattern.axes[work.last].extent.values) + 64 <= room.total // max(1, room.queued + room.fixed)


def out_position(work: Nest) -> str:
    """The offset of a row of the output."""
    outside = [i for i in range(work.last) if work.is_full or i in work.kept]
    return f"{flat_index(outside)} * n{work.last}" if outside and (work.is_full or work.strided) else flat_index(outside)


def nest_traits(work: Nest, flat: bool, has_rows: bool, single: bool) -> set[str]:
    """Traits that decisions depend on; a decision whose options give the same code does not apply."""

    def differs(name: str, *options: str) -> bool:
        texts = []
        for option in options:
            d: Mapping[str, str] = {name: option}
            if work.strided:
                parts = [*work.strided_passes(d), work.strided_ending(d)]
                texts.append([(p.before, p.lines, p.steps.temps) for p in parts])
            else:
                combined = work.row_steps(d)
                texts.append([([], combined.lines, combined.temps)])
        return texts[0] != texts[1]

    nodes = walk(work.pattern.root)
    holds = {
        "flat": flat, "rows": has_rows, "single": single, "points": not work.is_full and not work.strided,
        "shared": has_rows and any(r.shared for r in work.reads),
        "tiled": has_rows and any(r.inner and not r.shared for r in work.reads),
        "reduce": bool(work.pattern.main_nodes) and not work.strided, "divide": differs("divide", "div", "reciprocal"),
        "tanh": any(n.op == "tanh" for n in nodes), "library": work.uses_library and differs("temps", "reuse", "inplace"),
        "temps": differs("temps", "reuse", "fresh"), "kept": has_rows and differs("keep", "kept", "again"),
    }  # fmt: skip
    return {name for name, there in holds.items() if there}
