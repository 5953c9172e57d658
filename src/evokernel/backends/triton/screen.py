"""A look at the text: what a launch function may import, and names that reach out of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

LIMIT_BYTES = 256 << 10
IMPORTS = ("torch", "triton", "math", "functools", "itertools", "typing", "__future__", "dataclasses", "operator")
REACHING = frozenset(
    ["eval", "exec", "compile", "open", "input", "breakpoint", "globals", "vars", "__import__", "memoryview", "exit", "quit"]
)
WITHIN = frozenset(
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
TORCH = (
    "torch.ops",
    "torch._C",
    "torch.utils",
    "torch.compile",
    "torch.cuda",
    "torch.library",
    "torch._dynamo",
    "torch.jit",
    "torch.hub",
    "torch.classes",
)


def findings(files: Mapping[str, str]) -> Iterator[str]:
    """What has no place in a kernel's file."""
    for name, text in sorted(files.items()):
        if len(text.encode(errors="replace")) > LIMIT_BYTES:
            yield f"{name} is longer than {LIMIT_BYTES >> 10} KiB"
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # Python itself will say what is wrong
        yield from (f"{name} line {line}: {what}" for line, what in of_tree(tree))


def of_tree(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, f"imports {one.name}: {allowed()}") for one in node.names if not is_allowed(one.name))
        elif isinstance(node, ast.ImportFrom):
            if node.level or not is_allowed(node.module or ""):
                yield node.lineno, f"imports from {'.' * node.level}{node.module or ''}: {allowed()}"
        elif isinstance(node, ast.Name) and node.id in REACHING:
            yield node.lineno, f"uses {node.id}: a launch function only looks at tensors and launches kernels"
        elif isinstance(node, ast.Attribute):
            whole = dotted(node)
            if node.attr in WITHIN:
                yield node.lineno, f"uses .{node.attr}: a launch function only looks at tensors and launches kernels"
            elif whole in TORCH:
                yield node.lineno, f"uses {whole}: PyTorch is there for views and scratch"


def is_allowed(module: str) -> bool:
    return module.partition(".")[0] in IMPORTS and not any(module == one or module.startswith(f"{one}.") for one in TORCH)


def allowed() -> str:
    return "torch, triton, math, functools, itertools, typing and dataclasses are all it may import"


def dotted(node: ast.expr) -> str:
    """`torch.ops` of an attribute of a name."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""
