"""Recognises what kind of kernel a piece of a graph calls for, and takes it apart; how such a kernel is written is each backend's part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from evokernel.generators.template_search.graph import (
    TRANSCENDENTAL,
    VIEWS,
    Node,
    NoSketch,
    Num,
    Shape,
    aligned,
    arithmetic,
    const,
    equal_shapes,
    rebuilt,
    walk,
)

PLACES = ("argmax", "argmin")
RESULT = "result"
"""The buffer name under which an epilogue sees the result of the heavy step before it."""


@dataclass(frozen=True)
class Axis:
    """Neighbouring axes of the space a kernel walks that every tensor has or lacks together: one loop."""

    extent: Num
    """Their extents multiplied."""
    reduced: bool = False


@dataclass(frozen=True)
class Operand:
    """A tensor read: a leaf or an index, and along which loops it changes."""

    node: Node
    present: tuple[bool, ...]

    @property
    def is_full(self) -> bool:
        return all(self.present)


@dataclass(frozen=True)
class Form:
    """A piece of a graph taken apart: which family of sketches it calls for, and its parts in that family's order."""

    family: str
    root: Node
    heavy: tuple[Node, ...] = ()
    """The steps that are not elementwise, in order."""
    axes: tuple[Axis, ...] = ()
    """The loops of a map, reduce or row; after a product batch, rows and columns; after windows images, channels and space."""
    operands: tuple[Operand, ...] = ()
    """What the elementwise steps read, in order of appearance."""
    tensors: tuple[Node, ...] = ()
    """What the heavy step itself reads: factors, image and weights, table and indices."""
    in_order: tuple[bool, ...] = ()
    """Of the factors of a product: whether rows are stored as such, not as columns."""
    numbers: tuple[Num, ...] = ()
    causal: bool = False

    @property
    def uses_math(self) -> bool:
        return any(n.op in TRANSCENDENTAL for n in walk(self.root))

    @property
    def after(self) -> Node | None:
        """The elementwise steps after the one heavy step, which is a leaf called `result` in them; None where there are none."""
        if len(self.heavy) != 1 or self.root == self.heavy[0]:
            return None
        return rebuilt(self.root, {self.heavy[0]: Node("leaf", (), self.heavy[0].shape, RESULT, dtype=self.heavy[0].dtype)})


def form_of(root: Node) -> Form:
    """What a piece calls for, by its steps that are not elementwise; raises NoSketch for a combination no family covers."""
    nodes = walk(root)
    heavy = [n for n in nodes if not n.is_elementwise and not n.is_given]
    kinds = {n.op for n in heavy}
    if not any(n.op in ("leaf", "index") for n in nodes):
        raise NoSketch("an output that depends on no tensor")
    if not heavy:
        return elementwise(root)
    if root.op in VIEWS and len(heavy) == 1:
        return Form("move", root, (root,), tensors=root.args)
    if any(n.op in VIEWS and n.op != "permute" for n in heavy):
        raise NoSketch("a rearrangement inside other steps")
    if kinds <= {"matmul", "reduce", "permute"} and sum(n.op == "matmul" for n in heavy) == 2:
        return attention(root)
    if kinds == {"reduce"}:
        return reduction(root, heavy)
    single = [n for n in heavy if n.op != "permute"]
    if len(single) == 1 and single[0].op in SINGLE:
        return SINGLE[single[0].op](root, single[0])
    raise NoSketch(f"the combination of {', '.join(sorted(kinds))}")


def operands_of(root: Node, but: Sequence[Node] = ()) -> list[Node]:
    """The tensors and positions that elementwise steps read, each once, in order of appearance."""
    return [n for n in walk(root) if n.op in ("leaf", "index") and n not in but]


def space(shape: Shape, tensors: Sequence[Node], reduced: Sequence[int] = ()) -> tuple[tuple[Axis, ...], tuple[Operand, ...]]:
    """The loops over a shape, as few as the tensors allow, and which of them each tensor follows."""
    rank = len(shape)
    full = [aligned(x.shape, rank) for x in tensors]
    if any(len(x.shape) > rank for x in tensors):
        raise NoSketch("a tensor with more axes than what it is combined with")
    if any(not n.is_one and not n.same(shape[i]) for sizes in full for i, n in enumerate(sizes)):
        raise NoSketch("tensors that do not fit the space walked")
    kept = [i for i in range(rank) if not shape[i].is_one]
    patterns = [(i in reduced, tuple(not sizes[i].is_one for sizes in full)) for i in kept]
    groups = [(pattern, [kept[j] for j, _ in part]) for pattern, part in groupby(enumerate(patterns), key=lambda p: p[1])]
    # An index counts along one axis of its own.
    axes = tuple(Axis(product([shape[i] for i in members]), pattern[0]) for pattern, members in groups)
    operands = tuple(Operand(x, tuple(pattern[1][j] for pattern, _ in groups)) for j, x in enumerate(tensors))
    return axes, operands


