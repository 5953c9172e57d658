"""How a data movement reads its source: the loops over the result, each with its stride in the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, calculate, pad_rank
from evokernel.generators.template_search.kernel_template import PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import multiply_nums


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


@dataclass(frozen=True)
class Movement:
    """The loops over the result of a movement, outermost first."""

    walks: tuple[AxisWalk, ...]
    strides: tuple[str, ...]
    """The stride of each loop in the source, over its extents `m0`, `m1`, ... and the numbers `start` and `step`."""
    base: str
    """The position of the first element in the source."""
    arguments: tuple[StageArgument, ...]

    @property
    def last(self) -> int:
        """The number of the innermost loop."""
        return len(self.walks) - 1

    @property
    def contiguous(self) -> int:
        """The number of the loop that reads neighbouring elements; the innermost one if none does."""
        return next((i for i, stride in enumerate(self.strides) if stride == "1"), self.last)


def describe_movement(root: Node) -> Movement:
    """The loops of a permutation, expansion, slice or flip of a tensor in memory."""
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
    return Movement(tuple(walks), tuple(strides), " + ".join(starts) or "0", tuple(arguments))


def require_plain_movement(root: Node) -> None:
    """Raises UnsupportedPattern unless a movement reads tensors in memory without a conversion."""
    if any(x.op != "leaf" or x.dtype != root.dtype for x in root.args):
        raise UnsupportedPattern("a data movement that also converts")


def concatenation_arguments(root: Node) -> tuple[StageArgument, ...]:
    """The tensors of a concatenation, the elements of each per position of the axes before, and the number of these positions."""
    axis = root.dims[0]
    return (
        *(StageArgument(f"x{i}", x) for i, x in enumerate(root.args)),
        *(StageArgument(f"w{i}", multiply_nums(x.shape[axis:])) for i, x in enumerate(root.args)),
        StageArgument("n0", multiply_nums(root.shape[:axis])),
    )


def describe_move(root: Node, split: Callable[[str, Sequence[int], str], list[str]]) -> PatternDescription:
    """A movement as positions: of a thread's or block's element in the result and in the source.

    `split` returns the lines that compute positions along some loops from a flat one, as far as a text uses them.
    """
    require_plain_movement(root)
    if root.op == "cat":
        return PatternDescription(concatenation_arguments(root), {"parts": tuple(range(len(root.args)))}, frozenset({"cat"}))
    movement = describe_movement(root)
    loops, last, near = tuple(range(len(movement.walks))), movement.last, movement.contiguous
    source = " + ".join([movement.base, *(f"i{i} * ({stride})" for i, stride in enumerate(movement.strides))])
    outside = tuple(i for i in loops if i not in (near, last))
    flat = " + ".join(f"i{i} * ({' * '.join(f'n{j}' for j in loops[i + 1 :]) or '1'})" for i in loops)
    variables = {
        "parts": (), "source": source, "flat": flat, "near": near, "last": last,
        "row_lines": split("k", loops, source), "outside_lines": split("o", outside, source + flat),
        "outside": " * ".join(f"n{i}" for i in outside) or "1", "count": " * ".join(f"n{i}" for i in loops),
    }  # fmt: skip
    return PatternDescription(movement.arguments, variables, frozenset({"turned"} if near != last else ()))
