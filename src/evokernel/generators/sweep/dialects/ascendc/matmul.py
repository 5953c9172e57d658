"""Products of matrices, one or a batch, with elementwise steps after them: blocks of rows and columns on the vector unit."""

from __future__ import annotations

from evokernel.generators.sweep.decisions import Choice, Decision
from evokernel.generators.sweep.dialects import Answers
from evokernel.generators.sweep.dialects.ascendc.emit import LIBRARY, Steps, Value, fold
from evokernel.generators.sweep.dialects.ascendc.nests import taken
from evokernel.generators.sweep.dialects.ascendc.parts import BANKS, DEPTH, MATHS, RELEASE, SHARE, STAGING, TAIL, numbers
from evokernel.generators.sweep.dialects.ascendc.reads import Read
from evokernel.generators.sweep.forms import RESULT, Form
from evokernel.generators.sweep.nodes import NoSketch, walk
from evokernel.generators.sweep.sketch import Described, Given, Sketch, free_numbers

OUTSIDE = {(True, True): "(o * M + r)", (True, False): "o", (False, True): "r", (False, False): "0"}
"""Where the row of an operand lies, by whether it changes with the batch and with the row."""


def describe(form: Form) -> Described:
    """Sizes and layouts of the factors, and what follows."""
    (a, b), (rows_a, rows_b) = form.tensors, form.in_order
    if any(n.dtype != "float32" for n in (a, b, form.root, *(o.node for o in form.operands))):
        raise NoSketch("a product of other than float32")
    batch, m, n = (axis.extent for axis in form.axes)
    rows_a, rows_b = rows_a or m.is_one, rows_b and not n.is_one
    if not rows_a and not rows_b:
        raise NoSketch("a product of two factors stored by columns")
    after = form.after
    free = free_numbers(after) if after is not None else {}
    reads = []
    for i, o in enumerate(form.operands):
        by_batch, by_row, inner = o.present
        outside = OUTSIDE[by_batch, by_row]
        reads.append(Read(o.node, f"e{i}", inner, False, False, f"{outside} * N + c" if inner else outside))

    def epilogue(d: Answers | Choice) -> Steps:
        """From a row of the product to a row of the output."""
        given = {r.node: r.value for r in reads}
        result = next((x for x in walk(after) if x.op == "leaf" and x.name == RESULT), None) if after is not None else None
        if result is not None:
            given[result] = Value("line", True)
        steps = Steps(given, free, taken(d))
        if after is None:
            steps.say("Adds(y, line, 0.0f, count);")
        else:
            steps.expect(after)
            steps.into(after, "y")
        return steps

    if "bits" in epilogue({}).needs:
        raise NoSketch("a product followed by a comparison")
    k = a.shape[-1] if form.in_order[0] else a.shape[-2]
    sizes = (Given("batch", batch), Given("M", m), Given("N", n), Given("K", k))
    given = (Given("left", a), Given("right", b), *(Given(r.name, r.node) for r in reads), *sizes, *numbers(free))
    facts = {"rows_a": rows_a, "rows_b": rows_b, "batched_b": len(b.shape) > 2, "reads": reads, "epilogue": epilogue, "fold": fold}

    def differs(name: str, *options: str) -> bool:
        texts = [(s.lines, s.temps) for s in (epilogue({name: option}) for option in options)]
        return texts[0] != texts[1]

    nodes = walk(after) if after is not None else []
    traits = {
        "dots": not rows_b, "axpy": rows_b, "tanh": any(x.op == "tanh" for x in nodes), "divide": differs("divide", "div", "reciprocal"),
        "library": any(x.op in LIBRARY for x in nodes) and differs("temps", "reuse", "inplace"),
        "temps": differs("temps", "reuse", "fresh"),
    }  # fmt: skip
    return Described(given, facts, frozenset(name for name, holds in traits.items() if holds))


sketch = Sketch(
    decisions=(
        Decision("block", ("1", "4", "8")),
        Decision("columns", ("32", "64", "256", "1024")),
        Decision("ktile", ("16", "64", "256")),
        Decision("accumulate", ("axpy", "muladd"), trait="axpy"),
        Decision("reduce", ("level", "halves", "scalar"), trait="dots"),
        STAGING, DEPTH, RELEASE, TAIL, SHARE, BANKS, *MATHS,
    ),
    describe=describe,
)  # fmt: skip
"""Rows and columns of a block, and how much of what is summed lies in local memory."""
