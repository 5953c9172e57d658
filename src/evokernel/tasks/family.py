"""Names the families of an operator from the calls its source makes; nothing is run."""

from __future__ import annotations

import ast
from typing import NamedTuple

from evokernel.core.op_taxonomy import BUILTIN, CALLS, KINDS

FAMILIES = (*(kind for kind in CALLS if kind != "recurrent"), "optimiser", "elementwise", "fuse")
ROOTS = frozenset({"abs", "norm", "pow", "rsqrt", "sqrt", "square", "std", "var", "vectornorm"})
TARGETS = frozenset({"label", "labels", "target", "targets"})


class Families(NamedTuple):
    """What an operator is, and what it is made of."""

    main: str
    """One of FAMILIES, or what the module's own `FAMILY = "..."` says."""
    parts: tuple[str, ...]
    """Every kind of call in it."""
    category: str
    """What the module's own `CATEGORY = "..."` says; else empty."""


def families(source: str) -> Families:
    """Of a task's text. Raises SyntaxError as `ast.parse` does."""
    tree = ast.parse(source)
    nodes = [node for part in tree.body if computes(part) for node in ast.walk(part)]
    words = [word for node in nodes if (word := called(node))]
    kinds = list(dict.fromkeys(KINDS[word] for word in words if word in KINDS))
    main = declared(tree, "FAMILY") or decide(words, forward(nodes))
    return Families(main, tuple(kinds) or (main,), declared(tree, "CATEGORY"))


def declared(tree: ast.Module, name: str) -> str:
    """The text a module-level assignment gives a name; empty when there is none."""
    found = [literal(node) for node in tree.body if isinstance(node, ast.Assign) and named(node.targets[0], name)]
    return (found[-1] if found else None) or ""


def decide(words: list[str], body: ast.FunctionDef | None) -> str:
    """The family of an operator that makes these calls."""
    kinds = {KINDS[word] for word in words if word in KINDS}
    arithmetic = {type(node.op) for node in ast.walk(body) if isinstance(node, ast.BinOp)} if body else set()
    products = sum(KINDS.get(word) == "matmul" for word in words)
    if "attention" in kinds or (products > 1 and "softmax" in kinds and not kinds & {"convolution", "recurrent"}):
        return "attention"
    heavy = kinds & {"matmul", "convolution", "recurrent"}
    if heavy:
        plain = len(heavy) == 1 and not kinds - heavy and not arithmetic - {ast.MatMult} and "recurrent" not in heavy
        return heavy.pop() if plain else "fuse"
    arguments = {a.arg for a in body.args.args} if body else set()
    if "loss" in kinds or ("reduction" in kinds and arguments & TARGETS):
        return "loss"
    if kinds in ({"gather", "sorting"}, {"reduction", "quantise"}):  # what follows the order; the scale found before rounding
        kinds -= {"gather", "reduction"}
    if "reduction" in kinds and ast.Div in arithmetic:
        # written out by hand: a sum of exponentials divides in a softmax, a root or an absolute value in a normalisation
        kinds = (
            kinds - {"reduction"} | {"softmax"}
            if "exp" in words
            else kinds - {"reduction"} | {"normalisation"}
            if ROOTS & set(words)
            else kinds
        )
    return kinds.pop() if len(kinds) == 1 else "fuse" if kinds else "elementwise"


def computes(node: ast.stmt) -> bool:
    """Whether a module-level statement is part of the operator, not of its inputs."""
    return isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name not in ("get_inputs", "get_init_inputs")


def forward(nodes: list[ast.AST]) -> ast.FunctionDef | None:
    """The method that computes."""
    return next((node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "forward"), None)


def called(node: ast.AST) -> str | None:
    """The bare word of what is called: `F.max_pool2d` and `nn.MaxPool2d` are both `maxpool2d`; `@` is `matmul`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "matmul"
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):
        if named(node.func.value, "self"):  # a part made in __init__, where its class already told
            return None
        return node.func.attr.replace("_", "").lower()
    if isinstance(node.func, ast.Name) and node.func.id not in BUILTIN:
        return node.func.id.replace("_", "").lower()
    return None


def literal(node: ast.Assign) -> str | None:
    """The text assigned, when it is a string."""
    return node.value.value if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else None


def named(target: ast.expr, name: str) -> bool:
    """Whether an expression is just this name."""
    return isinstance(target, ast.Name) and target.id == name
