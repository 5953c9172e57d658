"""The decisions each Pallas sketch leaves open."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.sweep.decisions import Choice, Decision, one_of


def is_piped(taken: Choice) -> bool:
    """Whether the grid does the copying, so that its dimensions can be described."""
    return taken.get("pipeline", "grid") == "grid"


ROWS = Decision("rows", ("8", "12", "32", "64", "128", "256", "512", "1024"))
PIPELINE = Decision("pipeline", ("grid", "emit", "manual"))
DEPTH = Decision("depth", ("2", "3", "4"), one_of("pipeline", "manual"))
EDGE = Decision("edge", ("clip", "pad", "floor"), lambda taken: taken.get("pipeline") != "manual")
STRIP = Decision("strip", ("none", "8", "32", "128"))
DIVIDE = Decision("divide", ("exact", "reciprocal", "approx"), trait="divide")
SEMANTICS = Decision("semantics", ("arbitrary", "parallel"), is_piped)
LIMIT = Decision("limit", ("default", "64"))

SKETCHES: Mapping[str, tuple[Decision, ...]] = {
    "map": (
        Decision("view", ("rows", "flat"), trait="flat"),
        Decision("width", ("128", "512", "1024", "4096"), one_of("view", "flat")),
        PIPELINE,
        ROWS,
        Decision("cols", ("all", "100", "256", "512"), lambda taken: taken.get("view") != "flat" and taken["pipeline"] != "manual"),
        DEPTH, EDGE, STRIP, DIVIDE, SEMANTICS, LIMIT,
    ),
    "row": (
        Decision("algorithm", ("whole", "lanes", "chunks")),
        PIPELINE._replace(when=one_of("algorithm", "whole", "lanes")),
        ROWS,
        Decision("chunk", ("128", "256", "512"), one_of("algorithm", "chunks")),
        Decision("mask", ("iota", "none"), one_of("algorithm", "lanes", "chunks")),
        DEPTH,
        EDGE._replace(when=lambda taken: taken["algorithm"] != "chunks" and taken["pipeline"] != "manual"),
        STRIP._replace(when=one_of("algorithm", "whole", "lanes")),
        DIVIDE,
        SEMANTICS._replace(when=lambda taken: taken["algorithm"] != "chunks" and is_piped(taken)),
        SEMANTICS._replace(options=("arbitrary", "parallel", "all"), when=one_of("algorithm", "chunks")),
        LIMIT,
    ),
}  # fmt: skip
