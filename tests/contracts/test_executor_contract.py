"""Contract of every executor: each job gets its own Outcome, errors have types, and closing leaves nothing behind."""

import sys

import pytest
from engine_parts import make_task

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin, plugin_names
from evokernel.core.protocols import RemoteExecutor
from evokernel.core.records import Candidate, Job, Outcome

pytestmark = pytest.mark.toolchain

WORKER = [sys.executable, "-P", "-m", "evokernel.executors.worker"]


def make_job(n: int, **more) -> Job:
    """Return a job whose candidate fails to build with a unique message."""
    candidate = Candidate(backend="cpp", files={"kernel.cpp": f"#error job {n} ends here\n"})
    return Job(backend="cpp", task=make_task("relu"), candidate=candidate, **more)


@pytest.fixture(scope="module", params=plugin_names("executor"))
def executor(request):
    settings = {"local": {"workers": 2}, "command": {"command": WORKER, "jobs": 2}}.get(request.param, {})
    if request.param != "ray":
        plugin = make_plugin("executor", request.param, **settings)
        yield plugin
        plugin.close()
        return
    pytest.importorskip("ray", reason="pip install 'evokernel[ray]'")
    from benchmarks.ray_nodes import start_cluster

    with start_cluster(cores=2, evokernel_backend_cpp=2) as nodes:
        plugin = make_plugin("executor", "ray", address=nodes.address)
        yield plugin
        plugin.close()


def test_each_job_gets_its_own_outcome(executor):
    futures = [executor.submit(make_job(n)) for n in range(6)]
    for n, future in enumerate(futures):
        outcome = future.result(120)
        assert isinstance(outcome, Outcome)
        assert (outcome.failure.gate, outcome.failure.reason) == ("build", "compile_error")
        assert f"job {n} ends here" in outcome.failure.detail


def test_invalid_setting_raises_user_error(executor):
    with pytest.raises(UserError, match="no setting 'colour'"):
        executor.submit(make_job(1, settings={"colour": "red"})).result(120)


def test_large_job_is_verified(executor):
    outcome = executor.submit(
        make_job(7).model_copy(update={"incumbent": Candidate(backend="cpp", files={"k.cpp": "// x\n" * 200_000})})
    ).result(120)
    assert "job 7 ends here" in outcome.failure.detail


def test_remote_executor_reports_its_toolchain(executor):
    if not isinstance(executor, RemoteExecutor):
        pytest.skip("verifies on this machine")
    versions = executor.toolchain("cpp", {})
    assert versions
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in versions.items())


@pytest.mark.parametrize("name", plugin_names("executor"))
def test_unknown_settings_are_refused(name):
    if name == "ray":
        pytest.importorskip("ray", reason="pip install 'evokernel[ray]'")
    with pytest.raises(UserError, match="no setting 'wrokers'"):
        make_plugin("executor", name, wrokers=1)
