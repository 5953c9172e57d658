"""Reductions over some loops of an iteration space: functions over blocks, and the block shapes of loop nests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.pallas.common_decisions import has_tensor_division
from evokernel.generators.template_search.dialects.pallas.emit import START, emit_function, is_integer_or_bool, join_arguments
from evokernel.generators.template_search.dialects.pallas.layouts import (
    Layout,
    Loop,
    Result,
    View,
    multiply_extents,
    narrow_traits,
    nest_layout,
    row_layout,
)
from evokernel.generators.template_search.dialects.pallas.stored_loops import nest_axes, order_loops
from evokernel.generators.template_search.graph import Node, Num, reachable_nodes
from evokernel.generators.template_search.kernel_template import StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


@dataclass(frozen=True)
class Pass:
    """One reduction whose blocks hold only part of the reduced elements."""

    call: str
    start: str
    fold: str
    join: str
    target: str


@dataclass(frozen=True)
class Blocks:
    """The blocks of a nest as text for a template."""

    sizes: list[str]
    """Lines that set the block sizes `b0`, `b1`, ..."""
    shape: str
    """Shape of a block of the iteration space."""
    folded: str
    """Shape of a block of a result."""
    grid: str
    """Extents of the grid dimensions that are not reduced."""
    kept: int
    """Number of these grid dimensions."""
    specs: list[str]
    out: str
    out_shape: str
    chunk: int
    """The loop that is split into chunks, or -1."""


class Nest:
    """The loops of a layout split into blocks: reduced loops complete or in chunks, and the innermost other loops in tiles."""

    def __init__(self, layout: Layout, is_full: bool) -> None:
        self.layout, self.is_full = layout, is_full
        self.reduced = tuple(i for i, loop in enumerate(layout.loops) if loop.reduced)

    @property
    def axes(self) -> str:
        return f"({join_arguments(map(str, self.reduced))}{',' if len(self.reduced) == 1 else ''})"

    def blocks(self, d: Choice, chunked: bool, phases: int) -> Blocks:
        """The blocks for the decisions `rows`, `lanes` and `chunk`."""
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
            sizes, f"({join_arguments(f'b{i}' for i in range(len(loops)))})",
            f"({join_arguments('1' if loop.reduced else f'b{i}' for i, loop in enumerate(loops))})",
            join_arguments(f"pl.cdiv({loops[i].extent}, b{i})" for i in kept), len(kept),
            [self.spec(v.present, names, chunk, "q") for v in self.layout.views], self.spec(there, names, chunk, last),
            f"({join_arguments(loop.extent if here else '1' for loop, here in zip(loops, there))})", chunk,
        )  # fmt: skip

    def spec(self, present: Sequence[bool], names: Sequence[str], chunk: int, at: str) -> str:
        """The BlockSpec of an array: block shape and index map."""
        sizes = join_arguments(f"b{i}" if there else "1" for i, there in enumerate(present))
        place = join_arguments(
            (at if i == chunk else f"g{i}" if f"g{i}" in names else "0") if there else "0" for i, there in enumerate(present)
        )
        return f"pl.BlockSpec(({sizes}), lambda {join_arguments(names)}: ({place}))"


def pass_variables(pattern: KernelPattern, names: Mapping[Node, str], free: Mapping[Num, str]) -> dict[str, object]:
    """The pattern as one pass over the data per reduction, and the final step."""
    result_names: dict[Node, str] = {}
    parts: list[tuple[str, Node, dict[Node, str]]] = []
    passes: list[Pass] = []

    def call(label: str, tree: Node) -> str:
        used_nodes = reachable_nodes(tree, set(result_names))
        names_used = {**{x: n for x, n in names.items() if x in used_nodes}, **{h: n for h, n in result_names.items() if h in used_nodes}}
        parts.append((label, tree, names_used))
        arguments = [f"{{{n}}}" if x in names else f"{n}[...]{' * (1.0 / n)' if x.name == 'mean' else ''}" for x, n in names_used.items()]
        return f"{label}({join_arguments(arguments)})"

    def functions(divide: str) -> list[str]:
        return [emit_function(label, tree, names_used, divide, numbers=free) for label, tree, names_used in parts]

    for i, node in enumerate(pattern.main_nodes):
        text = call(f"part{i}", node.args[0])
        kind = "sum" if node.name == "mean" else node.name
        sign = {"sum": "before + part", "prod": "before * part"}.get(kind, f"jnp.{kind}imum(before, part)")
        result_names[node] = f"r{i}"
        passes.append(Pass(text, START[kind], kind, sign, f"r{i}"))
    return {"final": call("finish", pattern.root), "functions": functions, "passes": passes}


def flat_layout(pattern: KernelPattern, names: Mapping[Node, str], is_full: bool) -> Layout:
    """All elements as rows and cols, both reduced, padded at the end."""
    views = []
    for view in row_layout(pattern.axes, pattern.operands, names, range(len(pattern.axes)), True).views:
        if not any(view.present):
            views.append(View(view.name, (False, False), f"{view.name}.reshape(1, 1)", view.dtype))
        else:
            text = view.view.removesuffix("(1, cols)") + "(-1)"
            views.append(View(view.name, (True, True), f"jnp.pad({text}, (0, rows * cols - n)).reshape(rows, cols)", view.dtype))
    return Layout((Loop("rows", True), Loop("cols", True)), tuple(views), "out.reshape(-1)[:n]" if is_full else "out")


def reduction_layouts(pattern: KernelPattern, names: Mapping[Node, str], is_full: bool) -> dict[str, Layout]:
    """The layouts of a reduction: `rows`, and `nest` if it differs; `flat` if all loops are reduced."""
    if all(a.is_reduced for a in pattern.axes):
        return {"flat": flat_layout(pattern, names, is_full)}
    cols = [i for i, a in enumerate(pattern.axes) if a.is_reduced]
    layouts = {"rows": row_layout(pattern.axes, pattern.operands, names, cols, is_full)}
    if len(pattern.axes) != 2 or not pattern.axes[1].is_reduced:
        layouts["nest"] = nest_layout(pattern.axes, pattern.operands, names, order_loops(pattern)[1])
    return layouts


def loop_traits(pattern: KernelPattern) -> set[str]:
    """Traits of the loops: all reduced, rows only or a nest; whether the last loop and whether earlier loops are not reduced."""
    axes = nest_axes(pattern)
    kept = [i for i, a in enumerate(axes) if not a.is_reduced]
    if not kept:
        return {"single"}
    return (
        {"some", "rows" if len(axes) == 2 and axes[1].is_reduced else "nest"}
        | ({"strided"} if kept[-1] == len(axes) - 1 else set())
        | ({"tail"} if [a.is_reduced for a in axes].index(True) == len(axes) - 1 else set())
        | ({"outer"} if kept[0] < len(axes) - 1 else set())
    )


def stage_arguments(pattern: KernelPattern, names: Mapping[Node, str], free: Mapping[Num, str]) -> tuple[StageArgument, ...]:
    """The arguments of a stage with reductions."""
    return (
        *(StageArgument(name, x) for x, name in names.items() if x.op == "leaf"), *(StageArgument(f"n{i}", a.extent) for i,
        a in enumerate(pattern.axes)),
        *(StageArgument(s, n) for n, s in free.items()),
    )  # fmt: skip


def reduction_variables(pattern: KernelPattern, names: Mapping[Node, str], free: Mapping[Num, str], is_full: bool) -> dict[str, object]:
    """Template variables that all reductions share."""
    layouts = reduction_layouts(pattern, names, is_full)
    parts = {flag: [i for i, a in enumerate(pattern.axes) if a.is_reduced == flag] for flag in (False, True)}
    return {
        **pass_variables(pattern, names, free), "layouts": layouts, "nests": {name: Nest(layout, is_full) for name,
        layout in layouts.items()},
        "is_full": is_full, "single": "flat" in layouts, "rows": multiply_extents(parts[False]), "cols": multiply_extents(parts[True]),
        "result": Result(pattern.root), "counted": any(is_integer_or_bool(h.args[0]) for h in pattern.main_nodes),
        "has_product": any(h.name == "prod" for h in pattern.main_nodes),
    }  # fmt: skip


def reduction_traits(pattern: KernelPattern, variables: Mapping[str, object]) -> set[str]:
    """Traits that the decisions of reductions depend on."""
    traits = {"prod"} if variables["has_product"] else set()
    if has_tensor_division(pattern.root):
        traits.add("divide")
    return traits | narrow_traits(pattern.root, pattern.operands) | loop_traits(pattern)
