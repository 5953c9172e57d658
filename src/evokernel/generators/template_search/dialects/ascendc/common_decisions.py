"""Decisions that many Ascend C templates share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evokernel.generators.template_search.decisions import Choice, Decision, one_of


def is_unchunked(choice: Choice) -> bool:
    """Whether complete rows are in local memory."""
    return choice.get("algorithm", "whole") == "whole"


BLOCKS = Decision("blocks", ("1", "8", "32", "cores", "64"))
"""How many blocks are launched: a number, or as many as the chip has vector cores."""
STAGING = Decision("staging", ("queue", "barrier", "flags", "none"))
"""How copies and instructions synchronise: queues, a barrier for all pipes, flags between two pipes, or not at all."""
DEPTH = Decision("depth", ("1", "2", "4"), one_of("staging", "queue"), excluded_by="tight")
DEPTH_TIGHT = Decision("depth", ("1",), one_of("staging", "queue"), trait="tight")
"""Buffers per queue; one where a second one does not fit into local memory, or there are too many queues."""
RELEASE = Decision("release", ("free", "forget"), one_of("staging", "queue"))
TILE = Decision("tile", ("512", "2048", "4096", "8192", "16384", "fit"))
"""Elements per buffer: a number, or as many as the buffers of the stage leave room for."""
TAIL = Decision("tail", ("pad", "plain", "round"))
"""Copies whose length is not a multiple of 32 bytes: padded, truncated by the hardware, or rounded up."""


def can_prefetch(choice: Choice) -> bool:
    """Whether a second buffer is free while the first is in use."""
    return is_unchunked(choice) and choice.get("staging") == "queue" and choice.get("depth") != "1"


PREFETCH = Decision("prefetch", ("none", "ahead"), can_prefetch, trait="tiled", excluded_by="tight")
"""Whether the copy of the next tile starts before the computation on the current one."""
SHARE = Decision("share", ("even", "last", "floor"), excluded_by="flat")
SHARE_FLAT = Decision("share", ("even", "aligned", "last", "floor"), trait="flat")
"""The remainder if work does not divide evenly: one more (or 512 bytes) for the first blocks, all for the last one, or dropped."""
TEMPS = Decision("temps", ("reuse", "fresh"), trait="temps", excluded_by="library")
TEMPS_LIBRARY = Decision("temps", ("reuse", "fresh", "inplace"), trait="library")
"""Buffers between steps: reused after their last use, one per step, or overwritten even by library functions."""
DIVIDE = Decision("divide", ("div", "reciprocal"), trait="divide")
TANH = Decision("tanh", ("library", "exp"), trait="tanh")
REDUCE = Decision("reduce", ("level", "halves", "scalar"), trait="reduce")
"""How a row is reduced to one number: by the API's reduction, by adding halves, or element by element."""
ALGORITHM = Decision("algorithm", ("whole", "chunks"), trait="rows", excluded_by="together")
ALGORITHM_TOGETHER = Decision("algorithm", ("whole", "chunks", "together"), trait="together")
ALGORITHM_LONG = Decision("algorithm", ("chunks",), trait="long")
"""Whether complete rows are in local memory, one by one or several in each instruction; rows that are too long for it never are."""
TILES = Decision("tiles", ("1", "2", "3", "4", "6"), one_of("algorithm", "together"))
"""Into how many tiles a block divides the rows that it processes together, at least."""
ROWS = Decision("rows", ("1", "fill"), is_unchunked, trait="rows")
"""Rows per copy."""
ROWS_ALWAYS = Decision("rows", ("1", "fill"), trait="rows")
HOIST = Decision("hoist", ("once", "each"), is_unchunked, trait="shared")
"""Whether a vector shared by all rows is copied once or with every tile."""
KEEP = Decision("keep", ("kept", "again"), is_unchunked, trait="kept")
"""Whether values that several passes need are kept or computed again."""
STORE = Decision("store", ("copy", "setvalue"), trait="points")
"""Results per row: collected and copied, or written to global memory one by one."""
SPLIT = Decision("split", ("one", "partials"), trait="single")
"""A single result: computed on one core, or from partial results in the workspace after all cores synchronise."""
BANKS = Decision("banks", ("plain", "apart"))
"""Whether buffers are placed so that two sources of an instruction use different banks."""


def unless_together(*decisions: Decision) -> tuple[Decision, ...]:
    """The decisions, which do not apply to rows that are processed together."""

    def wrap(when: Callable[[Choice], bool]) -> Callable[[Choice], bool]:
        return lambda choice: choice.get("algorithm") != "together" and when(choice)

    return tuple(decision._replace(when=wrap(decision.when)) for decision in decisions)


COMMON = (STAGING, DEPTH, DEPTH_TIGHT, RELEASE, TILE, TAIL, SHARE, SHARE_FLAT, BANKS)
ROW_COMMON = (*unless_together(STAGING, DEPTH, DEPTH_TIGHT, RELEASE, TILE, TAIL), SHARE, SHARE_FLAT, *unless_together(BANKS))
"""Those of templates with reductions along rows."""
MATHS = (TEMPS, TEMPS_LIBRARY, DIVIDE, TANH)


def multiply_extents(axes: Sequence[int]) -> str:
    """The product of some extents as text."""
    return " * ".join(f"n{i}" for i in axes) or "1"


def unravel_index(axes: Sequence[int], flat: str) -> list[str]:
    """Lines that compute the index of each loop from a flat index over all of them."""
    lines = []
    for at, i in enumerate(axes):
        inner_extents = multiply_extents(axes[at + 1 :])
        inner = flat if inner_extents == "1" else f"{flat} / ({inner_extents})"
        lines.append(f"const uint64_t i{i} = {inner if at == 0 else f'{inner} % n{i}'};")
    return lines
