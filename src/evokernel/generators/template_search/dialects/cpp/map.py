"""Elementwise steps: one inner loop per row of the innermost axes."""

from __future__ import annotations

from dataclasses import replace

from evokernel.generators.template_search.dialects.cpp.common_decisions import (
    ALIAS,
    INDEX,
    LANES,
    MATH,
    ORDER,
    SIMD,
    TAIL,
    THREADS,
    UNROLL,
    extents,
    numbers,
    position,
)  # fmt: skip
from evokernel.generators.template_search.dialects.cpp.operand_access import argument, called, leaves, precision, reads_of
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.sketch import Described, Sketch, free_numbers


def describe(form: Form) -> Described:
    """The loops over the output, and where each tensor is read."""
    free, last = free_numbers(form.root), len(form.axes) - 1
    reads = reads_of(form.operands)
    args = {r.node: replace(argument(r), name="begin" if r.inner and not r.kind else r.name) for r in reads}
    body, call = called("body", form.root, args, free)
    facts = {
        "body": body, "f": call, "reads": reads, "last": last, "flat": position(list(range(last))),
        "places": any(r.inner and not r.kind for r in reads), "scalar_params": "".join(f", float {s}" for s in free.values()),
        "scalars": "".join(f", {s}" for s in free.values()), "has_math": form.uses_math, **precision(form.root),
    }  # fmt: skip
    traits = ({"broadcast"} if last > 0 else set()) | ({"math"} if form.uses_math else set())
    return Described((*leaves(reads), *extents(form.axes), *numbers(free)), facts, frozenset(traits))


sketch = Sketch(decisions=(ORDER._replace(trait="broadcast"), SIMD, LANES, UNROLL, TAIL, MATH, ALIAS, INDEX, THREADS), describe=describe)
