"""MultiKernelBench's form: one text with six Python strings, read as literals. Nothing of it is run, not even the model's forward."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.bindings import bound_functions
from evokernel.backends.ascendc.model_call import Call, model_call, passed_in_order
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.backends.ascendc.project import Project
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
"""Stands for the model in some texts: it times the bound function on what it makes itself."""
FENCE = re.compile(r"^```[ \t]*(?:python|py)?[ \t]*\r?\n(.*?)(?:^```|\Z)", re.DOTALL | re.MULTILINE)
INCLUDED = re.compile(r'#\s*include\s*"(\w+_tiling\.h)"')


def read(text: str, signature: Signature) -> Project:
    """The project in such a text."""
    from evokernel.backends.ascendc.project import assembled, chosen

    found = parts(text)
    op = described(found[JSON])
    name = source_parser.snake(op)
    included = INCLUDED.search(source_parser.code(found[HOST]))
    header = f"op_host/{included[1] if included else f'{name}_tiling.h'}"
    host, kernel = f"op_host/{name}.cpp", f"op_kernel/{name}.cpp"
    operators = source_parser.operators(found[HOST])
    if op not in operators:
        raise CandidateError("symbol", f"{JSON} describes {op}, and OP_ADD in {HOST} names {', '.join(operators) or 'nothing'}")
    entries = source_parser.entries(found[KERNEL])
    if not entries:
        raise CandidateError("symbol", f'{KERNEL} must define extern "C" __global__ __aicore__ void {name}(GM_ADDR ...)')
    _, _, entry = chosen([op], {kernel: entries})
    files = {header: found[TILING], host: found[HOST], kernel: found[KERNEL]}
    project = assembled(files, signature, kernel, (host,), op, entry)
    call = called(found, name, signature)
    return replace(project, bind=found[BIND], function=call.function, call=call.passed)


def parts(text: str) -> dict[str, str]:
    """The strings by name. Other names are left alone."""
    fenced = FENCE.search(text)
    try:
        body = ast.parse(fenced[1] if fenced else text).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise CandidateError("no_code", f"the text must assign {', '.join(PARTS)} as Python strings; it is no Python: {error}") from error
    found = {}
    for statement in body:
        names, value = targets(statement)
        for name in names:
            if name in (*PARTS, EVALUATION) and value is not None:
                found[name] = literal(name, value)
    missing = [part for part in PARTS if not found.get(part, "").strip()]
    if MODEL in missing and EVALUATION in found:
        missing.remove(MODEL)
    if missing:
        raise CandidateError("no_code", f"the text lacks {', '.join(missing)}; it must assign {', '.join(PARTS)} as Python strings")
    return found


def targets(statement: ast.stmt) -> tuple[list[str], ast.expr | None]:
    """The names that a statement assigns, and what."""
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)], statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id], statement.value
    return [], None


def literal(name: str, value: ast.expr) -> str:
    """A string that is written out."""
    try:
        text = ast.literal_eval(value)
    except (ValueError, TypeError, MemoryError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise CandidateError("no_code", f"{name} must be one string that is written out; nothing in the text is run")
    return text


def described(text: str) -> str:
    """The operator that the json describes."""
    try:
        found = json.loads(text)
        first = found[0] if isinstance(found, list) else found
        op = first["op"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CandidateError("no_code", f'{JSON} must be json with "op", "input_desc" and "output_desc": {error}') from error
    if not isinstance(op, str) or not re.fullmatch(r"[A-Z][A-Za-z0-9]*", op):
        raise CandidateError("no_code", f"{JSON} must name an operator such as AddCustom, not {op!r}")
    return op


def called(found: dict[str, str], name: str, signature: Signature) -> Call:
    """How the bound function is called."""
    functions = bound_functions(found[BIND])
    if not functions:
        raise CandidateError("symbol", f"{BIND} binds no function: PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def(...) }}")
    if found.get(MODEL, "").strip():
        return model_call(found[MODEL], functions, signature)
    only = functions.get(name) or next(iter(functions.values()))
    return Call(only.name, passed_in_order(only, signature))
