"""Complex tensors: tasks, kernels that see them as pairs of floats, and backends that do not support them."""

from pathlib import Path

import pytest

from evokernel.backends.native.toolchain import missing_compiler_message
from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

FOLDER = Path(__file__).parent / "complex_numbers"
KERNEL = (FOLDER / "kernel.asc").read_text()
pytestmark = pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")


def judge(source: str):
    job = Job(
        backend="ascendc",
        settings={"toolchain": "simulator"},
        task=load_tasks(str(FOLDER / "task.py"))[0],
        candidate=Candidate(backend="ascendc", files={"kernel.asc": source}),
    )
    return verify(job)


def test_kernel_sees_pairs_of_floats():
    outcome = judge(KERNEL)
    assert outcome.failure is None, outcome.failure
    assert outcome.latency_us


@pytest.mark.slow(one_in=5)
def test_wrong_imaginary_part_is_found():
    outcome = judge(KERNEL.replace("a * d + b * c", "a * d - b * c"))
    assert outcome.failure is not None
    assert outcome.failure.reason == "mismatch"
    assert "j" in outcome.failure.detail


def test_other_backends_refuse_complex_tensors():
    task = load_tasks(str(FOLDER / "task.py"))[0]
    assert [tensor.dtype for tensor in (*task.signature.inputs, *task.signature.outputs)] == ["complex64"] * 3
    candidate = Candidate(backend="cpp", files={"kernel.cpp": "void kernel() {}"})
    with pytest.raises(UserError, match="complex64 tensors, which this backend does not support"):
        verify(Job(backend="cpp", settings={}, task=task, candidate=candidate))
