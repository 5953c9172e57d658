"""An exported kernel stands on its own: PyTorch calls it, in interpret mode where there is no TPU, and its own test passes."""

import subprocess
import sys

import pytest

from evokernel.backends.pallas.export import files
from evokernel.core.plugins import folder
from evokernel.core.records import Candidate
from evokernel.reports.export import template
from evokernel.tasks.loader import load

pytest.importorskip("jax")
SAMPLES = folder("backend", "pallas") / "samples"


@pytest.fixture
def exported(tmp_path):
    def made(text):
        task = load(str(SAMPLES / "task.py"))[0]
        candidate = Candidate(backend="pallas", files={"kernel.py": text})
        test = template("test_kernel.py.j2", task=task)
        given = {**candidate.files, "reference.py": task.source, "test_kernel.py": test, **files(task, candidate, {})}
        for name, content in given.items():
            (tmp_path / name).write_text(content)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "0", str(tmp_path)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return made


def test_its_own_test_passes(exported):
    done = exported((SAMPLES / "good" / "kernel.py").read_text())
    assert done.returncode == 0, done.stdout


def test_its_own_test_can_fail(exported):
    done = exported((SAMPLES / "good" / "kernel.py").read_text().replace("sharpness * (scores", "2 * sharpness * (scores"))
    assert "1 failed" in done.stdout
