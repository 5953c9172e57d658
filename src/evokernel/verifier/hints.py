"""Hints about the likely cause of a wrong result, from the case that revealed it."""

from __future__ import annotations

from evokernel.core.errors import CandidateError

EXPLAINED_REASONS = ("mismatch", "unwritten", "nan", "out_of_bounds", "crash")
STALE_RESULT_HINT = (
    "the output equals the result of an earlier call with other inputs: compute every call from its arguments, keep nothing between calls"
)
SIZE_HINTS = {
    "held_out": "the small size was correct: handle sizes that are not a multiple of a block, and read every size from the arguments",
    "odd": "the small size was correct: handle any size, down to 1, and read every size from the arguments",
    "laptop": "smaller sizes were correct: check long sums in a float, scratch buffers of fixed size, and narrow index types",
    "bench": "smaller sizes were correct: check long sums in a float, scratch buffers of fixed size, "
    "narrow index types, and code paths for large sizes",
}
KIND_HINTS = {
    "near": "the inputs differed from those of the previous call in one element only",
    "normal": "inputs had a normal distribution, and parameters differed from their initial values",
    "uniform": "inputs had a uniform distribution around zero, and parameters differed from their initial values",
    "wide": "inputs had a wider range than the task's own",
    "tiny": "inputs were smaller than the task's own",
    "heavy": "a few inputs were much larger than the others",
    "shifted": "inputs were far from zero and close to each other",
    "constant": "all elements of an input were equal",
    "zeros": "all inputs were zero",
    "nonfinite": "a few inputs were infinite or NaN",
}


def add_hints(error: CandidateError, kind: str, size: str, *, is_stale: bool, is_first_at_size: bool) -> CandidateError:
    """Return a failure with hints about its likely cause. `is_first_at_size`: smaller sizes were correct before."""
    if error.reason not in EXPLAINED_REASONS:
        return error
    hints = [STALE_RESULT_HINT] if is_stale else [KIND_HINTS.get(kind, ""), SIZE_HINTS.get(size, "") if is_first_at_size else ""]
    return CandidateError(error.reason, "\n".join([error.detail, *filter(None, hints)]))
