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
from evokernel.generators.template_search.dialects.ascendc.local_memory import SHIFT_BYTES
from evokernel.generators.template_search.graph import Node, Num, Shape
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
ROW_WINDOW = ("batch", "M", "each", "nw", "od", "oh", "ow", "kd", "kh", "kw", "sh", "dh", "dw", "pw")
"""Those of a convolution on the cube alone."""
PHASED_WINDOW = (
    "batch", "M", "each", "groups", "od", "oh", "ow", "kd", "kh", "kw", "sd", "sh", "sw", "pd", "ph", "pw", "dd", "dh", "dw"
)  # fmt: skip
"""Those of a transposed convolution by phases."""
WINDOW = ("batch", "M", "each", "od", "oh", "ow", "kd", "kh", "kw")
"""The sizes of a convolution that host code chooses its tiles by; `each` are the channels of a group."""
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
        for name, size in scratch_bytes(stage.description, stage.choice, stage.name).items():
            buffers.append({"name": f"{name}_{stage.name}", "bytes": size})
            call_arguments.append(f"{name}_{stage.name}")
        if uses_cube(stage):
            cubes.append(describe_cube(stage))
            call_arguments += ["unit"] if is_on_rows(stage.description, stage.choice) else []
            call_arguments += [f"td.{stage.name}_{side}" for side in tile_sides(stage.description, stage.choice)]
        else:
            elements.append(format_num(multiply_nums(stage.stage.out.shape)))
        call = f"{stage.name}::run({', '.join(['pipe', *call_arguments, stage.stage.out.name])});"
        calls.append({"text": call, "uses_cube": uses_cube(stage)})
    return {
        "inputs": [{"name": t.name, "kind": ENUMS[t.dtype]} for t in tensors],
        "outputs": [{"name": o.name, "kind": ENUMS[o.dtype]} for o in signature.outputs],
        "attributes": [{"name": s.name, "getter": ATTRIBUTES[s.kind][0], "kind": ATTRIBUTES[s.kind][1]} for s in signature.scalars],
        "windowed": any(cube["is_windowed"] for cube in cubes), "phased": any(cube["is_phased"] for cube in cubes),
        "shift_bytes": SHIFT_BYTES,
        "has_products": not all(cube["is_windowed"] for cube in cubes), "on_rows": any(cube["is_on_rows"] for cube in cubes),
        "fields": fields, "buffers": buffers, "calls": calls, "cubes": cubes,
        "elements": elements, "is_mixed": bool(elements) or any(cube["needs_vectors"] for cube in cubes),
        "blocks": kernel_choice.get("blocks", "cores"),
        "params": ", ".join(f"GM_ADDR {name}" for name in [*(f"in_{t.name}" for t in tensors), *(o.name for o in signature.outputs)]),
        "texts": [stage.text for stage in rendered_stages],
    }  # fmt: skip


def scratch_bytes(description: PatternDescription, choice: Choice, stage: str = "") -> dict[str, str]:
    """The buffers in the workspace that a stage needs for itself: their names as parameters, and their sizes as host expressions."""
    sizes = {"partials": PARTIALS} if description.variables.get("partials") else {}
    scratch = description.variables.get("scratch")
    for name, elements in scratch.items() if isinstance(scratch, dict) else ():
        sizes[name] = f"({format_num(elements)}) * {WIDTHS['float32']}"
    if is_on_rows(description, choice):
        return {"turned": f"({format_num(multiply_nums(weight_shape(description)))}) * {WIDTHS['float32']}"}
    columns = description.variables.get("columns")
    if isinstance(columns, tuple) and columns and choice.get("unit") == "vector":
        images, each = (format_num(n) for n in columns)
        fitting = f"std::max<uint64_t>(1, {description.variables['column_elements']} / ({each}))"
        sizes = {"right": f"std::min<uint64_t>({images}, {fitting}) * ({each}) * {WIDTHS['float32']}", **sizes}
    if is_phased(description, choice):
        sizes["left"] = f"Weights({stage}) * {WIDTHS['float32']}"
        sizes["product"] = f"static_cast<uint64_t>(blocks) * 2 * {stage}_tileM * {stage}_tileH * {stage}_tileW * {WIDTHS['float32']}"
    if is_windowed(description, choice):
        sizes["shifted"] = f"static_cast<uint64_t>(blocks) * 2 * Slot({stage}, {stage}_tileH, {stage}_tileW) * {WIDTHS['float32']}"
    return sizes


