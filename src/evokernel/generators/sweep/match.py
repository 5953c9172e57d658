"""Recognises which sketch an expression tree calls for, and gathers what the sketch needs to know about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from evokernel.core.records import Signature, Task
from evokernel.generators.sweep.emit import function
from evokernel.generators.sweep.graph import TRANSCENDENTAL, Node, NoSketch, Num, apply, dtype_of, scalar_name, swap, tensor_name, walk
from evokernel.generators.sweep.reader import read
from evokernel.generators.sweep.rows import row_program

TYPES = {"float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t", "int64": "int64_t", "int32": "int32_t",
         "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool"}  # fmt: skip
SCALARS = {"int": "int64_t", "float": "double", "bool": "bool"}
ARG = ("argmax", "argmin")


@dataclass(frozen=True)
class Operator:
    """A sketch by name, what it is rendered with, and the traits its decisions depend on."""

    sketch: str
    facts: Mapping[str, object]
    traits: frozenset[str]


def recognise(task: Task) -> Operator:
    """The operator of a task; raises NoSketch, saying in a few words what is not covered."""
    signature = task.signature
    if len(signature.outputs) != 1:
        raise NoSketch("several outputs")
    root = read(task)
    found = classify(strip(root), signature)
    check_types(root, found.sketch, signature)
    facts = {**found.facts, "params": arguments(signature), "has_math": "math" in found.traits}
    return replace(found, facts=facts)


def classify(root: Node, signature: Signature) -> Operator:
    """By the heavy steps in the tree: none, one with elementwise steps around it, or a known combination."""
    nodes = walk(root)
    heavy = [n for n in nodes if n.is_heavy and n.op not in ("permute", "squeeze")]
    kinds = [n.op for n in heavy]
    extra = "".join(f", {scalar_name(s.name)}" for s in signature.scalars)
    if not leaves(root):
        raise NoSketch("an output that depends on no tensor")
    if not heavy:
        return elementwise(root, signature)
    if kinds.count("matmul") == 2 and set(kinds) == {"matmul", "reduce"}:
        return attention(root)
    if set(kinds) == {"reduce"}:
        if len(heavy) == 1 and heavy[0].name in ARG:
            return argument_of(root, heavy[0])
        if len(heavy) == 1 and root.shape != leaves(root)[0].shape:
            return reduction(root, heavy[0], signature)
        return Operator("row", *row_program(root, heavy, scalar_parameters(signature), extra))
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


def elementwise(root: Node, signature: Signature) -> Operator:
    """A chain of elementwise steps over tensors that broadcast; neighbouring axes with one pattern become one."""
    inputs = leaves(root)
    rank = len(root.shape)
    if not rank or not inputs:
        raise NoSketch("an output without axes")
    full = [((-1,) * (rank - len(x.shape)) + x.dims) for x in inputs]
    present = [tuple(full[i][axis] >= 0 and aligned(x, rank)[axis] != 1 for i, x in enumerate(inputs)) for axis in range(rank)]
    groups = [(pattern, [axis for axis, _ in axes]) for pattern, axes in groupby(enumerate(present), key=lambda p: p[1])]
    extents = [" * ".join(f"out_shape[{axis}]" for axis in axes) for _, axes in groups]
    last = len(groups) - 1
    operands = []
    for i, x in enumerate(inputs):
        offset = horner([g for g in range(last) if groups[g][0][i]])
        inner = groups[last][0][i]
        operands.append({"name": x.name, "inner": inner, "offset": f"{offset} * n{last}" if inner and offset != "0" else offset})
    scalars = scalar_parameters(signature)
    body = function("body", root, {x: x.name for x in inputs}, scalars)
    extra = "".join(f", {scalar_name(s.name)}" for s in signature.scalars)
    args = [{"kind": "full" if o["inner"] else "scalar", "name": o["name"] if o["inner"] else f"{o['name']}[0]"} for o in operands]
    facts = {
        "body": body, "operands": operands, "groups": extents, "flat": horner(list(range(last))), "scalar_params": scalars,
        "f": {"name": "body", "args": args, "extra": extra},
    }  # fmt: skip
    return Operator("map", facts, traits(root, {"broadcast"} if last else set()))


def aligned(x: Node, rank: int) -> tuple[int, ...]:
    """A shape with ones in front, up to a rank."""
    return (1,) * (rank - len(x.shape)) + x.shape


def horner(groups: list[int]) -> str:
    """The flat position over some of the outer loops."""
    text = ""
    for g in groups:
        text = f"({text} * n{g} + i{g})" if text else f"i{g}"
    return text or "0"


def reduction(root: Node, heavy: Node, signature: Signature) -> Operator:
    """A sum, mean, maximum or minimum over neighbouring axes of an elementwise expression, with elementwise steps after it."""
    inputs = leaves(heavy.args[0])
    if any(x.shape != heavy.args[0].shape for x in inputs) or leaves(swap(root, heavy, replace(heavy, args=()))):
        raise NoSketch("a reduction of tensors that broadcast, or with tensors after it")
    outer, n, inner, strided = split(inputs[0], heavy.dims)
    total = replace(heavy, args=())
    result = apply("div", total, Num(1.0, "n", False)) if heavy.name == "mean" else total
    count = ", int64_t n" if heavy.name == "mean" else ""
    scalars, extra = scalar_parameters(signature), "".join(f", {scalar_name(s.name)}" for s in signature.scalars)
    facts = {
        "outer": outer, "n": n, "inner": inner, "strided": strided, "kind": "sum" if heavy.name == "mean" else heavy.name,
        "operands": [x.name for x in inputs],
        "body": function("body", heavy.args[0], {x: x.name for x in inputs}, scalars),
        "finish": function("finish", swap(root, heavy, result), {total: "total"}, count + scalars),
        "mean": ", n" if count else "", "extra": extra,
        "f": {"name": "body", "args": [{"kind": "full", "name": f"row_{x.name}"} for x in inputs], "extra": extra},
        "scalar_call": ", ".join(f"row_{x.name}[j]" for x in inputs) + extra,
        "column_call": ", ".join(f"{x.name}[o * n + i]" for x in inputs) + extra,
    }  # fmt: skip
    return Operator("reduce", facts, traits(root, {"strided"} if strided else {"single"} if outer == "1" else set()))


def argument_of(root: Node, heavy: Node) -> Operator:
    """The place of an extreme along one axis of a plain tensor."""
    if root != heavy or heavy.args[0].op != "leaf":
        raise NoSketch(f"{heavy.name} of an expression")
    x = heavy.args[0]
    outer, n, inner, strided = split(x, heavy.dims)
    f = {"name": "body", "args": [{"kind": "full", "name": f"row_{x.name}"}], "extra": ""}
    facts = {"outer": outer, "n": n, "inner": inner, "strided": strided, "kind": heavy.name, "x": x.name, "f": f}
    return Operator("argreduce", facts, frozenset({"strided"} if strided else ()))


def product(root: Node, heavy: Node, signature: Signature) -> Operator:
    """A matrix product, plain or batched, either side transposed, with elementwise steps after it."""
    (a, rows_a), (b, rows_b) = (matrix(x) for x in heavy.args)
    batched_b = len(b.shape) > 2
    if batched_b and b.shape[:-2] != a.shape[:-2]:
        raise NoSketch("a product whose batches broadcast")
    left, right = len(a.shape), len(b.shape)
    m, k = (
        (f"{a.name}_shape[{left - 2}]", f"{a.name}_shape[{left - 1}]")
        if rows_a
        else (f"{a.name}_shape[{left - 1}]", f"{a.name}_shape[{left - 2}]")
    )
    n = f"{b.name}_shape[{right - 1 if rows_b else right - 2}]"
    batch = " * ".join(f"{a.name}_shape[{i}]" for i in range(left - 2)) or "1"
    if not batched_b and left > 2 and rows_a:
        m, batch = f"{batch} * {m}", "1"
    facts: dict[str, object] = {
        "a": a.name, "b": b.name, "rows_a": rows_a, "rows_b": rows_b, "batch": batch, "m": m, "n": n, "k": k,
        "batched": batch != "1", "batched_a": batch != "1", "batched_b": batched_b,
    }  # fmt: skip
    facts |= epilogue(root, heavy, signature, [-1])
    others = ({"epilogue"} if root != heavy else set()) | ({"batched"} if batch != "1" else set())
    return Operator("matmul", facts, traits(root, others))


def epilogue(root: Node, heavy: Node, signature: Signature, axes: list[int]) -> dict[str, object]:
    """The elementwise steps after a heavy one, in place on its result; vectors may lie along one axis."""
    if root == heavy:
        return {"epilogue": ""}
    extra = "".join(f", {scalar_name(s.name)}" for s in signature.scalars)
    rest = leaves(swap(root, heavy, replace(heavy, args=())))
    rank, along = len(heavy.shape), []
    for x in rest:
        used = [i - rank for i, size in enumerate(aligned(x, rank)) if size != 1]
        if used != axes:
            raise NoSketch("a product or convolution followed by a tensor that is no bias")
        along.append(x.name)
    names = {heavy: "dest", **{x: x.name for x in rest}}
    kinds = [{"kind": "full", "name": f"row_{x.name}"} if axes == [-1] else {"kind": "scalar", "name": f"{x.name}[channel]"} for x in rest]
    f = {"name": "after", "args": [{"kind": "full", "name": "dest"}, *kinds], "extra": extra}
    return {"epilogue": function("after", root, names, scalar_parameters(signature)), "along": along, "f": f}


def attention(root: Node) -> Operator:
    """softmax(q k' * scale) v, however the scale is written."""
    if root.op != "matmul" or root.args[1].op != "leaf" or root.args[0].op != "div":
        raise NoSketch("a combination of products and reductions other than attention")
    weight, total = root.args[0].args
    inner = weight.args[0].args[0] if weight.op == "exp" and weight.args[0].op == "sub" else weight
    if total.op != "reduce" or total.name != "sum" or total.args[0] != weight or total.dims != (len(root.shape) - 1,):
        raise NoSketch("products around something other than a softmax over the last axis")
    scale, scores = "1.0", inner
    if inner.op in ("mul", "div"):
        scores, factor = inner.args if inner.args[1].op == "const" else inner.args[::-1]
        if factor.op != "const" or (inner.op == "div" and inner.args[1].op != "const"):
            raise NoSketch("scores scaled by a tensor")
        scale = factor.nums[0].c if inner.op == "mul" else f"1.0 / ({factor.nums[0].c})"
    if scores.op != "matmul":
        raise NoSketch("scores that are no product")
    (q, rows_q), (key, rows_k) = (matrix(x) for x in scores.args)
    value = root.args[1]
    if not rows_q or rows_k or any(x.shape[:-2] != q.shape[:-2] for x in (key, value)):
        raise NoSketch("attention in another layout")
    last = len(q.shape) - 1
    facts = {
        "q": q.name, "key": key.name, "value": value.name, "scale": scale,
        "e": f"{value.name}_shape[{last}]", "k": f"{q.name}_shape[{last}]",
        "m": f"{q.name}_shape[{last - 1}]", "n": f"{key.name}_shape[{last - 1}]",
        "batch": " * ".join(f"{q.name}_shape[{i}]" for i in range(last - 1)) or "1",
    }  # fmt: skip
    return Operator("attention", facts, frozenset({"math"}))


def convolution(root: Node, heavy: Node, signature: Signature) -> Operator:
    """A two-dimensional convolution with an optional bias and elementwise steps after it."""
    x, w = heavy.args
    if x.op != "leaf":
        raise NoSketch("a convolution of an expression")
    facts = {"x": x.name, "w": w.name, "nums": [n.c for n in heavy.nums], "kh": w.shape[2], "kw": w.shape[3]}
    return Operator("conv", {**facts, **epilogue(root, heavy, signature, [-3])}, traits(root, {"epilogue"} if root != heavy else set()))


def pooling(root: Node, heavy: Node, signature: Signature) -> Operator:
    """A maximum or mean over windows."""
    x = heavy.args[0]
    if root != heavy or x.op != "leaf":
        raise NoSketch("a pooling of or before an expression")
    kh, kw = (int(n.value) for n in heavy.nums[:2])
    return Operator("pool", {"x": x.name, "kind": heavy.name, "nums": [n.c for n in heavy.nums], "kh": kh, "kw": kw}, frozenset())


def scan(root: Node, heavy: Node, signature: Signature) -> Operator:
    """A running sum along one axis."""
    x = heavy.args[0]
    if root != heavy or x.op != "leaf":
        raise NoSketch("a scan of or before an expression")
    outer, n, inner, strided = split(x, heavy.dims)
    return Operator(
        "scan", {"x": x.name, "outer": outer, "n": n, "inner": inner, "strided": strided}, frozenset({"strided"} if strided else ())
    )


def gather(root: Node, heavy: Node, signature: Signature) -> Operator:
    """Rows of a table by index."""
    table, index = heavy.args
    if root != heavy or table.op != "leaf" or index.op != "leaf" or dtype_of(index) not in ("int64", "int32"):
        raise NoSketch("a gather of or before an expression")
    product_of = " * ".join(f"{index.name}_shape[{i}]" for i in range(len(index.shape))) or "1"
    width = " * ".join(f"{table.name}_shape[{i}]" for i in range(1, len(table.shape))) or "1"
    return Operator("gather", {"table": table.name, "index": index.name, "count": product_of, "width": width}, frozenset())


def cross_entropy(root: Node, heavy: Node, signature: Signature) -> Operator:
    """The loss over rows of logits."""
    x, y = heavy.args
    if root != heavy or x.op != "leaf" or y.op != "leaf" or dtype_of(y) != "int64":
        raise NoSketch("a cross entropy of or before an expression")
    return Operator("crossentropy", {"x": x.name, "y": y.name, "kind": heavy.name}, frozenset({"math"}))


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


def split(x: Node, axes: Sequence[int]) -> tuple[str, str, str, bool]:
    """Sizes before, along and after neighbouring axes, and whether there is anything after."""
    if x.op != "leaf" or list(axes) != list(range(axes[0], axes[-1] + 1)):
        raise NoSketch("a reduction over axes that are not neighbours")
    parts = [range(axes[0]), axes, range(axes[-1] + 1, len(x.shape))]
    outer, n, inner = (" * ".join(f"{x.name}_shape[{i}]" for i in part) or "1" for part in parts)
    return outer, n, inner, inner != "1"


def leaves(root: Node) -> list[Node]:
    """The tensors a tree reads, in order of appearance."""
    return [n for n in walk(root) if n.op == "leaf"]


def traits(root: Node, others: set[str]) -> frozenset[str]:
    """What decisions may depend on."""
    return frozenset(others | ({"math"} if any(n.op in TRANSCENDENTAL for n in walk(root)) else set()))


def scalar_parameters(signature: Signature) -> str:
    """Scalars as further parameters of a function."""
    return "".join(f", {SCALARS[s.kind]} {scalar_name(s.name)}" for s in signature.scalars)


def arguments(signature: Signature) -> str:
    """The entry point's parameters."""
    tensors = [(TYPES[t.dtype], tensor_name(t.name)) for t in (*signature.inputs, *signature.params)]
    listed = [f"const {kind}* {name}, const int64_t* {name}_shape" for kind, name in tensors]
    listed += [f"{SCALARS[s.kind]} {scalar_name(s.name)}" for s in signature.scalars]
    listed.append(f"{TYPES[signature.outputs[0].dtype]}* out, const int64_t* out_shape")
    return ", ".join(listed)


def check_types(root: Node, sketch: str, signature: Signature) -> None:
    """Every sketch computes in float32; only indices and classes are integers."""
    integers = {"gather", "crossentropy"}
    for x in leaves(root):
        if dtype_of(x) != "float32" and not (sketch in integers and dtype_of(x) in ("int64", "int32")):
            raise NoSketch(f"{dtype_of(x)} tensors")
    if signature.outputs[0].dtype != ("int64" if sketch == "argreduce" else "float32"):
        raise NoSketch(f"a {signature.outputs[0].dtype} output")
