"""Decisions that many Pallas sketches share, and arrays as rows and columns."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.graph import Node, walk


def is_piped(taken: Choice) -> bool:
    """Whether the grid does the copying, so that its dimensions can be described."""
    return taken.get("pipeline", "grid") == "grid"


def is_whole(taken: Choice) -> bool:
    """Whether whole rows are in a block, so that steps are independent."""
    return taken.get("algorithm") != "chunks"


def is_turned(taken: Choice) -> bool:
    """Whether what belongs to one row lies in one lane."""
    return taken.get("turn") == "yes"


def is_nest(taken: Choice) -> bool:
    """Whether blocks have an axis for every loop."""
    return taken.get("view") == "nest"


def is_rows(taken: Choice) -> bool:
    """Whether everything is laid out as rows and columns."""
    return not is_nest(taken)


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
EXACT = PRECISION._replace(options=("highest", "thirds", "default"))
"""The same where elements have to come through a product as they are."""
PASSES = PRECISION._replace(options=("highest", "default"))
"""The same where three passes are no gain, or not enough."""
VIEW = Decision("view", ("rows", "nest"), trait="nest")
"""Reductions as rows, axes moved and tensors stretched outside, or as blocks with all loops."""
ROW_CHUNK = Decision("chunk", ("128", "512", "2048"), lambda taken: not is_whole(taken) and is_rows(taken))
NEST_CHUNK = Decision("chunk", ("8", "64", "512"), lambda taken: not is_whole(taken) and is_nest(taken), without="tail")
TAIL_CHUNK = NEST_CHUNK._replace(options=("64", "512", "2048"), trait="tail", without="")
"""The same where what comes in chunks lies in lanes."""
NEST_ROWS = Decision("rows", ("1", "8", "20", "64"), is_nest, trait="outer")
NEST_LANES = LANES._replace(when=is_nest, trait="strided")
WHOLE = Decision("algorithm", ("whole", "lanes", "chunks"), is_rows, trait="some")
NEST_WHOLE = Decision("algorithm", ("whole", "chunks"), is_nest, trait="some")
FOLD = Decision("fold", ("each", "end"))
"""Whether a chunk is reduced at once or added to a block that is reduced at the end."""
PRODUCT = Decision("product", ("halves", "each"), trait="prod")
"""How elements are multiplied up: the vector unit has no reduction for that."""
CONVERT = Decision("convert", ("outside", "inside"), trait="narrow")
"""Where elements that are not float32 become so, and back."""
POSITIONS = Decision("positions", ("outside", "inside"), trait="index")
"""Where positions along an axis are counted."""


def divides(root: Node) -> bool:
    """Whether anything is divided by a tensor."""
    return any(n.op == "div" and n.args[1].op != "const" for n in walk(root))
