"""A script that test_baseline runs in a separate process: converts many references and writes the results to stdout."""

import json
import sys
from pathlib import Path

import torch

from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.torch_to_xla import ConversionMismatch, check_conversion, lower_reference, run_on_cpu, to_torch
from evokernel.reference.module import Reference

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nclass Model(nn.Module):\n"
ODD = {  # body of Model, inputs
    "tied_weights": (
        "  def __init__(self):\n    super().__init__()\n    self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 32)\n"
        "    self.b.weight = self.a.weight\n  def forward(self, x): return self.b(torch.relu(self.a(x)))",
        "torch.randn(16, 32)",
    ),
    "tensors_in_attributes": (
        "  def __init__(self):\n    super().__init__()\n    self.register_buffer('mask', torch.tril(torch.ones(16, 16)))\n"
        "    self.plain, self.listed = torch.randn(16), [torch.randn(16), torch.randn(16)]\n"
        "  def forward(self, x): return (x.masked_fill(self.mask == 0, 0.0) + self.plain) * self.listed[0] + self.listed[1]",
        "torch.randn(16, 16)",
    ),
    "creates_tensors": (
        "  def forward(self, x):\n    y = torch.zeros(16, 16)\n    y[:, 1:] = x[:, :-1]\n    return y + torch.arange(16)",
        "torch.randn(16, 16)",
    ),
    "writes_its_input": ("  def forward(self, x):\n    x.mul_(2)\n    x[0] = 0\n    return x + 1", "torch.randn(16, 16)"),
    "bfloat16": (
        "  def __init__(self):\n    super().__init__()\n    self.linear = nn.Linear(32, 48).bfloat16()\n"
        "  def forward(self, x): return F.gelu(self.linear(x))",
        "torch.randn(16, 32).bfloat16()",
    ),
    "several_outputs": ("  def forward(self, x): return {'a': x.sum(), 'none': None, 'b': torch.topk(x, 3)}", "torch.randn(4, 50)"),
    "nested_inputs": ("  def forward(self, xs, k): return xs[0] + xs[1] * k", "[torch.randn(4, 5), torch.randn(4, 5)], 3"),
    "random": ("  def forward(self, x): return x + torch.rand(16)", "torch.randn(16)"),
    "decided_by_values": ("  def forward(self, x): return x if x.sum() > 0 else -x", "torch.randn(16)"),
}
TOLERANCE = 1e-4


def make_unusual_reference(name: str) -> Reference:
    body, inputs = ODD[name]
    return Reference(f"{HEAD}{body}\ndef get_inputs(): return [{inputs}]\n", name)


def distance(reference: Reference) -> float:
    """The largest difference of any element, relative to the reference's largest element."""
    sample = reference.sample(0)
    expected = [out.tensor for out in reference.run(sample)]
    pairs = [(to_torch(a, b).double(), b.double()) for a, b in zip(run_on_cpu(sample), expected, strict=True)]
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)) for a, b in pairs)


def describe_conversion(reference: Reference) -> str:
    """The result of the check, and whether lowering works with and without values."""
    try:
        check_conversion(reference, *([1e-2] * 2 if reference.name == "bfloat16" else [TOLERANCE] * 2))
        programs = [lower_reference(reference, get_chip("v5e"), large=large) for large in (False, True)]
    except (ConversionMismatch, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return "converted" if all(programs) else "empty"


def main() -> None:
    request = json.load(sys.stdin)
    torch.set_num_threads(1)
    distances = {name: distance(Reference(source, name, small)) for name, (source, small) in request["tasks"].items()}
    for name in request["programs"]:
        Path(request["into"], name).write_bytes(lower_reference(Reference(request["tasks"][name][0], name), get_chip("v5e"), large=False))
    heavy = [name for name in sys.modules if name == "torch._dynamo"]
    results = {"distances": distances, "heavy": heavy, "odd": {name: describe_conversion(make_unusual_reference(name)) for name in ODD}}
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()
