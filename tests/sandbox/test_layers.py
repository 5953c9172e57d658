"""Probing finds the sandbox layers that a machine lacks, and reports them."""

import os
import subprocess
import sys

import pytest

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Job
from evokernel.sandbox import allowed_paths, layers, syscall_filter
from evokernel.verifier import verify

NAMES = ("limits", "privileges", "namespaces", "landlock", "seccomp")
HONEST = "def kernel(a):\n    a.outputs[0].data[...] = 2 * a.inputs[0].data\n"
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux layers")


def test_every_layer_is_probed_once():
    all_layers = layers.list_layers()
    assert tuple(layer.name for layer in all_layers) == NAMES
    assert layers.probe_layers() is layers.probe_layers()
    assert all(layer.protection and layer.risk for layer in all_layers)


@linux
@pytest.mark.skipif(bool(layers.describe_missing_layers()), reason="the sandbox is incomplete on this machine")
def test_probe_finds_missing_layers(monkeypatch):
    """Inside a compiler's sandbox only limits can be applied."""
    from evokernel.sandbox import exec_compiler, isolated_python, profiles

    plan = profiles.plan_compiler(
        sys.executable, [sys.prefix, sys.base_prefix, str(allowed_paths.Path(layers.__file__).parents[2])], "/tmp", (), {}
    )
    probe = isolated_python.isolated_command(
        "evokernel.sandbox.probe", "main", syscall_filter.compile_filter("kernel").hex(), str(layers.get_seccomp_number())
    )
    process = subprocess.run(exec_compiler.make_sandboxed_command(plan, probe), capture_output=True, text=True)
    states = {line.split("\t")[0]: line.split("\t")[1] for line in process.stdout.splitlines()}
    assert states == dict.fromkeys(NAMES, "inactive") | {"limits": "active"}, process.stderr


def test_disabled_layer_is_reported(monkeypatch):
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", "seccomp")
    assert "sandbox: layer seccomp is not active (disabled by EVOKERNEL_SANDBOX_DISABLE)" in layers.describe_missing_layers()
    with pytest.raises(UserError, match="seccomp: disabled by"):
        layers.require_all_layers()


def test_unknown_layer_is_refused(monkeypatch):
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", "secomp")
    with pytest.raises(UserError, match="unknown sandbox layer: secomp; known layers: limits"):
        layers.list_layers()


def test_other_systems_have_limits_only(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    layers.probe_layers.cache_clear()
    assert list(layers.get_active_layers()) == ["limits"]
    monkeypatch.undo()
    layers.probe_layers.cache_clear()


def make_job(doubling, tmp_path, **more):
    candidate = Candidate(backend="hostile_backend:Hostile", files={"kernel.py": HONEST})
    settings = {"where": str(tmp_path)}
    return Job(backend=candidate.backend, settings=settings, task=doubling, candidate=candidate, clock="synthetic", **more)


@linux
def test_outcome_lists_missing_layers(doubling, tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", "namespaces")
    outcome = verify(make_job(doubling, tmp_path))
    assert outcome.feasible, outcome.failure
    assert "sandbox: layer namespaces is not active (disabled by EVOKERNEL_SANDBOX_DISABLE)" in outcome.skipped_checks


def test_required_sandbox_must_be_complete(doubling, tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", "limits")
    with pytest.raises(UserError, match="limits: disabled by"):
        verify(make_job(doubling, tmp_path, require_sandbox=True))


@pytest.mark.parametrize("arguments", [["run"], ["verify", "kernel.cpp", "--task", "starter/softmax"]])
def test_commands_refuse_an_incomplete_sandbox(arguments, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.cpp").write_text("x")
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", "limits")
    process = subprocess.run(
        [sys.executable, "-m", "evokernel.cli.main", *arguments, "--require-sandbox"], capture_output=True, text=True, env=dict(os.environ)
    )
    assert (process.returncode, process.stderr.count("\n")) == (2, 1), process.stderr
    assert "limits: disabled by" in process.stderr


def test_doctor_lists_layers(monkeypatch):
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", "limits")
    from evokernel.app.machine_checks import check_sandbox

    rows = {check.name: check for check in check_sandbox()}
    assert rows["sandbox limits"].state == "optional"
    assert "exhaust memory" in rows["sandbox limits"].detail
    assert "limits" not in rows["sandbox"].detail


def test_package_folder_is_readable_and_working_folder_is_not(tmp_path):
    """A program that unpacks its packages has no site-packages folder."""
    (tmp_path / "site" / "typing_extensions-4.16.0.dist-info").mkdir(parents=True)
    assert allowed_paths.is_package_folder(str(tmp_path / "site"))
    assert not allowed_paths.is_package_folder(str(tmp_path))
