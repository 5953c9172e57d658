"""Descriptions of image operators that interpolate between pixels, shared by the dialects: resizing and grid sampling."""

from __future__ import annotations

from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


def describe_resize(pattern: KernelPattern) -> PatternDescription:
    """Old and new height and width, and the distance between new pixels in old ones."""
    (x,) = pattern.tensors
    if x.dtype != "float32":
        raise UnsupportedPattern(f"resized {x.dtype} images")
    sizes = zip(("images", "h", "w", "height", "width"), (multiply_nums(x.shape[:-2]), *x.shape[-2:], *pattern.root.shape[-2:]))
    steps = zip(("down", "across"), pattern.root.nums)
    return PatternDescription(
        (StageArgument("x", x), *(StageArgument(*pair) for pair in sizes), *(StageArgument(*pair) for pair in steps)),
        {"kind": pattern.root.name},
    )


def describe_grid_sample(pattern: KernelPattern) -> PatternDescription:
    """Images, channels, old height and width, and the number of points."""
    x, grid = pattern.tensors
    if any(t.dtype != "float32" for t in pattern.tensors):
        raise UnsupportedPattern(f"{x.dtype} images at {grid.dtype} points")
    mode, padding, corners = pattern.root.name.split()
    sizes = zip(("images", "channels", "h", "w", "points"), (*x.shape, multiply_nums(pattern.root.shape[2:])))
    variables = {"mode": mode, "padding": padding, "corners": corners == "corners"}
    return PatternDescription((StageArgument("x", x), StageArgument("grid", grid), *(StageArgument(*pair) for pair in sizes)), variables)
