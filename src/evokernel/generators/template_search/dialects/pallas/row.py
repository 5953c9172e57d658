"""Several reductions over the same loops, each of which may use those before, and what becomes of every element or of every row."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    BUFFERS,
    CONVERT,
    DIVIDE,
    EDGE_INSIDE,
    IN_LANES,
    LANES,
    LIMIT,
    MASK,
    NEST_CHUNK,
    NEST_LANES,
    NEST_ROWS,
    NEST_WHOLE,
    PIPELINE,
    PRODUCT,
    ROW_CHUNK,
    ROWS,
    SEMANTICS,
    STRIP,
    TAIL_CHUNK,
    TURN,
    VIEW,
    WHOLE,
    always,
    is_piped,
    is_rows,
    is_turned,
    is_whole,
)  # fmt: skip
from evokernel.generators.template_search.dialects.pallas.emit import function
from evokernel.generators.template_search.dialects.pallas.loop_nests import described, given, traits
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch, equal_shapes
from evokernel.generators.template_search.sketch import Described, Sketch, free_numbers


def describe(form: Form) -> Described:
    """Every layout the loops allow; the result is as large as what is read, or as a reduction."""
    if not any(a.reduced for a in form.axes):
        raise NoSketch("a reduction over axes of extent one")
    names = {o.node: f"x{i}" for i, o in enumerate(form.operands)}
    free = free_numbers(form.root)

    def whole(divide: str, axis: int | str, valid: str = "") -> str:
        return function("body", form.root, names, divide, valid, axis, free)

    whole("exact", 1)
    facts = described(form, names, free, equal_shapes(form.root.shape, form.heavy[0].args[0].shape))
    return Described(given(form, names, free), {**facts, "whole": whole}, frozenset(traits(form, facts)))


def is_plain(taken: Choice) -> bool:
    """Whether whole rows lie in blocks of rows and columns."""
    return is_rows(taken) and is_whole(taken)


sketch = Sketch(
    decisions=(
        VIEW, WHOLE, NEST_WHOLE,
        PIPELINE._replace(when=is_plain, trait="some"),
        TURN._replace(when=lambda taken: is_plain(taken) and is_piped(taken), trait="some"),
        ROWS._replace(when=lambda taken: is_rows(taken) and not is_turned(taken)),
        IN_LANES._replace(when=is_turned),
        NEST_ROWS, NEST_LANES, LANES._replace(trait="single"), ROW_CHUNK, NEST_CHUNK, TAIL_CHUNK,
        MASK, MASK._replace(when=always, trait="single"), BUFFERS, EDGE_INSIDE,
        STRIP._replace(when=lambda taken: is_plain(taken) and not is_turned(taken), trait="some"),
        PRODUCT, DIVIDE, CONVERT,
        SEMANTICS._replace(trait="some"), LIMIT,
    ),
    describe=describe,
)  # fmt: skip
