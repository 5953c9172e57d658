"""The place of the largest or smallest element along one axis; of several equals the first."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    ACROSS,
    CHUNK,
    IN_LANES,
    LANES,
    LIMIT,
    MASK,
    ROWS,
    SEMANTICS,
    TURN,
    is_turned,
    is_whole,
)  # fmt: skip
from evokernel.generators.template_search.dialects.pallas.layouts import along
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Sketch


def describe(form: Form) -> Described:
    """Sizes before, along and after the axis."""
    (heavy,), (x,) = form.heavy, form.tensors
    if len(heavy.dims) != 1:
        raise NoSketch(f"{heavy.name} over several axes")
    given, is_strided = along(x, heavy.dims[0])
    facts = {"strided": is_strided, "fold": heavy.name.removeprefix("arg"), "kind": x.dtype}
    return Described(given, facts, frozenset({"strided" if is_strided else "rows"}))


def is_in_lanes(taken: Choice) -> bool:
    """Whether the places found lie side by side."""
    return taken.get("out") == "lanes" or is_turned(taken)


sketch = Sketch(
    decisions=(
        Decision("algorithm", ("native", "equal", "last", "chunks"), trait="rows"),
        Decision("algorithm", ("native", "equal", "last"), trait="strided"),
        LANES._replace(trait="strided"),
        TURN._replace(when=is_whole, trait="rows"),
        Decision("out", ("column", "lanes"), lambda taken: is_whole(taken) and not is_turned(taken), trait="rows"),
        ROWS._replace(when=lambda taken: not is_in_lanes(taken), trait="rows"),
        IN_LANES._replace(when=is_in_lanes, trait="rows"),
        CHUNK, MASK,
        SEMANTICS._replace(when=is_whole),
        ACROSS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
