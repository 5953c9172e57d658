"""Verify a kernel for an operator of your own: a wrong one first, then the corrected one."""

import tempfile
from pathlib import Path

import evokernel as ek

TASK = """
import torch

ROWS, COLUMNS = 64, 256


class Model(torch.nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""

WRONG = """
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t size = x_shape[0] * x_shape[1];
    for (int64_t i = 0; i < size; ++i) out[i] = x[i] / (1 + std::exp(x[i]));
}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "swish.py"
        path.write_text(TASK)
        task = ek.task(path)
        print(task)
        print(task.entry_point("cpp"))

        result = ek.verify(WRONG, task, backend="cpp")
        print(f"correct: {result.correct}, reason: {result.reason}\n{result.detail}\n")  # a wrong kernel is a result, not an error

        result = ek.verify(WRONG.replace("std::exp(x[i])", "std::exp(-x[i])"), task, backend="cpp")
        print(result)
        print(f"speed-up over PyTorch eager: {result.speedup:.2f} (above 1: the kernel is faster)")


if __name__ == "__main__":
    main()
