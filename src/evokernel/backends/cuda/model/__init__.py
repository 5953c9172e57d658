"""Candidates as KernelBench has them: a Python file with a class `ModelNew`, whose kernels are compiled by `load_inline`.

Its Python and its C++ run twice, with no device: once to see what is to be compiled, and once, over the stand-in for the CUDA runtime, to
write down what it launches. From there on it is judged like any other recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evokernel.core.records import Candidate

FILE, CLASS = "kernel.py", "ModelNew"
ORDER, FOUND = "order.json", "found.json"
"""What the judge writes down of the task and the device; and what it is told of the extensions in a model's file."""
EXTENSIONS, STAND_IN = "extensions.json", "stand_in.so"
"""The names of those that were built; and the library that makes tensors."""


def is_model(candidate: Candidate) -> bool:
    """Whether a candidate is one of these."""
    return set(candidate.files) == {FILE}
