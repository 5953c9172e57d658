"""The sweep's C++: loops with explicit or automatic vectors, register tiles, threads. Every stage is a namespace with a function."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.records import Signature
from evokernel.generators.sweep.decisions import Choice, Decision
from evokernel.generators.sweep.dialects import Dialect, Written
from evokernel.generators.sweep.dialects.cpp.emit import number
from evokernel.generators.sweep.forms import product
from evokernel.generators.sweep.nodes import Node, Num
from evokernel.generators.sweep.plan import Plan, Stage
from evokernel.generators.sweep.sketch import Described, Facts

TYPES = {"float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t", "int64": "int64_t", "int32": "int32_t",
         "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool"}  # fmt: skip
SCALARS = {"int": "int64_t", "float": "double", "bool": "bool"}
MEMORY = Decision("memory", ("new", "malloc", "aligned", "kept"), trait="buffers")
"""Where what lies between stages is kept: `kept` holds on to it from call to call."""


def frame(signature: Signature, plan: Plan, written: list[Written], shared: Choice) -> Facts:
    """The entry point: buffers, then a call per stage."""
    buffers = [
        {"name": b.name, "kind": TYPES[b.dtype], "count": number(product(b.shape))} for b in plan.buffers.values() if not b.is_output
    ]
    calls = [f"{w.name}::run({', '.join([*(passed(g.value) for g in w.described.given), w.stage.out.name])})" for w in written]
    return {"params": entry(signature), "buffers": buffers, "calls": calls}


def passed(value: Node | Num) -> str:
    """An argument at the call of a stage."""
    return number(value) if isinstance(value, Num) else value.name


def prepare(stage: Stage, described: Described, d: Choice) -> Facts:
    """The parameters of a stage's function, and how pointers that do not overlap are marked."""
    mark = "" if d.get("alias", "") in ("", "none") else f" {d['alias']}"
    listed = []
    for g in described.given:
        if isinstance(g.value, Num):
            listed.append(f"{'int64_t' if g.value.integer else 'float'} {g.name}")
        else:
            listed.append(f"const {TYPES[g.value.dtype]}*{mark} {g.name}")
    listed.append(f"{TYPES[stage.out.dtype]}*{mark} out")
    return {"params": ", ".join(listed), "R": mark.strip(), "T_out": TYPES[stage.out.dtype]}


def entry(signature: Signature) -> str:
    """The entry point's parameters."""
    listed = [f"const {TYPES[t.dtype]}* in_{t.name}, const int64_t* in_{t.name}_shape" for t in (*signature.inputs, *signature.params)]
    listed += [f"{SCALARS[s.kind]} arg_{s.name}" for s in signature.scalars]
    listed += [f"{TYPES[o.dtype]}* {o.name}, const int64_t* {o.name}_shape" for o in signature.outputs]
    return ", ".join(listed)


dialect = Dialect(folder=Path(__file__).parent, file="kernel.cpp", fence="cpp", frame=frame, prepare=prepare, shared=(MEMORY,))
