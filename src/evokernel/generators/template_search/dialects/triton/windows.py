"""Shared by convolutions and poolings: a window over up to three axes; missing leading axes have extent 1."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.template_search.graph import Num, UnsupportedPattern
from evokernel.generators.template_search.kernel_template import StageArgument

AXES = ("d", "h", "w")


def window_arguments(kinds: Mapping[str, tuple[Num, ...]], inputs: tuple[Num, ...], outputs: tuple[Num, ...]) -> list[StageArgument]:
    """The sizes `nd`, `nh`, `nw` of the input and `od`, `oh`, `ow` of the output, and the numbers `kd`, `kh`, ... of the window.

    Kinds are k (window), s (stride), p (padding) and d (dilation).
    """
    missing = len(AXES) - len(inputs)
    if missing < 0:
        raise UnsupportedPattern(f"windows over {len(inputs)} axes")
    arguments = []
    for kind, nums in {"n": inputs, "o": outputs, **kinds}.items():
        filler = Num.of(0 if kind == "p" else 1)
        arguments += [StageArgument(f"{kind}{axis}", num) for axis, num in zip(AXES, (filler,) * missing + tuple(nums))]
    return arguments


WINDOW = tuple(f"{kind}{axis}" for kind in "kspd" for axis in AXES)
"""The numbers of a window, which are compile-time constants of the kernel."""
