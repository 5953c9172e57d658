"""Outcomes that the runs of an experiment share: equal to the original, never for measured latencies, never for re-evaluations."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
import sample_run

from evokernel.core.backend import Capabilities
from evokernel.core.errors import InfraError
from evokernel.core.records import Candidate, Job, Usage
from evokernel.experiments import arm_runs, outcome_reuse, spec
from evokernel.experiments.outcome_reuse import ReusingExecutor

TASK = sample_run.make_task("relu")


class CountingExecutor:
    """Answers every job with the same outcome and keeps the jobs."""

    def __init__(self, outcome):
        self.outcome, self.jobs, self.is_closed = outcome, [], False

    def submit(self, job):
        self.jobs.append(job)
        result = Future()
        if isinstance(self.outcome, Exception):
            result.set_exception(self.outcome)
        else:
            result.set_result(self.outcome)
        return result

    def close(self):
        self.is_closed = True


def make_backend(is_repeatable=True):
    return SimpleNamespace(capabilities=Capabilities(timing="estimate", is_repeatable=is_repeatable))


def make_job(code="kernel", seed=0, **more):
    candidate = Candidate(backend="pallas", files={"kernel.py": code})
    return Job(backend="pallas", task=TASK, candidate=candidate, seed=seed, **more)


def make_executor(folder, outcome=None, backend=None, versions=None, run="x-one-0", includes_measured=False):
    inner = CountingExecutor(outcome or sample_run.estimated_outcome(5.0))
    return ReusingExecutor(inner, backend or make_backend(), versions or {"jax": "1"}, folder, run, includes_measured)


def test_identical_kernel_of_another_run_is_not_verified_again(tmp_path):
    first, second = make_executor(tmp_path), make_executor(tmp_path, sample_run.estimated_outcome(7.0), run="x-two-1")
    verified = first.submit(make_job(seed=1)).result()
    reused = second.submit(make_job(seed=2)).result()
    assert verified.reused_from == ""
    assert reused == verified.model_copy(update={"reused_from": "x-one-0"})
    assert second.executor.jobs == [], "the seed of the inputs does not matter"


def test_failure_is_reused_too(tmp_path):
    outcome = sample_run.failed_outcome("build", "compile_error")
    make_executor(tmp_path, outcome).submit(make_job())
    assert make_executor(tmp_path).submit(make_job()).result() == outcome.model_copy(update={"reused_from": "x-one-0"})


@pytest.mark.parametrize(
    ("job", "versions"),
    [
        (make_job("another kernel"), None),
        (make_job(protocol="paper"), None),
        (make_job(settings={"device": "v6e"}), None),
        (make_job(), {"jax": "2"}),
        (make_job(ignore_cache=True), None),
        (make_job(clock="synthetic"), None),
    ],
    ids=["other code", "other protocol", "other device", "other toolchain", "re-evaluation", "invented times"],
)
def test_another_job_is_verified(tmp_path, job, versions):
    make_executor(tmp_path).submit(make_job())
    executor = make_executor(tmp_path, sample_run.estimated_outcome(7.0), versions=versions)
    assert executor.submit(job).result().latency_us == 7.0
    assert executor.executor.jobs == [job]


def test_measured_latency_is_reused_if_the_experiment_says_so(tmp_path):
    backend = make_backend(is_repeatable=False)
    first = make_executor(tmp_path, backend=backend, includes_measured=True)
    first.submit(make_job(seed=1))
    second = make_executor(tmp_path, sample_run.estimated_outcome(7.0), backend, run="x-two-0", includes_measured=True)
    assert second.submit(make_job(seed=2)).result().latency_us == 5.0
    assert second.submit(make_job(ignore_cache=True)).result().latency_us == 7.0, "re-evaluations measure again"
    assert second.submit(make_job(clock="synthetic")).result().latency_us == 7.0
    assert len(second.executor.jobs) == 2


def test_shared_measurement_does_not_depend_on_the_best_kernel_of_the_run_that_makes_it(tmp_path):
    best = Candidate(backend="cpp", files={"kernel.cpp": "best"})
    executor = make_executor(tmp_path, backend=make_backend(is_repeatable=False), includes_measured=True)
    executor.submit(make_job(incumbent=best))
    executor.submit(make_job(incumbent=best, ignore_cache=True))
    assert [job.incumbent for job in executor.executor.jobs] == [None, best]
    paired = make_executor(tmp_path / "other")
    paired.submit(make_job(incumbent=best))
    assert paired.executor.jobs[0].incumbent == best, "estimates are compared as always"


def test_measured_latency_is_not_reused_by_default(tmp_path):
    backend = make_backend(is_repeatable=False)
    executor = make_executor(tmp_path, backend=backend)
    for seed in range(2):
        executor.submit(make_job(seed=seed))
    assert len(executor.executor.jobs) == 2
    assert not list(tmp_path.iterdir())


def test_outcome_that_chance_may_have_caused_is_verified_again(tmp_path):
    for outcome in (sample_run.failed_outcome("check", "timeout"), InfraError("the worker died")):
        executor = make_executor(tmp_path, outcome)
        for seed in range(2):
            executor.submit(make_job(seed=seed))
        assert len(executor.executor.jobs) == 2


def test_model_call_of_the_verifier_is_paid_once(tmp_path):
    paid = sample_run.estimated_outcome(5.0).model_copy(update={"usage": sample_run.make_usage(0.5)})
    make_executor(tmp_path, paid).submit(make_job())
    assert make_executor(tmp_path).submit(make_job()).result().usage == Usage()


def test_closing_stops_the_workers(tmp_path):
    executor = make_executor(tmp_path)
    executor.close()
    assert executor.executor.is_closed


@pytest.mark.parametrize(("is_shared", "folder"), [(True, "outcomes"), ("measured", "outcomes"), (False, None)])
def test_runs_of_an_experiment_share_outcomes_only_if_its_file_says_so(tmp_path, is_shared, folder):
    arm = spec.ArmSpec(name="one")
    plan = spec.ExperimentSpec(
        name="x", title="X", description="x", groups={"A": "starter"}, arms=[arm], reuse_outcomes=is_shared, settings={"backend": "cpp"}
    )
    run = arm_runs.make_arm_run(plan, arm, ["starter/softmax"], tmp_path, 0)
    assert run.outcomes == (tmp_path / folder if folder else None)
    assert run.shares_measured is (is_shared == "measured")


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("backend", "clock", "measured", "is_reusing"),
    [
        ("cpp", "auto", False, False),
        ("cpp", "auto", True, True),
        ("cpp", "synthetic", True, False),
        ("pallas", "auto", False, True),
        ("pallas", "synthetic", False, False),
    ],
)
def test_outcomes_are_shared_where_latencies_are_estimates_or_measured_ones_are_included(tmp_path, backend, clock, measured, is_reusing):
    from evokernel.app import factory

    settings = {"backend": backend, "clock": clock, "tasks": "starter/softmax", "fresh": True, "size": "laptop"}
    plan = spec.ExperimentSpec(name="x", title="X", description="x", groups={"A": "starter"}, arms=[spec.ArmSpec(name="one")])
    engine = factory.create_engine(plan.run_config(settings), tmp_path / "run")
    try:
        outcome_reuse.share_outcomes(engine, tmp_path / "outcomes", measured)
        assert isinstance(engine.executor.executor, ReusingExecutor) is is_reusing
    finally:
        engine.close()
