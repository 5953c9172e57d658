"""Patterns: recognises which kernel family covers a part of a graph, and splits it into loops, operands and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from evokernel.generators.template_search.graph import (
    TRANSCENDENTAL,
    VIEWS,
    Node,
    Num,
    Shape,
    UnsupportedPattern,
    calculate,
    is_same_shape,
    make_const,
    pad_rank,
    replace_nodes,
    walk,
)

ARG_REDUCTIONS = ("argmax", "argmin")
RESULT = "result"
"""The buffer name under which an epilogue reads the result of the main node."""


@dataclass(frozen=True)
class Axis:
    """One loop: neighbouring axes of the iteration space that every tensor either has or lacks together."""

    extent: Num
    """The product of their extents."""
    is_reduced: bool = False


@dataclass(frozen=True)
class Operand:
    """A leaf, a slice of a leaf or an index that is read, and the loops along which it changes."""

    node: Node
    present: tuple[bool, ...]
    offset: Num = field(default_factory=lambda: Num.of(0))
    """Of a slice: where it begins in its leaf."""
    strides: tuple[Num, ...] = ()
    """Of a slice: the distance in its leaf between two steps of each loop."""

    @property
    def is_full(self) -> bool:
        return all(self.present)


@dataclass(frozen=True)
class KernelPattern:
    """A part of a graph that one kernel family covers, split into its components."""

    family: str
    root: Node
    main_nodes: tuple[Node, ...] = ()
    """The nodes that are not elementwise (reductions, products, convolutions, ...), in order."""
    axes: tuple[Axis, ...] = ()
    """The loops of a map, reduce or row; of a product: batch, rows, columns; of a convolution or pooling: images, channels, space."""
    operands: tuple[Operand, ...] = ()
    """The operands of the elementwise steps, in order of appearance."""
    tensors: tuple[Node, ...] = ()
    """The tensors that the main node reads: factors, image and weights, table and indices."""
    in_order: tuple[bool, ...] = ()
    """For each factor of a product: whether it is stored row by row, not transposed."""
    numbers: tuple[Num, ...] = ()
    is_causal: bool = False

    @property
    def uses_math(self) -> bool:
        return any(n.op in TRANSCENDENTAL for n in walk(self.root))

    @property
    def epilogue(self) -> Node | None:
        """The elementwise steps after a single main node, whose result is a leaf called `result`; None if there are none."""
        if len(self.main_nodes) != 1 or self.root == self.main_nodes[0]:
            return None
        return replace_nodes(
            self.root, {self.main_nodes[0]: Node("leaf", (), self.main_nodes[0].shape, RESULT, dtype=self.main_nodes[0].dtype)}
        )


def match_pattern(root: Node) -> KernelPattern:
    """The pattern of a graph by its nodes that are not elementwise; raises UnsupportedPattern if no kernel family covers them."""
    nodes = walk(root)
    main = [n for n in nodes if not n.is_elementwise and not n.is_input and (n == root or not is_sliced_leaf(n))]
    kinds = {n.op for n in main}
    if not any(n.op in ("leaf", "index") for n in nodes):
        raise UnsupportedPattern("an output that depends on no tensor")
    if not main:
        return match_elementwise(root)
    if root.op in VIEWS and len(main) == 1:
        return KernelPattern("move", root, (root,), tensors=root.args)
    if any(n.op in VIEWS and n.op != "permute" for n in main):
        raise UnsupportedPattern("a rearrangement inside other steps")
    if kinds <= {"matmul", "reduce", "permute"} and sum(n.op == "matmul" for n in main) == 2:
        return match_attention(root)
    if kinds == {"reduce"}:
        return match_reduction(root, main)
    single = [n for n in main if n.op != "permute"]
    if len(single) == 1 and single[0].op in SINGLE_OP_MATCHERS:
        return SINGLE_OP_MATCHERS[single[0].op](root, single[0])
    raise UnsupportedPattern(f"the combination of {', '.join(sorted(kinds))}")


def match_fused(root: Node) -> KernelPattern:
    """Any steps as one kernel; its template decides whether blocks of rows cover them."""
    nodes = walk(root)
    if not any(n.op == "leaf" for n in nodes):
        raise UnsupportedPattern("an output that depends on no tensor")
    main = tuple(n for n in nodes if not n.is_elementwise and not n.is_input)
    return KernelPattern("fused", root, main, tensors=tuple(n for n in nodes if n.op == "leaf"))


def find_operands(root: Node, exclude: Sequence[Node] = ()) -> list[Node]:
    """The distinct tensors, slices of tensors and positions that a graph reads, in order of appearance."""
    nodes = walk(root)
    direct = {root, *(arg for node in nodes if not is_sliced_leaf(node) for arg in node.args)}
    return [n for n in nodes if (n.op in ("leaf", "index") or is_sliced_leaf(n)) and n in direct and n not in exclude]


def is_sliced_leaf(node: Node) -> bool:
    """Whether a node is a part of a tensor in memory whose rows are contiguous, which loops can read in place."""
    return node.op == "slice" and node.args[0].op == "leaf" and node.nums[1].is_one


def locate_slice(node: Node, missing: int, groups: Sequence[Sequence[int]]) -> tuple[Num, tuple[Num, ...]]:
    """Where a slice begins in its leaf, and the distance between two steps of loops over these axes; `missing` axes are prepended."""
    sizes, axis = node.args[0].shape, node.dims[0]
    strides = tuple(multiply_nums(sizes[max(0, members[-1] - missing + 1) :]) for members in groups)
    return calculate("mul", node.nums[0], multiply_nums(sizes[axis + 1 :])), strides


def build_loops(shape: Shape, tensors: Sequence[Node], reduced: Sequence[int] = ()) -> tuple[tuple[Axis, ...], tuple[Operand, ...]]:
    """The loops over a shape, as few as the tensors allow, and the loops along which each tensor changes."""
    rank = len(shape)
    full = [pad_rank(x.shape, rank) for x in tensors]
    if any(len(x.shape) > rank for x in tensors):
        raise UnsupportedPattern("a tensor with more axes than what it is combined with")
    if any(not n.is_one and not n.is_same(shape[i]) for sizes in full for i, n in enumerate(sizes)):
        raise UnsupportedPattern("tensors that do not broadcast to the iteration space")
    nontrivial = [i for i in range(rank) if not shape[i].is_one]
    # A loop over neighbouring axes of a slice may begin at the axis that is cut, but not before it.
    cuts = [rank - len(x.shape) + x.dims[0] for x in tensors if is_sliced_leaf(x)]
    patterns = [(i in reduced, tuple(not sizes[i].is_one for sizes in full), tuple(i >= cut for cut in cuts)) for i in nontrivial]
    groups = [(pattern, [nontrivial[j] for j, _ in part]) for pattern, part in groupby(enumerate(patterns), key=lambda p: p[1])]
    # An index follows exactly one axis.
    axes = tuple(Axis(multiply_nums([shape[i] for i in members]), pattern[0]) for pattern, members in groups)
    operands = []
    for j, x in enumerate(tensors):
        place = locate_slice(x, rank - len(x.shape), [members for _, members in groups]) if is_sliced_leaf(x) else ()
        operands.append(Operand(x, tuple(pattern[1][j] for pattern, _ in groups), *place))
    return axes, tuple(operands)


def gather_operands(pattern: KernelPattern) -> tuple[Node, Node]:
    """The table of a gather and the numbers of its rows, of types that C-like kernels support."""
    table, rows = pattern.tensors
    if table.dtype != "float32" or rows.dtype not in ("int64", "int32"):
        raise UnsupportedPattern(f"rows of a {table.dtype} table by {rows.dtype} numbers")
    return table, rows


def multiply_nums(numbers: Sequence[Num]) -> Num:
    """The product of some numbers."""
    total = Num.of(1)
    for n in numbers:
        total = calculate("mul", total, n)
    return total


def match_elementwise(root: Node) -> KernelPattern:
    """Elementwise steps over tensors that broadcast."""
    axes, operands = build_loops(root.shape, find_operands(root))
    return KernelPattern("map", root, axes=axes, operands=operands)


def match_reduction(root: Node, main: Sequence[Node]) -> KernelPattern:
    """Reductions over the same axes of one iteration space, each of which may use earlier ones, with elementwise steps around them.

    `reduce`: one reduction whose result is the output. `row`: several, or an output as large as the iteration space.
    `argreduce`: the position of an extreme value.
    """
    axes, full_shape = main[0].dims, main[0].args[0].shape
    if any(h.dims != axes or not is_same_shape(h.args[0].shape, full_shape) for h in main):
        raise UnsupportedPattern("reductions over different axes")
    reduced_shape = tuple(Num.of(1) if i in axes else n for i, n in enumerate(full_shape))
    if not (is_same_shape(root.shape, full_shape) or is_same_shape(root.shape, reduced_shape)):
        raise UnsupportedPattern("a reduction whose result is broadcast")
    if any(h.name in ARG_REDUCTIONS for h in main):
        if root != main[0] or main[0].args[0].op != "leaf":
            raise UnsupportedPattern(f"{main[0].name} of or before an expression")
        loops, operands = build_loops(full_shape, list(main[0].args), axes)
        return KernelPattern("argreduce", root, tuple(main), loops, operands, main[0].args)
    loops, operands = build_loops(full_shape, find_operands(root), axes)
    is_full = is_same_shape(root.shape, full_shape) and not is_same_shape(full_shape, reduced_shape)
    return KernelPattern("reduce" if len(main) == 1 and not is_full else "row", root, tuple(main), loops, operands)


NARROW_DTYPES = frozenset({"bfloat16", "float16", "int8", "uint8"})
"""Types that convert to float32 or int32 without loss."""


def find_factor(x: Node) -> tuple[Node, bool]:
    """The tensor below a factor's casts and transposes, and whether it is stored row by row."""
    if x.op == "leaf":
        return x, True
    if x.op == "cast" and x.args[0].dtype in NARROW_DTYPES and x.name in ("float32", "int32"):
        return find_factor(x.args[0])
    if x.op == "permute" and x.dims == (*range(len(x.dims) - 2), len(x.dims) - 1, len(x.dims) - 2):
        tensor, in_order = find_factor(x.args[0])
        return tensor, not in_order
    raise UnsupportedPattern("a product of an expression")


