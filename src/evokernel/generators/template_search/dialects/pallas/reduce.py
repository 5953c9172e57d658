"""One reduction over any of the loops, elementwise steps before it and after it."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    ACROSS,
    CONVERT,
    DIVIDE,
    FOLD,
    IN_LANES,
    LANES,
    LIMIT,
    MASK,
    NEST_CHUNK,
    NEST_LANES,
    NEST_ROWS,
    NEST_WHOLE,
    PASSES,
    PRODUCT,
    ROW_CHUNK,
    ROWS,
    SEMANTICS,
    TAIL_CHUNK,
    TURN,
    VIEW,
    WHOLE,
    always,
    is_rows,
    is_whole,
)  # fmt: skip
from evokernel.generators.template_search.dialects.pallas.emit import START, function
from evokernel.generators.template_search.dialects.pallas.layouts import Layout
from evokernel.generators.template_search.dialects.pallas.loop_nests import described, given, traits
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch, reached
from evokernel.generators.template_search.sketch import Described, Sketch, free_numbers


def describe(form: Form) -> Described:
    """The steps before the reduction, the reduction and the steps after it, as one function and apart."""
    (heavy,) = form.heavy
    if not any(a.reduced for a in form.axes):
        raise NoSketch("a reduction over axes of extent one")
    names = {o.node: f"x{i}" for i, o in enumerate(form.operands)}
    free = free_numbers(form.root)
    facts = described(form, names, free, False)
    before = reached(heavy.args[0], set())
    after = reached(form.root, {heavy})
    first = {x: n for x, n in names.items() if x in before}
    # What is read after the reduction may lie otherwise than what is read before it.
    last = {heavy: "total", **{x: n.replace("x", "e") for x, n in names.items() if x in after}}

    def whole(divide: str, axis: int | str, valid: str = "") -> str:
        return function("body", form.root, names, divide, valid, axis, free)

    def apart(divide: str) -> list[str]:
        return [function("body", heavy.args[0], first, divide, numbers=free), function("finish", form.root, last, divide, numbers=free)]

    whole("exact", 1)
    fold = "sum" if heavy.name == "mean" else heavy.name
    layout = facts["layouts"].get("rows") if isinstance(facts["layouts"], dict) else None
    views = layout.views if isinstance(layout, Layout) else ()
    facts |= {
        "whole": whole, "apart": apart, "fold": fold, "start": START[fold], "is_mean": heavy.name == "mean",
        "before": [v for v in views if v.name in first.values()],
        "after": [v for v in views if v.name.replace("x", "e") in last.values()],
    }  # fmt: skip
    found = traits(form, facts) | ({"sum"} if fold == "sum" else set())
    return Described(given(form, names, free), facts, frozenset(found))


def is_column(taken: Choice) -> bool:
    """Whether the results of rows lie one below the other."""
    return taken.get("algorithm", "chunks") == "chunks" or taken.get("out") == "column"


sketch = Sketch(
    decisions=(
        VIEW,
        Decision("algorithm", ("whole", "chunks", "product"), is_rows, trait="sum", without="single"),
        WHOLE._replace(options=("whole", "chunks"), without="sum"),
        NEST_WHOLE,
        TURN._replace(when=lambda taken: is_rows(taken) and taken["algorithm"] == "whole", trait="some"),
        Decision("out", ("column", "lanes"), lambda taken: taken.get("turn") == "no", trait="some"),
        ROWS._replace(when=lambda taken: is_rows(taken) and is_column(taken)),
        IN_LANES._replace(when=lambda taken: is_rows(taken) and not is_column(taken)),
        NEST_ROWS, NEST_LANES, LANES._replace(trait="single"), ROW_CHUNK, NEST_CHUNK, TAIL_CHUNK,
        MASK, MASK._replace(when=always, trait="single"),
        FOLD._replace(when=one_of("algorithm", "chunks")), FOLD._replace(trait="single"),
        PASSES._replace(when=one_of("algorithm", "product")),
        PRODUCT, DIVIDE, CONVERT,
        SEMANTICS._replace(when=is_whole, trait="some"), ACROSS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
