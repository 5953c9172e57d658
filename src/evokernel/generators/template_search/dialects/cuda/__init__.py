"""The CUDA dialect: packs of neighbouring elements per thread, teams of threads per row. A stage is a namespace with a function `run`."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.records import Signature
from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects import Dialect, RenderedStage
from evokernel.generators.template_search.dialects.c_text import entry_parameters, format_num, stage_parameters
from evokernel.generators.template_search.dialects.cuda.block_sizes import fit_option
from evokernel.generators.template_search.dialects.cuda.emit import TYPES, list_headers, list_helpers
from evokernel.generators.template_search.graph import Node
from evokernel.generators.template_search.kernel_template import PatternDescription, TemplateVariables
from evokernel.generators.template_search.patterns import multiply_nums
from evokernel.generators.template_search.stage_planner import Plan, Stage


def build_kernel_variables(
    signature: Signature, plan: Plan, rendered_stages: list[RenderedStage], kernel_choice: Choice
) -> TemplateVariables:
    """The variables of the launch function: scratch, and one call per stage."""
    buffers = [
        {"name": b.name, "kind": TYPES[b.dtype], "count": format_num(multiply_nums(b.shape))}
        for b in plan.buffers.values()
        if not b.is_output
    ]
    calls = []
    for stage in rendered_stages:
        arguments = [g.value.name if isinstance(g.value, Node) else format_num(g.value) for g in stage.description.arguments]
        calls.append(f"{stage.name}::run({', '.join([*arguments, stage.stage.out.name, 'stream'])})")
    text = "\n".join([*(stage.text for stage in rendered_stages), *(f"scratch<{b['kind']}>" for b in buffers)])
    return {
        "params": ", ".join([*entry_parameters(signature, TYPES), "cudaStream_t stream"]),
        "buffers": buffers, "calls": calls, "headers": list_headers(text), "helpers": list_helpers(text),
    }  # fmt: skip


def build_stage_variables(stage: Stage, description: PatternDescription, d: Choice) -> TemplateVariables:
    """The parameters of a stage's functions on the host and on the device, and the arguments that the one gives the other."""
    host = stage_parameters(description, stage.out.dtype, TYPES, "")
    device = stage_parameters(description, stage.out.dtype, TYPES, " __restrict__", "I")
    names = [*(g.name for g in description.arguments), "out"]
    return {
        "params": ", ".join([*host, "cudaStream_t stream"]), "device_params": ", ".join(device), "names": ", ".join(names),
        "host_params": ", ".join(host), "T_out": TYPES[stage.out.dtype],
        "types": {g.name: TYPES[g.value.dtype] for g in description.arguments if isinstance(g.value, Node)},
    }  # fmt: skip


dialect = Dialect(
    Path(__file__).parent,
    "kernel.cu",
    "cuda",
    build_kernel_variables,
    build_stage_variables,
    families_with_slices=frozenset({"map", "reduce", "row"}),
    fit_option=fit_option,
    keeps_blank_lines=True,
)
