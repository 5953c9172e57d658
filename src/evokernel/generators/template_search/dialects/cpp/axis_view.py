"""One tensor gone along one axis: what lies before the axis, along it and behind it."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cpp.common_decisions import extents
from evokernel.generators.template_search.dialects.cpp.operand_access import Argument, Call, leaves, reads_of
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described

STARTS = {"sum": "0.0f", "prod": "1.0f"}
SIGNS = {"sum": "+", "prod": "*"}


def line(form: Form) -> Described:
    """The three extents of a scan or of a search for an extreme, and its kind."""
    along = [i for i, a in enumerate(form.axes) if a.reduced]
    if len(along) != 1:
        raise NoSketch(f"a {form.family} over one element or several axes")
    if form.operands[0].node.dtype == "float64":
        raise NoSketch(f"a {form.family} of float64")
    at = along[0]
    outer, inner = (" * ".join(f"n{i}" for i in part) for part in (range(at), range(at + 1, len(form.axes))))
    reads, kind = reads_of(form.operands), form.heavy[0].name
    facts = {
        "kind": kind, "T": reads[0].kind, "outer": outer or "1", "n": f"n{at}", "inner": inner or "1", "strided": bool(inner),
        "has_math": False,
        "start": STARTS.get(kind, ""), "sign": SIGNS.get(kind, ""),
        "f": Call("body", (Argument("full", "from", ""),)),
        "onto": Call("body", (Argument("full", "before", ""), Argument("full", "from", ""))),
    }  # fmt: skip
    return Described((*leaves(reads), *extents(form.axes)), facts, frozenset({"strided" if inner else "inner"}))
