"""What a timed call is held against."""

from contextlib import suppress

import pytest
import torch

from evokernel.backends.gpu.device_inputs import DeviceInputs
from evokernel.reference.device_sample import disable_tf32


@pytest.mark.parametrize("narrow", [True, False])
def test_expected_outputs_are_computed_in_full_precision(narrow, monkeypatch):
    """A convolution of PyTorch's own is off by a thousandth otherwise, and an exact kernel would be called wrong."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", narrow)
    with suppress(KeyError), disable_tf32():
        assert not torch.backends.cudnn.allow_tf32
        assert not torch.backends.cuda.matmul.allow_tf32
        raise KeyError
    assert torch.backends.cudnn.allow_tf32 is narrow, "baselines are timed as users have them"


STRUCTURED = """
import torch

class Model(torch.nn.Module):
    def forward(self, free, triangle, symmetric, mask):
        return free @ triangle @ symmetric * mask

def get_inputs():
    square = torch.rand(SIZE, SIZE)
    return [torch.randn(SIZE, SIZE), torch.tril(torch.randn(SIZE, SIZE)), square + square.T, (torch.rand(SIZE, SIZE) > 0.5).float()]

def get_init_inputs():
    return []

SIZE = 24
"""


def test_changes_between_timed_calls_keep_the_structure_of_inputs():
    """A kernel may rely on a triangle; it must not be called wrong because two of its elements swapped places."""
    inputs = DeviceInputs(STRUCTURED, "structured", {}, 1, (1e-4, 1e-4), device="cpu")
    before = [tensor.clone() for tensor in inputs.inputs]
    for _ in range(5):
        inputs.change()
        free, triangle, symmetric, mask = inputs.inputs
        assert not torch.equal(free, before[0])
        assert torch.equal(triangle, triangle.tril())
        assert not torch.equal(triangle, before[1])
        assert torch.equal(symmetric, symmetric.T)
        assert not torch.equal(symmetric, before[2])
        assert torch.equal(mask, before[3])
        before = [tensor.clone() for tensor in inputs.inputs]
    assert inputs.structures == ["free", "scaled", "scaled", "fixed"]
