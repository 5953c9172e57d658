"""Images sampled on another grid: nearest pixels and linear interpolation, at regular points or at given ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import Node, NoSketch, Num, arithmetic, as_node, integer, number, reshape
from evokernel.generators.template_search.operators.compute_intensive import traced

NEAREST, LINEAR, CORNERS = "nearest", "linear", "corners"
"""The pixel below; between pixels, centres or corners of the images on each other."""


def ratio(old: Num, new: Num, factor: object) -> Num:
    """How far apart new pixels are, in old ones: by the factor where one is given, else by the sizes."""
    if factor is None:
        return arithmetic("div", old, new)
    known = number(factor)
    return (
        Num(tuple(1 / v for v in known.values), "reciprocal", (known,), integer=False) if not known.is_literal else Num.of(1 / known.value)
    )


def resized(x: Node, kind: str, shape: tuple[Num, ...], factors: object) -> Node:
    """One or two spatial axes; its numbers: how far apart new rows and new columns are."""
    rank = len(shape) - 2
    if rank not in (1, 2):
        raise NoSketch("resizing over three axes")
    given = list(factors) if isinstance(factors, tuple) else [None] * rank
    nums = [ratio(old, new, factor) for old, new, factor in zip(x.shape[2:], shape[2:], given)]
    if rank == 2:
        return Node("resize", (x,), shape, kind, nums=tuple(nums))
    one = (*shape[:2], Num.of(1), shape[2])
    flat = reshape(x, (*x.shape[:2], Num.of(1), x.shape[2]))
    return reshape(Node("resize", (flat,), one, kind, nums=(Num.of(1.0), *nums)), shape)


def nearest(x: object, size: object = None, *factors: object, shape: object = None) -> Node:
    """`upsample_nearest`: factors come as one list or one by one."""
    return resized(as_node(x), NEAREST, traced(shape), listed(factors))


def linear(x: object, size: object = None, corners: object = False, *factors: object, shape: object = None) -> Node:
    """`upsample_linear1d` and `upsample_bilinear2d`."""
    return resized(as_node(x), CORNERS if corners else LINEAR, traced(shape), listed(factors))


def listed(factors: tuple[object, ...]) -> object:
    """Factors as a tuple, or None where sizes decide."""
    found = factors[0] if len(factors) == 1 and isinstance(factors[0], tuple) else factors
    return None if not isinstance(found, tuple) or not found or found[0] is None else found


def grid_sample(x: object, grid: object, mode: object = 0, padding: object = 0, corners: object = False) -> Node:
    """Pixels at the points of a grid from -1 to 1; beyond the border there is nothing, or the border goes on."""
    node, points = as_node(x), as_node(grid)
    if len(node.shape) != 4 or integer(mode) > 1 or integer(padding) > 1:
        raise NoSketch("a grid sampled in three dimensions, by cubics or with reflection")
    kind = " ".join([("linear", "nearest")[integer(mode)], ("zeros", "border")[integer(padding)], "corners" if corners else "centres"])
    return Node("gridsample", (node, points), (*node.shape[:2], *points.shape[1:3]), kind)


TABLE: Mapping[str, Callable[..., object]] = {
    **{f"upsample_nearest{n}d": nearest for n in (1, 2, 3)},
    "upsample_linear1d": linear, "upsample_bilinear2d": linear, "grid_sampler": grid_sample, "grid_sampler_2d": grid_sample,
}  # fmt: skip
