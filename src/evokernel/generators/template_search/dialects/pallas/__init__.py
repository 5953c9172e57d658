"""The Pallas dialect: blocks that stream through VMEM, products on the matrix unit, accumulators in scratch. Every stage is a function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evokernel.core.records import Signature
from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects import Dialect, RenderedStage
from evokernel.generators.template_search.dialects.pallas.block_sizes import fit_option, prefers_fused
from evokernel.generators.template_search.dialects.pallas.emit import format_num
from evokernel.generators.template_search.graph import Node, Num, Shape
from evokernel.generators.template_search.kernel_template import PatternDescription, TemplateVariables
from evokernel.generators.template_search.stage_planner import Plan, Stage

ShapeNames = Mapping[tuple[str, ...], str]
"""Names of arguments by the texts of their shapes."""


def build_kernel_variables(
    signature: Signature, plan: Plan, rendered_stages: list[RenderedStage], kernel_choice: Choice
) -> TemplateVariables:
    """The variables of the entry point: one call per stage, whose result is reshaped to its buffer's shape."""
    tensors = {f"in_{t.name}": len(t.shape) for t in (*signature.inputs, *signature.params)}
    shape_names = {tuple(f"{name}.shape[{i}]" for i in range(rank)): name for name, rank in reversed(tensors.items()) if rank}
    calls = [format_call(stage, shape_names) for stage in rendered_stages]
    outputs = [o.name for o in signature.outputs]
    return {
        "params": ", ".join([*tensors, *(f"arg_{s.name}" for s in signature.scalars)]), "calls": calls,
        "returned": outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})",
    }  # fmt: skip


def format_call(stage: RenderedStage, shape_names: ShapeNames) -> str:
    """The line that calls a stage."""
    arguments = [format_argument(g.value, shape_names) for g in stage.description.arguments]
    like = shape_names.get(shape_texts(stage.stage.out.shape))
    if like and "flat" in stage.description.traits and "leading" not in stage.description.traits:
        # Written for any number of axes, so that a model can copy the call for another rank.
        sizes = {"n0": f"{like}.size // {like}.shape[-1]", "n1": f"{like}.shape[-1]"}
        arguments = [sizes.get(g.name, text) for g, text in zip(stage.description.arguments, arguments)]
    out = stage.stage.out
    return f"{out.name} = {stage.name}({', '.join(arguments)}).reshape({format_shape(out.shape, shape_names)})"


def build_stage_variables(stage: Stage, description: PatternDescription, d: Choice) -> TemplateVariables:
    """The parameters of a stage's function."""
    return {"params": ", ".join(g.name for g in description.arguments)}


def format_argument(value: Node | Num, shape_names: ShapeNames) -> str:
    """An argument in the call of a stage; a tensor is reshaped to the shape that the stage expects."""
    if isinstance(value, Num):
        return format_num(value)
    return (
        value.name
        if shape_names.get(shape_texts(value.shape)) == value.name
        else f"{value.name}.reshape({format_shape(value.shape, shape_names)})"
    )


def format_shape(sizes: Shape, shape_names: ShapeNames) -> str:
    """A shape as Python source; `x.shape` if it is the shape of argument x."""
    numbers = shape_texts(sizes)
    return f"{shape_names[numbers]}.shape" if numbers in shape_names else f"({', '.join(numbers)}{',' if len(numbers) == 1 else ''})"


def shape_texts(sizes: Shape) -> tuple[str, ...]:
    """The extents of a shape as Python source."""
    return tuple(format_num(n) for n in sizes)


dialect = Dialect(
    folder=Path(__file__).parent,
    file="kernel.py",
    fence="python",
    build_kernel_variables=build_kernel_variables,
    build_stage_variables=build_stage_variables,
    keeps_blank_lines=True,
    fit_option=fit_option,
    prefers_fused=prefers_fused,
)