def match_matmul(root: Node, main: Node) -> KernelPattern:
    """A matrix product, plain or batched, either factor transposed, with elementwise steps after it; loops: batch, rows, columns.

    If only the left factor has batches, they count as rows.
    """
    (a, rows_a), (b, rows_b) = (find_factor(x) for x in main.args)
    batch, m, n = main.shape[:-2], main.shape[-2], main.shape[-1]
    if len(b.shape) == 2 and rows_a:
        groups: list[Shape] = [(), (*batch, m), (n,)]
    elif len(b.shape) == 2 and batch:
        raise UnsupportedPattern("a product of transposed batches with one matrix")
    else:
        groups = [batch, (m,), (n,)]
    axes, operands = epilogue_loops(root, main, groups)
    return KernelPattern("matmul", root, (main,), axes, operands, (a, b), (rows_a, rows_b))


def epilogue_loops(root: Node, main: Node, groups: Sequence[Shape]) -> tuple[tuple[Axis, ...], tuple[Operand, ...]]:
    """The loops of a main node's result, and which of them each operand of the epilogue follows, completely or not at all."""
    if not is_same_shape(root.shape, main.shape):
        raise UnsupportedPattern("steps after a product that broadcast its result")
    marker = Node("leaf", (), main.shape, RESULT)
    rest = replace_nodes(root, {main: marker})
    operands, rank = [], len(main.shape)
    for x in find_operands(rest, [marker]):
        sizes, at, present = pad_rank(x.shape, rank), 0, []
        if x.op == "index":
            raise UnsupportedPattern("positions after a product")
        for group in groups:
            part, full_shape = sizes[at : at + len(group)], main.shape[at : at + len(group)]
            some = [not n.is_one for n, full in zip(part, full_shape) if not full.is_one]
            if any(some) and not all(some):
                raise UnsupportedPattern("a product followed by a tensor that broadcasts within its rows")
            present.append(bool(some) and all(some))
            at += len(group)
        operands.append(Operand(x, tuple(present)))
    return tuple(Axis(multiply_nums(group)) for group in groups), tuple(operands)


