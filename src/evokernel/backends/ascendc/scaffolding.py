"""Generates the files around an operator that follow from its signature: msopgen's JSON, a C++ binding, a PyTorch module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.ascendc.cann.description import operator_json
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project
    from evokernel.core.records import Signature

TEMPLATE_FOLDER = Path(__file__).parent / "scaffolding"
BIND_FILE, MODEL_FILE = "op.cpp", "model_new.py"
ATEN_TYPES = {
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
    "complex64": "kComplexFloat",
}
SCALAR_TYPES = {"int": "int64_t", "float": "double", "bool": "bool"}
"""Parameter types of aclnn: EXEC_NPU_CMD passes a number with its C++ type."""


def scaffolding_files(project: Project, signature: Signature) -> dict[str, str]:
    """All files, by the names that MultiKernelBench's build expects."""
    return {
        f"{project.entry}.json": operator_json(project, signature),
        BIND_FILE: render_bind(project, signature),
        MODEL_FILE: render_model(project, signature),
    }


def render_bind(project: Project, signature: Signature) -> str:
    """Render a C++ extension with one function, which takes the shapes of the outputs as lists."""
    return render_template("op.cpp.j2", project, signature)


def render_model(project: Project, signature: Signature) -> str:
    """Render a subclass of the reference's `Model` whose forward takes shapes from the reference and values from the operator."""
    return render_template("model_new.py.j2", project, signature)


def render_template(name: str, project: Project, signature: Signature) -> str:
    """Render a template of this package; a missing value is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

    environment = Environment(
        loader=FileSystemLoader(TEMPLATE_FOLDER),
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
            types=ATEN_TYPES,
            kinds=SCALAR_TYPES,
        )
    except TemplateError as error:
        raise UserError(f"{TEMPLATE_FOLDER / name}: {error.message}. Correct the template.") from error
