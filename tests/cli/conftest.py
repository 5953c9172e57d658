"""What the command line's tests share: the program called in this process, a small task, and one real run."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

TASK = """
import torch
import torch.nn as nn

ROWS, COLS = 64, 48


class Model(nn.Module):
    def forward(self, x):
        return x * 2 + 1


def get_inputs():
    return [torch.randn(ROWS, COLS)]
"""
KERNEL = """
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = x[i] * 2 + 1;
}
"""


class Said(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Said]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """The program, in this process."""
    from evokernel.cli.main import main

    def run(*arguments: object) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def task_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ops") / "double.py"
    file.write_text(TASK)
    return file


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script of two kernels for that task: one that is wrong, one that is right."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "double").mkdir()
    (folder / "double" / "1.cpp").write_text(KERNEL.replace("+ 1", "+ 2"))
    (folder / "double" / "2.cpp").write_text(KERNEL)
    return folder
