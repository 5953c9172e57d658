"""Classifies an operator into families by the calls in its source, without running it."""

from __future__ import annotations

import ast
from typing import NamedTuple

from evokernel.core.op_taxonomy import CALLS_BY_KIND, KIND_BY_CALL, PYTHON_BUILTINS

FAMILIES = (*(kind for kind in CALLS_BY_KIND if kind != "recurrent"), "optimiser", "elementwise", "fuse")
NORM_CALLS = frozenset({"abs", "norm", "pow", "rsqrt", "sqrt", "square", "std", "var", "vectornorm"})
TARGET_ARGUMENTS = frozenset({"label", "labels", "target", "targets"})


class Families(NamedTuple):
    """Family of an operator, and the families of its parts."""

    main: str
    """One of FAMILIES, or the module's own `FAMILY = "..."`."""
    parts: tuple[str, ...]
    """Kinds of all calls in the source."""
    category: str
    """The module's own `CATEGORY = "..."`; empty if there is none."""


def classify_operator(source: str) -> Families:
    """Classify the operator of a task's source. Raises SyntaxError as `ast.parse` does."""
    tree = ast.parse(source)
    nodes = [node for part in tree.body if is_operator_code(part) for node in ast.walk(part)]
    words = [word for node in nodes if (word := called_name(node))]
    kinds = list(dict.fromkeys(KIND_BY_CALL[word] for word in words if word in KIND_BY_CALL))
    main = declared_text(tree, "FAMILY") or choose_family(words, find_forward(nodes))
    return Families(main, tuple(kinds) or (main,), declared_text(tree, "CATEGORY"))


def declared_text(tree: ast.Module, name: str) -> str:
    """Return the string that a module-level assignment gives a name; empty if there is none."""
    values = [assigned_string(node) for node in tree.body if isinstance(node, ast.Assign) and is_name(node.targets[0], name)]
    return (values[-1] if values else None) or ""


def choose_family(words: list[str], body: ast.FunctionDef | None) -> str:
    """Choose the family of an operator that makes these calls."""
    kinds = {KIND_BY_CALL[word] for word in words if word in KIND_BY_CALL}
    arithmetic = {type(node.op) for node in ast.walk(body) if isinstance(node, ast.BinOp)} if body else set()
    products = sum(KIND_BY_CALL.get(word) == "matmul" for word in words)
    if "attention" in kinds or (products > 1 and "softmax" in kinds and not kinds & {"convolution", "recurrent"}):
        return "attention"
    heavy = kinds & {"matmul", "convolution", "recurrent"}
    if heavy:
        plain = len(heavy) == 1 and not kinds - heavy and not arithmetic - {ast.MatMult} and "recurrent" not in heavy
        return heavy.pop() if plain else "fuse"
    arguments = {a.arg for a in body.args.args} if body else set()
    if "loss" in kinds or ("reduction" in kinds and arguments & TARGET_ARGUMENTS):
        return "loss"
    if kinds in ({"gather", "sorting"}, {"reduction", "quantise"}):  # gathering the sorted elements; computing the scale before rounding
        kinds -= {"gather", "reduction"}
    if "reduction" in kinds and ast.Div in arithmetic:
        # written out by hand: a softmax divides by a sum of exponentials, a normalisation by a root or an absolute value
        kinds = (
            kinds - {"reduction"} | {"softmax"}
            if "exp" in words
            else kinds - {"reduction"} | {"normalisation"}
            if NORM_CALLS & set(words)
            else kinds
        )
    return kinds.pop() if len(kinds) == 1 else "fuse" if kinds else "elementwise"


def is_operator_code(node: ast.stmt) -> bool:
    """Return whether a module-level statement belongs to the operator, and not to its inputs."""
    return isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name not in ("get_inputs", "get_init_inputs")


def find_forward(nodes: list[ast.AST]) -> ast.FunctionDef | None:
    """Return the `forward` method."""
    return next((node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "forward"), None)


def called_name(node: ast.AST) -> str | None:
    """Return the normalised name of a called function: `F.max_pool2d` and `nn.MaxPool2d` give `maxpool2d`; `@` gives `matmul`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "matmul"
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):
        if is_name(node.func.value, "self"):  # a submodule: its class was counted in __init__
            return None
        return node.func.attr.replace("_", "").lower()
    if isinstance(node.func, ast.Name) and node.func.id not in PYTHON_BUILTINS:
        return node.func.id.replace("_", "").lower()
    return None


def assigned_string(node: ast.Assign) -> str | None:
    """Return the assigned value if it is a string."""
    return node.value.value if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else None


def is_name(target: ast.expr, name: str) -> bool:
    """Return whether an expression is exactly this name."""
    return isinstance(target, ast.Name) and target.id == name