def window_matcher(family: str) -> Callable[[Node, Node], KernelPattern]:
    """Matches a convolution or pooling with elementwise steps after it; loops: images, channels, space."""

    def match_node(root: Node, main: Node) -> KernelPattern:
        if any(x.op != "leaf" for x in main.args):
            raise UnsupportedPattern(f"a {main.op} of an expression")
        shape = main.shape
        axes, operands = epilogue_loops(root, main, [shape[:1], shape[1:2], shape[2:]])
        return KernelPattern(family, root, (main,), axes, operands, main.args, numbers=main.nums)

    return match_node


def single_op_matcher(family: str) -> Callable[[Node, Node], KernelPattern]:
    """Matches an operator on tensors in memory without other steps around it."""

    def match_node(root: Node, main: Node) -> KernelPattern:
        if root != main or any(x.op != "leaf" for x in main.args):
            raise UnsupportedPattern(f"a {main.op} of or before an expression")
        return KernelPattern(family, root, (main,), tensors=main.args, numbers=main.nums)

    return match_node


def match_scan(root: Node, main: Node) -> KernelPattern:
    """A running sum or product along one axis."""
    if root != main or main.args[0].op != "leaf":
        raise UnsupportedPattern("a scan of or before an expression")
    axes, operands = build_loops(main.shape, list(main.args), main.dims)
    return KernelPattern("scan", root, (main,), axes, operands, main.args)


