"""Runs expert Ascend C operators on the simulator: how many compile, how many are right at each level, and why the others fail.

    python benchmarks/ascendc_experts.py CHECKOUT [--names Lerp,AddRmsNorm] [--out FOLDER]

CHECKOUT has the layout of NPUKernelBench: `tasks/<level>/<category>/<Operator>`, with an expert's project in `answer/0`. Its `validation`
has a reference (module.py), inputs (prepare_inputs.py), sizes (test_cases.csv) and a binding (pybind.cpp). The smallest test case with at
least 1000 elements is used, else the first. The operator is called through its binding, with the arguments of the checkout's `ModelNew`:
tensors that `ModelNew` computes first become inputs, and an operator that writes to its inputs gets copies. Writes experts.md and
experts.json; the same command resumes, and `--again TEXT` repeats the rows whose reason or detail contains a text.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import math
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.bindings import parse_bound_functions
from evokernel.backends.ascendc.entry import TYPES
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Candidate, Job, Outcome, Task
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

LEAST_ELEMENTS = 1000
SKIPPED_IMPORTS = ("torch_npu", "kernel_gen_ops", "framework", "pandas")
BINDING_MODULE = "kernel_gen_ops"
RENAMED = {"Model": "OriginalModel", "ModelNew": "CallingModel", "get_inputs": "draw_inputs", "get_init_inputs": "draw_init_inputs"}
WRONG_TYPE = re.compile(r"E-BIND-RESULT.*?result (?P<index>\d+) of \w+ is (?P<type>[A-Z]\w+) ")
SCALAR_TYPES = {"Half": "float16", "Float": "float32", "Double": "float64", "BFloat16": "bfloat16", "Bool": "bool", "Byte": "uint8"}
SCALAR_TYPES |= {"ComplexFloat": "complex64", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64"}
HOST_ERROR = re.compile(r"E-(?:BIND-(?!TYPE)|OP-|TILING-)")
"""Errors of host code, which are the same at every level."""
HOST_BYTES = 4096
UNUSED_INCLUDE = re.compile(r"#\s*include\s*<runtime/[^>]*>")
"""Headers of the driver, which bindings include without calling it."""
COMMON_HEADERS = "libs/common_include/cann-ops/src/common/inc"
TASK = """
import torch


class CallRecorded(BaseException):
    pass


class RecordingModule:
    def __getattr__(self, name):
        def record(*arguments):
            raise CallRecorded(name, arguments)

        return record


kernel_gen_ops = RecordingModule()
CASE = {case!r}


def list_leaves(value):
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in list_leaves(item)]
    return [value]


def draw_case():
    init, inputs = list(draw_init_inputs(CASE, device="cpu")), list(draw_inputs(CASE, device="cpu"))
    try:
        CallingModel(*init)(*inputs)
    except CallRecorded as call:
        return init, inputs, call.args[0], list(call.args[1])
    raise ValueError("ModelNew calls no operator")


def draw_layout():
    with torch.random.fork_rng():
        torch.manual_seed(0)  # numbers that the checkout draws are the same in the reference and in the call
        return draw_case()


NUMBER_POSITIONS = {number_positions!r}


def list_tensors(init, inputs, arguments):
    found, numbers = [], [arguments[i] for i in NUMBER_POSITIONS if i < len(arguments)]
    for leaf in list_leaves([*arguments, *init, *inputs]):
        if isinstance(leaf, torch.Tensor) and not any(leaf is other for other in (*found, *numbers)):
            found.append(leaf)
    return found


def fill_tensors(value, tensors):
    if isinstance(value, list | tuple):
        return type(value)(fill_tensors(item, tensors) for item in value)
    return tensors[value.index] if isinstance(value, TensorIndex) else value


class TensorIndex:
    def __init__(self, index):
        self.index = index


def number_tensors(value, tensors):
    if isinstance(value, list | tuple):
        return type(value)(number_tensors(item, tensors) for item in value)
    index = next((i for i, other in enumerate(tensors) if other is value), None)
    return value if index is None else TensorIndex(index)


