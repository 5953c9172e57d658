"""Generates msopgen's JSON description of an operator: its inputs, outputs and attributes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.entry import TYPES

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project
    from evokernel.core.records import Signature, Tensor

MSOPGEN_NAMES = {"float32": "float", "float64": "double"}
"""msopgen's name of a dtype, if it differs from ours."""
MSOPGEN_BY_DT = {definition: MSOPGEN_NAMES.get(dtype, dtype) for dtype, (definition, _) in TYPES.items()}


def operator_json(project: Project, signature: Signature) -> str:
    """The description of a project. Names and types come from its OpDef, or from the signature if the OpDef lists none."""
    op_definition = source_parser.parse_op_definition(project.files[name] for name in project.files)
    entry = {
        "op": project.op,
        "language": "cpp",
        "input_desc": tensor_entries(op_definition.inputs, (*signature.inputs, *signature.params)),
        "output_desc": tensor_entries(op_definition.outputs, signature.outputs),
    }
    names = op_definition.attributes or tuple(number.name for number in signature.scalars)
    attributes = [
        {"name": name, "param_type": "required", "type": number.kind} for name, number in zip(names, signature.scalars, strict=False)
    ]
    return json.dumps([entry | ({"attr": attributes} if attributes else {})])


def tensor_entries(defined: Sequence[source_parser.OpDefTensor], signature_tensors: Sequence[Tensor]) -> list[dict[str, object]]:
    """Entries of tensors, with one format per type."""
    rows: Iterable[tuple[str, tuple[str, ...]]] = [(tensor.name, tensor.types) for tensor in defined] or [
        (one.name, ()) for one in signature_tensors
    ]
    entries: list[dict[str, object]] = []
    for index, (name, types) in enumerate(rows):
        own = signature_tensors[index].dtype if index < len(signature_tensors) else "float32"
        kinds = [MSOPGEN_BY_DT[kind] for kind in types if kind in MSOPGEN_BY_DT] or [MSOPGEN_NAMES.get(own, own)]
        entries.append({"name": name, "param_type": "required", "format": ["ND"] * len(kinds), "type": kinds})
    return entries
