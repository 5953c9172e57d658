"""An exported kernel stands on its own: PyTorch calls it, in interpret mode where there is no TPU, and its own test passes."""

import subprocess
import sys

import pytest

from evokernel.backends.pallas.export import files
from evokernel.core.plugins import plugin_folder
from evokernel.core.records import Candidate
from evokernel.reports.export import template
from evokernel.tasks.loader import load

pytest.importorskip("jax")
SAMPLES = plugin_folder("backend", "pallas") / "samples"


def test_its_own_test_passes_and_can_fail(tmp_path):
    small = tmp_path / "task.py"
    small.write_text((SAMPLES / "task.py").read_text().replace("ROWS = 512", "ROWS = 160"))
    task = load(str(small))[0]
    good = (SAMPLES / "good" / "kernel.py").read_text()
    for name, text in {"good": good, "bad": good.replace("sharpness * (scores", "2 * sharpness * (scores")}.items():
        candidate = Candidate(backend="pallas", files={"kernel.py": text})
        test = template("test_kernel.py.j2", task=task)
        (tmp_path / name).mkdir()
        for file, content in {"reference.py": task.source, "test_kernel.py": test, **candidate.files, **files(task, candidate, {})}.items():
            (tmp_path / name / file).write_text(content)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--import-mode=importlib", "-k", "0", "good", "bad"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "PASSED good/test_kernel.py::test_kernel_matches_the_reference[0]" in done.stdout
