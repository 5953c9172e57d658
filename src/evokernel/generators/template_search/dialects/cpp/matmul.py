"""Products of matrices, one or a batch, either factor stored by columns, with elementwise steps after them."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.cpp.common_decisions import (
    ACC,
    ALIAS,
    LANES,
    MATH,
    SIMD,
    TAIL,
    THREADS,
    UNROLL,
    is_blocked,
    is_stepped,
    is_wide,
    numbers,
)
from evokernel.generators.template_search.dialects.cpp.products import GEMM, PANELS, epilogue
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """Sizes and strides of the factors, and where what follows reads its tensors: by rows, at one place per row, or at one place."""
    (a, b), (rows_a, rows_b) = form.tensors, form.in_order
    if any(n.dtype != "float32" for n in (a, b, form.root)):
        raise NoSketch("a product of other than float32")
    batch, m, n = (axis.extent for axis in form.axes)
    k = a.shape[-1] if rows_a else a.shape[-2]
    after = epilogue(form)
    operands = []
    for o in form.operands:
        name, (by_batch, by_row, by_column) = after.operands[o.node], o.present
        outer = {(True, True): "(o * M + r)", (True, False): "o", (False, True): "r", (False, False): "0"}[by_batch, by_row]
        operands.append({"name": name, "along": by_column, "start": f"{name} + {outer} * N" if by_column else f"{name}[{outer}]"})
    args = [{"kind": "full" if o["along"] else "scalar", "name": f"row_{o['name']}"} for o in operands]
    facts = {
        "rows_a": rows_a or m.is_one, "rows_b": rows_b and not n.is_one, "strides_a": "K, 1" if rows_a else "1, M",
        "strides_b": "N, 1" if rows_b and not n.is_one else "1, K", "step_a": "K" if rows_a else "1",
        "batched": not batch.is_one, "batched_b": len(b.shape) > 2, "epilogue": after.text, "operands": operands,
        "has_math": form.uses_math,
        "f": {"name": "after", "args": [{"kind": "full", "name": "dest"}, *args], "extra": after.extra},
    }  # fmt: skip
    sizes = (Given("batch", batch), Given("M", m), Given("N", n), Given("K", k))
    given = (Given("left", a), Given("right", b), *(Given(after.operands[o.node], o.node) for o in form.operands), *sizes)
    # Rows times columns, both stored in order: one vector loop along what is summed.
    dots = facts["rows_a"] and not facts["rows_b"]
    traits = {"epilogue": bool(after.text), "batched": not batch.is_one, "math": form.uses_math, "dots": dots}
    return Described((*given, *numbers(after.free)), facts, frozenset(name for name, holds in traits.items() if holds))


def is_unrolled(taken: Choice) -> bool:
    """Whether several vectors are summed side by side."""
    return taken.get("simd") == "vec" and taken.get("gemm") == "dot"


TAILS = (
    TAIL._replace(when=is_blocked),
    TAIL._replace(options=("scalar", "steps", "assume"), when=lambda taken: is_unrolled(taken) and taken.get("unroll", "1") != "1"),
    TAIL._replace(options=("scalar", "masked", "assume"), when=is_wide, trait="epilogue"),
    TAIL._replace(options=("scalar", "assume"), when=is_stepped),
)
sketch = Sketch(
    decisions=(
        *GEMM,
        Decision("fusion", ("pass", "8", "32", "128"), trait="epilogue"),
        SIMD._replace(when=lambda taken: not is_blocked(taken)), SIMD._replace(trait="epilogue"), LANES,
        UNROLL._replace(when=is_unrolled, trait="dots"), *TAILS, PANELS,
        MATH, ACC._replace(when=lambda taken: taken.get("gemm") == "dot"), ALIAS,
        THREADS._replace(trait="batched"),
    ),
    describe=describe,
)  # fmt: skip
