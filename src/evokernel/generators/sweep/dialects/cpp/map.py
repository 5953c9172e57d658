"""Elementwise steps: one inner loop per row of the innermost axes."""

from __future__ import annotations

from evokernel.generators.sweep.dialects.cpp.emit import function
from evokernel.generators.sweep.dialects.cpp.parts import (
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
    named,
    numbers,
    position,
)  # fmt: skip
from evokernel.generators.sweep.forms import Form
from evokernel.generators.sweep.nodes import NoSketch
from evokernel.generators.sweep.sketch import Described, Given, Sketch, free_numbers


def describe(form: Form) -> Described:
    """The loops over the output, and where each tensor is read."""
    if any(o.node.op == "index" for o in form.operands):
        raise NoSketch("positions in an elementwise kernel")
    if form.root.dtype != "float32":
        raise NoSketch(f"a {form.root.dtype} result")
    names, free, last = named(form.operands), free_numbers(form.root), len(form.axes) - 1
    operands = []
    for o in form.operands:
        inner = bool(form.axes) and o.present[last]
        outer = position([i for i in range(last) if o.present[i]])
        operands.append({"name": names[o.node], "inner": inner, "offset": f"{outer} * n{last}" if inner and outer != "0" else outer})
    args = [{"kind": "full" if o["inner"] else "scalar", "name": o["name"] if o["inner"] else f"{o['name']}[0]"} for o in operands]
    facts = {
        "body": function("body", form.root, names, free), "operands": operands, "last": last, "flat": position(list(range(last))),
        "scalar_params": "".join(f", float {s}" for s in free.values()), "has_math": form.uses_math,
        "f": {"name": "body", "args": args, "extra": "".join(f", {s}" for s in free.values())},
    }  # fmt: skip
    given = (*(Given(names[o.node], o.node) for o in form.operands), *extents(form.axes), *numbers(free))
    traits = {"broadcast"} if last > 0 else set()
    return Described(given, facts, frozenset(traits | ({"math"} if form.uses_math else set())))


sketch = Sketch(decisions=(ORDER._replace(trait="broadcast"), SIMD, LANES, UNROLL, TAIL, MATH, ALIAS, INDEX, THREADS), describe=describe)