def match_attention(root: Node) -> KernelPattern:
    """softmax(q k' * scale) v, causal or not, for any way to write the scale."""
    if root.op != "matmul" or root.args[1].op != "leaf" or root.args[0].op != "div":
        raise UnsupportedPattern("a combination of products and reductions other than attention")
    (weight, total), last = root.args[0].args, len(root.shape) - 1
    if weight.op != "exp" or total.op != "reduce" or total.name != "sum" or total.args[0] != weight or total.dims != (last,):
        raise UnsupportedPattern("products around something other than a softmax over the last axis")
    inner = weight.args[0]
    if inner.op == "sub" and inner.args[1].op == "reduce" and inner.args[1].dims == (last,):
        inner = inner.args[0]  # subtracting the same number from all scores of a row changes nothing
    causal = is_causal_mask(inner, last)
    if causal:
        inner = inner.args[2]
    scores, scale = inner, make_const(Num.of(1.0))
    if inner.op in ("mul", "div"):
        scores, scale = inner.args if inner.args[1].op == "const" else inner.args[::-1]
        if scale.op != "const" or (inner.op == "div" and inner.args[1].op != "const"):
            raise UnsupportedPattern("scores scaled by a tensor")
    scale_num = scale.nums[0]
    if inner.op == "div":
        scale_num = Num(tuple(1 / v for v in scale_num.values), "reciprocal", (scale_num,), is_integer=False)
    if scores.op != "matmul":
        raise UnsupportedPattern("scores that are not a product")
    (q, rows_q), (key, rows_k) = (find_factor(x) for x in scores.args)
    value = root.args[1]
    if not rows_q or rows_k or any(not is_same_shape(x.shape[:-2], q.shape[:-2]) for x in (key, value)):
        raise UnsupportedPattern("attention in another layout")
    return KernelPattern("attention", root, tensors=(q, key, value), numbers=(scale_num,), is_causal=causal)


def is_causal_mask(scores: Node, last: int) -> bool:
    """Whether scores of keys after the query's position are masked."""
    if scores.op != "select" or scores.name != "<=" or scores.args[3].op != "const":
        return False
    key, query = scores.args[:2]
    is_ahead = key.op == query.op == "index" and (key.dims, query.dims) == ((last,), (last - 1,))
    return is_ahead and scores.args[3].nums[0].value == float("-inf")


SINGLE_OP_MATCHERS: Mapping[str, Callable[[Node, Node], KernelPattern]] = {
    "matmul": match_matmul, "conv": window_matcher("conv"), "pool": window_matcher("pool"), "scan": match_scan,
    "gather": single_op_matcher("gather"),
    "cross_entropy": single_op_matcher("crossentropy"), **{family: single_op_matcher(family) for family in ("takealong", "scatter", "bag",
    "resize", "gridsample")},
}  # fmt: skip
