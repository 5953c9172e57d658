"""What an operator needs around it on the device, and what follows from its signature alone: msopgen's json, a bind, a PyTorch module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.ascendc.cann.description import description
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project
    from evokernel.core.records import Signature

TEMPLATES = Path(__file__).parent / "mechanical"
BIND, MODEL = "op.cpp", "model_new.py"
TYPES = {
    "float32": "kFloat",
    "float16": "kHalf",
    "bfloat16": "kBFloat16",
    "float64": "kDouble",
    "int64": "kLong",
    "int32": "kInt",
    "int16": "kShort",
    "int8": "kChar",
    "uint8": "kByte",
    "bool": "kBool",
}
NUMBERS = {"int": "int64_t", "float": "double", "bool": "bool"}
"""As aclnn takes them: EXEC_NPU_CMD passes a number as the type it has."""


def files(project: Project, signature: Signature) -> dict[str, str]:
    """All of it, by the file names that MultiKernelBench's build expects."""
    return {
        f"{project.entry}.json": description(project, signature),
        BIND: bind(project, signature),
        MODEL: model(project, signature),
    }


def bind(project: Project, signature: Signature) -> str:
    """A C++ extension with one function. It takes the outputs' shapes as lists, so that it needs to know nothing of the operator."""
    return rendered("op.cpp.j2", project, signature)


def model(project: Project, signature: Signature) -> str:
    """A module that is the reference's `Model` with another forward: it asks the reference for shapes, and the operator for values."""
    return rendered("model_new.py.j2", project, signature)


def rendered(name: str, project: Project, signature: Signature) -> str:
    """A template of ours, filled; a value that is missing is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    try:
        template = environment.get_template(name)
        return template.render(
            op=project.op,
            entry=project.entry,
            tensors=(*signature.inputs, *signature.params),
            numbers=signature.scalars,
            outputs=signature.outputs,
            types=TYPES,
            kinds=NUMBERS,
        )
    except TemplateError as error:
        raise UserError(f"{TEMPLATES / name}: {error.message}; correct the file") from error