def uses_cube(rendered_stages: RenderedStage) -> bool:
    """Whether a stage uses the cube unit."""
    return "ASCEND_IS_AIC" in rendered_stages.text


def is_windowed(description: PatternDescription, choice: Choice) -> bool:
    """Whether a stage is a convolution on the cube, for which the vector cores write the columns of each tile."""
    is_cube = choice.get("unit") == "cube" and not is_on_rows(description, choice)
    return is_cube and bool(description.variables.get("is_windowed"))


def is_phased(description: PatternDescription, choice: Choice) -> bool:
    """Whether a stage is a transposed convolution on the cube with a product for each phase of its strides."""
    return is_windowed(description, choice) and bool(description.variables.get("is_phased"))


def is_on_rows(description: PatternDescription, choice: Choice) -> bool:
    """Whether a stage is a convolution on the cube alone, which copies shifted lines of the image."""
    return choice.get("unit") == "cube" and choice.get("windows") == "cube"


def weight_shape(description: PatternDescription) -> Shape:
    """The shape of a convolution's weights."""
    return next(g.value.shape for g in description.arguments if g.name == "left" and isinstance(g.value, Node))


def tile_sides(description: PatternDescription, choice: Choice) -> tuple[str, ...]:
    """The names of the sizes of a tile on the cube; `rowW` are the elements from row to row of the columns."""
    if is_on_rows(description, choice):
        return ("tileM", "tileH", "tileW")
    return ("tileM", "tileH", "tileW", "rowW") if is_windowed(description, choice) else ("tileM", "tileN")


def describe_cube(stage: RenderedStage) -> dict[str, object]:
    """A product on the cube as host code needs it: its sizes, the side of its tiles if it is fixed, and the work of the vector cores."""
    variables, arguments = stage.description.variables, stage.description.arguments
    sizes = {g.name: format_num(g.value) for g in arguments if isinstance(g.value, Num)}
    side = "0" if stage.choice["part"] == "fit" else stage.choice["part"]
    follows, windowed = "true" if variables["follows"] else "false", is_windowed(stage.description, stage.choice)
    on_rows, phased = is_on_rows(stage.description, stage.choice), is_phased(stage.description, stage.choice)
    kind = "RowConvolution" if on_rows else "PhasedConvolution" if phased else "Convolution" if windowed else "Product"
    if on_rows or windowed:
        sizes["each"] = f"({sizes['channels']}) / ({sizes['groups']})"
    if on_rows:
        values = [*(sizes[n] for n in ROW_WINDOW), side]
    elif phased:
        values = [*(sizes[n] for n in PHASED_WINDOW), side, "true" if variables["gathers"] else "false"]
    elif windowed:
        strides = ("1", "1") if variables["is_transposed"] else (sizes["sh"], sizes["sw"])
        gathers = "true" if variables["gathers"] else "false"
        values = [*(sizes[n] for n in WINDOW), *strides, sizes["dh"], sizes["dw"], side, follows, gathers]
    else:
        values = [*(sizes[n] for n in ("batch", "M", "N", "K")), side, follows, str(variables["turned"])]
    return {
        "name": stage.name, "is_windowed": windowed, "is_phased": phased, "is_on_rows": on_rows, "kind": kind,
        "needs_vectors": not on_rows and (bool(variables["follows"]) or windowed),
        "tile": [side for side in tile_sides(stage.description, stage.choice) if side != "rowW"], "sizes": ", ".join(values),
    }  # fmt: skip


def build_stage_variables(stage: Stage, description: PatternDescription, d: Choice) -> TemplateVariables:
    """The parameters of a stage's function."""
    parameters = ["TPipe& pipe"]
    for g in description.arguments:
        kind = "GM_ADDR" if isinstance(g.value, Node) else "uint32_t" if g.value.is_integer else "float"
        parameters.append(f"{kind} {g.name}")
    parameters += [f"GM_ADDR {name}" for name in scratch_bytes(description, d)]
    parameters += ["GM_ADDR unit"] if is_on_rows(description, d) else []
    parameters += [f"uint32_t {side}" for side in tile_sides(description, d)] if d.get("unit") == "cube" else []
    parameters.append("GM_ADDR out")
    return {"params": ", ".join(parameters), "names": ", ".join(p.split()[-1] for p in parameters)}


dialect = Dialect(
    folder=Path(__file__).parent, file="kernel.asc", fence="cpp", build_kernel_variables=build_kernel_variables,
    build_stage_variables=build_stage_variables, kernel_decisions=(BLOCKS,), keeps_blank_lines=True
)  # fmt: skip
