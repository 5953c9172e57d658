"""A convolution over one to three axes, plain or transposed, with elementwise steps after it.

Strides become phases of the image beside each other, a transposed window a mirrored one over an image with zeros between its elements:
every tap is then a shift of a flat image. Taps are laid out as patches before or inside the kernel, or added up one by one.
"""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import DIVIDE, LIMIT, PRECISION, SEMANTICS, divides
from evokernel.generators.template_search.dialects.pallas.emit import function
from evokernel.generators.template_search.dialects.pallas.windows import settings, tuples
from evokernel.generators.template_search.forms import RESULT, Form
from evokernel.generators.template_search.graph import Node, NoSketch, walk
from evokernel.generators.template_search.sketch import Described, Given, Sketch, free_numbers, named


def describe(form: Form) -> Described:
    """Image, weights, settings, and what the steps after it read, by which of images, channels and space each has."""
    (heavy,) = form.heavy
    x, w = form.tensors
    if any(t.dtype != "float32" for t in (x, w)) or form.root.dtype != "float32":
        raise NoSketch("a convolution of other than float32")
    rank, tail = len(heavy.shape) - 2, form.after
    texts, asked = settings(form.numbers)
    strides, paddings, dilations, further = tuples(texts[:-1], rank)
    names, free = named(form.operands), free_numbers(*([tail] if tail else []))
    known: dict[Node, str] = {n: "total" for n in walk(tail) if n.name == RESULT} if tail else {}

    def after(divide: str) -> str:
        return function("after", tail, {**known, **names}, divide, numbers=free) if tail else ""

    after("exact")
    given = (
        Given("x", x), Given("w", w), *(Given(names[o.node], o.node) for o in form.operands), *asked,
        *(Given(s, n) for n, s in free.items()),
    )  # fmt: skip
    facts = {
        "rank": rank, "strides": strides, "paddings": paddings, "dilations": dilations, "further": further, "groups": texts[-1],
        "transposed": heavy.name == "transposed", "after": after, "has_after": tail is not None,
        "by_one": heavy.name == "transposed" or all(n.is_one for n in form.numbers[:rank]),
        "operands": [{"name": names[o.node], **dict(zip(("images", "channels", "space"), o.present))} for o in form.operands],
    }  # fmt: skip
    return Described(given, facts, traits_of(form, x))


def traits_of(form: Form, x: Node) -> frozenset[str]:
    """Whether every channel is its own group, and whether anything is divided after it."""
    groups = form.numbers[-1]
    apart = groups.same(x.shape[1]) and not groups.is_one
    traits = {"apart": apart, "product": not apart, "divide": form.after is not None and divides(form.after)}
    return frozenset(name for name, holds in traits.items() if holds)


def takes_product(taken: Choice) -> bool:
    """Whether the matrix unit does the work."""
    return taken["algorithm"] != "taps"


sketch = Sketch(
    decisions=(
        Decision("algorithm", ("shifts", "rows", "patches"), trait="product"),
        Decision("algorithm", ("taps", "shifts", "patches"), trait="apart"),
        Decision("layout", ("sublanes", "lanes"), one_of("algorithm", "taps")),
        Decision("channels", ("8", "12", "16", "64"), lambda taken: taken.get("layout") == "sublanes"),
        Decision("channels", ("100", "128", "256"), lambda taken: taken.get("layout") == "lanes"),
        Decision("hold", ("scratch", "registers", "none"), one_of("algorithm", "shifts", "rows")),
        Decision("span", ("all", "100", "256", "512", "1024", "2048"), lambda taken: takes_product(taken) and taken.get("hold") != "none"),
        Decision("span", ("100", "256", "512", "1024"), one_of("hold", "none")),
        Decision("edge", ("clip", "pad"), lambda taken: taken.get("span", "all") != "all"),
        PRECISION._replace(when=takes_product),
        DIVIDE, SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
