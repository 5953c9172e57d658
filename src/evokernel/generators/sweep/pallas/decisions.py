"""The decisions each Pallas sketch leaves open."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.sweep.decisions import Choice, Decision, one_of


def is_piped(taken: Choice) -> bool:
    """Whether the grid does the copying, so that its dimensions can be described."""
    return taken.get("pipeline", "grid") == "grid"


def is_whole(taken: Choice) -> bool:
    """Whether whole rows are in a block, so that steps are independent."""
    return taken.get("algorithm") != "chunks"


def is_deep(taken: Choice) -> bool:
    """Whether a product is added up over several steps."""
    return taken.get("chunk", "all") != "all"


def is_turned(taken: Choice) -> bool:
    """Whether what belongs to one row lies in one lane."""
    return taken.get("turn") == "yes"


def always(taken: Choice) -> bool:
    """A question that arises wherever the trait is."""
    return True


ROWS = Decision("rows", ("8", "12", "32", "64", "128", "256", "512", "2048"))
IN_LANES = Decision("rows", ("100", "128", "256", "512", "2048"))
"""The same where rows lie in lanes."""
PIPELINE = Decision("pipeline", ("grid", "emit", "manual"))
BUFFERS = Decision("buffers", ("2", "3", "4"), one_of("pipeline", "manual"))
EDGE = Decision("edge", ("clip", "pad", "floor"), is_piped)
EDGE_INSIDE = Decision("edge", ("clip", "pad"), one_of("pipeline", "emit"))
STRIP = Decision("strip", ("none", "8", "32", "128"))
DIVIDE = Decision("divide", ("exact", "reciprocal", "approx"), trait="divide")
SEMANTICS = Decision("semantics", ("arbitrary", "parallel"), is_piped)
ACROSS = Decision("semantics", ("arbitrary", "parallel", "all"), one_of("algorithm", "chunks"))
"""What is said about a grid one dimension of which adds up."""
TURN = Decision("turn", ("no", "yes"))
LIMIT = Decision("limit", ("default", "64"))
CHUNK = Decision("chunk", ("128", "256", "512"), one_of("algorithm", "chunks"))
MASK = Decision("mask", ("iota", "none"), one_of("algorithm", "chunks"))
LANES = Decision("lanes", ("100", "128", "512", "1024"))
PRECISION = Decision("precision", ("highest", "default", "split"))
PASSES = PRECISION._replace(options=("highest", "default"))
"""The same where three passes are no gain, or not enough."""

SKETCHES: Mapping[str, tuple[Decision, ...]] = {
    "map": (
        Decision("view", ("rows", "flat"), trait="flat"),
        Decision("width", ("128", "512", "1024", "4096"), one_of("view", "flat")),
        PIPELINE,
        ROWS,
        Decision("cols", ("all", "100", "256", "512"), lambda taken: taken.get("view") != "flat" and taken["pipeline"] != "manual"),
        BUFFERS, EDGE, EDGE_INSIDE, STRIP, DIVIDE, SEMANTICS, LIMIT,
    ),
    "row": (
        Decision("algorithm", ("whole", "lanes", "chunks")),
        PIPELINE._replace(when=is_whole),
        TURN._replace(when=lambda taken: is_whole(taken) and is_piped(taken)),
        ROWS._replace(when=lambda taken: not is_turned(taken)),
        IN_LANES._replace(when=is_turned),
        CHUNK, MASK, BUFFERS, EDGE_INSIDE,
        STRIP._replace(when=lambda taken: is_whole(taken) and not is_turned(taken)),
        DIVIDE, SEMANTICS, LIMIT,
    ),
    "reduce": (
        Decision("algorithm", ("whole", "chunks"), trait="rows", without="sum"),
        Decision("algorithm", ("whole", "chunks", "product"), trait="sum", without="strided"),
        LANES._replace(trait="strided"),
        LANES._replace(trait="single"),
        TURN._replace(when=one_of("algorithm", "whole"), trait="rows"),
        Decision("out", ("column", "lanes"), lambda taken: taken["algorithm"] != "product" and not is_turned(taken), trait="rows"),
        ROWS._replace(when=one_of("out", "column"), trait="rows"),
        IN_LANES._replace(when=lambda taken: taken.get("out") != "column", trait="rows"),
        ROWS._replace(trait="single"),
        CHUNK._replace(trait="rows"),
        PASSES._replace(when=one_of("algorithm", "product"), trait="rows"),
        MASK._replace(trait="rows"),
        MASK._replace(when=always, trait="single"),
        SEMANTICS._replace(when=is_whole),
        ACROSS,
        LIMIT,
    ),
    "argreduce": (
        Decision("algorithm", ("native", "equal", "last", "chunks"), trait="rows"),
        Decision("algorithm", ("native", "equal", "last"), trait="strided"),
        LANES._replace(trait="strided"),
        TURN._replace(when=is_whole, trait="rows"),
        Decision("out", ("column", "lanes"), lambda taken: is_whole(taken) and not is_turned(taken), trait="rows"),
        ROWS._replace(when=lambda taken: taken.get("out") != "lanes" and not is_turned(taken), trait="rows"),
        IN_LANES._replace(when=lambda taken: taken.get("out") == "lanes" or is_turned(taken), trait="rows"),
        CHUNK, MASK,
        SEMANTICS._replace(when=is_whole),
        ACROSS, LIMIT,
    ),
    "matmul": (
        Decision("right", ("kn", "nk")),
        Decision("rows", ("32", "64", "128", "256", "512"), trait="plain"),
        Decision("cols", ("64", "128", "256", "384", "512"), trait="plain"),
        Decision("chunk", ("all", "128", "256", "512"), trait="plain"),
        Decision("fill", ("pad", "mask", "none"), is_deep, trait="plain"),
        Decision("acc", ("scratch", "out"), is_deep, trait="plain"),
        Decision("order", ("rows", "cols"), trait="plain"),
        Decision("batch", ("1", "2", "4", "8", "16"), trait="batched"),
        Decision("rows", ("all", "32", "60"), trait="batched"),
        Decision("loop", ("unrolled", "loop", "together"), trait="batched"),
        PRECISION,
        SEMANTICS, LIMIT,
    ),
    "attention": (
        Decision("algorithm", ("whole", "turned", "chunks")),
        Decision("rows", ("32", "64", "100", "128", "256"), one_of("algorithm", "whole", "chunks")),
        Decision("rows", ("100", "128", "256"), one_of("algorithm", "turned")),
        Decision("span", ("64", "128", "256"), one_of("algorithm", "chunks")),
        Decision("fill", ("pad", "mask", "none"), one_of("algorithm", "chunks")),
        Decision("divide", ("after", "before"), is_whole),
        Decision("divide", ("after", "approx"), one_of("algorithm", "chunks")),
        PASSES,
        PRECISION._replace(name="mixing", options=("highest", "split")),
        SEMANTICS, LIMIT,
    ),
    "crossentropy": (
        TURN,
        ROWS._replace(when=lambda taken: not is_turned(taken)),
        IN_LANES._replace(when=is_turned),
        Decision("pick", ("select", "product")),
        Decision("edge", ("mask", "pad", "none")),
        Decision("sums", ("inside", "outside")),
        SEMANTICS, LIMIT,
    ),
    "scan": (
        Decision("algorithm", ("triangle", "chunks", "shift"), trait="rows"),
        Decision("algorithm", ("triangle", "serial"), trait="strided"),
        LANES._replace(trait="strided"),
        ROWS._replace(options=ROWS.options[:6], trait="rows"),
        Decision("chunk", ("128", "256", "512"), one_of("algorithm", "triangle", "chunks"), trait="rows"),
        Decision("shift", ("roll", "concatenate"), one_of("algorithm", "shift")),
        PASSES._replace(when=one_of("algorithm", "triangle", "chunks")),
        MASK, SEMANTICS._replace(when=is_whole), ACROSS, LIMIT,
    ),
    "gather": (
        Decision("rows", ("20", "64", "128", "256", "512")),
        Decision("lanes", ("all", "128")),
        Decision("buffers", ("1", "2")),
        Decision("store", ("row", "tile")),
        Decision("unroll", ("2", "4", "8")),
        SEMANTICS, LIMIT,
    ),
    "conv": (
        Decision("hold", ("scratch", "registers"), trait="shifts"),
        Decision("span", ("all", "256", "512", "1024"), one_of("hold", "scratch"), trait="shifts"),
        Decision("span", ("100", "256", "512", "1024"), trait="jumps"),
        PRECISION, SEMANTICS, LIMIT,
    ),
    "pool": (
        Decision("algorithm", ("lanes", "select")),
        Decision("border", ("low", "infinite", "zero"), trait="max"),
        Decision("lanes", ("100", "128", "512"), one_of("algorithm", "lanes")),
        Decision("images", ("1", "4", "16", "64"), one_of("algorithm", "select")),
        Decision("halo", ("outside", "inside"), one_of("algorithm", "select")),
        Decision("loop", ("each", "together"), one_of("algorithm", "select")),
        PASSES._replace(when=one_of("algorithm", "select")),
        SEMANTICS, LIMIT,
    ),
}  # fmt: skip
