"""Recognises what kind of operator an expression tree is, and takes it apart; how a kernel for it is written is each backend's part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evokernel.core.records import Signature, Task
from evokernel.generators.sweep.graph import TRANSCENDENTAL, Node, NoSketch, Num, swap, walk
from evokernel.generators.sweep.reader import read

ARG = ("argmax", "argmin")
FOLDS = ("sum", "mean", "max", "min")


@dataclass(frozen=True)
class Form:
    """An operator taken apart: which sketch it calls for, and the tensors and numbers of it in that sketch's order."""

    sketch: str
    root: Node
    signature: Signature
    heavy: tuple[Node, ...] = ()
    """The steps that are not elementwise."""
    tensors: tuple[Node, ...] = ()
    others: tuple[Node, ...] = ()
    """Of a row operator or of steps after a product or convolution: the tensors that are vectors."""
    in_order: tuple[bool, ...] = ()
    """Of the factors of a product: whether rows are stored as such, not as columns."""
    numbers: tuple[Num, ...] = ()

    @property
    def uses_math(self) -> bool:
        return any(n.op in TRANSCENDENTAL for n in walk(self.root))


def recognise(task: Task) -> Form:
    """The operator of a task; raises NoSketch, saying in a few words what is not covered."""
    signature = task.signature
    if len(signature.outputs) != 1:
        raise NoSketch("several outputs")
    root = read(task)
    found = classify(strip(root), signature)
    check_types(root, found.sketch, signature)
    return found


def classify(root: Node, signature: Signature) -> Form:
    """By the heavy steps in the tree: none, one with elementwise steps around it, or a known combination."""
    nodes = walk(root)
    heavy = [n for n in nodes if n.is_heavy and n.op not in ("permute", "squeeze")]
    kinds = [n.op for n in heavy]
    if not leaves(root):
        raise NoSketch("an output that depends on no tensor")
    if not heavy:
        return elementwise(root, signature)
    if kinds.count("matmul") == 2 and set(kinds) == {"matmul", "reduce"}:
        return attention(root, signature)
    if set(kinds) == {"reduce"}:
        if len(heavy) == 1 and heavy[0].name in ARG:
            return argument_of(root, heavy[0], signature)
        if len(heavy) == 1 and root.shape != leaves(root)[0].shape:
            return reduction(root, heavy[0], signature)
        return rows(root, heavy, signature)
    if len(heavy) == 1 and kinds[0] in SINGLE:
        return SINGLE[kinds[0]](root, heavy[0], signature)
    raise NoSketch(f"the combination of {', '.join(sorted(set(kinds)))}")


def strip(root: Node) -> Node:
    """The tree without the squeezes at its root, which do not move any element."""
    while root.op == "squeeze":
        root = root.args[0]
    if any(n.op == "squeeze" for n in walk(root)):
        for node in [n for n in walk(root) if n.op == "squeeze"]:
            root = swap(root, node, node.args[0])
    return root


def elementwise(root: Node, signature: Signature) -> Form:
    """A chain of elementwise steps over tensors that broadcast."""
    if not root.shape:
        raise NoSketch("an output without axes")
    return Form("map", root, signature, tensors=tuple(leaves(root)))


def reduction(root: Node, heavy: Node, signature: Signature) -> Form:
    """A sum, mean, maximum or minimum over neighbouring axes of an elementwise expression, with elementwise steps after it."""
    inputs = leaves(heavy.args[0])
    if any(x.shape != heavy.args[0].shape for x in inputs) or leaves(swap(root, heavy, replace(heavy, args=()))):
        raise NoSketch("a reduction of tensors that broadcast, or with tensors after it")
    neighbours(inputs[0], heavy.dims)
    return Form("reduce", root, signature, (heavy,), tuple(inputs))


def argument_of(root: Node, heavy: Node, signature: Signature) -> Form:
    """The place of an extreme along one axis of a plain tensor."""
    if root != heavy or heavy.args[0].op != "leaf":
        raise NoSketch(f"{heavy.name} of an expression")
    neighbours(heavy.args[0], heavy.dims)
    return Form("argreduce", root, signature, (heavy,), heavy.args)


def rows(root: Node, heavy: Sequence[Node], signature: Signature) -> Form:
    """Reductions of a row, each of which may use the ones before, then one elementwise step per element."""
    inputs, rank = leaves(root), len(root.shape)
    full = tuple(x for x in inputs if x.shape == root.shape)
    axes = heavy[0].dims
    first = rank - len(axes)
    along = tuple(x for x in inputs if x not in full and x.shape == root.shape[first:])
    if not full or len(full) + len(along) != len(inputs):
        raise NoSketch("a row operator on tensors of other shapes")
    if axes != tuple(range(first, rank)) or any(h.dims != axes or h.name not in FOLDS for h in heavy):
        raise NoSketch("a row operator over other axes than the last")
    return Form("row", root, signature, tuple(heavy), full, along)


def product(root: Node, heavy: Node, signature: Signature) -> Form:
    """A matrix product, plain or batched, either side transposed, with elementwise steps after it."""
    (a, rows_a), (b, rows_b) = (matrix(x) for x in heavy.args)
    if len(b.shape) > 2 and b.shape[:-2] != a.shape[:-2]:
        raise NoSketch("a product whose batches broadcast")
    return Form("matmul", root, signature, (heavy,), (a, b), biases(root, heavy, [-1]), (rows_a, rows_b))


