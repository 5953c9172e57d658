"""A bundle runs where nothing of ours is installed, and what it found comes back as a run."""

import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from evokernel.cli.bundle import command
from evokernel.core import archives
from evokernel.core.errors import UserError
from evokernel.core.run import Run
from evokernel.experiments import bundle

ARGUMENTS = ("--backend", "cpp", "--tasks", "tasks/mine.py", "--budget", "1", "--set", "clock=synthetic", "--set", "protocol=paper")
TASK = """import torch

N = 64


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.randn(N)]
"""


@pytest.fixture
def without_network(monkeypatch):
    """What would be fetched is installed here already."""
    monkeypatch.setattr(bundle, "fetch", lambda site, *_: site.mkdir(parents=True) or ("none",))


def test_there_and_back(without_network, tmp_path):
    (tmp_path / "mine.py").write_text(TASK)
    made = bundle.pack(tmp_path / "run.tar.gz", ARGUMENTS, [tmp_path / "mine.py"], None, "3.12", ["any"], ())
    assert made.command[0] == "run"
    with tarfile.open(made.file) as archive:
        names = archive.getnames()
        archives.extract_archive(archive, tmp_path / "there")
    assert not [name for name in names if "__pycache__" in name]
    home = tmp_path / "there" / bundle.HOME
    installed = sysconfig.get_path("purelib")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHON": f"{sys.executable}", "PYTHONPATH": installed}
    done = subprocess.run([home / "run.sh"], env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = bundle.back(home / bundle.RESULTS, tmp_path / "runs")
    assert found.attempts == len(Run.open(found.run).attempts()) == 1
    assert found.bank is not None
    with pytest.raises(UserError, match="is there already"):
        bundle.back(home / bundle.RESULTS, tmp_path / "runs")


def test_what_is_no_bundle(tmp_path):
    (tmp_path / "odd.tar.gz").write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot be read"):
        bundle.back(tmp_path / "odd.tar.gz", tmp_path)
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add(Path(__file__), "results/file.py")
    with pytest.raises(UserError, match="holds no run"):
        bundle.back(tmp_path / "other.tar.gz", tmp_path)


def test_what_is_not_there_to_pack(without_network, tmp_path):
    with pytest.raises(UserError, match="no task file"):
        bundle.pack(tmp_path / "run.tar.gz", (), [tmp_path / "gone.py"], None, "3.12", ["any"], ())
    with pytest.raises(UserError, match="no memory bank"):
        bundle.pack(tmp_path / "run.tar.gz", (), [], tmp_path / "gone.db", "3.12", ["any"], ())


def test_requirements_are_those_of_a_bare_installation():
    wanted = {bundle.normal(one) for one in bundle.requirements()}
    assert {"click", "numpy", "pydantic"} <= wanted
    assert not wanted & {"torch", "jax", "pytest", "triton"}


@pytest.mark.parametrize("named", [("--memory", "{}"), ("--memory={}",), ("--set", "memory={}"), ("--set=memory={}",)])
def test_a_bank_among_the_arguments_of_the_run_is_refused(without_network, tmp_path, named):
    arguments = [one.format("postgresql://me:s3cret@db.example/bank") for one in named]
    with pytest.raises(UserError, match="before the '--'") as caught:
        bundle.pack(tmp_path / "run.tar.gz", ("--backend", "cpp", *arguments), [], None, "3.12", ["any"], ())
    assert "s3cret" not in str(caught.value)
    assert not (tmp_path / "run.tar.gz").exists()


def test_a_bank_on_a_server_is_refused_before_anything_is_fetched(tmp_path):
    asked = ["pack", str(tmp_path / "x.tar.gz"), "--memory", "postgresql://me:s3cret@db.example/bank"]
    with pytest.raises(UserError, match="evokernel memory export") as caught:
        CliRunner().invoke(command, asked, catch_exceptions=False)
    assert "s3cret" not in str(caught.value)
    assert "postgresql://me@db.example/bank" in str(caught.value)
