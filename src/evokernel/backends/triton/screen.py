"""Screens the source text: allowed imports, and names that a launch function may not use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from evokernel.backends.gpu.model_facts import CLASS

MAX_SOURCE_BYTES = 256 << 10
IMPORTS = ("torch", "triton", "math", "functools", "itertools", "typing", "__future__", "dataclasses", "operator")
FORBIDDEN_NAMES = frozenset(
    ["eval", "exec", "compile", "open", "input", "breakpoint", "globals", "vars", "__import__", "memoryview", "exit", "quit"]
)
FORBIDDEN_ATTRIBUTES = frozenset(
    [
        "__dict__",
        "__globals__",
        "__builtins__",
        "__subclasses__",
        "__class__",
        "__bases__",
        "__mro__",
        "__code__",
        "__closure__",
        "__loader__",
        "__spec__",
    ]
)
DEVICE_MODULE = "torch.cuda"
FORBIDDEN_TORCH = (
    "torch.ops",
    "torch._C",
    "torch.utils",
    "torch.compile",
    DEVICE_MODULE,
    "torch.library",
    "torch._dynamo",
    "torch.jit",
    "torch.hub",
    "torch.classes",
)


def is_model(text: str) -> bool:
    """Whether a file is a KernelBench solution and has no launch function."""
    return f"class {CLASS}" in text and not re.search(r"^def kernel\(", text, re.MULTILINE)


def find_violations(files: Mapping[str, str]) -> Iterator[str]:
    """Yields each construct that a kernel file may not use, with its line."""
    for name, text in sorted(files.items()):
        if not name.endswith(".py"):
            continue
        if len(text.encode(errors="replace")) > MAX_SOURCE_BYTES:
            yield f"{name} is longer than {MAX_SOURCE_BYTES >> 10} KiB; compute values instead of storing tables"
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # Python reports the syntax error later
        yield from (f"{name} line {line}: {what}" for line, what in find_tree_violations(tree, is_model(text)))


def find_tree_violations(tree: ast.Module, is_model: bool = False) -> Iterator[tuple[int, str]]:
    """Yields violations with their lines. A model may ask `torch.cuda` about the device: it gets the answers of a substitute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, f"imports {one.name}: {allowed_imports_text()}") for one in node.names if not is_allowed(one.name))
        elif isinstance(node, ast.ImportFrom):
            if node.level or not is_allowed(node.module or ""):
                yield node.lineno, f"imports from {'.' * node.level}{node.module or ''}: {allowed_imports_text()}"
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            yield node.lineno, f"uses {node.id}: a launch function may only read tensor properties and launch kernels"
        elif isinstance(node, ast.Attribute):
            full_name = dotted_name(node)
            if node.attr in FORBIDDEN_ATTRIBUTES:
                yield node.lineno, f"uses .{node.attr}: a launch function may only read tensor properties and launch kernels"
            elif full_name in FORBIDDEN_TORCH and not (is_model and full_name == DEVICE_MODULE):
                yield node.lineno, f"uses {full_name}: use PyTorch only for views and scratch"


def is_allowed(module: str) -> bool:
    return module.partition(".")[0] in IMPORTS and not any(module == one or module.startswith(f"{one}.") for one in FORBIDDEN_TORCH)


def allowed_imports_text() -> str:
    return "import only torch, triton, math, functools, itertools, typing and dataclasses"


def dotted_name(node: ast.expr) -> str:
    """Returns the dotted name of an attribute chain, such as `torch.ops`."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted_name(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""
