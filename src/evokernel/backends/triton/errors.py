"""Explains exceptions of a candidate's Python code or of Triton's compiler to the author of the kernel."""

from __future__ import annotations

import re

from evokernel.core.errors import CandidateError

MAX_DETAIL_CHARS = 1200
PLACE = re.compile(r"at (\d+):(\d+):")


def explain_error(error: Exception) -> CandidateError:
    """Classifies an exception: Triton's own types are compile errors, others come from the launch function."""
    names = {cls.__name__ for cls in type(error).__mro__}
    text = str(error).strip()
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
        text = f"{text}\n{error}".strip()
    if isinstance(error, CandidateError):
        return error
    if names & {
        "CompilationError",
        "TritonError",
        "CompileTimeAssertionFailure",
        "UnsupportedLanguageConstruct",
        "PTXASError",
        "OutOfResources",
    }:
        return CandidateError("compile_error", text[:MAX_DETAIL_CHARS])
    if isinstance(error, SyntaxError):
        return CandidateError("compile_error", f"line {error.lineno}: {error.msg}")
    return CandidateError("trace_error", f"{type(error).__name__}: {text}"[:MAX_DETAIL_CHARS])
