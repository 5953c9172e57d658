"""Inputs that cannot decide whether a kernel is right are left out."""

import numpy as np
import pytest
import torch

from evokernel.core.backend import Array
from evokernel.core.numeric_contract import ToleranceRule
from evokernel.reference.module import Reference
from evokernel.reference.tensor_compare import ExpectedTensor
from evokernel.suites.loader import load_tasks
from evokernel.verifier.compare import ExpectedOutput
from evokernel.verifier.parts import expect_region
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


def test_errors_below_the_smallest_normal_number_are_no_errors():
    expected = np.float32([1.5e-40, -3e-42, 0.0])
    rule = ToleranceRule(1e-4, 1e-4, 1e-6)
    on_device = ExpectedTensor("out", torch.tensor(expected), torch.tensor(expected).double(), rule)
    assert on_device.find_wrong_elements(torch.zeros(3)).tolist() == [False] * 3
    assert on_device.find_wrong_elements(torch.tensor([2e-38, 0, 0])).tolist() == [True, False, False]
    output = ExpectedOutput(Array("out", "float32", expected), rule, expected.astype(np.float64))
    assert output.find_difference(np.zeros(3, np.float32)) is None
    assert output.find_difference(np.float32([2e-38, 0, 0])).wrong_mask.tolist() == [True, False, False]


def softmax_rows(product):
    """Softmaxes of which most elements are nearly zero, next to a few large ones."""
    return torch.softmax(12 * product, -1).reshape(-1)


def accepts_region(own, wide, actual, kind="own"):
    """Whether some elements of an output pass whose other elements were never computed."""
    (task,) = load_tasks("level2/linear_batchnorm_scale_softmax")
    array = Array("out", "float32", own.numpy())
    rule = Tolerance(task, "strict").make_region_rule(array, wide.numpy(), kind)
    return expect_region(array, wide.numpy(), rule).find_difference(actual.numpy()) is None


def test_regions_of_a_softmax_accept_another_order_of_sums_and_no_narrower_numbers():
    draws = torch.Generator().manual_seed(0)
    accepted, refused = 0, 0
    for _ in range(8):
        x, weight = torch.randn(4, 4096, generator=draws), torch.randn(512, 4096, generator=draws) / 64
        own, wide = softmax_rows(x @ weight.T), softmax_rows(x.double() @ weight.double().T)
        in_turn = torch.tensor(np.cumsum(x.numpy()[:, None] * weight.numpy(), -1, dtype=np.float32)[..., -1])
        accepted += accepts_region(own, wide, softmax_rows(in_turn))
        refused += not accepts_region(own, wide, softmax_rows(x.bfloat16().float() @ weight.bfloat16().float().T))
        refused += not accepts_region(own, wide, softmax_rows(x.half().float() @ weight.half().float().T))
    assert (accepted, refused) == (8, 16)


def test_jump_of_one_large_value_widens_nothing():
    own, wide = torch.full((4000,), 1e-6), torch.full((4000,), 1e-6, dtype=torch.float64)
    own[7], wide[7] = 1.0, 2.0
    elsewhere = own.clone()
    elsewhere[1:3] = 2e-4
    for kind in ("own", "normal"):
        assert accepts_region(own, wide, own, kind)
        assert accepts_region(own, wide, wide.float(), kind)
        assert not accepts_region(own, wide, elsewhere, kind)
