"""Which suite, level and category a file gets from where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from evokernel.core.errors import UserError
from evokernel.tasks.loader import TaskFile, files

TEXT = """import torch
class Model(torch.nn.Module):
    def forward(self, x): return torch.relu(x)
def get_inputs(): return [torch.randn(8)]
"""


def put(path: Path, text: str = TEXT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def told(found: list[TaskFile]) -> list[tuple[str, int, str]]:
    return [(file.id, file.level, file.category) for file in found]


@pytest.fixture
def kernelbench(tmp_path) -> Path:
    for name in ("level1/2_b.py", "level1/10_c.py", "level2/1_d.py", "level3/1_e.py", "level4/1_f.py"):
        put(tmp_path / "kb/KernelBench" / name)
    put(tmp_path / "kb/src/prompts/model_ex.py")
    return tmp_path / "kb"


@pytest.fixture
def multikernelbench(tmp_path) -> Path:
    for name in ("activation/relu.py", "fuse/a_b.py", "arch/lstm.py", "npukernelbench_level1/1_x.py"):
        put(tmp_path / "mkb/reference" / name)
    put(tmp_path / "mkb/prompts/example.py")
    return tmp_path / "mkb"


def test_a_checkout_of_kernelbench(kernelbench):
    expected = [
        ("kernelbench-level1/2_b", 1, "activation"),
        ("kernelbench-level1/10_c", 1, "activation"),
        ("kernelbench-level2/1_d", 2, "fuse"),
        ("kernelbench-level3/1_e", 3, "model"),
    ]
    assert told(files(str(kernelbench))) == expected
    assert told(files(str(kernelbench / "KernelBench"))) == expected
    assert told(files(str(kernelbench / "KernelBench/level2"))) == expected[2:3]
    assert told(files(f"{kernelbench}/KernelBench/level1/*.py")) == expected[:2]
    assert told(files(str(kernelbench / "KernelBench/level4/1_f.py"))) == [("kernelbench-level4/1_f", 4, "model")]
    assert told(files(str(kernelbench / "src/prompts/model_ex.py"))) == [("prompts/model_ex", 1, "activation")]


def test_a_checkout_of_multikernelbench(multikernelbench):
    assert told(files(str(multikernelbench))) == [
        ("multikernelbench/relu", 1, "activation"),
        ("multikernelbench/lstm", 3, "arch"),
        ("multikernelbench/a_b", 2, "fuse"),
    ]
    assert told(files(str(multikernelbench / "reference/fuse"))) == [("multikernelbench/a_b", 2, "fuse")]


def test_folders_of_that_name_that_are_something_else(tmp_path):
    put(tmp_path / "reference/mine.py")
    put(tmp_path / "KernelBench/mine.py")
    assert told(files(str(tmp_path / "reference"))) == [("reference/mine", 1, "activation")]
    assert told(files(str(tmp_path / "KernelBench"))) == [("KernelBench/mine", 1, "activation")]


def test_a_suite_of_ones_own(tmp_path):
    put(tmp_path / "ours/suite.toml", 'title = "Ours"\nlevel = 2\n')
    put(tmp_path / "ours/decode/paged.py")
    put(tmp_path / "ours/top.py", 'CATEGORY = "other"\n' + TEXT)
    put(tmp_path / "ours/plain.py")
    assert told(files(str(tmp_path / "ours"))) == [
        ("ours/paged", 2, "decode"),
        ("ours/plain", 2, "activation"),
        ("ours/top", 2, "other"),
    ]
    put(tmp_path / "ours/suite.toml", 'category = "all"\n')
    assert told(files(str(tmp_path / "ours/decode"))) == [("ours/paged", 1, "all")]


@pytest.mark.parametrize(
    ("text", "said"),
    [("level = [", "cannot be read as TOML"), ("levle = 1\n", "levle"), ('level = "high"\n', "level: Input should be a valid integer")],
)
def test_a_suite_file_that_is_wrong_is_named(tmp_path, text, said):
    put(tmp_path / "ours/suite.toml", text)
    put(tmp_path / "ours/plain.py")
    with pytest.raises(UserError, match=said) as caught:
        files(str(tmp_path / "ours"))
    assert "suite.toml" in str(caught.value)
