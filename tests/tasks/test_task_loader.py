"""Which files a specification names, and what is said when it names none."""

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
from evokernel.tasks import cache
from evokernel.tasks.loader import describe, files, load, suites

GOOD = """import torch
import torch.nn as nn
N = 64

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(N, 32)]
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def bench(tmp_path) -> Path:
    """A folder as KernelBench has them."""
    for name in ("level1/2_two.py", "level1/10_ten.py", "level1/1_one.py", "level2/1_other.py"):
        path = tmp_path / "KB" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(GOOD)
    (tmp_path / "KB/level1/shared_tools.py").write_text("def tool(): pass\n")
    (tmp_path / "KB/level1/__init__.py").write_text("")
    (tmp_path / "KB/README.md").write_text("tasks")
    return tmp_path / "KB"


def ids(spec: str) -> list[str]:
    return [file.id for file in files(spec)]


def test_suites_and_what_is_in_them():
    assert "starter" in suites()
    assert ids("starter/gelu") == ["starter/gelu"]
    assert ids("starter/gelu.py") == ["starter/gelu"]
    assert ids("starter/*norm") == ["starter/layernorm", "starter/rmsnorm"]
    assert ids("starter/") == ids("starter") == ids("starter/*")


def test_paths_folders_and_patterns_keep_the_order_of_numbers(bench):
    level1 = ["level1/1_one", "level1/2_two", "level1/10_ten"]
    assert ids(str(bench / "level1")) == level1
    assert ids(str(bench)) == [*level1, "level2/1_other"]
    assert ids(str(bench / "level1/2_two.py")) == ["level1/2_two"]
    assert ids(f"{bench}/*/1_*.py") == ["level1/1_one", "level2/1_other"]
    assert ids(f"{bench}/**/*.py") == [*level1, "level2/1_other"]
    assert ids(f"{bench}/level*") == [*level1, "level2/1_other"]
    assert [file.level for file in files(str(bench))] == [1, 1, 1, 2]
    assert {file.family for file in files(str(bench))} == {"activation"}


def test_several_parts_drop_duplicates_and_keep_the_order_given(bench):
    spec = f"starter/softmax, {bench}/level2 ,starter/gelu,starter/s*max,,{bench}/level2/1_other.py"
    assert ids(spec) == ["starter/softmax", "level2/1_other", "starter/gelu"]


def test_a_relative_path_and_odd_characters_give_a_plain_id(bench, monkeypatch):
    (bench / "level1/my task!.py").write_text(GOOD)
    monkeypatch.chdir(bench / "level1")
    assert ids("./my task!.py") == ["level1/my_task_"]
    assert ids(".")[-1] == "level1/my_task_"


def test_two_files_of_one_name_are_refused(bench, tmp_path):
    twin = tmp_path / "elsewhere/level1"
    twin.mkdir(parents=True)
    (twin / "1_one.py").write_text(GOOD)
    with pytest.raises(UserError, match=r"two task files would both be called 'level1/1_one'.*rename one"):
        files(f"{bench}/level1,{twin}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "no tasks given; name a suite"),
        (" , ", "no tasks given"),
        ("startr", r"no task suite or file called 'startr' \(did you mean 'starter'\?\); suites: .*starter"),
        ("rmsnorm", r"did you mean .*'starter/rmsnorm'"),
        ("starter/gelo", r"suite 'starter' has no task 'gelo' \(did you mean 'gelu'\?\); it has: argmax"),
        ("./nowhere/*.py", r"no file or folder matches './nowhere/\*\.py'"),
        ("nowhere.py", "no file or folder matches 'nowhere.py'"),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(spec, message):
    with pytest.raises(UserError, match=message) as caught:
        files(spec)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_tasks(bench, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no task files in .*empty"):
        files(str(tmp_path / "empty"))
    with pytest.raises(UserError, match=r"is no task file: a task is a \.py file"):
        files(str(bench / "README.md"))
    with pytest.raises(UserError, match="none of them a task"):
        files(f"{bench}/*.md")
    with pytest.raises(UserError, match="it defines no Model; add `class Model"):
        load(str(bench / "level1/shared_tools.py"))


def test_unreadable_files_are_one_line_that_names_the_fix(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("x = (\n")
    with pytest.raises(UserError, match=r"broken\.py, line 1: reading it raised SyntaxError: .*; fix the task file"):
        files(str(tmp_path))
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"not UTF-8 text .* save it as UTF-8"):
        load(str(broken))
    broken.write_text("x = 1\0")
    with pytest.raises(UserError, match=re.escape(str(broken))):
        files(str(broken))
    with pytest.raises(UserError, match=r"gone\.py cannot be read: No such file"):
        describe(files("starter/gelu")[0]._replace(path=tmp_path / "gone.py"))
    broken.write_text(GOOD.replace("torch.relu(x)", "x @ x"))
    with pytest.raises(UserError, match=r"broken\.py, line 7: Model\.forward raised RuntimeError"):
        load(str(broken))


def test_a_task_is_complete(bench):
    (task,) = load(str(bench / "level2"))
    assert (task.id, task.family, task.level, task.source) == ("level2/1_other", "activation", 2, GOOD)
    assert task.signature.inputs[0].shape == (64, 32)
    assert set(task.sizes) == {"bench", "small", "held_out"}


def test_the_cache_is_used_for_equal_texts_only(bench, own_cache):
    first = load(str(bench / "level1/1_one.py"))[0]
    (entry,) = (own_cache / "tasks").iterdir()
    entry.write_text(first.model_copy(update={"tags": ("from cache",)}).model_dump_json())
    again = load(str(bench))
    assert {task.tags for task in again} == {("from cache",)}
    assert [task.id for task in again] == ids(str(bench))
    (bench / "level1/1_one.py").write_text(GOOD.replace("64", "48"))
    assert load(str(bench / "level1/1_one.py"))[0].tags == ()


@pytest.mark.parametrize("rubbish", [b"", b"{", b"\xff\xfe", json.dumps({"id": "x"}).encode()])
def test_a_corrupt_cache_is_ignored_and_mended(bench, own_cache, rubbish):
    spec = str(bench / "level1/1_one.py")
    first = load(spec)
    (entry,) = (own_cache / "tasks").iterdir()
    entry.write_bytes(rubbish)
    assert load(spec) == first
    assert cache.get(GOOD) is not None


def test_a_cache_that_cannot_be_written_is_no_error(bench, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "file"))
    with caplog.at_level(logging.INFO):
        assert len(load(str(bench / "level2"))) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "EVOKERNEL_CACHE": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=240)


def test_a_second_load_needs_no_torch(own_cache):
    code = "import sys; from evokernel.tasks.loader import load, files; files('starter')\nassert 'torch' not in sys.modules\n"
    code += "print(len(load('starter/g*,starter/softmax')), 'torch' in sys.modules)"
    first, second = python(code, own_cache), python(code, own_cache)
    assert (first.stdout, second.stdout) == ("2 True\n", "2 False\n"), first.stderr + second.stderr


def test_without_torch_the_message_names_the_package(own_cache):
    code = (
        "import sys, importlib.metadata as m\nfrom evokernel.core.errors import UserError\nfrom evokernel.tasks.loader import load, files\n"
        "sys.modules['torch'] = None\n{}assert len(files('starter')) == 16\ntry: load('starter/gelu')\nexcept UserError as e: print(e)"
    )
    hidden = "def gone(name): raise m.PackageNotFoundError(name)\nm.version = gone\n"
    for lines in ("", hidden):
        said = python(code.format(lines), own_cache)
        assert said.stdout == "reading a task needs PyTorch: pip install 'evokernel[torch]'\n", said.stderr
