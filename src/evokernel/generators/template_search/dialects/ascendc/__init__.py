"""The Ascend C dialect: tiles in local memory, vector instructions, blocks over the cores. Every stage is a namespace.

One kernel contains all stages: buffers between stages are in the workspace, and all blocks synchronise between stages.
"""

from __future__ import annotations

from pathlib import Path

from evokernel.core.records import Signature
from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects import Dialect, RenderedStage
from evokernel.generators.template_search.dialects.ascendc.common_decisions import BLOCKS
from evokernel.generators.template_search.dialects.ascendc.emit import format_num
from evokernel.generators.template_search.graph import Node, Num
from evokernel.generators.template_search.kernel_template import PatternDescription, TemplateVariables
from evokernel.generators.template_search.patterns import multiply_nums
from evokernel.generators.template_search.stage_planner import Plan, Stage

ENUMS = {
    "float32": "DT_FLOAT", "float16": "DT_FLOAT16", "bfloat16": "DT_BF16", "int32": "DT_INT32", "int64": "DT_INT64", "bool": "DT_BOOL",
    "uint8": "DT_UINT8", "int8": "DT_INT8", "int16": "DT_INT16", "float64": "DT_DOUBLE",
}  # fmt: skip
WIDTHS = {"float32": 4, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8, "uint8": 1, "bool": 1}
PARTIALS = "16 * 64 * 32"
"""Bytes for partial results of a stage: up to 16 passes, 64 blocks, 32 bytes each."""
ATTRIBUTES = {"int": ("Int", "int64_t"), "float": ("Float", "double"), "bool": ("Bool", "bool")}


def build_kernel_variables(
    signature: Signature, plan: Plan, rendered_stages: list[RenderedStage], kernel_choice: Choice
) -> TemplateVariables:
    """The variables of the operator definition, the host tiling and the entry point."""
    tensors = [*signature.inputs, *signature.params]
    buffers = [
        {"name": b.name, "bytes": f"({format_num(multiply_nums(b.shape))}) * {WIDTHS[b.dtype]}"}
        for b in plan.buffers.values()
        if not b.is_output
    ]
    fields, calls, cubes = [], [], []
    elements: list[str] = []
    """How many elements each stage on the vector cores writes."""
    for stage in rendered_stages:
        call_arguments = []
        for g in stage.description.arguments:
            if isinstance(g.value, Num):
                fields.append(
                    {"name": f"{stage.name}_{g.name}", "kind": "uint32_t" if g.value.is_integer else "float", "value": format_num(g.value)}
                )
                call_arguments.append(f"td.{stage.name}_{g.name}")
            else:
                call_arguments.append(g.value.name)
        for name, size in scratch_bytes(stage.description).items():
            buffers.append({"name": f"{name}_{stage.name}", "bytes": size})
            call_arguments.append(f"{name}_{stage.name}")
        if uses_cube(stage):
            sizes = {g.name: format_num(g.value) for g in stage.description.arguments if isinstance(g.value, Num)}
            cubes.append({"name": stage.name, "sizes": ", ".join(sizes[name] for name in ("batch", "M", "N", "K")), **cube_traits(stage)})
            call_arguments += [f"td.{stage.name}_tileM", f"td.{stage.name}_tileN"]
        else:
            elements.append(format_num(multiply_nums(stage.stage.out.shape)))
        call = f"{stage.name}::run({', '.join(['pipe', *call_arguments, stage.stage.out.name])});"
        calls.append({"text": call, "uses_cube": uses_cube(stage)})
    return {
        "inputs": [{"name": t.name, "kind": ENUMS[t.dtype]} for t in tensors],
        "outputs": [{"name": o.name, "kind": ENUMS[o.dtype]} for o in signature.outputs],
        "attributes": [{"name": s.name, "getter": ATTRIBUTES[s.kind][0], "kind": ATTRIBUTES[s.kind][1]} for s in signature.scalars],
        "fields": fields, "buffers": buffers, "calls": calls, "cubes": cubes,
        "elements": elements, "is_mixed": bool(elements) or any(cube["needs_vectors"] for cube in cubes),
        "blocks": kernel_choice.get("blocks", "cores"),
        "params": ", ".join(f"GM_ADDR {name}" for name in [*(f"in_{t.name}" for t in tensors), *(o.name for o in signature.outputs)]),
        "texts": [stage.text for stage in rendered_stages],
    }  # fmt: skip


def scratch_bytes(description: PatternDescription) -> dict[str, str]:
    """The buffers in the workspace that a stage needs for itself: their names as parameters, and their sizes as host expressions."""
    sizes = {"partials": PARTIALS} if description.variables.get("partials") else {}
    scratch = description.variables.get("scratch")
    for name, elements in scratch.items() if isinstance(scratch, dict) else ():
        sizes[name] = f"({format_num(elements)}) * {WIDTHS['float32']}"
    return sizes


def uses_cube(rendered_stages: RenderedStage) -> bool:
    """Whether a stage uses the cube unit."""
    return "ASCEND_IS_AIC" in rendered_stages.text


def cube_traits(stage: RenderedStage) -> dict[str, object]:
    """Facts about a product on the cube: the side of its tiles if it is fixed, and the work of the vector cores before and after it."""
    variables = stage.description.variables
    part = stage.choice["part"]
    scratch = variables.get("scratch")
    before = scratch.get("right") if isinstance(scratch, dict) else None
    return {
        "follows": variables["follows"], "turned": variables["turned"], 
        "needs_vectors": bool(variables["follows"] or scratch),
        "side": "0" if part == "fit" else part, "columns": format_num(before) if before is not None else "0",
    }  # fmt: skip


def build_stage_variables(stage: Stage, description: PatternDescription, d: Choice) -> TemplateVariables:
    """The parameters of a stage's function."""
    parameters = ["TPipe& pipe"]
    for g in description.arguments:
        kind = "GM_ADDR" if isinstance(g.value, Node) else "uint32_t" if g.value.is_integer else "float"
        parameters.append(f"{kind} {g.name}")
    parameters += [f"GM_ADDR {name}" for name in scratch_bytes(description)]
    parameters += ["uint32_t tileM", "uint32_t tileN"] if d.get("unit") == "cube" else []
    parameters.append("GM_ADDR out")
    return {"params": ", ".join(parameters), "names": ", ".join(p.split()[-1] for p in parameters)}


dialect = Dialect(
    folder=Path(__file__).parent, file="kernel.asc", fence="cpp", build_kernel_variables=build_kernel_variables,
    build_stage_variables=build_stage_variables, kernel_decisions=(BLOCKS,), keeps_blank_lines=True
)  # fmt: skip
