"""Reductions over some loops of a space, and what is done around them: functions over blocks, and blocks of nests of loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.pallas.common_decisions import divides
from evokernel.generators.template_search.dialects.pallas.emit import START, function, is_counted, joined
from evokernel.generators.template_search.dialects.pallas.layouts import Layout, Loop, Result, View, as_rows, narrow, native, times
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import Node, Num, reached
from evokernel.generators.template_search.sketch import Given


@dataclass(frozen=True)
class Pass:
    """One reduction where a block holds only a part of what is reduced."""

    call: str
    start: str
    fold: str
    join: str
    target: str


@dataclass(frozen=True)
class Blocks:
    """Text about the blocks of a nest: what a template needs to call it."""

    sizes: list[str]
    """Lines that set the sizes of blocks, b0, b1, ..."""
    shape: str
    """Of a block of the whole space."""
    folded: str
    """Of a block of a result."""
    grid: str
    """Extents of the grid's kept part."""
    kept: int
    """How many grid dimensions that is."""
    specs: list[str]
    out: str
    out_shape: str
    chunk: int
    """The loop of which a block holds a part, or -1."""


class Nest:
    """The loops of a layout cut into blocks: reduced ones whole or in chunks, of the kept ones the innermost in tiles."""

    def __init__(self, layout: Layout, is_full: bool) -> None:
        self.layout, self.is_full = layout, is_full
        self.reduced = tuple(i for i, loop in enumerate(layout.loops) if loop.reduced)

    @property
    def axes(self) -> str:
        return f"({joined(map(str, self.reduced))}{',' if len(self.reduced) == 1 else ''})"

    def blocks(self, d: Choice, chunked: bool, phases: int) -> Blocks:
        """Blocks by the decisions `rows`, `lanes` and `chunk`."""
        loops = self.layout.loops
        chunk = self.reduced[0] if chunked else -1
        kept = [i for i, loop in enumerate(loops) if not loop.reduced]
        before = [i for i in kept if i < len(loops) - 1]
        sizes = []
        for i, loop in enumerate(loops):
            tile = "1"
            if loop.reduced:
                tile = f"min({d['chunk'] or d['rows']}, {loop.extent})" if i == chunk else loop.extent
            elif i == len(loops) - 1:
                tile = f"min({d['lanes']}, {loop.extent})"
            elif i == before[-1]:
                tile = f"min({d['rows'] or '1'}, {loop.extent})"
            sizes.append(f"b{i} = {tile}")
        names = [*(f"g{i}" for i in kept), *(["p", "q"] if chunked else [])]
        there = [self.is_full or not loop.reduced for loop in loops]
        last = f"jnp.where(p == {phases - 1}, q, 0)" if self.is_full else "0"
        return Blocks(
            sizes, f"({joined(f'b{i}' for i in range(len(loops)))})",
            f"({joined('1' if loop.reduced else f'b{i}' for i, loop in enumerate(loops))})",
            joined(f"pl.cdiv({loops[i].extent}, b{i})" for i in kept), len(kept),
            [self.spec(v.present, names, chunk, "q") for v in self.layout.views], self.spec(there, names, chunk, last),
            f"({joined(loop.extent if here else '1' for loop, here in zip(loops, there))})", chunk,
        )  # fmt: skip

    def spec(self, present: Sequence[bool], names: Sequence[str], chunk: int, at: str) -> str:
        """The block of an array and where it lies."""
        sizes = joined(f"b{i}" if there else "1" for i, there in enumerate(present))
        place = joined((at if i == chunk else f"g{i}" if f"g{i}" in names else "0") if there else "0" for i, there in enumerate(present))
        return f"pl.BlockSpec(({sizes}), lambda {joined(names)}: ({place}))"