def product(numbers: Sequence[Num]) -> Num:
    """All multiplied."""
    total = Num.of(1)
    for n in numbers:
        total = arithmetic("mul", total, n)
    return total


def elementwise(root: Node) -> Form:
    """Elementwise steps over tensors that broadcast."""
    axes, operands = space(root.shape, operands_of(root))
    return Form("map", root, axes=axes, operands=operands)


def reduction(root: Node, heavy: Sequence[Node]) -> Form:
    """Reductions over the same axes of one space, each of which may use those before, with elementwise steps around them.

    `reduce`: one of them, its result the output. `row`: several, or an output as large as the space. `argreduce`: the place of an extreme.
    """
    axes, whole = heavy[0].dims, heavy[0].args[0].shape
    if any(h.dims != axes or not equal_shapes(h.args[0].shape, whole) for h in heavy):
        raise NoSketch("reductions over different axes")
    shrunk = tuple(Num.of(1) if i in axes else n for i, n in enumerate(whole))
    if not (equal_shapes(root.shape, whole) or equal_shapes(root.shape, shrunk)):
        raise NoSketch("a reduction whose result is stretched")
    if any(h.name in PLACES for h in heavy):
        if root != heavy[0] or heavy[0].args[0].op != "leaf":
            raise NoSketch(f"{heavy[0].name} of or before an expression")
        loops, operands = space(whole, list(heavy[0].args), axes)
        return Form("argreduce", root, tuple(heavy), loops, operands, heavy[0].args)
    loops, operands = space(whole, operands_of(root), axes)
    is_full = equal_shapes(root.shape, whole) and not equal_shapes(whole, shrunk)
    return Form("reduce" if len(heavy) == 1 and not is_full else "row", root, tuple(heavy), loops, operands)


NARROW = frozenset({"bfloat16", "float16", "int8", "uint8"})
"""Elements that become float32 or int32 without loss."""


def factor(x: Node) -> tuple[Node, bool]:
    """The tensor behind a factor, of narrow elements or wide ones, and whether its rows are stored in order."""
    if x.op == "leaf":
        return x, True
    if x.op == "cast" and x.args[0].dtype in NARROW and x.name in ("float32", "int32"):
        return factor(x.args[0])
    if x.op == "permute" and x.dims == (*range(len(x.dims) - 2), len(x.dims) - 1, len(x.dims) - 2):
        tensor, in_order = factor(x.args[0])
        return tensor, not in_order
    raise NoSketch("a product of an expression")


def matmul(root: Node, heavy: Node) -> Form:
    """A matrix product, plain or batched, either side transposed, with elementwise steps after it; loops are batch, rows, columns.

    Batches of the left factor alone are more rows.
    """
    (a, rows_a), (b, rows_b) = (factor(x) for x in heavy.args)
    batch, m, n = heavy.shape[:-2], heavy.shape[-2], heavy.shape[-1]
    if len(b.shape) == 2 and rows_a:
        groups: list[Shape] = [(), (*batch, m), (n,)]
    elif len(b.shape) == 2 and batch:
        raise NoSketch("a product of transposed batches with one matrix")
    else:
        groups = [batch, (m,), (n,)]
    axes, operands = after_loops(root, heavy, groups)
    return Form("matmul", root, (heavy,), axes, operands, (a, b), (rows_a, rows_b))


def after_loops(root: Node, heavy: Node, groups: Sequence[Shape]) -> tuple[tuple[Axis, ...], tuple[Operand, ...]]:
    """The loops of a heavy step's result, and which of them the tensors read after it follow: wholly or not at all."""
    if not equal_shapes(root.shape, heavy.shape):
        raise NoSketch("steps after a product that stretch its result")
    marker = Node("leaf", (), heavy.shape, RESULT)
    rest = rebuilt(root, {heavy: marker})
    operands, rank = [], len(heavy.shape)
    for x in operands_of(rest, [marker]):
        sizes, at, present = aligned(x.shape, rank), 0, []
        if x.op == "index":
            raise NoSketch("positions after a product")
        for group in groups:
            part, whole = sizes[at : at + len(group)], heavy.shape[at : at + len(group)]
            some = [not n.is_one for n, full in zip(part, whole) if not full.is_one]
            if any(some) and not all(some):
                raise NoSketch("a product followed by a tensor that stretches within its rows")
            present.append(bool(some) and all(some))
            at += len(group)
        operands.append(Operand(x, tuple(present)))
    return tuple(Axis(product(group)) for group in groups), tuple(operands)