OUTPUT_TYPES = {output_types!r}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        init, inputs, _, arguments = draw_layout()
        tensors = list_tensors(init, inputs, arguments)
        self.layout = number_tensors(init, tensors), number_tensors(inputs, tensors)

    def forward(self, {parameters}):
        init, inputs = fill_tensors(self.layout, [{parameters}])
        try:
            results = OriginalModel(*init)(*inputs)
        except RuntimeError:  # a reference that differentiates
            leaves = [leaf.detach().clone() for leaf in [{parameters}]]
            init, inputs = fill_tensors(self.layout, [leaf.requires_grad_(leaf.is_floating_point()) for leaf in leaves])
            with torch.enable_grad():
                results = OriginalModel(*init)(*inputs)
        outputs = [leaf.detach() for leaf in list_leaves(results) if isinstance(leaf, torch.Tensor)]
        types = [getattr(torch, name) if name else None for name in OUTPUT_TYPES] or [None]
        casts = [types[min(i, len(types) - 1)] for i in range(len(outputs))]
        return [output.to(kind) if kind else output for output, kind in zip(outputs, casts)]


def get_inputs():
    init, inputs, _, arguments = draw_case()
    return [tensor.detach().contiguous().to("cpu") for tensor in list_tensors(init, inputs, arguments)]


def get_init_inputs():
    return []
"""
MODEL = """
import torch
import custom_ops_lib


class ModelNew(torch.nn.Module):
    def forward(self, {parameters}):
        return custom_ops_lib.{function}({arguments})
"""


class Unsupported(Exception):
    """The checkout's operator cannot be made a task."""


