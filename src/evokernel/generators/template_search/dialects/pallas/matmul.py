"""Matrix products, plain or batched, block by block on the matrix unit, with elementwise steps on each block of the result."""

from __future__ import annotations

from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import CONVERT, DIVIDE, LIMIT, PRECISION, SEMANTICS, divides
from evokernel.generators.template_search.dialects.pallas.emit import function
from evokernel.generators.template_search.forms import RESULT, Form
from evokernel.generators.template_search.graph import NoSketch, walk
from evokernel.generators.template_search.sketch import Described, Given, Sketch, free_numbers, named


@dataclass(frozen=True)
class View:
    """A tensor read after the product: its extents, its block's and where that lies, over batch, rows and columns."""

    name: str
    present: tuple[bool, bool, bool]

    @property
    def shape(self) -> tuple[str, ...]:
        return self.over("count", "m", "n")

    def over(self, *texts: str, absent: str = "1") -> tuple[str, ...]:
        """One text per loop, another where the tensor does not follow it."""
        return tuple(text if there else absent for text, there in zip(texts, self.present[-len(texts) :]))


def is_deep(taken: Choice) -> bool:
    """Whether a product is added up over several steps."""
    return taken.get("chunk", "all") != "all"


def describe(form: Form) -> Described:
    """The factors as matrices, or as batches of them, and what follows the product."""
    (a, b), (rows_a, rows_b) = form.tensors, form.in_order
    if form.root.dtype not in ("float32", "bfloat16"):
        raise NoSketch(f"a product with a {form.root.dtype} result")
    names, free = named(form.operands), free_numbers(form.root)
    result = next((n for n in walk(form.after) if n.name == RESULT), None) if form.after else None

    def after(divide: str) -> str:
        if form.after is None or result is None:
            return ""
        return function("after", form.after, {result: "total", **names}, divide, numbers=free)

    after("exact")
    batched = len(b.shape) > 2
    views = [View(names[o.node], (o.present[0], o.present[1], o.present[2])) for o in form.operands]
    facts = {
        "after": after, "operands": views, "batched": batched, "left": "mk" if rows_a else "km", "right": "kn" if rows_b else "nk",
        "widened": [name for name, x in (("a", a), ("b", b)) if x.dtype != "float32"], "out_type": form.root.dtype,
    }  # fmt: skip
    given = (Given("a", a), Given("b", b), *(Given(names[o.node], o.node) for o in form.operands), *(Given(s, n) for n, s in free.items()))
    traits = {
        "batched" if batched else "plain": True, "divide": form.after is not None and divides(form.after),
        "narrow": all(x.dtype in ("bfloat16", "int8") for x in (a, b)), "rounded": form.root.dtype != "float32",
    }  # fmt: skip
    return Described(given, facts, frozenset(name for name, holds in traits.items() if holds))


sketch = Sketch(
    decisions=(
        Decision("left", ("mk", "km"), trait="plain"),
        Decision("right", ("kn", "nk")),
        Decision("rows", ("32", "64", "128", "256", "512"), one_of("left", "mk"), trait="plain"),
        Decision("rows", ("128", "256", "384", "512"), one_of("left", "km"), trait="plain"),
        Decision("cols", ("64", "128", "256", "384", "512", "768"), trait="plain"),
        Decision("chunk", ("all", "128", "256", "512"), trait="plain"),
        Decision("fill", ("pad", "mask", "last", "none"), is_deep, trait="plain"),
        Decision("acc", ("scratch", "out"), is_deep, trait="plain", without="rounded"),
        Decision("order", ("rows", "cols"), trait="plain"),
        Decision("batch", ("1", "2", "4", "8", "16"), trait="batched"),
        Decision("rows", ("all", "32", "60", "64", "128"), trait="batched"),
        Decision("cols", ("all", "128", "256"), trait="batched"),
        Decision("loop", ("unrolled", "loop", "together"), trait="batched"),
        DIVIDE, CONVERT,
        PRECISION._replace(options=("highest", "default", "split", "thirds"), when=lambda taken: taken.get("convert") != "inside"),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
