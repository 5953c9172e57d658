"""msopgen's json for a project: what its operator takes and gives, by the names in its definition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.entry import TYPES

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project
    from evokernel.core.records import Signature, Tensor

NAMES = {"float32": "float", "float64": "double"}
"""What msopgen calls a type, where it is not what we do."""
BY_DEFINITION = {definition: NAMES.get(dtype, dtype) for dtype, (definition, _) in TYPES.items()}


def description(project: Project, signature: Signature) -> str:
    """Names and types are those of the operator's definition, and the signature's where that lists none."""
    found = source_parser.definition(project.files[name] for name in project.files)
    told = {
        "op": project.op,
        "language": "cpp",
        "input_desc": tensors(found.inputs, (*signature.inputs, *signature.params)),
        "output_desc": tensors(found.outputs, signature.outputs),
    }
    names = found.attributes or tuple(number.name for number in signature.scalars)
    attributes = [
        {"name": name, "param_type": "required", "type": number.kind} for name, number in zip(names, signature.scalars, strict=False)
    ]
    return json.dumps([told | ({"attr": attributes} if attributes else {})])


def tensors(defined: Sequence[source_parser.Tensor], given: Sequence[Tensor]) -> list[dict[str, object]]:
    """Every type has a format beside it."""
    rows: Iterable[tuple[str, tuple[str, ...]]] = [(tensor.name, tensor.types) for tensor in defined] or [(one.name, ()) for one in given]
    made: list[dict[str, object]] = []
    for index, (name, types) in enumerate(rows):
        own = given[index].dtype if index < len(given) else "float32"
        kinds = [BY_DEFINITION[kind] for kind in types if kind in BY_DEFINITION] or [NAMES.get(own, own)]
        made.append({"name": name, "param_type": "required", "format": ["ND"] * len(kinds), "type": kinds})
    return made
