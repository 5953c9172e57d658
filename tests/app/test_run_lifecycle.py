"""The lifecycle of a run as a Python caller sees it: records in order, a closed executor, errors that name the next step."""

import threading

import pytest
from engine_parts import ArithmeticExecutor, make_engine

from evokernel.app.run_lifecycle import INTERRUPTED_EXIT, UNSOLVED_EXIT, ReevaluationStart, exit_code, run_to_completion, stop_on_interrupt
from evokernel.app.verification import verify_candidate
from evokernel.core.config import RunConfig
from evokernel.core.errors import InfraError, UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.records import Attempt, Candidate
from evokernel.engine.final_eval import INTERRUPTED
from evokernel.engine.jobs import attempt_job, make_job, reevaluation_job


class LostExecutor(ArithmeticExecutor):
    """Executor whose device is lost."""

    def verify(self, job):
        raise InfraError("device lost.")


def test_run_yields_attempts_then_reevaluations_and_closes_its_executor(tmp_path):
    engine = make_engine(tmp_path / "run")
    records = list(run_to_completion(engine))
    kinds = [type(record) for record in records]
    (start,) = (record for record in records if isinstance(record, ReevaluationStart))
    number = kinds.index(ReevaluationStart)
    assert set(kinds[:number]) == {Attempt}
    assert kinds[number + 1 :].count(FinalResult) == len(kinds) - number - 1 >= start.kernel_count > 0
    assert exit_code(engine, solved_share=1) == 0
    assert exit_code(engine, solved_share=0.5, fail_under=0.5) == 0
    assert exit_code(engine, solved_share=0.5, fail_under=0.6) == exit_code(engine, solved_share=0) == UNSOLVED_EXIT
    with pytest.raises(RuntimeError, match="shutdown"):
        engine.executor.submit(None)


def test_interrupted_run_is_not_reevaluated(tmp_path):
    engine = make_engine(tmp_path / "run")
    records = run_to_completion(engine)
    next(records)
    engine.stop_reason = INTERRUPTED
    engine.stop.set()
    assert {type(record) for record in records} <= {Attempt}
    assert exit_code(engine, solved_share=0) == INTERRUPTED_EXIT


def test_infrastructure_failure_names_the_resume_command(tmp_path):
    engine = make_engine(tmp_path / "run", executor=LostExecutor())
    with pytest.raises(InfraError, match=r"lists the reasons\. Once fixed, resume with: evokernel resume .*run$"):
        list(run_to_completion(engine))


def test_other_threads_handle_no_signals(tmp_path):
    engine, entered = make_engine(tmp_path / "run"), []

    def serve():
        with stop_on_interrupt(engine, lambda: 0, lambda count: None, lambda: None):
            entered.append(True)

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
    assert entered == [True]


def test_all_jobs_of_a_run_have_its_settings(tmp_path):
    engine = make_engine(tmp_path / "run")
    attempt = next(iter(engine.make_attempts()))
    task, config = engine.run.tasks[0], engine.run.config
    state = engine.make_state(task, 1)
    jobs = {
        "attempt": attempt_job(config, state, attempt.candidate),
        "re-evaluation": reevaluation_job(config, task, attempt),
        "verify": make_job(config, task, attempt.candidate, seed=config.seed, baselines=("eager", "compile")),
    }
    own_fields = {"seed", "incumbent", "ignore_cache", "baselines"}
    settings = {name: job.model_dump(exclude=own_fields) for name, job in jobs.items()}
    assert settings["attempt"] == settings["re-evaluation"] == settings["verify"]
    assert len({job.seed for job in jobs.values()}) == 3
    assert jobs["verify"].baselines == ("eager", "compile")
    assert jobs["re-evaluation"].ignore_cache


def test_candidate_of_another_backend_is_refused_before_verification(tmp_path):
    task = make_engine(tmp_path / "run").run.tasks[0]
    config = RunConfig(backend={"name": "cpp"}, workers=1)
    with pytest.raises(UserError, match=r"backend 'cpp' takes kernel\.cpp, not kernel\.py"):
        verify_candidate(config, task, Candidate(backend="cpp", files={"kernel.py": "x"}), ("eager",))
