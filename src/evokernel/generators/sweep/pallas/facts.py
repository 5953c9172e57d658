"""What the Pallas sketches are rendered with: views of the arguments, functions over blocks, and the traits their decisions depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby

from evokernel.generators.sweep.decisions import Choice, Facts
from evokernel.generators.sweep.graph import Node, NoSketch, Num, apply, swap
from evokernel.generators.sweep.match import Form, aligned
from evokernel.generators.sweep.pallas.emit import START, function, number
from evokernel.generators.sweep.pallas.views import Described, Operand, arguments, around, divides, extents, reduced_shape, shape_of, times


def describe(form: Form) -> tuple[Facts, frozenset[str]]:
    """Facts and traits of an operator."""
    if form.sketch not in DESCRIBE:
        raise NoSketch(f"a {form.sketch} operator")
    facts, traits = DESCRIBE[form.sketch](form)
    if form.uses_math:
        traits = traits | {"math"}
    return {**facts, "params": arguments(form.signature)}, frozenset(traits)


def elementwise(form: Form) -> Described:
    """Arrays seen as (rows, cols), where the columns are the last axes that all tensors have or lack together."""
    root, inputs = form.root, form.tensors
    rank = len(root.shape)
    present = [tuple(size != 1 for size in sizes) for sizes in zip(*(aligned(x, rank) for x in inputs))]
    groups = [[axis for axis, _ in axes] for _, axes in groupby(enumerate(present), key=lambda p: p[1])]
    if len(groups) == 1:
        groups = [list(range(rank - 1)), [rank - 1]]
    first = groups[-1][0]
    sizes = extents(root, inputs)
    operands = [operand(i, x, rank, first, sizes) for i, x in enumerate(inputs)]
    names = {x: o.name for x, o in zip(inputs, operands)}

    def body(divide: str) -> str:
        return function("body", root, names, divide)

    facts = {
        "body": body, "operands": operands, "rows": times(sizes[:first]), "cols": times(sizes[first:]), "total": times(sizes),
        "out_shape": shape_of(sizes),
    }  # fmt: skip
    body("exact")
    same = all(x.shape == root.shape for x in inputs)
    return facts, ({"flat"} if same else {"broadcast"}) | ({"divide"} if divides(root) else set())


def operand(i: int, x: Node, rank: int, first: int, sizes: list[str]) -> Operand:
    """A tensor that broadcasts, as rows and columns."""
    shape = aligned(x, rank)
    has_rows = [size != 1 for size in shape[:first]]
    has_cols = any(size != 1 for size in shape[first:])
    cols = "cols" if has_cols else "1"
    wanted = [s != "1" for s in sizes[:first]]
    if not any(has_rows):
        return Operand(f"x{i}", "vector" if has_cols else "one", x.name, f"{x.name}.reshape(1, {cols})")
    view = f"{x.name}.reshape(rows, {cols})"
    if has_rows != wanted:
        own = shape_of([s if p else "1" for s, p in zip(sizes, has_rows)] + [cols])
        view = f"jnp.broadcast_to({x.name}.reshape{own}, {shape_of([*sizes[:first], cols])}).reshape(rows, {cols})"
    return Operand(f"x{i}", "full" if has_cols else "column", x.name, view)


def rows(form: Form) -> Described:
    """Reductions of whole rows and what becomes of each element."""
    root, first = form.root, len(form.root.shape) - len(form.heavy[0].dims)
    sizes = extents(root, form.tensors)
    inputs = (*form.tensors, *form.others)
    kinds = ["full"] * len(form.tensors) + ["vector"] * len(form.others)
    views = {"full": "reshape(rows, n)", "vector": "reshape(1, n)"}
    operands = [Operand(f"x{i}", k, x.name, f"{x.name}.{views[k]}") for i, (x, k) in enumerate(zip(inputs, kinds))]
    names = {x: o.name for x, o in zip(inputs, operands)}

    def body(d: Choice, valid: str) -> str:
        return function("body", root, names, d["divide"] or "exact", valid, axis=0 if d["turn"] == "yes" else 1)

    body({"divide": "", "turn": ""}, "")
    facts = {
        "body": body, "operands": operands, "rows": times(sizes[:first]), "n": times(sizes[first:]), "out_shape": shape_of(sizes),
        **passes(form, names),
    }  # fmt: skip
    return facts, {"divide"} if divides(root) else set()


def passes(form: Form, names: Mapping[Node, str]) -> dict[str, object]:
    """The same as one pass over the columns per reduction, and a last one that writes."""
    found: dict[Node, str] = {}
    parts: list[tuple[str, Node, dict[Node, str]]] = []
    listed = []

    def call(label: str, tree: Node) -> str:
        used = reached(tree, set(found))
        taken = {**{x: n for x, n in names.items() if x in used}, **{h: n for h, n in found.items() if h in used and h != tree}}
        parts.append((label, tree, taken))
        given = [f"{n}_ref[...]" if x in names else f"{n}[:, :1]{' * (1.0 / n)' if x.name == 'mean' else ''}" for x, n in taken.items()]
        return f"{label}({', '.join(given)})"

    def functions(divide: str) -> list[str]:
        return [function(label, tree, taken, divide) for label, tree, taken in parts]

    for i, node in enumerate(form.heavy):
        text = call(f"part{i}", node.args[0])
        kind = "sum" if node.name == "mean" else node.name
        join = "before + part" if kind == "sum" else f"jnp.{kind}imum(before, part)"
        found[node] = f"r{i}"
        listed.append({"call": text, "start": START[kind], "fold": kind, "join": join, "target": f"r{i}"})
    return {"final": call("finish", form.root), "functions": functions, "passes": listed, "targets": list(found.values())}


def reached(tree: Node, stops: set[Node]) -> set[Node]:
    """The nodes a computation touches when some are given to it."""
    return {tree} if tree in stops else {tree}.union(*(reached(arg, stops) for arg in tree.args))


def reduction(form: Form) -> Described:
    """A fold over neighbouring axes and what is done with its result."""
    root, (heavy,), inputs = form.root, form.heavy, form.tensors
    x = inputs[0]
    sizes = around(x, heavy.dims)
    total = replace(heavy, args=())
    result = apply("div", total, Num(1.0, "scalar", name="n", integer=False)) if heavy.name == "mean" else total
    names = {x: f"x{i}" for i, x in enumerate(inputs)}
    fold = "sum" if heavy.name == "mean" else heavy.name
    strided, single = sizes["inner"] != "1", sizes["outer"] == sizes["inner"] == "1"
    facts: Facts = {
        **sizes, "strided": strided, "single": single, "fold": fold, "start": START[fold],
        "operands": list(names.values()), "tensors": [x.name for x in inputs],
        "body": function("body", heavy.args[0], names), "finish": function("finish", swap(root, heavy, result), {total: "total"}),
        "out_shape": reduced_shape(x, heavy.dims, form.signature),
    }  # fmt: skip
    return facts, ({"strided"} if strided else {"single"} if single else {"rows"}) | ({"sum"} if fold == "sum" else set())


def argument_of(form: Form) -> Described:
    """Sizes around the axis searched."""
    (heavy,), (x,) = form.heavy, form.tensors
    sizes = around(x, heavy.dims)
    strided = sizes["inner"] != "1"
    facts: Facts = {
        **sizes, "strided": strided, "fold": heavy.name.removeprefix("arg"), "x": x.name,
        "out_shape": reduced_shape(x, heavy.dims, form.signature),
    }  # fmt: skip
    return facts, {"strided"} if strided else {"rows"}


def product(form: Form) -> Described:
    """The factors as matrices, or as batches of them, and what follows."""
    (a, b), (rows_a, rows_b) = form.tensors, form.in_order
    batched = len(b.shape) > 2
    left = a.name if rows_a else f"jnp.swapaxes({a.name}, -1, -2)"
    swapped = f"jnp.swapaxes({b.name}, -1, -2)"
    right, right_turned = (b.name, swapped) if rows_b else (swapped, b.name)
    rows = [f"{a.name}.shape[{i}]" for i in range(len(a.shape) - 2)] + [f"{a.name}.shape[{len(a.shape) - (2 if rows_a else 1)}]"]
    cols = f"{b.name}.shape[{len(b.shape) - (1 if rows_b else 2)}]"
    depth = f"{a.name}.shape[{len(a.shape) - (1 if rows_a else 2)}]"
    views = {"a_view": left, "b_view": right, "b_turned": right_turned}
    if batched:
        views = {
            "a_view": f"{left}.reshape(-1, {rows[-1]}, {depth})",
            "b_view": f"{right}.reshape(-1, {depth}, {cols})",
            "b_turned": f"{right_turned}.reshape(-1, {cols}, {depth})",
        }
    elif len(a.shape) > 2:
        views["a_view"] = f"{left}.reshape(-1, {depth})"
    facts: Facts = {**views, "batched": batched, "out_shape": shape_of([*rows, cols]), **epilogue(form)}
    return facts, {"batched"} if batched else {"plain"}


def epilogue(form: Form) -> dict[str, object]:
    """The elementwise steps after a product or a convolution, as a function of its result and of vectors."""
    root, (heavy,) = form.root, form.heavy
    vectors = [Operand(f"v{i}", "vector", x.name, "") for i, x in enumerate(form.others)]
    names = {heavy: "total", **{x: v.name for x, v in zip(form.others, vectors)}}
    return {"after": function("after", root, names) if root != heavy else "", "vectors": vectors}


def attention(form: Form) -> Described:
    """Queries, keys, values and the scale."""
    q, key, value = (x.name for x in form.tensors)
    return {"q": q, "key": key, "value": value, "scale": number(form.numbers[0])}, set()


def convolution(form: Form) -> Described:
    """The window and what follows it; shifts of a whole image serve only windows that move by one."""
    x, w = form.tensors
    by_one = form.numbers[0].value == form.numbers[1].value == form.numbers[6].value == 1
    facts: Facts = {"x": x.name, "w": w.name, "numbers": [number(n) for n in form.numbers], "jumps": not by_one, **epilogue(form)}
    return facts, {"shifts"} if by_one else {"jumps"}


def pooling(form: Form) -> Described:
    """The window."""
    facts: Facts = {"x": form.tensors[0].name, "kind": form.heavy[0].name, "numbers": [number(n) for n in form.numbers]}
    return facts, {form.heavy[0].name}


def scan(form: Form) -> Described:
    """Sizes around the axis walked."""
    (x,) = form.tensors
    sizes = around(x, form.heavy[0].dims)
    strided = sizes["inner"] != "1"
    return {**sizes, "x": x.name, "strided": strided}, {"strided"} if strided else {"rows"}


def gather(form: Form) -> Described:
    """How many rows of which width."""
    table, index = form.tensors
    sizes = [f"{index.name}.shape[{i}]" for i in range(len(index.shape))]
    width = [f"{table.name}.shape[{i}]" for i in range(1, len(table.shape))]
    return {
        "table": table.name,
        "index": index.name,
        "count": times(sizes),
        "width": times(width),
        "out_shape": shape_of(sizes + width),
    }, set()


def cross_entropy(form: Form) -> Described:
    """Logits, classes and how the losses are joined."""
    x, y = form.tensors
    return {"x": x.name, "y": y.name, "kind": form.heavy[0].name}, set()


DESCRIBE: Mapping[str, Callable[[Form], Described]] = {
    "map": elementwise, "row": rows, "reduce": reduction, "argreduce": argument_of, "matmul": product, "attention": attention,
    "conv": convolution, "pool": pooling, "scan": scan, "gather": gather, "crossentropy": cross_entropy,
}  # fmt: skip
