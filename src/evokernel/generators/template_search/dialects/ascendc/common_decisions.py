"""Decisions that many sketches share, and the loops of a space as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.forms import Axis
from evokernel.generators.template_search.graph import Num
from evokernel.generators.template_search.sketch import Given


def is_whole(taken: Choice) -> bool:
    """Whether whole rows lie in local memory."""
    return taken.get("algorithm", "whole") == "whole"


BLOCKS = Decision("blocks", ("1", "8", "32", "cores", "64"))
"""How many blocks are launched: a number, or as many as the chip has vector cores."""
STAGING = Decision("staging", ("queue", "barrier", "flags", "none"))
"""How copies and instructions wait for each other: queues, a barrier for all pipes, flags between two pipes, or not at all."""
DEPTH = Decision("depth", ("1", "2", "4"), one_of("staging", "queue"))
"""Buffers per queue."""
RELEASE = Decision("release", ("free", "forget"), one_of("staging", "queue"))
TILE = Decision("tile", ("512", "2048", "4096", "8192", "16384"))
"""Elements per buffer."""
TAIL = Decision("tail", ("pad", "plain", "round"))
"""Copies whose length is no multiple of 32 bytes: padded, cut off by the hardware, or rounded up."""
PREFETCH = Decision("prefetch", ("none", "ahead"), lambda taken: is_whole(taken) and taken.get("staging") == "queue", trait="tiled")
"""Whether the copy of the next tile is asked for before this one is computed with."""
SHARE = Decision("share", ("even", "last", "floor"), without="flat")
SHARE_FLAT = Decision("share", ("even", "aligned", "last", "floor"), trait="flat")
"""What is left when work does not divide: one more for the first blocks (or 512 bytes more), all of it for the last one, or forgotten."""
TEMPS = Decision("temps", ("reuse", "fresh"), trait="temps", without="library")
TEMPS_LIBRARY = Decision("temps", ("reuse", "fresh", "inplace"), trait="library")
"""Buffers between steps: taken again after their last use, one per step, or written over even by functions of the library."""
DIVIDE = Decision("divide", ("div", "reciprocal"), trait="divide")
TANH = Decision("tanh", ("library", "exp"), trait="tanh")
REDUCE = Decision("reduce", ("level", "halves", "scalar"), trait="reduce")
"""How a row becomes one number: by the reduction of the API, by adding halves, or element by element."""
ALGORITHM = Decision("algorithm", ("whole", "chunks"), trait="rows")
ROWS = Decision("rows", ("1", "fill"), is_whole, trait="rows")
"""Rows per copy."""
ROWS_ALWAYS = Decision("rows", ("1", "fill"), trait="rows")
HOIST = Decision("hoist", ("once", "each"), is_whole, trait="shared")
"""Whether a vector that all rows share is copied once or with every tile."""
KEEP = Decision("keep", ("kept", "again"), is_whole, trait="kept")
"""Whether what several passes need is kept or computed again."""
STORE = Decision("store", ("copy", "setvalue"), trait="points")
"""One result per row: collected and copied, or written to global memory one by one."""
SPLIT = Decision("split", ("one", "partials"), trait="single")
"""One result for everything: on a single core, or partial results in the workspace that all cores wait for."""
BANKS = Decision("banks", ("plain", "apart"))
"""Whether buffers lie so that two sources of an instruction do not meet in the same banks."""
COMMON = (STAGING, DEPTH, RELEASE, TILE, TAIL, SHARE, SHARE_FLAT, BANKS)
MATHS = (TEMPS, TEMPS_LIBRARY, DIVIDE, TANH)


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


def times(axes: Sequence[int]) -> str:
    """Extents multiplied."""
    return " * ".join(f"n{i}" for i in axes) or "1"


def unravelled(axes: Sequence[int], flat: str) -> list[str]:
    """Lines that find the index of each loop from a flat position over all of them."""
    lines = []
    for at, i in enumerate(axes):
        behind = times(axes[at + 1 :])
        inner = flat if behind == "1" else f"{flat} / ({behind})"
        lines.append(f"const uint64_t i{i} = {inner if at == 0 else f'{inner} % n{i}'};")
    return lines
