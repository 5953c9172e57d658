"""Executes the example scripts and notebooks in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sampling import one_in

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("torch")
pytest.importorskip("pandas")
pytestmark = pytest.mark.toolchain
EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = {
    "verify_a_kernel.py": "passed every gate",
    "verify_many.py": "1 of 4 kernels passed every gate",
    "run_and_compare.py": "comparison.png",
    "replace_operators.py": "largest difference: ",
    "service_client.py": "passed every gate: True",
}
"""The scripts, with a text that each prints at its end."""
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))
SMALLER = {
    '"starter", backend="cpp", ': '"starter/softmax", backend="cpp", clock="synthetic", protocol="paper", workers=1, ',
    "budget=5": "budget=2",
}
"""Replaced in notebooks: sixteen tasks with a real clock take minutes."""


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SCRIPTS)
    assert NOTEBOOKS == ["explore_memory.ipynb", "first_steps.ipynb"]


@pytest.mark.parametrize(("name", "text"), one_in(3, SCRIPTS.items(), name=lambda case: case[0]))
def test_script(name, text, tmp_path):
    completed = subprocess.run([sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr[-3000:]
    assert text in completed.stdout


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_is_committed_without_outputs(name):
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells
    assert [cell for cell in cells if cell.outputs or cell.execution_count is not None] == []


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs(name, tmp_path):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    for cell in notebook.cells:
        for old, new in SMALLER.items():
            cell.source = cell.source.replace(old, new)
    notebook.metadata.kernelspec["name"] = "python3"
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute(env={**os.environ})
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("text/html" in output.get("data", {}) for output in outputs) >= 3
    assert any("image/png" in output.get("data", {}) for output in outputs)