def biases(root: Node, heavy: Node, axes: list[int]) -> tuple[Node, ...]:
    """The vectors that elementwise steps after a heavy one read; they lie along one axis."""
    rest = leaves(swap(root, heavy, replace(heavy, args=()))) if root != heavy else []
    rank = len(heavy.shape)
    for x in rest:
        if [i - rank for i, size in enumerate(aligned(x, rank)) if size != 1] != axes:
            raise NoSketch("a product or convolution followed by a tensor that is no bias")
    return tuple(rest)


def attention(root: Node, signature: Signature) -> Form:
    """softmax(q k' * scale) v, however the scale is written."""
    if root.op != "matmul" or root.args[1].op != "leaf" or root.args[0].op != "div":
        raise NoSketch("a combination of products and reductions other than attention")
    weight, total = root.args[0].args
    inner = weight.args[0].args[0] if weight.op == "exp" and weight.args[0].op == "sub" else weight
    if total.op != "reduce" or total.name != "sum" or total.args[0] != weight or total.dims != (len(root.shape) - 1,):
        raise NoSketch("products around something other than a softmax over the last axis")
    scale, scores = Num.of(1.0), inner
    if inner.op in ("mul", "div"):
        scores, factor = inner.args if inner.args[1].op == "const" else inner.args[::-1]
        if factor.op != "const" or (inner.op == "div" and inner.args[1].op != "const"):
            raise NoSketch("scores scaled by a tensor")
        given = factor.nums[0]
        scale = given if inner.op == "mul" else Num(1 / given.value, "reciprocal", (given,), integer=False)
    if scores.op != "matmul":
        raise NoSketch("scores that are no product")
    (q, rows_q), (key, rows_k) = (matrix(x) for x in scores.args)
    value = root.args[1]
    if not rows_q or rows_k or any(x.shape[:-2] != q.shape[:-2] for x in (key, value)):
        raise NoSketch("attention in another layout")
    return Form("attention", root, signature, tensors=(q, key, value), numbers=(scale,))


def convolution(root: Node, heavy: Node, signature: Signature) -> Form:
    """A two-dimensional convolution with an optional bias and elementwise steps after it."""
    if heavy.args[0].op != "leaf":
        raise NoSketch("a convolution of an expression")
    return Form("conv", root, signature, (heavy,), heavy.args, biases(root, heavy, [-3]), numbers=heavy.nums)


def pooling(root: Node, heavy: Node, signature: Signature) -> Form:
    """A maximum or mean over windows."""
    if root != heavy or heavy.args[0].op != "leaf":
        raise NoSketch("a pooling of or before an expression")
    return Form("pool", root, signature, (heavy,), heavy.args, numbers=heavy.nums)


def scan(root: Node, heavy: Node, signature: Signature) -> Form:
    """A running sum along one axis."""
    if root != heavy or heavy.args[0].op != "leaf":
        raise NoSketch("a scan of or before an expression")
    neighbours(heavy.args[0], heavy.dims)
    return Form("scan", root, signature, (heavy,), heavy.args)


def gather(root: Node, heavy: Node, signature: Signature) -> Form:
    """Rows of a table by index."""
    table, index = heavy.args
    if root != heavy or table.op != "leaf" or index.op != "leaf" or index.dtype not in ("int64", "int32"):
        raise NoSketch("a gather of or before an expression")
    return Form("gather", root, signature, (heavy,), heavy.args)


def cross_entropy(root: Node, heavy: Node, signature: Signature) -> Form:
    """The loss over rows of logits."""
    x, y = heavy.args
    if root != heavy or x.op != "leaf" or y.op != "leaf" or y.dtype != "int64":
        raise NoSketch("a cross entropy of or before an expression")
    return Form("crossentropy", root, signature, (heavy,), heavy.args)


SINGLE = {
    "matmul": product, "conv2d": convolution, "pool": pooling, "scan": scan, "gather": gather, "cross_entropy": cross_entropy,
}  # fmt: skip


def matrix(x: Node) -> tuple[Node, bool]:
    """The tensor behind a factor, and whether its rows are stored in order."""
    if x.op == "leaf":
        return x, True
    order = x.dims
    swapped = (*range(len(order) - 2), len(order) - 1, len(order) - 2)
    if x.op == "permute" and order == swapped and x.args[0].op == "leaf":
        return x.args[0], False
    raise NoSketch("a product of an expression")


def neighbours(x: Node, axes: Sequence[int]) -> None:
    """Checks that axes of a plain tensor lie side by side."""
    if x.op != "leaf" or list(axes) != list(range(axes[0], axes[-1] + 1)):
        raise NoSketch("a reduction over axes that are not neighbours")


def aligned(x: Node, rank: int) -> tuple[int, ...]:
    """A shape with ones in front, up to a rank."""
    return (1,) * (rank - len(x.shape)) + x.shape


def leaves(root: Node) -> list[Node]:
    """The tensors a tree reads, in order of appearance."""
    return [n for n in walk(root) if n.op == "leaf"]


def check_types(root: Node, sketch: str, signature: Signature) -> None:
    """Every sketch computes in float32; only indices and classes are integers."""
    integers = {"gather", "crossentropy"}
    for x in leaves(root):
        if x.dtype != "float32" and not (sketch in integers and x.dtype in ("int64", "int32")):
            raise NoSketch(f"{x.dtype} tensors")
    if signature.outputs[0].dtype != ("int64" if sketch == "argreduce" else "float32"):
        raise NoSketch(f"a {signature.outputs[0].dtype} output")
