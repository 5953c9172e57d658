"""The Triton dialect: blocks of elements, rows or tiles per program, masks at the edges. A stage is a function that launches kernels."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.records import Signature
from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects import Dialect, RenderedStage
from evokernel.generators.template_search.dialects.triton.block_sizes import fit_option
from evokernel.generators.template_search.dialects.triton.emit import format_num, list_helpers
from evokernel.generators.template_search.graph import Node, Num
from evokernel.generators.template_search.kernel_template import PatternDescription, TemplateVariables
from evokernel.generators.template_search.patterns import multiply_nums
from evokernel.generators.template_search.stage_planner import Plan, Stage


def build_kernel_variables(
    signature: Signature, plan: Plan, rendered_stages: list[RenderedStage], kernel_choice: Choice
) -> TemplateVariables:
    """The variables of the launch function: scratch, and one call per stage."""
    tensors = [f"in_{t.name}" for t in (*signature.inputs, *signature.params)]
    outputs = [o.name for o in signature.outputs]
    buffers = [
        f"{b.name} = torch.empty({format_num(multiply_nums(b.shape))}, dtype=torch.{b.dtype}, device={outputs[0]}.device)"
        for b in plan.buffers.values()
        if not b.is_output
    ]
    calls = [
        f"{stage.name}({', '.join([*(format_argument(g.value) for g in stage.description.arguments), stage.stage.out.name])})"
        for stage in rendered_stages
    ]
    return {
        "params": ", ".join([*tensors, *(f"arg_{s.name}" for s in signature.scalars), *outputs]),
        "buffers": buffers, "calls": calls, "helpers": list_helpers("\n".join(stage.text for stage in rendered_stages)),
    }  # fmt: skip


def format_argument(value: Node | Num) -> str:
    """An argument in the call of a stage."""
    if isinstance(value, Node):
        return value.name
    return format_num(value) if value.is_integer else f"float({format_num(value)})"


def build_stage_variables(stage: Stage, description: PatternDescription, d: Choice) -> TemplateVariables:
    """The parameters of a stage's function."""
    names = [g.name for g in description.arguments]
    tensors = [g.name for g in description.arguments if isinstance(g.value, Node)]
    numbers = [g.name for g in description.arguments if not isinstance(g.value, Node)]
    return {"params": ", ".join([*names, "out"]), "tensors": tensors, "numbers": numbers}


dialect = Dialect(
    Path(__file__).parent,
    "kernel.py",
    "python",
    build_kernel_variables,
    build_stage_variables,
    families_with_slices=frozenset({"map", "reduce", "row"}),
    fit_option=fit_option,
    keeps_blank_lines=True,
)
