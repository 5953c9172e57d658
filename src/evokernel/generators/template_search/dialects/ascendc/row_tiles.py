"""Reductions of several complete rows at once: each instruction processes a tile, and values per row fill the lanes of their row.

A tile has the layout [chunk][row][lane], with chunks of 64 or 128 neighbouring elements, so that sums over chunks are long instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.ascendc.emit import FOLDS, LIBRARY, PAIRS, STARTS, Steps, StepValue
from evokernel.generators.template_search.dialects.ascendc.local_memory import LIBRARY_RESERVE, SELECT_RESERVE, UNIFIED_BUFFER
from evokernel.generators.template_search.dialects.ascendc.operand_access import OperandRead
from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, walk
from evokernel.generators.template_search.patterns import Operand

FEWEST_ROWS = 4
"""Rows of a tile below which the copies of its chunks are too short."""
SMALL_BUFFERS = 12 * 1024
"""Bytes for values per row."""
MOST_SHORT, WORK_BYTES = 2048, 3
"""Elements of a row up to which its chunks have 64 if rows are aligned, and bytes of the buffer of reductions per element of a tile."""
FIRST_NAMED, FIRST_SPARE = 1000, 2000
"""Numbers of temporary buffers that have other names."""


class RowSteps(Steps):
    """Instructions on values per row, each in a buffer of its own."""

    prefix = "u"


class TileSteps(Steps):
    """Instructions on complete tiles, with their reductions to values per row."""

    def __init__(self, arguments: Mapping[Node, StepValue], numbers: Mapping[Num, str], d: Choice, spare: Sequence[str] = ()) -> None:
        super().__init__(arguments, numbers, d, "s.size")
        self.names = {value.temp: value.text for value in arguments.values() if value.temp >= FIRST_NAMED}
        """Names of buffers that serve as temporary ones: tiles after their last use, and the output before it is written."""
        self.free = [FIRST_SPARE + i for i in range(len(spare))]
        self.names |= dict(zip(self.free, spare))
        self.rows = RowSteps({}, numbers, {"temps": "fresh"}, "lanes")
        self.rows.lines = self.lines
        self.results: list[str] = []
        """Buffers that reductions write."""
        self.spreads: dict[str, str] = {}
        """Buffers with a value per row in every lane of a block, by the buffer of that value."""
        self.inverses: dict[str, StepValue] = {}
        self.kinds: set[str] = set()
        """Instructions that combine the elements of a row."""

    def name_temp(self, temp: int) -> str:
        return self.names.get(temp) or super().name_temp(temp)

    def free_buffers(self, *names: str) -> None:
        """Frees buffers that only one step needed."""
        numbers = {name: temp for temp, name in self.names.items()}
        self.free += [numbers[name] if name in numbers else int(name[1:]) for name in names]

    def compute_node(self, node: Node, dest: str) -> StepValue:
        """Computes one node after its arguments, by whether they have a value per element, per row, or one for all."""
        if node.op == "index":
            raise UnsupportedPattern("positions in rows that are processed together")
        if node.op in ("const", "reduce"):
            return super().compute_node(node, dest)
        args = [self.value(a) for a in node.args]
        has_rows, has_tiles = any(a.per_row for a in args), any(a.is_vector and not a.per_row for a in args)
        if not has_rows:
            return super().compute_node(node, dest)
        if has_tiles:
            result = self.compute_mixed(node, args, dest)
        else:
            self.rows.known |= dict(zip(node.args, args))
            result = replace(self.rows.compute_node(node, ""), temp=-1, per_row=True)
        for arg in node.args:
            self.release_use(arg)
        return result

    def compute_mixed(self, node: Node, args: list[StepValue], dest: str) -> StepValue:
        """A step on tiles and values per row."""
        if node.op in PAIRS:
            to = self.choose_target(node, dest, args)
            lhs, rhs = args
            call = PAIRS[node.op]
            if node.op == "div" and rhs.per_row:
                rhs, call = self.invert(rhs), "Mul"
            self.emit_pair(call, to.text, lhs, rhs)
            return to
        full = [self.fill_tile(a) if a.per_row else a for a in args]
        result = self.compute_step(node, full, dest)
        self.free_buffers(*(value.text for value, arg in zip(full, args) if arg.per_row))
        return result

    def emit_pair(self, call: str, to: str, lhs: StepValue, rhs: StepValue) -> None:
        """An instruction on a tile and a value per row, which has a block of equal elements for each row."""
        left, right = (self.spread(v) if v.per_row else f"{v.text}[h]" for v in (lhs, rhs))
        blocks = ["0" if v.per_row else "1" for v in (lhs, rhs)]
        pitches = ["1" if v.per_row else "s.wide / 8" for v in (lhs, rhs)]
        self.emit("for (uint32_t h = 0; h < s.wide; h += 64) {")
        strides = f"BinaryRepeatParams(1, {blocks[0]}, {blocks[1]}, s.wide / 8, {pitches[0]}, {pitches[1]})"
        self.emit(f"    {call}({to}[h], {left}, {right}, 64, s.lines, {strides});")
        self.emit("}")

    def spread(self, value: StepValue) -> str:
        """The buffer with a value per row in every lane of a block, for every chunk."""
        if value.text not in self.spreads:
            self.spreads[value.text] = f"b{len(self.spreads)}"
            self.emit(f"Spread({self.spreads[value.text]}, {value.text}, s);")
        return self.spreads[value.text]

    def invert(self, value: StepValue) -> StepValue:
        """One divided by a value per row."""
        if value.text not in self.inverses:
            to = self.rows.allocate_value()
            self.rows.divide_number("1.0f", value.text, to.text)
            self.inverses[value.text] = replace(to, temp=-1, per_row=True)
        return self.inverses[value.text]

    def fill_tile(self, value: StepValue) -> StepValue:
        """A tile with a value per row in every element of the row."""
        to = self.allocate_value()
        self.emit(f"Duplicate({to.text}, 0.0f, s.size);")
        self.emit_pair("Add", to.text, to, value)
        return to

    def fill_buffer(self, value: StepValue) -> str:
        """A buffer that holds the value in every element."""
        return self.fill_tile(value).text if value.per_row else super().fill_buffer(value)

    def reduce_buffer(self, node: Node, arg: StepValue) -> StepValue:
        """A tile reduced to a value per row."""
        if node.name not in FOLDS or node.name == "prod" or not arg.is_vector or arg.per_row:
            raise UnsupportedPattern(f"a reduction by {node.name} of rows that are processed together")
        to = f"{self.rows.prefix}{self.rows.allocate_temp()}"
        self.results.append(to)
        call = FOLDS[node.name]
        self.kinds.add(call)
        self.emit(f"Clear({arg.text}, {STARTS[node.name]}, s);")
        self.emit(f"Reduce{call}({to}, {arg.text}, work, s);")
        if node.name == "mean":
            self.emit(f"Muls({to}, {to}, 1.0f / static_cast<float>(s.n), lanes);")
        return StepValue(to, True, per_row=True)


@dataclass(frozen=True)
class RowTiles:
    """The operands of rows that are processed together, by the form in which a tile needs them."""

    tiles: tuple[OperandRead, ...]
    shared: tuple[OperandRead, ...]
    """One row for all rows."""
    columns: tuple[OperandRead, ...]
    """One number for each row."""
    numbers: tuple[OperandRead, ...]
    root: Node
    free: Mapping[Num, str]
    is_full: bool

    def steps(self, d: Choice) -> TileSteps:
        """All instructions of a tile."""
        values = {r.node: StepValue(r.local, True, FIRST_NAMED + i) for i, r in enumerate(self.tiles)}
        values |= {r.node: StepValue(r.local, True) for r in self.shared}
        values |= {r.node: StepValue(r.local, True, per_row=True) for r in self.columns}
        values |= {r.node: StepValue(f"v_{r.name}", False) for r in self.numbers}
        steps = TileSteps(values, self.free, {**d, "temps": "reuse"}, ["y"] if self.is_full and not self.has_library else [])
        steps.count_uses(self.root)
        if self.is_full:
            steps.compute_into(self.root, "y")
        else:
            value = steps.value(self.root)
            if not value.per_row:
                raise UnsupportedPattern("a result that is not per row")
            steps.result = value.text
        if "bits" in steps.rows.needs or "one" in steps.rows.needs:
            raise UnsupportedPattern("a comparison of values per row")
        return steps

    @property
    def has_library(self) -> bool:
        """Whether a step calls a library function, which takes free local memory and must not overwrite its source."""
        return any(n.op in LIBRARY or n.op == "pow" for n in walk(self.root))

    def room(self, steps: TileSteps) -> tuple[int, int]:
        """Bytes of local memory for tiles, and bytes that each element of a tile takes without the buffer of reductions."""
        reserve = (SELECT_RESERVE if "bits" in steps.needs else 0) + (LIBRARY_RESERVE if self.has_library else 0)
        floats = 2 * len(self.tiles) + 2 * self.is_full + len(self.shared) + steps.temps
        return UNIFIED_BUFFER - reserve - SMALL_BUFFERS, 4 * floats + len(steps.spreads) + ("bits" in steps.needs)

    def fits(self, length: int) -> bool:
        """Whether a tile has enough rows of this length."""
        lanes = 64 if length <= 64 or (length % 64 == 0 and length <= MOST_SHORT) else 128
        chunks = -(-length // lanes)
        total, each = self.room(self.steps({}))
        rest = total - 4 * len(self.shared) * chunks * lanes
        return min(255 // chunks, rest // ((each + WORK_BYTES) * chunks * lanes)) >= FEWEST_ROWS


def plan_row_tiles(
    operands: Sequence[Operand], reads: Sequence[OperandRead], root: Node, free: Mapping[Num, str], is_full: bool, out_dtype: str
) -> RowTiles:
    """The operands of rows that are processed together; raises UnsupportedPattern if they cannot be."""
    present = {operand.node: operand.present for operand in operands}
    if out_dtype != "float32" or any(r.T != "float" for r in reads) or any(o.node.op == "index" for o in operands):
        raise UnsupportedPattern("rows of other than float32, or their positions, together")
    forms: dict[str, list[OperandRead]] = {"tiles": [], "shared": [], "columns": [], "numbers": []}
    for read in reads:
        outside, inner = present[read.node][:-1], present[read.node][-1]
        if any(outside) and not all(outside):
            raise UnsupportedPattern("an operand that changes along some of the rows only")
        forms[("tiles" if any(outside) else "shared") if inner else "columns" if any(outside) else "numbers"].append(read)
    if not forms["tiles"]:
        raise UnsupportedPattern("rows without a tile")
    tiles, shared, columns, numbers = (tuple(forms[name]) for name in ("tiles", "shared", "columns", "numbers"))
    plan = RowTiles(tiles, shared, columns, numbers, root, free, is_full)
    plan.steps({})
    return plan
