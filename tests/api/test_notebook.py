"""The notebook of the documentation runs in a real kernel of Jupyter, with fewer tasks and attempts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import evokernel.backends.cpp

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytestmark = [pytest.mark.toolchain, pytest.mark.slow(one_in=2)]
PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"
SAMPLES = Path(evokernel.backends.cpp.__file__).parent / "samples"
SETUP = f"""
import functools, shutil, torch
import evokernel as ek
ek.run = functools.partial(ek.run, clock="synthetic", protocol="paper", workers=1)
shutil.copy({str(SAMPLES / "task.py")!r}, "mine.py")
text = open({str(SAMPLES / "good" / "kernel.cpp")!r}).read()
model = torch.nn.Sequential(torch.nn.Softmax(dim=-1))
"""


def read_notebook() -> str:
    """The first block of code on the page, for fewer tasks and attempts."""
    (code, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert 'ek.run("starter"' in code
    return code.replace('"starter"', '"starter/softmax"').replace("budget=5", "budget=1")


def test_notebook_of_the_documentation_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    lines = [line for line in read_notebook().splitlines() if line]
    cells = [SETUP, *lines, "task", "result", "df", "ek.compare(a, b)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    pages = ["".join(output.get("data", {}).get("text/html", "") for output in cell.outputs) for cell in notebook.cells]
    by_source = dict(zip(cells, pages, strict=True))
    assert "x:float32[384,512]" in by_source["task"]
    assert "samples/task: passed every gate" in by_source["result"]
    assert "1 of 1 attempts" in next(page for source, page in by_source.items() if source.startswith("a = "))
    assert "starter/softmax" in by_source["df"]
    assert "paired by task" in by_source["ek.compare(a, b)"]
    assert "tasks have an operator in the model" in next(page for source, page in by_source.items() if source.startswith("model = "))
    assert (tmp_path / "kernels" / "pyproject.toml").is_file()
