"""Refuses scalar mathematics in a kernel that CANN's compiler does not have: a core computes exp, log or tanh of vectors only."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from evokernel.backends.ascendc import source_parser
from evokernel.core.errors import CandidateError

VECTOR_FUNCTIONS = {
    "exp": "Exp", "exp2": "Exp", "expm1": "Exp", "log": "Ln", "log2": "Log2", "log10": "Log10", "log1p": "Ln",
    "tanh": "Tanh", "sinh": "Sinh", "cosh": "Cosh", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "pow": "Power", "cbrt": "Power", "erf": "Erf", "erfc": "Erfc",
}  # fmt: skip
"""Functions of <cmath> that no core has as a scalar, and the vector function that replaces each. sqrt exists as a scalar."""
CALL = re.compile(rf"(?<![\w.:>~])(?P<space>std\s*::\s*|::\s*)?(?P<name>(?:{'|'.join(VECTOR_FUNCTIONS)})f?)\s*\(")


def check_scalar_functions(files: Mapping[str, str], kernel: str, hosts: Collection[str]) -> None:
    """Refuse a kernel that calls such a function, unless the kernel defines it."""
    names = [kernel, *sorted(source_parser.included_files(kernel, files) - {kernel})]
    texts = {name: source_parser.strip_inactive_code(files[name]) for name in names if name not in hosts}
    own_names = {name for text in texts.values() for name in find_own_functions(text)}
    calls = [call for name, text in texts.items() for call in find_calls(name, text, own_names)]
    if calls:
        raise CandidateError("compile_error", "\n".join(calls[:3]))


def find_own_functions(text: str) -> set[str]:
    """Names of these functions that the text defines or declares itself, also as a macro."""
    own_names = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.MULTILINE))
    for call in CALL.finditer(text):
        before = re.search(r"(\w+)[\s&*]*$", text[: call.start()])
        if not call["space"] and before and before[1] not in ("return", "else", "case", "co_return", "throw"):
            own_names.add(call["name"])
    return own_names


def find_calls(file: str, text: str, own_names: Collection[str]) -> Iterator[str]:
    """One line for each call, with the vector function to use instead."""
    for call in CALL.finditer(text):
        name = call["name"]
        if name in own_names and not (call["space"] or "").startswith("std"):
            continue
        plain = name if name in VECTOR_FUNCTIONS else name.removesuffix("f")
        line, vector = text.count("\n", 0, call.start()) + 1, VECTOR_FUNCTIONS[plain]
        shown = f"std::{name}" if call["space"] else name
        yield (
            f"{file} line {line}: `{shown}` is not available in a kernel, because CANN's compiler has no scalar {plain}. "
            f"Compute it for a LocalTensor with {vector}; for one number, SetValue(0, x), {vector} over 8 elements, GetValue(0)."
        )
