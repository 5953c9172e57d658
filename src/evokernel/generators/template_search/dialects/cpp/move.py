"""Data movement: permuted, sliced, flipped, expanded or concatenated tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, ORDER, SIMD, THREADS, is_row_order
from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, calculate, pad_rank
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


@dataclass(frozen=True)
class AxisWalk:
    """One axis of the result: the axes of the source that it runs along, and how."""

    extent: Num
    source: tuple[int, ...] = ()
    """Neighbouring axes; none if the axis is broadcast."""
    start: str = ""
    step: str = ""
    """Step in elements of the axis; empty for 1."""
    is_whole: bool = True


def walk_permute(root: Node) -> list[AxisWalk]:
    """The axes of a permutation."""
    return [AxisWalk(n, (axis,)) for n, axis in zip(root.shape, root.dims)]


def walk_expand(root: Node) -> list[AxisWalk]:
    """The axes of an expansion: axes of size one are read repeatedly."""
    full, missing = pad_rank(root.args[0].shape, len(root.shape)), len(root.shape) - len(root.args[0].shape)
    return [AxisWalk(n, () if one.is_one else (i - missing,)) for i, (n, one) in enumerate(zip(root.shape, full))]


def walk_slice(root: Node) -> list[AxisWalk]:
    """The axes of a slice: every `step`-th element from `start` on."""
    step = "" if root.nums[1].is_one else "step"
    return [AxisWalk(n, (i,), "start", step, False) if i in root.dims else AxisWalk(n, (i,)) for i, n in enumerate(root.shape)]


def walk_flip(root: Node) -> list[AxisWalk]:
    """The axes of a flip: read from the end."""
    return [AxisWalk(n, (i,), f"(m{i} - 1)", "-1", False) if i in root.dims else AxisWalk(n, (i,)) for i, n in enumerate(root.shape)]


WALKS: Mapping[str, Callable[[Node], list[AxisWalk]]] = {
    "permute": walk_permute,
    "expand": walk_expand,
    "slice": walk_slice,
    "flip": walk_flip,
}


def merge_walks(walks: list[AxisWalk]) -> list[AxisWalk]:
    """Axes that are neighbours in result and source, merged into one."""
    walks_out: list[AxisWalk] = []
    for walk in walks:
        before = walks_out[-1] if walks_out else None
        if walk.extent.is_one and walk.is_whole:
            continue
        if before and not before.source and not walk.source:
            walks_out[-1] = AxisWalk(calculate("mul", before.extent, walk.extent))
        elif before and before.source and walk.source and walk.is_whole and not before.step and walk.source[0] == before.source[-1] + 1:
            start = f"{before.start} * m{walk.source[0]}" if before.start else ""
            walks_out[-1] = AxisWalk(calculate("mul", before.extent, walk.extent), before.source + walk.source, start, "", before.is_whole)
        else:
            walks_out.append(walk)
    return walks_out


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a movement by the loops over the result with their strides in the source; a concatenation by its widths."""
    root = pattern.root
    if any(x.op != "leaf" or x.dtype != root.dtype for x in root.args):
        raise UnsupportedPattern("a data movement that also converts")
    if root.op == "cat":
        return describe_cat(root)
    if root.op not in WALKS:
        raise UnsupportedPattern(f"a {root.op} kernel")
    x = root.args[0]
    walks = merge_walks(WALKS[root.op](root)) or [AxisWalk(Num.of(1), ())]
    strides, starts = [], []
    for walk in walks:
        stride = " * ".join(f"m{i}" for i in range(walk.source[-1] + 1, len(x.shape)) if not x.shape[i].is_one) if walk.source else "0"
        strides.append(" * ".join(part for part in (walk.step, stride) if part) or "1")
        starts += [" * ".join(part for part in (walk.start, stride) if part)] if walk.start else []
    arguments = [
        StageArgument("x0", x),
        *(StageArgument(f"m{i}", n) for i, n in enumerate(x.shape)),
        *(StageArgument(f"n{i}", w.extent) for i, w in enumerate(walks)),
    ]
    if root.op == "slice":
        arguments += [StageArgument("start", root.nums[0]), StageArgument("step", root.nums[1])]
    last = len(walks) - 1
    contiguous = next((i for i, stride in enumerate(strides) if stride == "1"), last)
    variables = {
        "strides": strides, "base": " + ".join(starts) or "0", "last": last, "near": contiguous, "is_run": contiguous == last, "parts": (),
        "outside": [i for i in range(last + 1) if i not in (contiguous, last)], "runs": strides[last] == "1",
    }  # fmt: skip
    return PatternDescription(
        tuple(arguments), variables, frozenset({"run" if strides[last] == "1" else "turned" if contiguous != last else "apart"})
    )


def describe_cat(root: Node) -> PatternDescription:
    """Describes a concatenation along an axis."""
    axis = root.dims[0]
    outer = multiply_nums(root.shape[:axis])
    widths = [multiply_nums(x.shape[axis:]) for x in root.args]
    arguments = (
        [StageArgument(f"x{i}", x) for i, x in enumerate(root.args)]
        + [StageArgument(f"w{i}", w) for i, w in enumerate(widths)]
        + [StageArgument("n0", outer)]
    )
    return PatternDescription(tuple(arguments), {"parts": tuple(range(len(widths)))}, frozenset({"run", "cat"}))


def is_element_loop(choice: Choice) -> bool:
    """Whether a loop copies elements one by one in memory order."""
    return is_row_order(choice) and choice.get("algorithm") != "memcpy"


template = KernelTemplate(
    decisions=(
        ORDER._replace(excluded_by="apart"),
        Decision("algorithm", ("memcpy", "loop"), is_row_order, trait="run"),
        Decision("algorithm", ("plain", "tiled"), is_row_order, trait="turned"),
        Decision("tile", ("8", "16", "32", "64"), one_of("algorithm", "tiled")),
        SIMD._replace(options=("auto", "omp"), when=is_element_loop),
        ALIAS,
        INDEX._replace(when=is_element_loop),
        THREADS,
    ),
    describe=describe,
)
