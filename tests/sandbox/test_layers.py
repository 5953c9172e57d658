"""What a machine lacks is found by trying, and said."""

import os
import subprocess
import sys

import pytest

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Job
from evokernel.sandbox import allowed_paths, layers, syscall_filter
from evokernel.verify import verify

NAMES = ("limits", "privileges", "namespaces", "landlock", "seccomp")
HONEST = "def kernel(a):\n    a.outputs[0].data[...] = 2 * a.inputs[0].data\n"
linux = pytest.mark.skipif(sys.platform != "linux", reason="layers of Linux")


def test_every_layer_is_tried_once():
    found = layers.layers()
    assert tuple(layer.name for layer in found) == NAMES
    assert layers.probed() is layers.probed()
    assert all(layer.gives and layer.lack for layer in found)


@linux
@pytest.mark.skipif(bool(layers.lacking()), reason="the sandbox is incomplete here")
def test_trying_finds_what_is_not_there(monkeypatch):
    """Inside a compiler's jail nothing but limits can be had."""
    from evokernel.core import isolated_python
    from evokernel.sandbox import exec_compiler, profiles

    plan = profiles.compiler(
        sys.executable, [sys.prefix, sys.base_prefix, str(allowed_paths.Path(layers.__file__).parents[2])], "/tmp", (), {}
    )
    probe = isolated_python.isolated_command(
        "evokernel.sandbox.probe", "main", syscall_filter.program("kernel").hex(), str(layers.number())
    )
    done = subprocess.run(exec_compiler.command(plan, probe), capture_output=True, text=True)
    states = {line.split("\t")[0]: line.split("\t")[1] for line in done.stdout.splitlines()}
    assert states == dict.fromkeys(NAMES, "fails") | {"limits": "holds"}, done.stderr


def test_a_layer_that_is_switched_off_is_missed(monkeypatch):
    monkeypatch.setenv("EVOKERNEL_WITHOUT", "seccomp")
    assert "sandbox: no seccomp (switched off by EVOKERNEL_WITHOUT)" in layers.lacking()
    with pytest.raises(UserError, match="no seccomp"):
        layers.require()


def test_no_such_layer(monkeypatch):
    monkeypatch.setenv("EVOKERNEL_WITHOUT", "secomp")
    with pytest.raises(UserError, match="names no layer of the sandbox: secomp; there are: limits"):
        layers.layers()


def test_other_systems_have_limits_only(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    layers.probed.cache_clear()
    assert list(layers.holding()) == ["limits"]
    monkeypatch.undo()
    layers.probed.cache_clear()


def job(doubling, tmp_path, **more):
    candidate = Candidate(backend="hostile_backend:Hostile", files={"kernel.py": HONEST})
    given = {"where": str(tmp_path)}
    return Job(backend=candidate.backend, settings=given, task=doubling, candidate=candidate, clock="synthetic", **more)


@linux
def test_a_verdict_says_what_it_had_to_do_without(doubling, tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_WITHOUT", "namespaces")
    outcome = verify(job(doubling, tmp_path))
    assert outcome.feasible, outcome.failure
    assert "sandbox: no namespaces (switched off by EVOKERNEL_WITHOUT)" in outcome.skipped_checks


def test_a_sandbox_that_is_required_must_be_whole(doubling, tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_WITHOUT", "limits")
    with pytest.raises(UserError, match="no limits: switched off"):
        verify(job(doubling, tmp_path, require_sandbox=True))


@pytest.mark.parametrize("words", [["run"], ["verify", "kernel.cpp", "--task", "starter/softmax"]])
def test_commands_refuse(words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.cpp").write_text("x")
    monkeypatch.setenv("EVOKERNEL_WITHOUT", "limits")
    done = subprocess.run(
        [sys.executable, "-m", "evokernel.cli.main", *words, "--require-sandbox"], capture_output=True, text=True, env=dict(os.environ)
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "no limits" in done.stderr


def test_doctor_shows_layers(monkeypatch):
    monkeypatch.setenv("EVOKERNEL_WITHOUT", "limits")
    from evokernel.cli.doctor import sandbox

    rows = {check.name: check for check in sandbox()}
    assert rows["sandbox limits"].state == "optional"
    assert "use up memory" in rows["sandbox limits"].detail
    assert "limits" not in rows["sandbox"].detail


def test_packages_beside_a_program_are_readable_and_a_working_folder_is_not(tmp_path):
    """Where what a program needs was unpacked, there is no site-packages."""
    (tmp_path / "site" / "typing_extensions-4.16.0.dist-info").mkdir(parents=True)
    assert allowed_paths.is_for_packages(str(tmp_path / "site"))
    assert not allowed_paths.is_for_packages(str(tmp_path))
