"""An exception out of a candidate's Python, or out of Triton's compiler, in words for whoever wrote it."""

from __future__ import annotations

import re

from evokernel.core.errors import CandidateError

LIMIT = 1200
PLACE = re.compile(r"at (\d+):(\d+):")


def explained(error: Exception) -> CandidateError:
    """Triton's own errors are the compiler's; others were raised by the launch function."""
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
        return CandidateError("compile_error", text[:LIMIT])
    if isinstance(error, SyntaxError):
        return CandidateError("compile_error", f"line {error.lineno}: {error.msg}")
    return CandidateError("trace_error", f"{type(error).__name__}: {text}"[:LIMIT])