def passes(form: Form, names: Mapping[Node, str], free: Mapping[Num, str]) -> dict[str, object]:
    """The form as one pass over the data per reduction, and what its result is made from."""
    found: dict[Node, str] = {}
    parts: list[tuple[str, Node, dict[Node, str]]] = []
    listed: list[Pass] = []

    def call(label: str, tree: Node) -> str:
        used = reached(tree, set(found))
        taken = {**{x: n for x, n in names.items() if x in used}, **{h: n for h, n in found.items() if h in used}}
        parts.append((label, tree, taken))
        given = [f"{{{n}}}" if x in names else f"{n}[...]{' * (1.0 / n)' if x.name == 'mean' else ''}" for x, n in taken.items()]
        return f"{label}({joined(given)})"

    def functions(divide: str) -> list[str]:
        return [function(label, tree, taken, divide, numbers=free) for label, tree, taken in parts]

    for i, node in enumerate(form.heavy):
        text = call(f"part{i}", node.args[0])
        kind = "sum" if node.name == "mean" else node.name
        sign = {"sum": "before + part", "prod": "before * part"}.get(kind, f"jnp.{kind}imum(before, part)")
        found[node] = f"r{i}"
        listed.append(Pass(text, START[kind], kind, sign, f"r{i}"))
    return {"final": call("finish", form.root), "functions": functions, "passes": listed}


def flat(form: Form, names: Mapping[Node, str], is_full: bool) -> Layout:
    """Everything there is in rows and cols, both reduced: filled up at the end."""
    views = []
    for view in as_rows(form.axes, form.operands, names, range(len(form.axes)), True).views:
        if not any(view.present):
            views.append(View(view.name, (False, False), f"{view.name}.reshape(1, 1)", view.dtype))
        else:
            text = view.view.removesuffix("(1, cols)") + "(-1)"
            views.append(View(view.name, (True, True), f"jnp.pad({text}, (0, rows * cols - n)).reshape(rows, cols)", view.dtype))
    return Layout((Loop("rows", True), Loop("cols", True)), tuple(views), "out.reshape(-1)[:n]" if is_full else "out")


def layouts(form: Form, names: Mapping[Node, str], is_full: bool) -> dict[str, Layout]:
    """The ways to lay the tensors of a reduction out: `rows`, and `nest` where that is another one; `flat` where nothing is kept."""
    if all(a.reduced for a in form.axes):
        return {"flat": flat(form, names, is_full)}
    cols = [i for i, a in enumerate(form.axes) if a.reduced]
    found = {"rows": as_rows(form.axes, form.operands, names, cols, is_full)}
    if len(form.axes) != 2 or not form.axes[1].reduced:
        found["nest"] = native(form.axes, form.operands, names)
    return found


def shape_traits(form: Form) -> set[str]:
    """What the loops are like: everything reduced, rows alone, or a nest; whether the last loop is kept, and whether others are."""
    kept = [i for i, a in enumerate(form.axes) if not a.reduced]
    if not kept:
        return {"single"}
    return (
        {"some", "rows" if len(form.axes) == 2 and form.axes[1].reduced else "nest"}
        | ({"strided"} if kept[-1] == len(form.axes) - 1 else set())
        | ({"tail"} if [a.reduced for a in form.axes].index(True) == len(form.axes) - 1 else set())
        | ({"outer"} if kept[0] < len(form.axes) - 1 else set())
    )


def given(form: Form, names: Mapping[Node, str], free: Mapping[Num, str]) -> tuple[Given, ...]:
    """What a stage of such a form is called with."""
    return (
        *(Given(name, x) for x, name in names.items() if x.op == "leaf"), *(Given(f"n{i}", a.extent) for i, a in enumerate(form.axes)),
        *(Given(s, n) for n, s in free.items()),
    )  # fmt: skip


def described(form: Form, names: Mapping[Node, str], free: Mapping[Num, str], is_full: bool) -> dict[str, object]:
    """Facts that templates of reductions share."""
    found = layouts(form, names, is_full)
    parts = {flag: [i for i, a in enumerate(form.axes) if a.reduced == flag] for flag in (False, True)}
    return {
        **passes(form, names, free), "layouts": found, "nests": {name: Nest(layout, is_full) for name, layout in found.items()},
        "is_full": is_full, "single": "flat" in found, "rows": times(parts[False]), "cols": times(parts[True]),
        "result": Result(form.root), "counted": any(is_counted(h.args[0]) for h in form.heavy),
        "has_product": any(h.name == "prod" for h in form.heavy),
    }  # fmt: skip


def traits(form: Form, facts: Mapping[str, object]) -> set[str]:
    """What the decisions of reductions depend on."""
    found = {"prod"} if facts["has_product"] else set()
    if divides(form.root):
        found.add("divide")
    return found | narrow(form.root, form.operands) | shape_traits(form)
