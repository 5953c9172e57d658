"""The sweep's C++: loops with explicit or automatic vectors, register tiles, threads. Every stage is a namespace with a function."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.records import Signature
from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects import Dialect, Written
from evokernel.generators.template_search.dialects.cpp.emit import number
from evokernel.generators.template_search.forms import product
from evokernel.generators.template_search.graph import Node, Num
from evokernel.generators.template_search.sketch import Described, Facts
from evokernel.generators.template_search.stage_planner import Plan, Stage

TYPES = {"float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t", "int64": "int64_t", "int32": "int32_t",
         "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool"}  # fmt: skip
ELEMENTS = {**TYPES, "float16": "float16", "bfloat16": "bfloat16"}
"""As the stages see them: what a kernel is handed as bits are numbers there."""
SCALARS = {"int": "int64_t", "float": "double", "bool": "bool"}
MEMORY = Decision("memory", ("new", "malloc", "aligned", "kept"), trait="buffers")
"""Where what lies between stages is kept: `kept` holds on to it from call to call."""


def frame(signature: Signature, plan: Plan, written: list[Written], shared: Choice) -> Facts:
    """The entry point: buffers, then a call per stage."""
    buffers = [
        {"name": b.name, "kind": ELEMENTS[b.dtype], "count": number(product(b.shape))} for b in plan.buffers.values() if not b.is_output
    ]
    calls = []
    for w in written:
        out = f"({ELEMENTS[w.stage.out.dtype]}*){w.stage.out.name}" if is_half(w.stage.out.dtype) else w.stage.out.name
        calls.append(f"{w.name}::run({', '.join([*(passed(g.value) for g in w.described.given), out])})")
    return {"params": entry(signature), "buffers": buffers, "calls": calls, "has_halves": any("float16" in w.text for w in written)}


def is_half(dtype: str) -> bool:
    """Whether a kernel is handed the bits of numbers of 16 bits."""
    return ELEMENTS[dtype] != TYPES[dtype]


def passed(value: Node | Num) -> str:
    """An argument at the call of a stage."""
    if isinstance(value, Num):
        return number(value)
    return f"(const {ELEMENTS[value.dtype]}*){value.name}" if is_half(value.dtype) else value.name


def prepare(stage: Stage, described: Described, d: Choice) -> Facts:
    """The parameters of a stage's function, and how pointers that do not overlap are marked."""
    mark = "" if d.get("alias", "") in ("", "none") else f" {d['alias']}"
    listed = []
    for g in described.given:
        if isinstance(g.value, Num):
            listed.append(f"{'int64_t' if g.value.integer else 'float'} {g.name}")
        else:
            listed.append(f"const {ELEMENTS[g.value.dtype]}*{mark} {g.name}")
    listed.append(f"{ELEMENTS[stage.out.dtype]}*{mark} out")
    has_math = bool(described.facts.get("has_math"))
    return {"params": ", ".join(listed), "R": mark.strip(), "T_out": ELEMENTS[stage.out.dtype], "has_math": has_math}


def entry(signature: Signature) -> str:
    """The entry point's parameters."""
    listed = [f"const {TYPES[t.dtype]}* in_{t.name}, const int64_t* in_{t.name}_shape" for t in (*signature.inputs, *signature.params)]
    listed += [f"{SCALARS[s.kind]} arg_{s.name}" for s in signature.scalars]
    listed += [f"{TYPES[o.dtype]}* {o.name}, const int64_t* {o.name}_shape" for o in signature.outputs]
    return ", ".join(listed)


dialect = Dialect(folder=Path(__file__).parent, file="kernel.cpp", fence="cpp", frame=frame, prepare=prepare, shared=(MEMORY,))
