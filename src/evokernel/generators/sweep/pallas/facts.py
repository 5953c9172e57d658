"""What the Pallas sketches are rendered with: views of the arguments, functions over blocks, and the traits their decisions depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import NamedTuple

from evokernel.core.records import Signature
from evokernel.generators.sweep.decisions import Choice, Facts
from evokernel.generators.sweep.graph import Node, NoSketch, scalar_name, tensor_name, walk
from evokernel.generators.sweep.match import Form, aligned, leaves
from evokernel.generators.sweep.pallas.emit import START, function

Described = tuple[Facts, set[str]]


def describe(form: Form) -> tuple[Facts, frozenset[str]]:
    """Facts and traits of an operator."""
    if form.sketch not in DESCRIBE:
        raise NoSketch(f"a {form.sketch} operator")
    facts, traits = DESCRIBE[form.sketch](form)
    if form.uses_math:
        traits = traits | {"math"}
    return {**facts, "params": arguments(form.signature)}, frozenset(traits)


class Operand(NamedTuple):
    """An array as a kernel walks it."""

    name: str
    kind: str
    """`full`, `vector`, `column` or `one`, by the axes of (rows, cols) it has."""
    tensor: str
    view: str
    """How it is made from the argument."""


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
        return function("body", root, names, d["divide"] or "exact", valid)

    body({"divide": ""}, "")
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


def divides(root: Node) -> bool:
    """Whether anything is divided by a tensor."""
    return any(n.op == "div" and n.args[1].op != "const" for n in walk(root))


def extents(root: Node, inputs: tuple[Node, ...]) -> list[str]:
    """The sizes of a result's axes as expressions over the arguments that have them."""
    rank, sizes = len(root.shape), []
    for axis in range(rank):
        owners = ((x, axis - rank + len(x.shape)) for x in inputs)
        owner = next(((x, at) for x, at in owners if at >= 0 and x.shape[at] != 1 and x.dims[at] >= 0), None)
        sizes.append(f"{owner[0].name}.shape[{owner[0].dims[owner[1]]}]" if owner else "1")
    return sizes


def times(sizes: list[str]) -> str:
    """A product of sizes."""
    return " * ".join(s for s in sizes if s != "1") or "1"


def shape_of(sizes: list[str]) -> str:
    """A shape as Python writes it."""
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def arguments(signature: Signature) -> str:
    """The entry point's parameters."""
    tensors = [tensor_name(t.name) for t in (*signature.inputs, *signature.params)]
    return ", ".join([*tensors, *(scalar_name(s.name) for s in signature.scalars)])


DESCRIBE: Mapping[str, Callable[[Form], Described]] = {"map": elementwise, "row": rows}
