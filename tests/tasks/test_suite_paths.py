"""Suite, level and category of a task file from its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from evokernel.core.errors import UserError
from evokernel.suites.loader import TaskFile, find_task_files

TEXT = """import torch
class Model(torch.nn.Module):
    def forward(self, x): return torch.relu(x)
def get_inputs(): return [torch.randn(8)]
"""


def write_file(path: Path, text: str = TEXT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def id_level_category(files: list[TaskFile]) -> list[tuple[str, int, str]]:
    return [(file.id, file.level, file.category) for file in files]


@pytest.fixture
def kernelbench(tmp_path) -> Path:
    for name in ("level1/2_b.py", "level1/10_c.py", "level2/1_d.py", "level3/1_e.py", "level4/1_f.py"):
        write_file(tmp_path / "kb/KernelBench" / name)
    write_file(tmp_path / "kb/src/prompts/model_ex.py")
    return tmp_path / "kb"


@pytest.fixture
def multikernelbench(tmp_path) -> Path:
    for name in ("activation/relu.py", "fuse/a_b.py", "arch/lstm.py", "npukernelbench_level1/1_x.py"):
        write_file(tmp_path / "mkb/reference" / name)
    write_file(tmp_path / "mkb/prompts/example.py")
    return tmp_path / "mkb"


def test_kernelbench_checkout_is_recognised(kernelbench):
    expected = [
        ("kernelbench-level1/2_b", 1, "activation"),
        ("kernelbench-level1/10_c", 1, "activation"),
        ("kernelbench-level2/1_d", 2, "fuse"),
        ("kernelbench-level3/1_e", 3, "model"),
    ]
    assert id_level_category(find_task_files(str(kernelbench))) == expected
    assert id_level_category(find_task_files(str(kernelbench / "KernelBench"))) == expected
    assert id_level_category(find_task_files(str(kernelbench / "KernelBench/level2"))) == expected[2:3]
    assert id_level_category(find_task_files(f"{kernelbench}/KernelBench/level1/*.py")) == expected[:2]
    assert id_level_category(find_task_files(str(kernelbench / "KernelBench/level4/1_f.py"))) == [("kernelbench-level4/1_f", 4, "model")]
    assert id_level_category(find_task_files(str(kernelbench / "src/prompts/model_ex.py"))) == [("prompts/model_ex", 1, "activation")]


def test_multikernelbench_checkout_is_recognised(multikernelbench):
    assert id_level_category(find_task_files(str(multikernelbench))) == [
        ("multikernelbench/relu", 1, "activation"),
        ("multikernelbench/lstm", 3, "arch"),
        ("multikernelbench/a_b", 2, "fuse"),
    ]
    assert id_level_category(find_task_files(str(multikernelbench / "reference/fuse"))) == [("multikernelbench/a_b", 2, "fuse")]


def test_other_folders_with_these_names_are_not_checkouts(tmp_path):
    write_file(tmp_path / "reference/mine.py")
    write_file(tmp_path / "KernelBench/mine.py")
    assert id_level_category(find_task_files(str(tmp_path / "reference"))) == [("reference/mine", 1, "activation")]
    assert id_level_category(find_task_files(str(tmp_path / "KernelBench"))) == [("KernelBench/mine", 1, "activation")]


def test_suite_toml_sets_level_and_category(tmp_path):
    write_file(tmp_path / "ours/suite.toml", 'title = "Ours"\nlevel = 2\n')
    write_file(tmp_path / "ours/decode/paged.py")
    write_file(tmp_path / "ours/top.py", 'CATEGORY = "other"\n' + TEXT)
    write_file(tmp_path / "ours/plain.py")
    assert id_level_category(find_task_files(str(tmp_path / "ours"))) == [
        ("ours/paged", 2, "decode"),
        ("ours/plain", 2, "activation"),
        ("ours/top", 2, "other"),
    ]
    write_file(tmp_path / "ours/suite.toml", 'category = "all"\n')
    assert id_level_category(find_task_files(str(tmp_path / "ours/decode"))) == [("ours/paged", 1, "all")]


@pytest.mark.parametrize(
    ("text", "message"),
    [("level = [", "as TOML"), ("levle = 1\n", "levle"), ('level = "high"\n', "level: Input should be a valid integer")],
)
def test_invalid_suite_toml_is_reported(tmp_path, text, message):
    write_file(tmp_path / "ours/suite.toml", text)
    write_file(tmp_path / "ours/plain.py")
    with pytest.raises(UserError, match=message) as caught:
        find_task_files(str(tmp_path / "ours"))
    assert "suite.toml" in str(caught.value)
