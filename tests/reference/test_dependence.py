"""Bytes of the inputs that every kernel must read."""

import pytest

from evokernel.reference.dependence import count_required_input_bytes
from evokernel.reference.module import Reference

MODEL = "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def forward(self, x, i):\n        return {}\n"
INPUTS = "def get_inputs():\n    return [torch.randn(8, 8), torch.tensor([1, 3, 3])]\ndef get_init_inputs():\n    return []\n"


@pytest.mark.parametrize(
    ("formula", "elements"),
    [
        ("2 * x", 64),
        ("x[:, 0]", 8),
        ("torch.tril(x) @ x", 64),
        ("torch.tril(x).sum()", 36),
        ("x[i]", 16),
        ("x.amax(dim=1)", 8),
        ("x.argmax(dim=1)", 0),
        ("(x[0], x[1].exp())", 16),
    ],
)
def test_count_includes_elements_that_outputs_depend_on(formula, elements):
    assert count_required_input_bytes(Reference(MODEL.format(formula) + INPUTS, "t", {})) == 4 * elements
