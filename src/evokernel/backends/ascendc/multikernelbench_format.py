"""Parses the format of MultiKernelBench: one text with six Python string literals. No part of it is executed."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.bindings import parse_bound_functions
from evokernel.backends.ascendc.model_call import parse_model_call
from evokernel.backends.ascendc.model_values import OperatorCall, positional_arguments
from evokernel.backends.ascendc.project import Project, assemble_project, match_operator_and_kernel
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.records import Signature

JSON, TILING, HOST, KERNEL, BIND, MODEL = PARTS = (
    "project_json_src",
    "host_tiling_src",
    "host_operator_src",
    "kernel_src",
    "python_bind_src",
    "model_src",
)
EVALUATION = "eval_src"
"""Replaces the model in some texts: code that times the bound function on its own inputs."""
FENCE = re.compile(r"^```[ \t]*(?:python|py)?[ \t]*\r?\n(.*?)(?:^```|\Z)", re.DOTALL | re.MULTILINE)
INCLUDED = re.compile(r'#\s*include\s*"(\w+_tiling\.h)"')


def parse_project(text: str, signature: Signature) -> Project:
    """Parse the project in a text of six parts."""
    parts = extract_parts(text)
    op = operator_type(parts[JSON])
    name = source_parser.to_snake_case(op)
    include = INCLUDED.search(source_parser.strip_inactive_code(parts[HOST]))
    header = f"op_host/{include[1] if include else f'{name}_tiling.h'}"
    host, kernel = f"op_host/{name}.cpp", f"op_kernel/{name}.cpp"
    operators = source_parser.find_operators(parts[HOST])
    if op not in operators:
        raise CandidateError("symbol", f"{JSON} describes {op}, but OP_ADD in {HOST} names {', '.join(operators) or 'no operator'}")
    entries = source_parser.find_kernel_entries(parts[KERNEL])
    if not entries:
        raise CandidateError("symbol", f'{KERNEL} must define extern "C" __global__ __aicore__ void {name}(GM_ADDR ...)')
    _, _, entry = match_operator_and_kernel([op], {kernel: entries})
    require_no_host_header(parts[KERNEL], header)
    files = {header: parts[TILING], host: parts[HOST], kernel: parts[KERNEL]}
    project = assemble_project(files, signature, kernel, (host,), op, entry)
    call = find_call(parts, name, signature)
    return replace(project, bind_source=parts[BIND], bound_function=call.function, call_arguments=call.arguments)


def require_no_host_header(kernel_source: str, header: str) -> None:
    """Refuse a kernel that includes the tiling header: CANN compiles kernels without the folder of the host code."""
    name = header.rpartition("/")[2]
    for number, line in enumerate(source_parser.strip_inactive_code(kernel_source).splitlines(), 1):
        if re.match(rf'\s*#\s*include\s*"{re.escape(name)}"', line):
            message = f"{KERNEL} line {number}: {name} file not found: it is a header of the host; remove the include"
            raise CandidateError("compile_error", f"{message}, GET_TILING_DATA declares the tiling struct by itself")


def extract_parts(text: str) -> dict[str, str]:
    """The six strings by name; other assignments are ignored."""
    fence = FENCE.search(text)
    try:
        body = ast.parse(fence[1] if fence else text).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise CandidateError(
            "no_code", f"the text must assign {', '.join(PARTS)} as Python strings; it is not valid Python: {error}"
        ) from error
    parts = {}
    for statement in body:
        names, value = assignment_targets(statement)
        for name in names:
            if name in (*PARTS, EVALUATION) and value is not None:
                parts[name] = string_literal(name, value)
    missing = [part for part in PARTS if not parts.get(part, "").strip()]
    if MODEL in missing and EVALUATION in parts:
        missing.remove(MODEL)
    if missing:
        raise CandidateError("no_code", f"the text lacks {', '.join(missing)}; it must assign {', '.join(PARTS)} as Python strings")
    return parts


def assignment_targets(statement: ast.stmt) -> tuple[list[str], ast.expr | None]:
    """The names that a statement assigns, and what."""
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)], statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id], statement.value
    return [], None


def string_literal(name: str, value: ast.expr) -> str:
    """A string that is written out."""
    try:
        text = ast.literal_eval(value)
    except (ValueError, TypeError, MemoryError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise CandidateError("no_code", f"{name} must be a single string literal, because the text is not executed")
    return text


def operator_type(text: str) -> str:
    """The operator type in the JSON description."""
    try:
        description = json.loads(text)
        first = description[0] if isinstance(description, list) else description
        op = first["op"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CandidateError("no_code", f'{JSON} must be JSON with "op", "input_desc" and "output_desc": {error}') from error
    if not isinstance(op, str) or not re.fullmatch(r"[A-Z][A-Za-z0-9]*", op):
        raise CandidateError("no_code", f"{JSON} must name an operator such as AddCustom, not {op!r}")
    return op


def find_call(parts: dict[str, str], name: str, signature: Signature) -> OperatorCall:
    """The call of the bound function."""
    functions = parse_bound_functions(parts[BIND])
    if not functions:
        raise CandidateError("symbol", f"{BIND} binds no function: add PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def(...) }}")
    if parts.get(MODEL, "").strip():
        return parse_model_call(parts[MODEL], functions, signature)
    only = functions.get(name) or next(iter(functions.values()))
    return OperatorCall(only.name, positional_arguments(only, signature))
