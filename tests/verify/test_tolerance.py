"""Inputs that cannot decide whether a kernel is right are left out."""

import numpy as np
import pytest

from evokernel.reference.module import Reference
from evokernel.suites.loader import load_tasks
from evokernel.verifier.tolerance import Tolerance, UnsuitableInputs


def compute_expected(scale):
    """The expected outputs of products of 16 elements that are multiplied by `scale`."""
    (task,) = load_tasks("level1/product_middle")
    reference = Reference(task.source, "task.py", task.sizes["small"])
    sample = reference.sample(0)
    for array in sample.to_arrays():
        array.data[...] *= np.float32(scale)
    return Tolerance(task, "strict").compute_expected(reference, "small", "scaled", sample)


def test_results_below_the_smallest_normal_number_are_not_compared():
    with pytest.raises(UnsuitableInputs):
        compute_expected(2e-3)
    assert len(compute_expected(1e-1)) == 1
    assert len(compute_expected(0)) == 1, "zeros are no subnormal numbers"
