"""Task specifications: the files they name, and the errors if they name none."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evokernel.core.errors import UserError
from evokernel.suites import cache
from evokernel.suites.loader import describe_task, find_task_files, load_tasks, suite_names

VALID_TASK = """import torch
import torch.nn as nn
N = 64

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(N, 32)]
"""


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def kernelbench_folder(tmp_path) -> Path:
    """A folder with the layout of KernelBench."""
    for name in ("level1/2_two.py", "level1/10_ten.py", "level1/1_one.py", "level2/1_other.py"):
        path = tmp_path / "KB" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(VALID_TASK)
    (tmp_path / "KB/level1/shared_tools.py").write_text("def tool(): pass\n")
    (tmp_path / "KB/level1/__init__.py").write_text("")
    (tmp_path / "KB/README.md").write_text("tasks")
    return tmp_path / "KB"


def ids(spec: str) -> list[str]:
    return [file.id for file in find_task_files(spec)]


def test_suite_names_and_patterns():
    assert "starter" in suite_names()
    assert ids("starter/gelu") == ["starter/gelu"]
    assert ids("starter/gelu.py") == ["starter/gelu"]
    assert ids("starter/*norm") == ["starter/layernorm", "starter/rmsnorm"]
    assert ids("starter/") == ids("starter") == ids("starter/*")


def test_paths_folders_and_patterns_use_natural_order(kernelbench_folder):
    level1 = ["level1/1_one", "level1/2_two", "level1/10_ten"]
    assert ids(str(kernelbench_folder / "level1")) == level1
    assert ids(str(kernelbench_folder)) == [*level1, "level2/1_other"]
    assert ids(str(kernelbench_folder / "level1/2_two.py")) == ["level1/2_two"]
    assert ids(f"{kernelbench_folder}/*/1_*.py") == ["level1/1_one", "level2/1_other"]
    assert ids(f"{kernelbench_folder}/**/*.py") == [*level1, "level2/1_other"]
    assert ids(f"{kernelbench_folder}/level*") == [*level1, "level2/1_other"]
    assert [file.level for file in find_task_files(str(kernelbench_folder))] == [1, 1, 1, 2]
    assert {file.family for file in find_task_files(str(kernelbench_folder))} == {"activation"}


def test_several_parts_keep_their_order_without_duplicates(kernelbench_folder):
    spec = f"starter/softmax, {kernelbench_folder}/level2 ,starter/gelu,starter/s*max,,{kernelbench_folder}/level2/1_other.py"
    assert ids(spec) == ["starter/softmax", "level2/1_other", "starter/gelu"]


def test_relative_path_and_special_characters_give_a_plain_id(kernelbench_folder, monkeypatch):
    (kernelbench_folder / "level1/my task!.py").write_text(VALID_TASK)
    monkeypatch.chdir(kernelbench_folder / "level1")
    assert ids("./my task!.py") == ["level1/my_task_"]
    assert ids(".")[-1] == "level1/my_task_"


def test_two_files_with_one_id_are_refused(kernelbench_folder, tmp_path):
    other_folder = tmp_path / "elsewhere/level1"
    other_folder.mkdir(parents=True)
    (other_folder / "1_one.py").write_text(VALID_TASK)
    with pytest.raises(UserError, match=r"two task files have the id 'level1/1_one'.*Rename one"):
        find_task_files(f"{kernelbench_folder}/level1,{other_folder}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "no tasks given. Name a suite"),
        (" , ", "no tasks given"),
        ("startr", r"no task suite or file called 'startr' \(did you mean 'starter'\?\); suites: .*starter"),
        ("rmsnorm", r"did you mean .*'starter/rmsnorm'"),
        ("starter/gelo", r"suite 'starter' has no task 'gelo' \(did you mean 'gelu'\?\); its tasks: argmax"),
        ("./nowhere/*.py", r"no file or folder matches './nowhere/\*\.py'"),
        ("nowhere.py", "no file or folder matches 'nowhere.py'"),
    ],
)
def test_unknown_task_error_lists_available_ones(spec, message):
    with pytest.raises(UserError, match=message) as caught:
        find_task_files(spec)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_tasks_are_refused(kernelbench_folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty contains no task files"):
        find_task_files(str(tmp_path / "empty"))
    with pytest.raises(UserError, match=r"is not a task file\. A task is a \.py file"):
        find_task_files(str(kernelbench_folder / "README.md"))
    with pytest.raises(UserError, match="which is not a task"):
        find_task_files(f"{kernelbench_folder}/*.md")
    with pytest.raises(UserError, match="does not define Model; add `class Model"):
        load_tasks(str(kernelbench_folder / "level1/shared_tools.py"))


def test_unreadable_file_error_is_one_line_with_a_fix(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("x = (\n")
    with pytest.raises(UserError, match=r"broken\.py, line 1: parsing it raised SyntaxError: .*; fix the task file"):
        find_task_files(str(tmp_path))
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"not UTF-8 text .* Save it as UTF-8"):
        load_tasks(str(broken))
    broken.write_text("x = 1\0")
    with pytest.raises(UserError, match=re.escape(str(broken))):
        find_task_files(str(broken))
    with pytest.raises(UserError, match=r"cannot read task file .*gone\.py: No such file"):
        describe_task(find_task_files("starter/gelu")[0]._replace(path=tmp_path / "gone.py"))
    broken.write_text(VALID_TASK.replace("torch.relu(x)", "x @ x"))
    with pytest.raises(UserError, match=r"broken\.py, line 7: Model\.forward raised RuntimeError"):
        load_tasks(str(broken))


def test_loaded_task_is_complete(kernelbench_folder):
    (task,) = load_tasks(str(kernelbench_folder / "level2"))
    assert (task.id, task.family, task.level, task.source) == ("level2/1_other", "activation", 2, VALID_TASK)
    assert task.signature.inputs[0].shape == (64, 32)
    assert set(task.sizes) == {"bench", "small", "held_out"}


def test_cache_is_used_for_equal_sources_only(kernelbench_folder, private_cache):
    first = load_tasks(str(kernelbench_folder / "level1/1_one.py"))[0]
    (entry,) = (private_cache / "tasks").iterdir()
    entry.write_text(first.model_copy(update={"tags": ("from cache",)}).model_dump_json())
    reloaded = load_tasks(str(kernelbench_folder))
    assert {task.tags for task in reloaded} == {("from cache",)}
    assert [task.id for task in reloaded] == ids(str(kernelbench_folder))
    (kernelbench_folder / "level1/1_one.py").write_text(VALID_TASK.replace("64", "48"))
    assert load_tasks(str(kernelbench_folder / "level1/1_one.py"))[0].tags == ()


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", json.dumps({"id": "x"}).encode()])
def test_damaged_cache_entry_is_ignored_and_replaced(kernelbench_folder, private_cache, damage):
    spec = str(kernelbench_folder / "level1/1_one.py")
    first = load_tasks(spec)
    (entry,) = (private_cache / "tasks").iterdir()
    entry.write_bytes(damage)
    assert load_tasks(spec) == first
    assert cache.load_task(VALID_TASK) is not None


def test_unwritable_cache_is_not_an_error(kernelbench_folder, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "file"))
    with caplog.at_level(logging.INFO):
        assert len(load_tasks(str(kernelbench_folder / "level2"))) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "EVOKERNEL_CACHE": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=240)


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_cached_load_needs_no_torch(private_cache):
    code = "import sys; from evokernel.suites.loader import load_tasks, find_task_files\nfind_task_files('starter')\n"
    code += "assert 'torch' not in sys.modules\n"
    code += "print(len(load_tasks('starter/g*,starter/softmax')), 'torch' in sys.modules)"
    first, second = run_python(code, private_cache), run_python(code, private_cache)
    assert (first.stdout, second.stdout) == ("2 True\n", "2 False\n"), first.stderr + second.stderr


@pytest.mark.toolchain
def test_error_without_torch_names_the_package(private_cache):
    code = (
        "import sys, importlib.metadata as m\nfrom evokernel.core.errors import UserError\n"
        "from evokernel.suites.loader import load_tasks, find_task_files\n"
        "sys.modules['torch'] = None\n{}assert len(find_task_files('starter')) == 16\n"
        "try: load_tasks('starter/gelu')\nexcept UserError as e: print(e)"
    )
    hidden = "def gone(name): raise m.PackageNotFoundError(name)\nm.version = gone\n"
    for lines in ("", hidden):
        process = run_python(code.format(lines), private_cache)
        assert process.stdout == "loading a task needs PyTorch. Install it with: pip install 'evokernel[torch]'\n", process.stderr
