"""Final re-evaluation of the best kernels: each once, in order, from scratch, without influence on the loop."""

import pytest
from engine_parts import ArithmeticExecutor, make_engine, make_task

from evokernel.core import final_results
from evokernel.core.errors import InfraError, UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.labels import format_attempt
from evokernel.core.records import GateResult, Outcome
from evokernel.engine.final_eval import pending_reevaluations, reevaluate_best

WRONG = Outcome(gates=(GateResult(gate="check", passed=False, reason="mismatch"),))


class RecordingExecutor(ArithmeticExecutor):
    """Records its jobs; the re-evaluation of `wrong_candidates` fails, and that of `lost_candidates` raises InfraError."""

    def __init__(self, wrong_candidates=(), lost_candidates=()):
        super().__init__()
        self.jobs, self.wrong_candidates, self.lost_candidates = [], set(wrong_candidates), set(lost_candidates)

    def verify(self, job):
        self.jobs.append(job)
        name = job.candidate.files["kernel.cpp"].split()[0]
        if job.ignore_cache and name in self.lost_candidates:
            raise InfraError("device lost")
        return WRONG if job.ignore_cache and name in self.wrong_candidates else super().verify(job)

    @property
    def reevaluation_jobs(self):
        return [job for job in self.jobs if job.ignore_cache]


def run_to_completion(folder, executor, **settings):
    engine = make_engine(folder, executor=executor, budget=6, **settings)
    list(engine.make_attempts())
    return engine


def best_attempts(engine):
    return {task.id: engine.make_state(task, 0).best.id for task in engine.run.tasks if engine.make_state(task, 0).best}


def test_best_kernels_are_reevaluated_with_other_inputs_and_without_incumbent(tmp_path):
    engine = run_to_completion(tmp_path / "a", RecordingExecutor())
    results = list(reevaluate_best(engine))
    assert {final.task: final.attempt for final in results} == best_attempts(engine)
    assert [final.task for final in results] == [task.id for task in engine.run.tasks if task.id in best_attempts(engine)]
    assert {job.incumbent for job in engine.executor.reevaluation_jobs} == {None}
    assert not {job.seed for job in engine.executor.reevaluation_jobs} & {job.seed for job in engine.executor.jobs if not job.ignore_cache}
    assert any(job.incumbent for job in engine.executor.jobs if not job.ignore_cache)
    assert final_results.read_final_results(engine.run.folder) == {final.attempt: final for final in results}


def test_resumed_run_reevaluates_only_missing_kernels(tmp_path):
    engine = run_to_completion(tmp_path / "a", RecordingExecutor())
    results = reevaluate_best(engine)
    first_results = [next(results), next(results)]
    results.close()
    engine.close()
    second = make_engine(tmp_path / "a", executor=RecordingExecutor(), budget=6)
    list(second.make_attempts())
    rest = list(reevaluate_best(second))
    assert {final.task for final in first_results}.isdisjoint({final.task for final in rest})
    assert {final.task for final in [*first_results, *rest]} == set(best_attempts(second))
    assert list(reevaluate_best(second)) == []


def test_next_best_kernel_is_reevaluated_after_a_failure(tmp_path):
    first = run_to_completion(tmp_path / "a", RecordingExecutor())
    name, failed = next(
        (name, best) for name, best in best_attempts(first).items() if sum(a.outcome.feasible for a in first.history[name]) > 1
    )
    first.executor.wrong_candidates = {failed}
    results = [final for final in reevaluate_best(first) if final.task == name]
    assert [final.outcome.feasible for final in results] == [False, True]
    assert results[0].attempt == failed
    assert pending_reevaluations(first.run) == []


def test_reevaluation_does_not_influence_the_loop(tmp_path):
    straight = run_to_completion(tmp_path / "straight", ArithmeticExecutor(), tasks=[make_task("relu"), make_task("gelu")])
    stopped = make_engine(
        tmp_path / "stopped",
        executor=RecordingExecutor(wrong_candidates={f"t/relu/{n}" for n in range(9)}),
        budget=3,
        tasks=straight.run.tasks,
    )
    list(stopped.make_attempts())
    assert any(not final.outcome.feasible for final in reevaluate_best(stopped))
    stopped.close()
    resumed = make_engine(tmp_path / "stopped", budget=6)
    list(resumed.make_attempts())
    assert (tmp_path / "stopped/attempts.jsonl").read_bytes() == (tmp_path / "straight/attempts.jsonl").read_bytes()


def test_infrastructure_failure_is_an_incident_and_is_retried_later(tmp_path):
    engine = run_to_completion(tmp_path / "a", RecordingExecutor())
    lost = next(iter(best_attempts(engine).values()))
    engine.executor.lost_candidates = {lost}
    assert lost not in {final.attempt for final in reevaluate_best(engine)}
    assert f"re-evaluation of {format_attempt(lost)}: device lost" in engine.run.incidents.read_text()
    engine.executor.lost_candidates = set()
    assert [final.attempt for final in reevaluate_best(engine)] == [lost]


def test_interrupted_run_stops_reevaluating(tmp_path):
    engine = run_to_completion(tmp_path / "a", RecordingExecutor())
    results = reevaluate_best(engine)
    next(results)
    engine.stop_reason = "interrupted"
    assert list(results) == []
    assert len(final_results.read_final_results(engine.run.folder)) == 1


def test_equal_runs_have_equal_final_results(tmp_path):
    for name, concurrency in (("one", 1), ("many", 8)):
        list(reevaluate_best(run_to_completion(tmp_path / name, ArithmeticExecutor(), concurrency=concurrency)))
    assert (tmp_path / "one/finals.jsonl").read_bytes() == (tmp_path / "many/finals.jsonl").read_bytes()


def test_incomplete_line_is_skipped_and_damage_is_reported(tmp_path):
    good = FinalResult(task="t/x", attempt="t/x/0", outcome=WRONG)
    final_results.append_final_result(tmp_path, good)
    with (tmp_path / "finals.jsonl").open("ab") as file:
        file.write(b'{"task": "t/y", "att')
    assert list(final_results.read_final_results(tmp_path)) == ["t/x/0"]
    final_results.append_final_result(tmp_path, good.model_copy(update={"attempt": "t/x/1"}))
    assert list(final_results.read_final_results(tmp_path)) == ["t/x/0", "t/x/1"]
    (tmp_path / "finals.jsonl").write_text("nonsense\n")
    with pytest.raises(UserError, match="Remove it and resume"):
        final_results.read_final_results(tmp_path)