class SourceCleaner(ast.NodeTransformer):
    """Removes imports of device libraries and renames the classes and functions of a validation file."""

    def visit_Import(self, node: ast.Import) -> ast.stmt:
        node.names = [alias for alias in node.names if alias.name.split(".")[0] not in SKIPPED_IMPORTS]
        return node if node.names else ast.Pass()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        return ast.Pass() if (node.module or "").split(".")[0] in SKIPPED_IMPORTS else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        node.name = RENAMED.get(node.name, node.name)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.name = RENAMED.get(node.name, node.name)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        node.id = RENAMED.get(node.id, node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Moving a tensor to a device does nothing on the CPU."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("npu", "cuda") and not node.args:
            return node.func.value
        return node


def clean_source(text: str) -> str:
    """The source of a validation file for the CPU."""
    return ast.unparse(ast.fix_missing_locations(SourceCleaner().visit(ast.parse(text))))


def read_case(path: Path) -> dict[str, Any]:
    """The smallest test case with enough elements, else the first one; numbers as the checkout reads them."""
    rows = list(csv.DictReader(path.read_text().splitlines(), delimiter=";"))
    cases = [{key: parse_value(value) for key, value in row.items() if key} for row in rows]
    sized = sorted(cases, key=count_elements)
    return next((case for case in sized if count_elements(case) >= LEAST_ELEMENTS), cases[0])


def parse_value(text: str | None) -> Any:
    """A number, or the text."""
    for kind in (int, float):
        try:
            value = kind(text or "")
        except ValueError:
            continue
        return int(value) if isinstance(value, float) and value == int(value) and "e" not in (text or "").lower() else value
    if (text or "").lower() in ("true", "false"):
        return (text or "").lower() == "true"
    return (text or "").strip()


def count_elements(case: dict[str, Any]) -> int:
    """Elements of the largest shape of a test case; the product of its sizes if it has no shape."""
    largest, sizes = 0, 1
    for key, value in case.items():
        if isinstance(value, str) and value.startswith(("[", "(")):
            numbers = [[int(number) for number in re.findall(r"\d+", shape)] for shape in re.findall(r"[\[(]([^\[\]()]*)[\])]", value)]
            largest = max(largest, sum(math.prod(shape) for shape in numbers if shape))
        elif isinstance(value, int) and not isinstance(value, bool) and key != "case_id":
            sizes *= max(1, abs(value))
    return largest or sizes


def make_task(folder: Path, files: dict[str, str], form: CallForm, workdir: Path) -> tuple[Task, str, list[str]]:
    """The task of an operator, the function that its model calls, and the arguments of the call in Python."""
    validation = folder / "validation"
    sources = [clean_source((validation / name).read_text()) for name in ("module.py", "prepare_inputs.py")]
    head = "from __future__ import annotations\n" + "\n".join(
        re.sub(r"^from __future__.*$", "", text, flags=re.MULTILINE) for text in sources
    )
    case = read_case(validation / "test_cases.csv")
    scope: dict[str, Any] = {"__name__": "expert"}
    bound = next(iter(parse_bound_functions((validation / "pybind.cpp").read_text()).values()), None)
    positions = [i for i, parameter in enumerate(bound.parameters) if parameter.kind in ("float", "int")] if bound else []
    fields = {"case": case, "output_types": [], "parameters": "x", "number_positions": positions}
    exec(head + TASK.format(**fields), scope)  # references are trusted
    init, inputs, function, arguments = scope["draw_layout"]()
    tensors = scope["list_tensors"](init, inputs, arguments)
    names = [f"t{index}" for index in range(len(tensors))]
    fields |= {"parameters": ", ".join(names), "output_types": form.output_types}
    path = workdir / f"{folder.name}.py"
    path.write_text(head + TASK.format(**fields))
    suffix = ".clone()" if is_in_place(files) else ""
    arguments = [value.item() if i in positions and isinstance(value, torch.Tensor) else value for i, value in enumerate(arguments)]
    written = [write_argument(argument, tensors, suffix) for argument in arguments]
    small = [isinstance(value, torch.Tensor) and value.nbytes <= HOST_BYTES for value in arguments]
    if form.is_on_host:
        written = [f"{text}.cpu()" if is_small and text.isidentifier() else text for text, is_small in zip(written, small)]
    return load_tasks(str(path))[0], function, written


def is_in_place(files: dict[str, str]) -> bool:
    """Whether the operator writes to an input: it has no output, or one with the name of an input."""
    definition = source_parser.parse_op_definition(files.values())
    outputs = {output.name for output in definition.outputs}
    return not outputs or any(tensor.name in outputs for tensor in definition.inputs)


def find_column_output_types(files: dict[str, str], task: Task, arguments: list[str]) -> list[str]:
    """The element type of each output in the first column of DataType that fits the tensors of the call; [] if none fits."""
    definition = source_parser.parse_op_definition(files.values())
    dtypes = {tensor.name: tensor.dtype for tensor in task.signature.inputs}
    names = [match[0] if (match := re.match(r"t\d+", text.lstrip("["))) else "" for text in arguments]
    codes = [TYPES[dtypes[name]][0] if name else "" for name in names[: len(definition.inputs)]]
    by_code = {code: dtype for dtype, (code, _) in TYPES.items()}
    for column in range(max((len(tensor.types) for tensor in definition.inputs), default=0)):
        rows = [tensor.types[column] if column < len(tensor.types) else "" for tensor in definition.inputs]
        if all(code in ("", own) for code, own in zip(codes, rows, strict=False)):
            return [by_code.get(output.types[column], "") if column < len(output.types) else "" for output in definition.outputs]
    return []


def find_output_types(files: dict[str, str]) -> list[str]:
    """The element type of each output, where the operator definition has one type only; "" where the reference decides."""
    definition = source_parser.parse_op_definition(files.values())
    by_code = {code: dtype for dtype, (code, _) in TYPES.items()}
    return [by_code.get(output.types[0], "") if len(set(output.types)) == 1 else "" for output in definition.outputs]


def write_argument(value: Any, tensors: list[Any], suffix: str) -> str:
    """An argument of the bound function as a Python expression. A tensor that the checkout draws for the host has a device number."""
    if isinstance(value, torch.Tensor):
        name = f"t{next(index for index, other in enumerate(tensors) if other is value)}"
        return f"{name}.cpu()" if value.device.index is not None else f"{name}{suffix}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(write_argument(item, tensors, suffix) for item in value)}]"
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    raise Unsupported(f"the model passes a {type(value).__name__}")


def read_project(folder: Path, checkout: Path) -> dict[str, str]:
    """The expert's sources, and the headers of the checkout's common library that they include."""
    root = folder / "answer/0"
    files = {
        path.relative_to(root).as_posix(): path.read_text(errors="replace")
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix in (".cpp", ".h", ".hpp", ".cc")
    }
    common = {path.name: path for path in (checkout / COMMON_HEADERS).rglob("*.h")} if (checkout / COMMON_HEADERS).exists() else {}
    waiting = list(files)
    own_names = {Path(name).name for name in files}
    simulator = Path(source_parser.__file__).parent / "simulator/include"
    while waiting:
        for include in re.findall(r'#\s*include\s*["<]([^">]+)[">]', files[waiting.pop()]):
            name = Path(include).name
            if name in common and name not in own_names and not (simulator / include).exists() and not list(simulator.rglob(name)):
                own_names.add(name)
                files[f"common/{include.lstrip('./')}"] = common[name].read_text(errors="replace")
                waiting.append(f"common/{include.lstrip('./')}")
    return files


class CallForm(NamedTuple):
    """What the checkout does not state about a call."""

    output_types: list[str]
    """Element types that the binding returns; "" where the reference's type is right."""
    is_on_host: bool = False
    """Whether the binding reads the values of small tensors on the host."""


def verify_operator(folder: Path, checkout: Path, args: argparse.Namespace, workdir: Path) -> dict[str, Any]:
    """The row of one operator, again in another form if the binding's error says so."""
    files = read_project(folder, checkout)
    if not files:
        return {"name": folder.name, "compiled": None, "reason": "no_answer", "detail": "the checkout has no expert kernel"}
    form = CallForm(find_output_types(files))
    row = verify_in_form(folder, files, form, args, workdir)
    if match := WRONG_TYPE.search(row["detail"]):
        output_types = form.output_types + [""] * (int(match["index"]) + 1 - len(form.output_types))
        output_types[int(match["index"])] = SCALAR_TYPES[match["type"]]
        row = verify_in_form(folder, files, form._replace(output_types=output_types), args, workdir)
    if row["reason"] == "compile_error":
        task, _, arguments = make_task(folder, files, form, workdir)
        output_types = find_column_output_types(files, task, arguments)
        if any(output_types) and output_types != form.output_types:
            row = verify_in_form(folder, files, form._replace(output_types=output_types), args, workdir)
    if "the tensor is on the device: call cpu()" in row["detail"]:
        row = verify_in_form(folder, files, form._replace(is_on_host=True), args, workdir)
    return row


def verify_in_form(folder: Path, files: dict[str, str], form: CallForm, args: argparse.Namespace, workdir: Path) -> dict[str, Any]:
    """The row of one operator: at `strict`, and at `hardware` if a rule fails it there."""
    row: dict[str, Any] = {"name": folder.name, "compiled": None, "strict": False, "hardware": False, "reason": "", "detail": ""}
    task, candidate = make_candidate(folder, files, form, workdir)
    for level in ("strict", "hardware"):
        outcome = verify_at_level(task, candidate, level, args)
        failure = outcome.failure
        is_right = any(gate.gate == "check" and gate.passed for gate in outcome.gates)
        row |= {"compiled": outcome.is_compiled, level: is_right, f"{level}_us": outcome.latency_us}
        if is_right:
            break
        row |= {"reason": failure.reason if failure else "", "detail": failure.detail if failure else ""}
        if not outcome.is_compiled or HOST_ERROR.match(row["detail"]):
            return row
    return row | {"hardware": row["strict"] or row["hardware"]}


def make_candidate(folder: Path, files: dict[str, str], form: CallForm, workdir: Path) -> tuple[Task, Candidate]:
    """The task of an operator, and its project with a binding and a model that calls it."""
    task, function, arguments = make_task(folder, files, form, workdir)
    operators = [name for text in files.values() for name in source_parser.find_operators(text)]
    binding = UNUSED_INCLUDE.sub("", (folder / "validation/pybind.cpp").read_text())
    operator = next(iter(operators), folder.name)
    binding = binding.replace("aclnnCustomOp", f"aclnn{operator}").replace("custom_pybind_api", function)
    model = MODEL.format(parameters=", ".join(t.name for t in task.signature.inputs), function=function, arguments=", ".join(arguments))
    return task, Candidate(backend="ascendc", files=files | {"pybind.cpp": binding, "model.py": model})


def verify_at_level(task: Task, candidate: Candidate, level: str, args: argparse.Namespace) -> Outcome:
    """Verify through the project's own path, on the simulator."""
    settings: dict[str, Any] = {"level": level, "toolchain": "simulator", "run_s": args.run_s, "build_timeout_s": 300.0}
    job = Job(backend="ascendc", settings=settings, task=task, candidate=candidate, timeout_s=args.timeout_s, protocol="paper")
    return verify(job)


def describe_row(folder: Path, checkout: Path, args: argparse.Namespace, workdir: Path) -> dict[str, Any]:
    """The row of one operator, also if it cannot be made a task."""
    start = time.monotonic()
    try:
        row = verify_operator(folder, checkout, args, workdir)
    except (UserError, InfraError, CandidateError, Unsupported, MemoryError) as error:
        row = {"name": folder.name, "compiled": None, "reason": type(error).__name__, "detail": str(error)}
    except Exception as error:  # a validation file of the checkout may raise anything
        row = {"name": folder.name, "compiled": None, "reason": "reference", "detail": f"{type(error).__name__}: {error}"}
    return row | {"group": f"{folder.parts[-3]}/{folder.parts[-2]}", "seconds": round(time.monotonic() - start, 1)}


def format_table(rows: list[dict[str, Any]]) -> str:
    """Format the summary and one line for each operator."""
    counts = {key: sum(bool(row.get(key)) for row in rows) for key in ("compiled", "hardware", "strict")}
    lines = [
        f"{len(rows)} operators: {counts['compiled']} compile, {counts['hardware']} right at hardware, {counts['strict']} at strict.",
        "",
    ]
    lines += [f"- {count} {reason or 'right at strict'}" for reason, count in Counter(row["reason"] for row in rows).most_common()]
    lines += ["", "| operator | compiles | hardware | strict | reason | detail |", "|---|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: (row["group"], row["name"])):
        marks = [
            ("yes" if row.get(key) else "no") if row["compiled"] is not None else "not run" for key in ("compiled", "hardware", "strict")
        ]
        detail = " ".join((row["detail"] or "").split())[:160].replace("|", "\\|")
        lines.append(f"| {row['group']}/{row['name']} | {' | '.join(marks)} | {row['reason']} | {detail} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--names", default="", help="only these operators")
    parser.add_argument(
        "--again", default="", help="repeat the rows whose reason or detail contains this text; `all` repeats every failure"
    )
    parser.add_argument("--timeout-s", type=float, default=300)
    parser.add_argument(
        "--run-s", type=float, default=60, help="seconds for one launch; the simulator runs only some blocks of longer ones"
    )
    parser.add_argument("--out", type=Path, default=Path("experts"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    json_path = args.out / "experts.json"
    rows: list[dict[str, Any]] = json.loads(json_path.read_text()) if json_path.exists() else []
    folders = sorted(path.parent for path in (args.checkout / "tasks").glob("*/*/*/validation"))
    wanted = [folder for folder in folders if not args.names or folder.name in args.names.split(",")]
    for folder in wanted:
        old_row = next((row for row in rows if row["name"] == folder.name), None)
        repeats = old_row is not None and args.again and old_row["reason"]
        if old_row and not (repeats and (args.again == "all" or args.again in old_row["reason"] + old_row["detail"])):
            continue
        with tempfile.TemporaryDirectory() as workdir:
            row = describe_row(folder, args.checkout, args, Path(workdir))
        rows = [other for other in rows if other["name"] != folder.name] + [row]
        json_path.write_text(json.dumps(rows, indent=1))
        verdict = (
            "strict" if row.get("strict") else "hardware" if row.get("hardware") else f"{row['reason']}: {row['detail'].strip()[:200]}"
        )
        print(f"{folder.name} ({row['seconds']} s): {verdict}", file=sys.stderr, flush=True)
    (args.out / "experts.md").write_text(format_table(rows))
    print(format_table([row for row in rows if not args.names or row["name"] in args.names.split(",")]))


if __name__ == "__main__":
    main()
