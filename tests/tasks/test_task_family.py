"""Operator families derived from the calls in a source."""

from __future__ import annotations

import pytest

from evokernel.suites.family import FAMILIES, classify_operator


def model(forward: str, init: str = "pass", arguments: str = "x, y=None") -> str:
    """Return the source of a task file with this forward method."""
    return (
        f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, {arguments}):\n        {forward}\n"
        "def get_inputs():\n    return [torch.randn(4).softmax(0), torch.randn(4) @ z]\n"
    )


CASES = [
    ("sorting", "return torch.topk(x, 4)[0]", "pass"),
    ("sorting", "return x.gather(1, y.argsort(1))", "pass"),
    ("resize", "return F.interpolate(x, scale_factor=2)", "pass"),
    ("quantise", "return torch.round(x / x.abs().amax() * 127).to(torch.int8)", "pass"),
    ("activation", "return x * torch.sigmoid(x)", "pass"),
    ("activation", "return self.act(x)", "self.act = nn.LeakyReLU(0.1)"),
    ("activation", "return 0.5 * x * (1.0 + torch.tanh(0.8 * (x + 0.04 * torch.pow(x, 3.0))))", "pass"),
    ("elementwise", "return x * y + 1", "pass"),
    ("elementwise", "return torch.clamp(x, min=0) / max(1, 2)", "pass"),
    ("reduction", "return torch.sum(x, dim=1, keepdim=True)", "pass"),
    ("reduction", "return x.max(dim=1)[0]", "pass"),
    ("softmax", "return F.log_softmax(x, dim=1)", "pass"),
    ("softmax", "e = torch.exp(x - x.amax(1)); return e / e.sum(1)", "pass"),
    ("normalisation", "return self.norm(x)", "self.norm = nn.GroupNorm(4, 8)"),
    ("normalisation", "return x / torch.sqrt(torch.mean(x ** 2, dim=1) + 1e-5)", "pass"),
    ("normalisation", "return x / torch.norm(x, p=2, dim=1)", "pass"),
    ("matmul", "return x @ y", "pass"),
    ("matmul", "return torch.matmul(x.T, y.T)", "pass"),
    ("matmul", "return self.fc(x)", "self.fc = nn.Linear(4, 4)"),
    ("convolution", "return self.conv(x)", "self.conv = nn.ConvTranspose3d(4, 4, 3, padding=3 // 2)"),
    ("pooling", "return F.avg_pool2d(x, 3)", "pass"),
    ("scan", "return torch.cumsum(x.flip(1), dim=1).flip(1)", "pass"),
    ("gather", "return self.table(x)", "self.table = nn.Embedding(4, 4)"),
    ("loss", "return torch.mean((x - y) ** 2) + F.smooth_l1_loss(x, y)", "pass"),
    ("attention", "return F.scaled_dot_product_attention(x, x, x)", "pass"),
    ("attention", "return torch.softmax(x @ y.T, -1) @ y", "pass"),
    ("fuse", "return x @ y + 1", "pass"),
    ("fuse", "return F.relu(self.fc(x))", "self.fc = nn.Linear(4, 4)"),
    ("fuse", "return torch.softmax(self.conv(x), 1)", "self.conv = nn.Conv2d(4, 4, 3)"),
    ("fuse", "return self.b(self.a(x))", "self.a = nn.Conv2d(4, 4, 3); self.b = nn.Linear(4, 4)"),
    ("fuse", "return self.cell(x)", "self.cell = nn.LSTM(4, 4)"),
    ("fuse", "return F.relu(F.max_pool2d(x, 2))", "pass"),
]


@pytest.mark.parametrize(("expected", "forward", "init"), CASES)
def test_family_follows_from_the_calls(expected, forward, init):
    assert classify_operator(model(forward, init)).main == expected


def test_reduction_with_targets_is_a_loss():
    hinge = "return torch.mean(torch.clamp(1 - predictions * targets, min=0))"
    assert classify_operator(model(hinge, arguments="predictions, targets")).main == "loss"
    assert classify_operator(model(hinge, arguments="predictions, others")).main == "reduction"


def test_every_family_is_covered_and_declared_family_wins():
    assert {expected for expected, _, _ in CASES} == set(FAMILIES) - {"optimiser"}  # which cannot be derived from calls
    assert classify_operator('FAMILY = "stencil"\n' + model("return x @ y")).main == "stencil"
    assert classify_operator("FAMILY = 3\n" + model("return x @ y")).main == "matmul"


def test_fused_operator_lists_its_parts():
    families = classify_operator('CATEGORY = "blocks"\n' + model("return torch.relu(self.norm(x @ y))", "self.norm = nn.LayerNorm(4)"))
    assert families.main == "fuse"
    assert set(families.parts) == {"matmul", "normalisation", "activation"}
    assert families.category == "blocks"
