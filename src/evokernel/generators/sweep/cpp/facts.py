"""What the C++ sketches are rendered with: sizes, loops and functions as text, and the traits their decisions depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from evokernel.core.records import Signature
from evokernel.generators.sweep.cpp.emit import function, number
from evokernel.generators.sweep.cpp.rows import row_program
from evokernel.generators.sweep.decisions import Facts
from evokernel.generators.sweep.graph import Node, Num, apply, scalar_name, swap, tensor_name
from evokernel.generators.sweep.match import Form, aligned

TYPES = {"float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t", "int64": "int64_t", "int32": "int32_t",
         "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool"}  # fmt: skip
SCALARS = {"int": "int64_t", "float": "double", "bool": "bool"}


def describe(form: Form) -> tuple[Facts, frozenset[str]]:
    """Facts and traits of an operator."""
    facts, traits = DESCRIBE[form.sketch](form)
    if form.uses_math or form.sketch in ("attention", "crossentropy"):
        traits = traits | {"math"}
    return {**facts, "params": arguments(form.signature), "has_math": "math" in traits}, frozenset(traits)


def elementwise(form: Form) -> tuple[Facts, set[str]]:
    """Neighbouring axes with one broadcast pattern become one loop."""
    root, inputs = form.root, form.tensors
    rank = len(root.shape)
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
    scalars = scalar_parameters(form.signature)
    body = function("body", root, {x: x.name for x in inputs}, scalars)
    args = [{"kind": "full" if o["inner"] else "scalar", "name": o["name"] if o["inner"] else f"{o['name']}[0]"} for o in operands]
    facts = {
        "body": body, "operands": operands, "groups": extents, "flat": horner(list(range(last))), "scalar_params": scalars,
        "f": {"name": "body", "args": args, "extra": passed_on(form.signature)},
    }  # fmt: skip
    return facts, {"broadcast"} if last else set()


def horner(groups: list[int]) -> str:
    """The flat position over some of the outer loops."""
    text = ""
    for g in groups:
        text = f"({text} * n{g} + i{g})" if text else f"i{g}"
    return text or "0"


def reduction(form: Form) -> tuple[Facts, set[str]]:
    """A fold over neighbouring axes and what is done with its result."""
    root, (heavy,), inputs = form.root, form.heavy, form.tensors
    outer, n, inner, strided = split(inputs[0], heavy.dims)
    total = replace(heavy, args=())
    result = apply("div", total, Num(1.0, "scalar", name="n", integer=False)) if heavy.name == "mean" else total
    count = ", int64_t n" if heavy.name == "mean" else ""
    scalars, extra = scalar_parameters(form.signature), passed_on(form.signature)
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
    return facts, {"strided"} if strided else {"single"} if outer == "1" else set()


def argument_of(form: Form) -> tuple[Facts, set[str]]:
    """Sizes around the axis searched."""
    (heavy,), (x,) = form.heavy, form.tensors
    outer, n, inner, strided = split(x, heavy.dims)
    f = {"name": "body", "args": [{"kind": "full", "name": f"row_{x.name}"}], "extra": ""}
    facts = {"outer": outer, "n": n, "inner": inner, "strided": strided, "kind": heavy.name, "x": x.name, "f": f}
    return facts, {"strided"} if strided else set()


def rows(form: Form) -> tuple[Facts, set[str]]:
    """The passes over a row."""
    return row_program(form, scalar_parameters(form.signature), passed_on(form.signature))


def product(form: Form) -> tuple[Facts, set[str]]:
    """Sizes and strides of the factors."""
    (a, b), (rows_a, rows_b) = form.tensors, form.in_order
    left, right = len(a.shape), len(b.shape)
    m, k = (
        (f"{a.name}_shape[{left - 2}]", f"{a.name}_shape[{left - 1}]")
        if rows_a
        else (f"{a.name}_shape[{left - 1}]", f"{a.name}_shape[{left - 2}]")
    )
    n = f"{b.name}_shape[{right - 1 if rows_b else right - 2}]"
    batch = " * ".join(f"{a.name}_shape[{i}]" for i in range(left - 2)) or "1"
    if right == 2 and left > 2 and rows_a:
        m, batch = f"{batch} * {m}", "1"
    facts: dict[str, object] = {
        "a": a.name, "b": b.name, "rows_a": rows_a, "rows_b": rows_b, "batch": batch, "m": m, "n": n, "k": k,
        "batched": batch != "1", "batched_a": batch != "1", "batched_b": right > 2,
    }  # fmt: skip
    facts |= epilogue(form, along_last=True)
    return facts, ({"epilogue"} if facts["epilogue"] else set()) | ({"batched"} if batch != "1" else set())


def epilogue(form: Form, along_last: bool) -> dict[str, object]:
    """The elementwise steps after a heavy one, in place on its result; vectors lie along the last axis or the channels."""
    root, (heavy,), rest = form.root, form.heavy, form.others
    if root == heavy:
        return {"epilogue": ""}
    names = {heavy: "dest", **{x: x.name for x in rest}}
    kinds = [{"kind": "full", "name": f"row_{x.name}"} if along_last else {"kind": "scalar", "name": f"{x.name}[channel]"} for x in rest]
    f = {"name": "after", "args": [{"kind": "full", "name": "dest"}, *kinds], "extra": passed_on(form.signature)}
    text = function("after", root, names, scalar_parameters(form.signature))
    return {"epilogue": text, "along": [x.name for x in rest], "f": f}


def attention(form: Form) -> tuple[Facts, set[str]]:
    """Sizes and the scale."""
    q, key, value = form.tensors
    last = len(q.shape) - 1
    facts = {
        "q": q.name, "key": key.name, "value": value.name, "scale": number(form.numbers[0]),
        "e": f"{value.name}_shape[{last}]", "k": f"{q.name}_shape[{last}]",
        "m": f"{q.name}_shape[{last - 1}]", "n": f"{key.name}_shape[{last - 1}]",
        "batch": " * ".join(f"{q.name}_shape[{i}]" for i in range(last - 1)) or "1",
    }  # fmt: skip
    return facts, set()


def convolution(form: Form) -> tuple[Facts, set[str]]:
    """The window and what follows it."""
    x, w = form.tensors
    facts: Facts = {"x": x.name, "w": w.name, "nums": [number(n) for n in form.numbers], "kh": w.shape[2], "kw": w.shape[3]}
    after = epilogue(form, along_last=False)
    return {**facts, **after}, {"epilogue"} if after["epilogue"] else set()


def pooling(form: Form) -> tuple[Facts, set[str]]:
    """The window."""
    kh, kw = (int(n.value) for n in form.numbers[:2])
    nums = [number(n) for n in form.numbers]
    return {"x": form.tensors[0].name, "kind": form.heavy[0].name, "nums": nums, "kh": kh, "kw": kw}, set()


def scan(form: Form) -> tuple[Facts, set[str]]:
    """Sizes around the axis walked."""
    (x,) = form.tensors
    outer, n, inner, strided = split(x, form.heavy[0].dims)
    return {"x": x.name, "outer": outer, "n": n, "inner": inner, "strided": strided}, {"strided"} if strided else set()


def gather(form: Form) -> tuple[Facts, set[str]]:
    """How many rows of which width."""
    table, index = form.tensors
    count = " * ".join(f"{index.name}_shape[{i}]" for i in range(len(index.shape))) or "1"
    width = " * ".join(f"{table.name}_shape[{i}]" for i in range(1, len(table.shape))) or "1"
    return {"table": table.name, "index": index.name, "count": count, "width": width}, set()


def cross_entropy(form: Form) -> tuple[Facts, set[str]]:
    """Logits, classes and how the losses are joined."""
    x, y = form.tensors
    return {"x": x.name, "y": y.name, "kind": form.heavy[0].name}, set()


DESCRIBE: Mapping[str, Callable[[Form], tuple[Facts, set[str]]]] = {
    "map": elementwise, "reduce": reduction, "argreduce": argument_of, "row": rows, "matmul": product, "attention": attention,
    "conv": convolution, "pool": pooling, "scan": scan, "gather": gather, "crossentropy": cross_entropy,
}  # fmt: skip


def split(x: Node, axes: Sequence[int]) -> tuple[str, str, str, bool]:
    """Sizes before, along and after neighbouring axes, and whether there is anything after."""
    parts = [range(axes[0]), axes, range(axes[-1] + 1, len(x.shape))]
    outer, n, inner = (" * ".join(f"{x.name}_shape[{i}]" for i in part) or "1" for part in parts)
    return outer, n, inner, inner != "1"


def scalar_parameters(signature: Signature) -> str:
    """Scalars as further parameters of a function."""
    return "".join(f", {SCALARS[s.kind]} {scalar_name(s.name)}" for s in signature.scalars)


def passed_on(signature: Signature) -> str:
    """Scalars as further arguments of a call."""
    return "".join(f", {scalar_name(s.name)}" for s in signature.scalars)


def arguments(signature: Signature) -> str:
    """The entry point's parameters."""
    tensors = [(TYPES[t.dtype], tensor_name(t.name)) for t in (*signature.inputs, *signature.params)]
    listed = [f"const {kind}* {name}, const int64_t* {name}_shape" for kind, name in tensors]
    listed += [f"{SCALARS[s.kind]} {scalar_name(s.name)}" for s in signature.scalars]
    listed.append(f"{TYPES[signature.outputs[0].dtype]}* out, const int64_t* out_shape")
    return ", ".join(listed)
