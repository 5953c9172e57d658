"""Let a model call the kernels of a run: only those that are verified and faster than PyTorch."""

import sys
from pathlib import Path

import torch

import evokernel as ek

TASK = """
import torch

ROWS, COLUMNS = 256, 512


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.softplus(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""


class SmallModel(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(512, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softplus(self.linear(x))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "softplus.py").write_text(TASK)
    run = ek.run(folder / "softplus.py", backend="cpp", budget=1, fresh=True, workers=1, timing_s=0.2, folder=folder / "run")

    model, x = SmallModel(), torch.randn(256, 512)
    faster = ek.replace_operators(model, run, inputs=(x,))  # compares the outputs of both models, too
    with torch.no_grad():
        print("largest difference:", (faster(x) - model(x)).abs().max().item())
    for one in ek.replacements(faster).results:
        print(f"{one.task}: {f'{one.replaced_calls} calls replaced' if one.operator else one.reason}")
    if faster is model:
        print("no kernel was faster than PyTorch on this machine: the model is unchanged")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "replace_operators"))
