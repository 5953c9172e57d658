"""Every executor found: a job becomes its own Outcome, trouble has a type, several go at a time, and nothing is left when it is closed."""

import sys
from pathlib import Path

import pytest
from engine_parts import task

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin, plugin_names
from evokernel.core.protocols import RemoteExecutor
from evokernel.core.records import Candidate, Job, Outcome

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
WORKER = [sys.executable, "-P", "-m", "evokernel.executors.worker"]


def job(n: int, **more) -> Job:
    """A candidate that cannot be built, in words of its own."""
    candidate = Candidate(backend="cpp", files={"kernel.cpp": f"#error job {n} ends here\n"})
    return Job(backend="cpp", task=task("relu"), candidate=candidate, **more)


@pytest.fixture(scope="module", params=plugin_names("executor"))
def executor(request):
    settings = {"local": {"workers": 2}, "command": {"command": WORKER, "jobs": 2}}.get(request.param, {})
    if request.param != "ray":
        made = make_plugin("executor", request.param, **settings)
        yield made
        made.close()
        return
    pytest.importorskip("ray", reason="pip install 'evokernel[ray]'")
    from ray_nodes import cluster

    with cluster(cores=2, evokernel_backend_cpp=2) as nodes:
        made = make_plugin("executor", "ray", address=nodes.address)
        yield made
        made.close()


def test_each_job_gets_its_own_verdict(executor):
    futures = [executor.submit(job(n)) for n in range(6)]
    for n, future in enumerate(futures):
        found = future.result(120)
        assert isinstance(found, Outcome)
        assert (found.failure.gate, found.failure.reason) == ("build", "compile_error")
        assert f"job {n} ends here" in found.failure.detail


def test_what_the_user_can_mend_is_the_users(executor):
    with pytest.raises(UserError, match="no setting 'colour'"):
        executor.submit(job(1, settings={"colour": "red"})).result(120)


def test_a_large_job_passes(executor):
    found = executor.submit(job(7).model_copy(update={"incumbent": Candidate(backend="cpp", files={"k.cpp": "// x\n" * 200_000})})).result(
        120
    )
    assert "job 7 ends here" in found.failure.detail


def test_one_that_judges_elsewhere_says_what_with(executor):
    if not isinstance(executor, RemoteExecutor):
        pytest.skip("it judges here")
    found = executor.toolchain("cpp", {})
    assert found
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in found.items())


@pytest.mark.parametrize("name", plugin_names("executor"))
def test_unknown_settings_are_refused(name):
    if name == "ray":
        pytest.importorskip("ray", reason="pip install 'evokernel[ray]'")
    with pytest.raises(UserError, match="no setting 'wrokers'"):
        make_plugin("executor", name, wrokers=1)