def windowed(family: str) -> Callable[[Node, Node], Form]:
    """A convolution or pooling with elementwise steps after it; loops are images, channels and space."""

    def found(root: Node, heavy: Node) -> Form:
        if any(x.op != "leaf" for x in heavy.args):
            raise NoSketch(f"a {heavy.op} of an expression")
        shape = heavy.shape
        axes, operands = after_loops(root, heavy, [shape[:1], shape[1:2], shape[2:]])
        return Form(family, root, (heavy,), axes, operands, heavy.args, numbers=heavy.nums)

    return found


def alone(family: str) -> Callable[[Node, Node], Form]:
    """A step without others around it, on tensors in memory."""

    def found(root: Node, heavy: Node) -> Form:
        if root != heavy or any(x.op != "leaf" for x in heavy.args):
            raise NoSketch(f"a {heavy.op} of or before an expression")
        return Form(family, root, (heavy,), tensors=heavy.args, numbers=heavy.nums)

    return found


def scan(root: Node, heavy: Node) -> Form:
    """A running sum or product along one axis."""
    if root != heavy or heavy.args[0].op != "leaf":
        raise NoSketch("a scan of or before an expression")
    axes, operands = space(heavy.shape, list(heavy.args), heavy.dims)
    return Form("scan", root, (heavy,), axes, operands, heavy.args)


def attention(root: Node) -> Form:
    """softmax(q k' * scale) v, however the scale is written, with or without what lies ahead."""
    if root.op != "matmul" or root.args[1].op != "leaf" or root.args[0].op != "div":
        raise NoSketch("a combination of products and reductions other than attention")
    (weight, total), last = root.args[0].args, len(root.shape) - 1
    if weight.op != "exp" or total.op != "reduce" or total.name != "sum" or total.args[0] != weight or total.dims != (last,):
        raise NoSketch("products around something other than a softmax over the last axis")
    inner = weight.args[0]
    if inner.op == "sub" and inner.args[1].op == "reduce" and inner.args[1].dims == (last,):
        inner = inner.args[0]  # the same of all scores of a row makes no difference
    causal = is_causal(inner, last)
    if causal:
        inner = inner.args[2]
    scores, scale = inner, const(Num.of(1.0))
    if inner.op in ("mul", "div"):
        scores, scale = inner.args if inner.args[1].op == "const" else inner.args[::-1]
        if scale.op != "const" or (inner.op == "div" and inner.args[1].op != "const"):
            raise NoSketch("scores scaled by a tensor")
    given = scale.nums[0]
    if inner.op == "div":
        given = Num(tuple(1 / v for v in given.values), "reciprocal", (given,), integer=False)
    if scores.op != "matmul":
        raise NoSketch("scores that are no product")
    (q, rows_q), (key, rows_k) = (factor(x) for x in scores.args)
    value = root.args[1]
    if not rows_q or rows_k or any(not equal_shapes(x.shape[:-2], q.shape[:-2]) for x in (key, value)):
        raise NoSketch("attention in another layout")
    return Form("attention", root, tensors=(q, key, value), numbers=(given,), causal=causal)


def is_causal(scores: Node, last: int) -> bool:
    """Whether scores of keys that lie ahead of the query are left out."""
    if scores.op != "select" or scores.name != "<=" or scores.args[3].op != "const":
        return False
    key, query = scores.args[:2]
    is_ahead = key.op == query.op == "index" and (key.dims, query.dims) == ((last,), (last - 1,))
    return is_ahead and scores.args[3].nums[0].value == float("-inf")


SINGLE: Mapping[str, Callable[[Node, Node], Form]] = {
    "matmul": matmul, "conv": windowed("conv"), "pool": windowed("pool"), "scan": scan, "gather": alone("gather"),
    "cross_entropy": alone("crossentropy"), **{family: alone(family) for family in ("takealong", "scatter", "bag", "resize", "gridsample")},
}  # fmt: skip
