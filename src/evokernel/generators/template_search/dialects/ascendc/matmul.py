"""Products of matrices, one or a batch, with elementwise steps after them: on the cube, or row by row on the vector unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects import Answers
from evokernel.generators.template_search.dialects.ascendc.common_decisions import (
    BANKS,
    DEPTH,
    MATHS,
    RELEASE,
    SHARE,
    STAGING,
    TAIL,
    numbers,
)
from evokernel.generators.template_search.dialects.ascendc.emit import LIBRARY, Steps, Value, fold
from evokernel.generators.template_search.dialects.ascendc.loop_nests import taken
from evokernel.generators.template_search.dialects.ascendc.operand_access import Read
from evokernel.generators.template_search.forms import RESULT, Form
from evokernel.generators.template_search.graph import Node, NoSketch, Num, walk
from evokernel.generators.template_search.sketch import Described, Given, Sketch, free_numbers

OUTSIDE = {(True, True): "(o * M + r)", (True, False): "o", (False, True): "r", (False, False): "0"}
"""Where the row of an operand lies, by whether it changes with the batch and with the row."""


def describe(form: Form) -> Described:
    """Sizes and layouts of the factors, and what follows."""
    (a, b), (rows_a, rows_b) = form.tensors, form.in_order
    if any(n.dtype != "float32" for n in (a, b, form.root, *(o.node for o in form.operands))):
        raise NoSketch("a product of other than float32")
    batch, m, n = (axis.extent for axis in form.axes)
    if not (rows_a or m.is_one) and not (rows_b and not n.is_one):
        raise NoSketch("a product of two factors stored by columns")
    after = form.after
    free = free_numbers(after) if after is not None else {}
    reads = []
    for i, o in enumerate(form.operands):
        by_batch, by_row, inner = o.present
        outside = OUTSIDE[by_batch, by_row]
        reads.append(Read(o.node, f"e{i}", inner, False, False, f"{outside} * N + c" if inner else outside))
    epilogue = following(after, reads, free)
    sizes = (Given("batch", batch), Given("M", m), Given("N", n), Given("K", a.shape[-1] if rows_a else a.shape[-2]))
    given = (Given("left", a), Given("right", b), *(Given(r.name, r.node) for r in reads), *sizes, *numbers(free))
    facts = {
        "turned": ", ".join("false" if in_order else "true" for in_order in form.in_order), "in_order": form.in_order,
        "rows_a": rows_a or m.is_one, "rows_b": rows_b and not n.is_one, "batched_b": len(b.shape) > 2,
        "reads": reads, "follows": after is not None, "epilogue": epilogue, "fold": fold,
    }  # fmt: skip
    dots = {"axpy" if facts["rows_b"] else "dots"}
    return Described(given, facts, frozenset(dots | (traits(after, epilogue) if after is not None else set())))


def following(after: Node | None, reads: Sequence[Read], free: Mapping[Num, str]) -> Callable[[Answers | Choice], Steps]:
    """What makes a row of the output of a row of the product, by the decisions taken."""
    given = {r.node: r.value for r in reads}
    given |= {x: Value("line", True) for x in walk(*([after] if after is not None else [])) if x.op == "leaf" and x.name == RESULT}

    def epilogue(d: Answers | Choice) -> Steps:
        steps = Steps(given, free, taken(d))
        if after is None:
            steps.say("Adds(y, line, 0.0f, count);")
        else:
            steps.expect(after)
            steps.into(after, "y")
        return steps

    if "bits" in epilogue({}).needs:
        raise NoSketch("a product followed by a comparison")
    return epilogue


def traits(after: Node, epilogue: Callable[[Answers | Choice], Steps]) -> set[str]:
    """What decisions about the steps that follow depend on."""

    def differs(name: str, *options: str) -> bool:
        texts = [(s.lines, s.temps) for s in (epilogue({name: option}) for option in options)]
        return texts[0] != texts[1]

    nodes = walk(after)
    holds = {
        "epilogue": True, "tanh": any(x.op == "tanh" for x in nodes), "divide": differs("divide", "div", "reciprocal"),
        "temps": differs("temps", "reuse", "fresh"),
        "library": any(x.op in LIBRARY for x in nodes) and differs("temps", "reuse", "inplace"),
    }  # fmt: skip
    return {name for name, there in holds.items() if there}


ON_VECTORS = one_of("unit", "vector")
sketch = Sketch(
    decisions=(
        Decision("unit", ("vector", "cube")),
        Decision("part", ("32", "64", "128", "256"), one_of("unit", "cube")),
        Decision("edge", ("tail", "none"), one_of("unit", "cube")),
        Decision("block", ("1", "4", "8"), ON_VECTORS),
        Decision("columns", ("32", "64", "256", "1024"), ON_VECTORS),
        Decision("ktile", ("16", "64", "256"), ON_VECTORS),
        Decision("accumulate", ("axpy", "muladd"), ON_VECTORS, trait="axpy"),
        Decision("reduce", ("level", "halves", "scalar"), ON_VECTORS, trait="dots"),
        STAGING._replace(when=ON_VECTORS, without="epilogue"), STAGING._replace(trait="epilogue"),
        DEPTH, RELEASE,
        TAIL._replace(when=ON_VECTORS, without="epilogue"), TAIL._replace(trait="epilogue"),
        SHARE,
        BANKS._replace(when=ON_VECTORS, without="epilogue"), BANKS._replace(trait="epilogue"),
        *MATHS,
    ),
    describe=describe,
)  # fmt: skip
"""Vectors take blocks of rows and columns, and so much of what is summed at a time; the cube takes square parts of the result."""
