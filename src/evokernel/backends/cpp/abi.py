"""The C declaration of the kernel's entry point, derived from a task's signature."""

from __future__ import annotations

from evokernel.backends.native.abi import Abi, include_lines
from evokernel.core.records import Signature

HEADERS = ("cstdint", "cstddef", "cmath", "cstring", "algorithm")
"""Headers that are included before the candidate's first line."""
ABI = Abi({"float16": "uint16_t", "bfloat16": "uint16_t"}, has_half_type=False)


def c_prototype(signature: Signature) -> str:
    """Returns the prototype in one line, as the harness header declares it."""
    return ABI.c_prototype(signature)


def annotated_prototype(signature: Signature) -> str:
    """Returns the prototype for a prompt: one argument per line, with a comment where one helps."""
    return ABI.annotated_prototype(signature)


def standard_includes() -> str:
    """Returns the `#include` lines that precede every kernel."""
    return include_lines(HEADERS)


def harness_header(signature: Signature) -> str:
    """Returns the header that is included before the candidate's first line."""
    return ABI.harness_header(signature, standard_includes())
