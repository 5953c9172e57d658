"""Runs kernels in Triton's interpreter if TRITON_INTERPRET is set, otherwise compiles them; the interpreter must be chosen at the start.

The arguments are folders with task.py and kernel.py. Prints the failure of every folder as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path

import torch

from evokernel.core.backend import CallShape
from evokernel.reference.module import Reference
from evokernel.verifier.tolerance import to_arrays

IS_COMPILED = "TRITON_INTERPRET" not in os.environ
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-9, torch.float16: 4e-3, torch.bfloat16: 2e-2}


def load_module(path: Path):
    spec = importlib.util.spec_from_file_location(f"kernel_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find_difference(folder: Path, reference: Reference) -> str:
    """Empty if the interpreted kernel computes the reference's outputs."""
    sample = reference.sample(0)
    expected = [one.tensor.detach() for one in reference.run(sample)]
    inputs = [one.tensor.detach().contiguous() for one in (*sample.inputs, *sample.params)]
    outputs = [torch.full(one.shape, float("nan") if one.is_floating_point() else 77).to(one.dtype) for one in expected]
    load_module(folder / "kernel.py").kernel(*inputs, *(number.value for number in sample.scalars), *outputs)
    return compare_outputs(outputs, expected)


def compare_outputs(outputs: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
    """Empty if the outputs are close enough."""
    for output, one in zip(outputs, expected):
        if not one.is_floating_point():
            if not torch.equal(output, one):
                return "other numbers"
            continue
        rms = float(one.double().square().mean().sqrt()) or 1.0
        error = (output.double() - one.double()).abs() / (one.double().abs() + rms)
        if not float(error.max()) <= TOLERANCE[one.dtype]:
            return f"relative error {float(error.max()):.2g}"
    return ""


def compile_kernel(folder: Path, reference: Reference) -> str:
    """Empty if Triton compiles all launches of the kernel for a Hopper GPU."""
    from evokernel.backends.triton.record import record_launches

    sample = reference.sample(0)
    inputs, outputs = (tuple((one.name, one.dtype, one.data.shape) for one in arrays)
                       for arrays in (sample.to_arrays(), to_arrays(reference.run(sample))))  # fmt: skip
    call = CallShape(inputs=inputs, scalars=tuple((n.name, n.kind, n.value) for n in sample.scalars), outputs=outputs)
    record_launches(folder, {"one": call}, folder)
    return ""


def main() -> None:
    torch.set_num_threads(1)
    if IS_COMPILED:
        from evokernel.backends.triton.record import load_triton

        load_triton(90)
    failures = {}
    for name in sys.argv[1:]:
        folder = Path(name)
        try:
            reference = Reference((folder / "task.py").read_text(), "task.py", {})
            failures[folder.name] = (compile_kernel if IS_COMPILED else find_difference)(folder, reference)
        except Exception:
            failures[folder.name] = traceback.format_exc(limit=-3)
    print(json.dumps(failures))


if __name__ == "__main__":
    main()
