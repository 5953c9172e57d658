"""Steps over rows: leading axes on which every step works separately are the rows, and a block has complete axes behind them.

Weights of products are complete in VMEM.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import ceil, prod

from evokernel.generators.template_search.graph import Node, Num, Shape, UnsupportedPattern, broadcast_shapes, pad_rank, walk
from evokernel.generators.template_search.patterns import KernelPattern, find_factor

MOVES = frozenset({"slice", "cat", "expand", "permute"})
STEPS = frozenset({"reduce", "matmul", "takealong"}) | MOVES
LANES, SUBLANES, FLOAT_BYTES = 128, 8, 4
BLOCK_BYTES = 1 << 20
"""Largest block of one array."""
ARRAY_BYTES, ALL_BYTES, WEIGHT_BYTES = 2 << 20, 12 << 20, 8 << 20
"""Limits of one array of a block of one row, of all arrays together, and of all weights."""


class RowProgram:
    """The steps of a pattern, split into `rows` leading axes that every step treats separately, and the axes of a block behind them."""

    def __init__(self, root: Node, rank: int, rows: int, sums: Sequence[Node] = ()) -> None:
        self.root, self.rank, self.rows, self.sums = root, rank, rows, tuple(sums)
        self.results = tuple(node.args[0] for node in sums) or (root,)
        """What a block computes: a block of the root, or the values of its rows that are added up over all blocks."""
        self.full = broadcast_shapes(*(pad_rank(node.shape, rank)[:rows] for node in self.results))
        self.operands: list[Node] = []
        self.weights: list[Node] = []
        self.visited: set[Node] = set()
        for node in self.results:
            self.visit(node)
        nodes = [n for n in self.visited if n.op != "const"]
        self.is_unrolled = any(n.op in ("matmul", "permute") for n in nodes) and rank - rows > 1
        if self.is_unrolled and sums:
            raise UnsupportedPattern("a sum over products of blocks")
        if self.is_unrolled and rank - rows > 2:
            raise UnsupportedPattern("products of blocks with more than two axes")
        sizes = [self.block_bytes(n.shape) for n in nodes]
        if max(sizes) > ARRAY_BYTES or sum(self.block_bytes(x.shape) for x in self.arrays) > ALL_BYTES:
            raise UnsupportedPattern("rows that are too large for one block")
        if sum(matrix_bytes(w.shape) for w in self.weights) > WEIGHT_BYTES:
            raise UnsupportedPattern("weights that are too large for one block")

    @property
    def arrays(self) -> tuple[Node, ...]:
        """The values that a block reads and writes."""
        return (*self.operands, *(() if self.sums else (self.root,)))

    def block_bytes(self, shape: Shape) -> float:
        """Bytes of a value in VMEM for one row, or for a register of rows if they are in sublanes."""
        sizes = [n.value for n in pad_rank(shape, self.rank)[self.rows :]]
        return matrix_bytes_of([SUBLANES, *sizes] if len(sizes) == 1 else sizes)

    def count_blocks(self) -> float:
        """Number of blocks at bench size if each has as many rows as a block can have."""
        *outer, rows = ([self.full[i].value for i in group] for group in self.groups)
        row_bytes = max(self.block_bytes(x.shape) for x in self.arrays) / (SUBLANES if self.rank - self.rows == 1 else 1)
        return prod(n for group in outer for n in group) * ceil(prod(rows) * row_bytes / max(BLOCK_BYTES, row_bytes))

    def visit(self, node: Node) -> None:
        """Records a value that has the rows as its leading axes, and what it is computed from."""
        if node in self.visited:
            return
        self.visited.add(node)
        if any(not n.is_one and not n.is_same(m) for n, m in zip(pad_rank(node.shape, self.rank), self.full)):
            raise UnsupportedPattern("rows of different lengths")
        shift = self.rank - len(node.shape)
        own_axes = {i + shift for i in node.dims} if node.op in ("reduce", "slice", "cat", "takealong") else set()
        if any(i < self.rows for i in own_axes):
            raise UnsupportedPattern(f"{node.op} across rows")
        if node.op == "permute":
            last = len(node.dims)
            if node.dims != (*range(last - 2), last - 1, last - 2) or self.rows > self.rank - 2:
                raise UnsupportedPattern("axes that are moved across rows")
        if node.op == "slice" and not node.nums[1].is_one:
            raise UnsupportedPattern("every second element of rows")
        if node.op == "reduce" and node.name not in ("sum", "mean", "max", "min"):
            raise UnsupportedPattern(f"{node.name} of rows among other steps")
        if node.op == "takealong" and (node.name or not node.shape[-1].is_one or own_axes != {self.rank - 1}):
            raise UnsupportedPattern("several elements that are picked from a row")
        if node.op == "matmul" and self.rows == self.rank - 1:
            self.visit(node.args[0])
            weight, _ = find_factor(node.args[1])
            if len(weight.shape) != 2:
                raise UnsupportedPattern("a product of rows with several matrices")
            self.weights.append(weight)
        elif node.op in ("leaf", "index"):
            self.operands.append(node)
        elif node.is_elementwise or node.op in STEPS or node.op == "const":
            for arg in node.args:
                self.visit(arg)
        else:
            raise UnsupportedPattern(f"{node.op} among other steps")

    @property
    def groups(self) -> list[list[int]]:
        """Neighbouring row axes that every operand either has or lacks; at least one group."""
        shapes = [pad_rank(x.shape, self.rank) for x in self.operands]
        patterns = [(i, tuple(not s[i].is_one for s in shapes)) for i in range(self.rows) if not self.full[i].is_one]
        return [[i for i, _ in part] for _, part in groupby(patterns, key=lambda p: p[1])] or [[]]


def matrix_bytes(shape: Shape) -> float:
    """Bytes of a tensor in VMEM at bench size."""
    return matrix_bytes_of([n.value for n in shape])


def matrix_bytes_of(sizes: Sequence[float]) -> float:
    """Bytes of an array in VMEM, whose last two axes are padded to registers."""
    *outer, rows, cols = (1, 1, *sizes)
    total = ceil(rows / SUBLANES) * SUBLANES * ceil(cols / LANES) * LANES * FLOAT_BYTES
    for n in outer:
        total *= n
    return float(total)


def find_program(root: Node) -> RowProgram:
    """The program with fewest blocks; without rows only if there is no other.

    Most row axes are best for products with weights, and if XLA stores rows in lanes.
    """
    nodes = walk(root)
    rank = max(2, *(len(n.shape) for n in nodes))
    reason = UnsupportedPattern("steps without common rows")
    sums, programs = find_sums(root), list[RowProgram]()
    for rows in range(rank - 1, 0 if sums else -1, -1):
        if rows == 0 and programs:
            break
        try:
            programs.append(RowProgram(root, rank, rows, sums))
        except UnsupportedPattern as error:
            reason = error
    if not programs:
        raise reason
    first = programs[0]
    if any(n.op == "matmul" for n in nodes) or (rank - first.rows == 1 and is_better_turned(first)):
        return first
    return min(programs, key=lambda program: program.count_blocks())


def find_sums(root: Node) -> list[Node]:
    """The sums over all elements from which a result is computed that is a single number; empty if it depends on anything else."""
    sums: dict[Node, None] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.op == "reduce" and node.name in ("sum", "mean") and all(n.is_one for n in node.shape):
            sums[node] = None
        elif node.is_elementwise and all(n.is_one for n in node.shape):
            stack += node.args
        elif node.op != "const":
            return []
    return list(sums)


def stored_order(shape: Sequence[Num]) -> tuple[int, ...]:
    """The axes from the outermost to the one in lanes, as XLA stores a tensor: with least padding at bench size, else as they are."""
    sizes = [n.value for n in shape]
    axes = [i for i in reversed(range(len(sizes))) if sizes[i] > 1]
    orders = [(*(i for i in range(len(sizes)) if i not in (row, lane)), row, lane) for lane in axes for row in axes if row != lane]
    return min(orders, key=lambda order: stored_bytes([sizes[i] for i in order]), default=tuple(range(len(sizes))))


def stored_bytes(sizes: Sequence[float]) -> float:
    """Bytes of an array in HBM, whose tiles have up to eight rows."""
    tile_rows = next(rows for rows in (1, 2, 4, SUBLANES) if rows >= min(sizes[-2], SUBLANES))
    return prod(sizes[:-2]) * ceil(sizes[-2] / tile_rows) * tile_rows * ceil(sizes[-1] / LANES) * LANES * FLOAT_BYTES


def has_first_axis_in_lanes(pattern: KernelPattern) -> bool:
    """Whether elementwise steps are over tensors of one shape that XLA stores with the first axis in lanes, and the last in sublanes.

    Two axes are left to kernels over rows, and tiles of the last axis must be complete: only then the other axes are one in memory, too.
    """
    if pattern.family != "map" or len(pattern.axes) != 1 or any(o.node.op == "index" or not o.is_full for o in pattern.operands):
        return False
    shape = pattern.root.shape
    axes = [i for i, n in enumerate(shape) if n.value > 1]
    return len(axes) > 2 and axes[0] == 0 and stored_order(shape)[-2:] == (axes[-1], 0) and shape[axes[-1]].value % SUBLANES == 0


def is_stored_turned(shape: Shape) -> bool:
    """Whether XLA stores a tensor with its last two axes exchanged, because that needs less padding at bench size."""
    sizes = [n.value for n in shape if n.value > 1]
    return len(sizes) > 1 and matrix_bytes_of([*sizes[:-2], sizes[-1], sizes[-2]]) < matrix_bytes_of(sizes)


def is_better_turned(program: RowProgram) -> bool:
    """Whether most bytes that a program reads and writes are stored with exchanged axes."""
    tensors = [x for x in program.arrays if x.op != "index"]
    signed = [matrix_bytes(x.shape) * (1 if is_stored_turned(x.shape) else -1) for x in tensors]
    return sum(signed) > 0
