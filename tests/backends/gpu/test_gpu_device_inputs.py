"""What a timed call is held against."""

from contextlib import suppress

import pytest
import torch

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
