"""Elements rearranged: axes in another order, slices, reversed, one after the other, stretched."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import EDGE, LIMIT, PIPELINE, ROWS, SEMANTICS
from evokernel.generators.template_search.dialects.pallas.emit import joined
from evokernel.generators.template_search.dialects.pallas.layouts import Copied, View
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import Node, NoSketch, aligned
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def moved(root: Node, names: list[str]) -> tuple[str, tuple[Given, ...]]:
    """The result as an expression, and the numbers it needs."""
    rank, axis = len(root.shape), root.dims[0] if root.dims else 0
    sizes = tuple(Given(f"n{i}", n) for i, n in enumerate(root.shape))
    numbers = tuple(Given(f"s{i}", n) for i, n in enumerate(root.nums))
    if root.op == "permute":
        return f"{names[0]}.transpose({joined(map(str, root.dims))})", ()
    if root.op == "flip":
        return f"jnp.flip({names[0]}, ({joined(map(str, root.dims))},))", ()
    if root.op == "cat":
        return f"jnp.concatenate([{joined(names)}], axis={axis})", ()
    if root.op == "expand":
        own = aligned(root.args[0].shape, rank)
        shape = joined("1" if n.is_one else f"n{i}" for i, n in enumerate(own))
        return f"jnp.broadcast_to({names[0]}.reshape({shape}), ({joined(s.name for s in sizes)},))", sizes
    if root.op == "slice":
        cut = f"slice(s0, s0 + (n{axis} - 1) * s1 + 1, s1)"
        return f"{names[0]}[{joined(cut if i == axis else ':' for i in range(rank))}]", (*sizes, *numbers)
    raise NoSketch(f"{root.op} as a step of its own")


def describe(form: Form) -> Described:
    """Arrays moved outside a kernel; what consists of arguments alone may have to go through one."""
    root = form.root
    if any(x.op != "leaf" for x in root.args):
        raise NoSketch("a number stretched to a tensor")
    names = {x: f"x{i}" for i, x in enumerate(dict.fromkeys(root.args))}
    text, numbers = moved(root, [names[x] for x in root.args])
    given = (*(Given(name, x) for x, name in names.items()), *numbers)
    result = Copied(root)
    view = View("moved", (True, True), "")
    traits = {"plain"} if all(x.name.startswith("in_") for x in root.args) else set()
    return Described(given, {"moved": text, "result": result, "view": view}, frozenset(traits))


COPIED = one_of("through", "kernel")

sketch = Sketch(
    decisions=(
        Decision("through", ("kernel", "nothing"), trait="plain"),
        PIPELINE._replace(when=COPIED, options=PIPELINE.options[:2]),
        Decision("width", ("128", "512", "1024", "4096"), COPIED),
        ROWS._replace(when=COPIED),
        EDGE._replace(when=COPIED, options=EDGE.options[:2]),
        SEMANTICS._replace(when=COPIED), LIMIT._replace(when=COPIED),
    ),
    describe=describe,
)  # fmt: skip
