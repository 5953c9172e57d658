"""Lowerings of image resampling: nearest pixel or linear interpolation, on a regular grid or at given points."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, as_integer, as_node, as_num, calculate, reshape
from evokernel.generators.template_search.operators.compute_intensive import require_shape

NEAREST, LINEAR, CORNERS = "nearest", "linear", "corners"
"""Nearest pixel; linear with pixel centres aligned; linear with image corners aligned."""


def pixel_step(old: Num, new: Num, factor: object) -> Num:
    """The distance between new pixels, measured in old pixels: from the factor if there is one, otherwise from the sizes."""
    if factor is None:
        return calculate("div", old, new)
    factor_num = as_num(factor)
    return (
        Num(tuple(1 / v for v in factor_num.values), "reciprocal", (factor_num,), is_integer=False)
        if not factor_num.is_literal
        else Num.of(1 / factor_num.value)
    )


def make_resize(x: Node, kind: str, shape: tuple[Num, ...], factors: object) -> Node:
    """A resize over one or two spatial axes; the node's numbers: distance between new rows and between new columns."""
    rank = len(shape) - 2
    if rank not in (1, 2):
        raise UnsupportedPattern("resizing over three axes")
    axis_factors = list(factors) if isinstance(factors, tuple) else [None] * rank
    nums = [pixel_step(old, new, factor) for old, new, factor in zip(x.shape[2:], shape[2:], axis_factors)]
    if rank == 2:
        return Node("resize", (x,), shape, kind, nums=tuple(nums))
    one = (*shape[:2], Num.of(1), shape[2])
    flat = reshape(x, (*x.shape[:2], Num.of(1), x.shape[2]))
    return reshape(Node("resize", (flat,), one, kind, nums=(Num.of(1.0), *nums)), shape)


def upsample_nearest(x: object, size: object = None, *factors: object, shape: object = None) -> Node:
    """`upsample_nearest`; factors are one list or separate arguments."""
    return make_resize(as_node(x), NEAREST, require_shape(shape), parse_factors(factors))


def upsample_linear(x: object, size: object = None, corners: object = False, *factors: object, shape: object = None) -> Node:
    """`upsample_linear1d` and `upsample_bilinear2d`."""
    return make_resize(as_node(x), CORNERS if corners else LINEAR, require_shape(shape), parse_factors(factors))


def parse_factors(factors: tuple[object, ...]) -> object:
    """Factors as a tuple, or None if the sizes determine them."""
    items = factors[0] if len(factors) == 1 and isinstance(factors[0], tuple) else factors
    return None if not isinstance(items, tuple) or not items or items[0] is None else items


def grid_sample(x: object, grid: object, mode: object = 0, padding: object = 0, corners: object = False) -> Node:
    """Pixels at points with coordinates from -1 to 1; outside the image, zeros or the nearest border pixel."""
    node, points = as_node(x), as_node(grid)
    if len(node.shape) != 4 or as_integer(mode) > 1 or as_integer(padding) > 1:
        raise UnsupportedPattern("a grid sampled in three dimensions, by cubics or with reflection")
    kind = " ".join(
        [("linear", "nearest")[as_integer(mode)], ("zeros", "border")[as_integer(padding)], "corners" if corners else "centres"]
    )
    return Node("gridsample", (node, points), (*node.shape[:2], *points.shape[1:3]), kind)


TABLE: Mapping[str, Callable[..., object]] = {
    **{f"upsample_nearest{n}d": upsample_nearest for n in (1, 2, 3)},
    "upsample_linear1d": upsample_linear, "upsample_bilinear2d": upsample_linear, "grid_sampler": grid_sample,
    "grid_sampler_2d": grid_sample,
}  # fmt: skip
