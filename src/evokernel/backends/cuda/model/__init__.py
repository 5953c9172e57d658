"""KernelBench solutions as candidates: a Python file with a class `ModelNew` whose kernels are compiled by `load_inline`.

Its Python and C++ run twice without a device: once to collect the extensions to compile, and once against the recording CUDA runtime to
record the launches. From there on it is verified like any other recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evokernel.backends.gpu.model_facts import CLASS as CLASS

if TYPE_CHECKING:
    from evokernel.core.records import Candidate

FILE = "kernel.py"
ORDER, COLLECTED = "order.json", "found.json"
"""The verifier's description of task and device; and the collected extensions of a model's file."""
EXTENSIONS, TENSOR_LIBRARY = "extensions.json", "tensor_library.so"
"""The names of the built extensions; and the library that creates tensors."""


def is_model(candidate: Candidate) -> bool:
    """Whether a candidate is a KernelBench solution."""
    return set(candidate.files) == {FILE}
