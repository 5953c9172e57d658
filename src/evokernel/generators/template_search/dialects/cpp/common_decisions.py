"""Decisions that many C++ sketches share, and the loops of a space as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.forms import Axis
from evokernel.generators.template_search.graph import Num
from evokernel.generators.template_search.sketch import Given


def is_wide(taken: Choice) -> bool:
    """Whether the loops are written with explicit vectors."""
    return taken.get("simd") == "vec" or is_blocked(taken)


def is_blocked(taken: Choice) -> bool:
    """Whether a register tile is used."""
    return taken.get("gemm") == "block" or taken.get("algorithm") == "block"


def is_stepped(taken: Choice) -> bool:
    """Whether a loop takes several elements at a time, so that some may remain."""
    return is_wide(taken) or taken.get("unroll", "1") != "1" or taken.get("gemm") == "tiled"


def is_by_rows(taken: Choice) -> bool:
    """Whether memory is walked in order, so that the inner loop can be shaped at all."""
    return taken.get("order") != "columns"


SIMD = Decision("simd", ("auto", "omp", "vec"), is_by_rows)
LANES = Decision("lanes", ("native", "4", "8", "12", "16", "32"), is_wide)
UNROLL = Decision("unroll", ("1", "2", "4", "8"), one_of("simd", "auto", "vec"))
TAIL = Decision("tail", ("scalar", "masked", "steps", "assume"), is_stepped)
MATH = Decision("math", ("libm", "libm64", "poly2", "poly4", "poly5", "poly6"), trait="math")
ACC = Decision("acc", ("float", "double"), is_by_rows)
ALIAS = Decision("alias", ("none", "const", "__restrict", "__restrict__", "restrict"), is_by_rows)
INDEX = Decision("index", ("int64_t", "int32_t", "uint32_t"), is_by_rows)
THREADS = Decision("threads", ("none", "omp"), is_by_rows)
ORDER = Decision("order", ("rows", "columns"))
SCRATCH = ("heap", "stack", "static")
ROW = (SIMD, LANES, UNROLL, TAIL, MATH, ACC, ALIAS, INDEX, THREADS)
STRIP = Decision("strip", ("16", "64", "256", "1024", "4096"), is_by_rows, trait="strided")
"""How many neighbouring rows are folded side by side where the innermost loop is kept."""
NEST = (SIMD, LANES, UNROLL, TAIL, MATH, ACC._replace(without="strided"), ALIAS, INDEX, THREADS)


def extents(axes: Sequence[Axis]) -> tuple[Given, ...]:
    """The extents of loops as arguments: n0, n1 and so on."""
    return tuple(Given(f"n{i}", axis.extent) for i, axis in enumerate(axes))


def numbers(found: Mapping[Num, str]) -> tuple[Given, ...]:
    """Numbers of elementwise steps as arguments."""
    return tuple(Given(name, number) for number, name in found.items())


def position(axes: Sequence[int]) -> str:
    """The flat position over some loops: ((i0 * n1 + i1) * n2 + i2)."""
    text = ""
    for i in axes:
        text = f"({text} * n{i} + i{i})" if text else f"i{i}"
    return text or "0"
