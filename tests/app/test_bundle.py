"""A bundle runs on a machine without this package, and its results are imported as a run."""

import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from evokernel.app import bundle
from evokernel.cli.bundle import command
from evokernel.core import archives
from evokernel.core.errors import UserError
from evokernel.core.run import Run

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
    """The packages to download are already installed here."""
    monkeypatch.setattr(bundle, "download_packages", lambda site, *_: site.mkdir(parents=True) or ("none",))


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_bundle_runs_and_is_imported(without_network, tmp_path):
    (tmp_path / "mine.py").write_text(TASK)
    packed_bundle = bundle.pack_bundle(tmp_path / "run.tar.gz", ARGUMENTS, [tmp_path / "mine.py"], None, "3.12", ["any"], ())
    assert packed_bundle.command[0] == "run"
    with tarfile.open(packed_bundle.file) as archive:
        names = archive.getnames()
        archives.extract_archive(archive, tmp_path / "there")
    assert not [name for name in names if "__pycache__" in name]
    home = tmp_path / "there" / bundle.ARCHIVE_ROOT
    site_packages = sysconfig.get_path("purelib")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHON": f"{sys.executable}", "PYTHONPATH": site_packages}
    process = subprocess.run([home / "run.sh"], env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    imported = bundle.import_results(home / bundle.RESULTS, tmp_path / "runs")
    assert imported.attempts == len(Run.open(imported.run).attempts()) == 1
    assert imported.bank is not None
    with pytest.raises(UserError, match="already exists"):
        bundle.import_results(home / bundle.RESULTS, tmp_path / "runs")


def test_file_that_is_not_a_bundle_is_refused(tmp_path):
    (tmp_path / "odd.tar.gz").write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot read"):
        bundle.import_results(tmp_path / "odd.tar.gz", tmp_path)
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add(Path(__file__), "results/file.py")
    with pytest.raises(UserError, match="does not contain a run"):
        bundle.import_results(tmp_path / "other.tar.gz", tmp_path)


@pytest.mark.heavy
def test_missing_task_or_bank_is_refused(without_network, tmp_path):
    with pytest.raises(UserError, match=r"task file or folder .* does not exist"):
        bundle.pack_bundle(tmp_path / "run.tar.gz", (), [tmp_path / "gone.py"], None, "3.12", ["any"], ())
    with pytest.raises(UserError, match=r"memory bank .* does not exist"):
        bundle.pack_bundle(tmp_path / "run.tar.gz", (), [], tmp_path / "gone.db", "3.12", ["any"], ())


def test_requirements_exclude_extras():
    names = {bundle.normalize_name(one) for one in bundle.package_requirements()}
    assert {"click", "numpy", "pydantic"} <= names
    assert not names & {"torch", "jax", "pytest", "triton"}


@pytest.mark.parametrize("bank_arguments", [("--memory", "{}"), ("--memory={}",), ("--set", "memory={}"), ("--set=memory={}",)])
def test_bank_among_the_arguments_of_the_run_is_refused(without_network, tmp_path, bank_arguments):
    arguments = [one.format("postgresql://me:s3cret@db.example/bank") for one in bank_arguments]
    with pytest.raises(UserError, match="before the '--'") as caught:
        bundle.pack_bundle(tmp_path / "run.tar.gz", ("--backend", "cpp", *arguments), [], None, "3.12", ["any"], ())
    assert "s3cret" not in str(caught.value)
    assert not (tmp_path / "run.tar.gz").exists()


def test_bank_on_a_server_is_refused_before_any_download(tmp_path):
    arguments = ["pack", str(tmp_path / "x.tar.gz"), "--memory", "postgresql://me:s3cret@db.example/bank"]
    with pytest.raises(UserError, match="evokernel memory export") as caught:
        CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert "s3cret" not in str(caught.value)
    assert "postgresql://me@db.example/bank" in str(caught.value)
