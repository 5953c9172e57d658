"""Decisions that many Pallas templates share."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.graph import Node, walk


def is_grid_pipeline(choice: Choice) -> bool:
    """Whether the grid copies the blocks, so that the semantics of its dimensions apply."""
    return choice.get("pipeline", "grid") == "grid"


def is_unchunked(choice: Choice) -> bool:
    """Whether blocks hold complete rows, so that grid steps are independent."""
    return choice.get("algorithm") != "chunks"


def is_transposed(choice: Choice) -> bool:
    """Whether the elements of one row are in one lane."""
    return choice.get("turn") == "yes"


def is_nest_view(choice: Choice) -> bool:
    """Whether blocks have one axis per loop."""
    return choice.get("view") == "nest"


def is_row_view(choice: Choice) -> bool:
    """Whether all arrays are viewed as rows and columns."""
    return not is_nest_view(choice)


def always(choice: Choice) -> bool:
    """A condition that always holds: the trait alone decides."""
    return True


ROWS = Decision("rows", ("8", "12", "32", "64", "128", "256", "512", "2048"))
IN_LANES = Decision("rows", ("100", "128", "256", "512", "2048"))
"""The same if rows are in lanes."""
PIPELINE = Decision("pipeline", ("grid", "emit", "manual"))
BUFFERS = Decision("buffers", ("2", "3", "4"), one_of("pipeline", "manual"))
EDGE = Decision("edge", ("clip", "pad", "floor"), is_grid_pipeline)
EDGE_INSIDE = Decision("edge", ("clip", "pad"), one_of("pipeline", "emit"))
STRIP = Decision("strip", ("none", "8", "32", "128"))
DIVIDE = Decision("divide", ("exact", "reciprocal", "approx"), trait="divide")
SEMANTICS = Decision("semantics", ("arbitrary", "parallel"), is_grid_pipeline)
ACROSS = Decision("semantics", ("arbitrary", "parallel", "all"), one_of("algorithm", "chunks"))
"""Dimension semantics of a grid that accumulates along one dimension."""
TURN = Decision("turn", ("no", "yes"))
LIMIT = Decision("limit", ("default", "64"))
CHUNK = Decision("chunk", ("128", "256", "512"), one_of("algorithm", "chunks"))
MASK = Decision("mask", ("iota", "none"), one_of("algorithm", "chunks"))
LANES = Decision("lanes", ("100", "128", "512", "1024"))
PRECISION = Decision("precision", ("highest", "default", "split"))
EXACT = PRECISION._replace(options=("highest", "thirds", "default"))
"""The same if a product must reproduce elements exactly."""
PASSES = PRECISION._replace(options=("highest", "default"))
"""The same if three passes are not an advantage or not enough."""
VIEW = Decision("view", ("rows", "nest"), trait="nest")
"""Reductions over rows, with axes moved and tensors broadcast outside the kernel, or over blocks with all loops."""
ROW_CHUNK = Decision("chunk", ("128", "512", "2048", "16384"), lambda choice: not is_unchunked(choice) and is_row_view(choice))
NEST_CHUNK = Decision("chunk", ("8", "64", "512"), lambda choice: not is_unchunked(choice) and is_nest_view(choice), excluded_by="tail")
TAIL_CHUNK = NEST_CHUNK._replace(options=("64", "512", "2048"), trait="tail", excluded_by="")
"""The same if the chunked axis is in lanes."""
NEST_ROWS = Decision("rows", ("1", "8", "20", "64"), is_nest_view, trait="outer")
NEST_LANES = LANES._replace(when=is_nest_view, trait="strided")
WHOLE = Decision("algorithm", ("whole", "lanes", "chunks"), is_row_view, trait="some")
NEST_WHOLE = Decision("algorithm", ("whole", "chunks"), is_nest_view, trait="some")
FOLD = Decision("fold", ("each", "end"))
"""Whether each chunk is reduced immediately, or added to a block that is reduced at the end."""
PRODUCT = Decision("product", ("halves", "each"), trait="prod")
"""How a product of elements is computed: the vector unit has no reduction for it."""
CONVERT = Decision("convert", ("outside", "inside"), trait="narrow")
"""Where elements of other types are converted to float32 and back."""
POSITIONS = Decision("positions", ("outside", "inside"), trait="index")
"""Where positions along an axis are computed."""


def has_tensor_division(root: Node) -> bool:
    """Whether a graph divides by a tensor."""
    return any(n.op == "div" and n.args[1].op != "const" for n in walk(root))
