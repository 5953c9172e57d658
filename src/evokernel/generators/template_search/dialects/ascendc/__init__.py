"""The sweep's Ascend C: tiles that pass through local memory, vector instructions, blocks over the cores. Every stage is a namespace.

One kernel holds all stages: what lies between them is in the workspace, and all blocks wait for each other in between.
"""

from __future__ import annotations

from pathlib import Path

from evokernel.core.records import Signature
from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects import Dialect, Written
from evokernel.generators.template_search.dialects.ascendc.common_decisions import BLOCKS
from evokernel.generators.template_search.dialects.ascendc.emit import number
from evokernel.generators.template_search.forms import product
from evokernel.generators.template_search.graph import Node, Num
from evokernel.generators.template_search.sketch import Described, Facts
from evokernel.generators.template_search.stage_planner import Plan, Stage

ENUMS = {
    "float32": "DT_FLOAT", "float16": "DT_FLOAT16", "bfloat16": "DT_BF16", "int32": "DT_INT32", "int64": "DT_INT64", "bool": "DT_BOOL",
    "uint8": "DT_UINT8", "int8": "DT_INT8", "int16": "DT_INT16", "float64": "DT_DOUBLE",
}  # fmt: skip
WIDTHS = {"float32": 4, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8, "uint8": 1, "bool": 1}
PARTIALS = "16 * 64 * 32"
"""Bytes for partial results of a stage: up to 16 passes, 64 blocks, 32 bytes each."""
ATTRIBUTES = {"int": ("Int", "int64_t"), "float": ("Float", "double"), "bool": ("Bool", "bool")}


def frame(signature: Signature, plan: Plan, written: list[Written], shared: Choice) -> Facts:
    """The operator's definition, what its tiling computes on the host, and the entry point."""
    tensors = [*signature.inputs, *signature.params]
    buffers = [
        {"name": b.name, "bytes": f"({number(product(b.shape))}) * {WIDTHS[b.dtype]}"} for b in plan.buffers.values() if not b.is_output
    ]
    fields, calls, cubes = [], [], []
    for w in written:
        passed = []
        for g in w.described.given:
            if isinstance(g.value, Num):
                fields.append({"name": f"{w.name}_{g.name}", "kind": "uint32_t" if g.value.integer else "float", "value": number(g.value)})
                passed.append(f"td.{w.name}_{g.name}")
            else:
                passed.append(g.value.name)
        if w.described.facts.get("partials"):
            buffers.append({"name": f"partials_{w.name}", "bytes": PARTIALS})
            passed.append(f"partials_{w.name}")
        if is_cube(w):
            sizes = {g.name: number(g.value) for g in w.described.given if isinstance(g.value, Num)}
            cubes.append(
                {"name": f"{w.name}_cube", "sizes": f"{sizes['M']}, {sizes['N']}, {sizes['K']}", "turned": w.described.facts["turned"]}
            )
            passed.append(f"td.{w.name}_cube")
        calls.append(f"{w.name}::run({', '.join(['pipe', *passed, w.stage.out.name])});")
    return {
        "inputs": [{"name": t.name, "kind": ENUMS[t.dtype]} for t in tensors],
        "outputs": [{"name": o.name, "kind": ENUMS[o.dtype]} for o in signature.outputs],
        "attributes": [{"name": s.name, "getter": ATTRIBUTES[s.kind][0], "kind": ATTRIBUTES[s.kind][1]} for s in signature.scalars],
        "fields": fields, "buffers": buffers, "calls": calls, "cubes": cubes,
        "blocks": shared.get("blocks", "cores"),
        "params": ", ".join(f"GM_ADDR {name}" for name in [*(f"in_{t.name}" for t in tensors), *(o.name for o in signature.outputs)]),
        "texts": [w.text for w in written],
    }  # fmt: skip


def is_cube(written: Written) -> bool:
    """Whether a stage multiplies on the cube."""
    return "REGIST_MATMUL_OBJ" in written.text


def prepare(stage: Stage, described: Described, d: Choice) -> Facts:
    """The parameters of a stage's function."""
    listed = ["TPipe& pipe"]
    for g in described.given:
        kind = "GM_ADDR" if isinstance(g.value, Node) else "uint32_t" if g.value.integer else "float"
        listed.append(f"{kind} {g.name}")
    listed += ["GM_ADDR partials"] if described.facts.get("partials") else []
    listed += ["const TCubeTiling& cube"] if d.get("unit") == "cube" else []
    return {"params": ", ".join([*listed, "GM_ADDR out"])}


dialect = Dialect(
    folder=Path(__file__).parent, file="kernel.asc", fence="cpp", frame=frame, prepare=prepare, shared=(BLOCKS,), spaced=True
)  # fmt: skip
