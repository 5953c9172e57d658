"""The C++ dialect: loops with explicit or automatic vectors, register tiles, threads. Every stage is a namespace with a function `run`."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.records import Signature
from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects import Dialect, RenderedStage, c_text
from evokernel.generators.template_search.dialects.c_text import entry_parameters, format_num, stage_parameters
from evokernel.generators.template_search.graph import Node, Num
from evokernel.generators.template_search.kernel_template import PatternDescription, TemplateVariables
from evokernel.generators.template_search.patterns import multiply_nums
from evokernel.generators.template_search.stage_planner import Plan, Stage

TYPES = {**c_text.TYPES, "float16": "uint16_t", "bfloat16": "uint16_t"}
ELEMENTS = {**TYPES, "float16": "float16", "bfloat16": "bfloat16"}
"""Element types inside stages: 16-bit floats, which the entry point receives as bits, are numbers there."""
MEMORY = Decision("memory", ("new", "malloc", "aligned", "kept"), trait="buffers")
"""Where the buffers between stages are allocated; `kept` keeps them from call to call."""


def build_kernel_variables(
    signature: Signature, plan: Plan, rendered_stages: list[RenderedStage], kernel_choice: Choice
) -> TemplateVariables:
    """The variables of the entry point: buffers, and one call per stage."""
    buffers = [
        {"name": b.name, "kind": ELEMENTS[b.dtype], "count": format_num(multiply_nums(b.shape))}
        for b in plan.buffers.values()
        if not b.is_output
    ]
    calls = []
    for stage in rendered_stages:
        out = f"({ELEMENTS[stage.stage.out.dtype]}*){stage.stage.out.name}" if is_half(stage.stage.out.dtype) else stage.stage.out.name
        calls.append(f"{stage.name}::run({', '.join([*(format_argument(g.value) for g in stage.description.arguments), out])})")
    return {
        "params": ", ".join(entry_parameters(signature, TYPES)),
        "buffers": buffers,
        "calls": calls,
        "has_halves": any("float16" in stage.text for stage in rendered_stages),
    }


def is_half(dtype: str) -> bool:
    """Whether the entry point receives a type as the bits of a 16-bit float."""
    return ELEMENTS[dtype] != TYPES[dtype]


def format_argument(value: Node | Num) -> str:
    """An argument in the call of a stage."""
    if isinstance(value, Num):
        return format_num(value)
    return f"(const {ELEMENTS[value.dtype]}*){value.name}" if is_half(value.dtype) else value.name


def build_stage_variables(stage: Stage, description: PatternDescription, d: Choice) -> TemplateVariables:
    """The parameters of a stage's function, with the keyword for pointers that do not overlap."""
    mark = "" if d.get("alias", "") in ("", "none") else f" {d['alias']}"
    parameters = stage_parameters(description, stage.out.dtype, ELEMENTS, mark)
    has_math = bool(description.variables.get("has_math"))
    return {"params": ", ".join(parameters), "R": mark.strip(), "T_out": ELEMENTS[stage.out.dtype], "has_math": has_math}


dialect = Dialect(
    folder=Path(__file__).parent,
    file="kernel.cpp",
    fence="cpp",
    build_kernel_variables=build_kernel_variables,
    build_stage_variables=build_stage_variables,
    kernel_decisions=(MEMORY,),
    families_with_slices=frozenset({"map", "reduce", "row"}),
)
