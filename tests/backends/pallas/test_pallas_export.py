"""An exported kernel works without this package: PyTorch calls it, in interpret mode without a TPU, and its test passes."""

import subprocess
import sys

import pytest

from evokernel.backends.pallas.export import files
from evokernel.core.plugins import plugin_folder
from evokernel.core.records import Candidate
from evokernel.reports.export import render_template
from evokernel.tasks.loader import load_tasks

pytest.importorskip("jax")
SAMPLES = plugin_folder("backend", "pallas") / "samples"


@pytest.mark.slow(one_in=5)
def test_exported_test_passes_for_a_good_kernel_and_fails_for_a_bad_one(tmp_path):
    small = tmp_path / "task.py"
    small.write_text((SAMPLES / "task.py").read_text().replace("ROWS = 512", "ROWS = 160"))
    task = load_tasks(str(small))[0]
    good = (SAMPLES / "good" / "kernel.py").read_text()
    for name, text in {"good": good, "bad": good.replace("sharpness * (scores", "2 * sharpness * (scores")}.items():
        candidate = Candidate(backend="pallas", files={"kernel.py": text})
        test = render_template("test_kernel.py.j2", task=task)
        (tmp_path / name).mkdir()
        for file, content in {"reference.py": task.source, "test_kernel.py": test, **candidate.files, **files(task, candidate, {})}.items():
            (tmp_path / name / file).write_text(content)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--import-mode=importlib", "-k", "0", "good", "bad"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed, 1 passed" in result.stdout, result.stdout
    assert "PASSED good/test_kernel.py::test_kernel_matches_the_reference[0]" in result.stdout
