"""Bests are judged once more when the loop is over: once, in order, from the beginning, and without a say in the loop."""

import pytest
from engine_parts import Oracle, engine, task

from evokernel.core import final_results
from evokernel.core.errors import InfraError, UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.records import GateResult, Outcome
from evokernel.engine.final_eval import pending, reevaluate_best

WRONG = Outcome(gates=(GateResult(gate="check", passed=False, reason="mismatch"),))


class Watched(Oracle):
    """Notes the jobs it is given; `lies` are found wrong when they are judged again."""

    def __init__(self, lies=(), down=()):
        super().__init__()
        self.jobs, self.lies, self.down = [], set(lies), set(down)

    def judge(self, job):
        self.jobs.append(job)
        name = job.candidate.files["kernel.cpp"].split()[0]
        if job.again and name in self.down:
            raise InfraError("device lost")
        return WRONG if job.again and name in self.lies else super().judge(job)

    @property
    def again(self):
        return [job for job in self.jobs if job.again]


def finished(folder, executor, **settings):
    made = engine(folder, executor=executor, budget=6, **settings)
    list(made.attempts())
    return made


def bests(made):
    return {task.id: made.state(task, 0).best.id for task in made.run.tasks if made.state(task, 0).best}


def test_every_best_is_judged_once_more_with_other_inputs_and_nothing_beside_it(tmp_path):
    made = finished(tmp_path / "a", Watched())
    found = list(reevaluate_best(made))
    assert {final.task: final.attempt for final in found} == bests(made)
    assert [final.task for final in found] == [task.id for task in made.run.tasks if task.id in bests(made)]
    assert {job.incumbent for job in made.executor.again} == {None}
    assert not {job.seed for job in made.executor.again} & {job.seed for job in made.executor.jobs if not job.again}
    assert any(job.incumbent for job in made.executor.jobs if not job.again)
    assert final_results.read_final_results(made.run.folder) == {final.attempt: final for final in found}


def test_a_resumed_run_judges_again_only_what_is_missing(tmp_path):
    made = finished(tmp_path / "a", Watched())
    going = reevaluate_best(made)
    done = [next(going), next(going)]
    going.close()
    made.close()
    second = engine(tmp_path / "a", executor=Watched(), budget=6)
    list(second.attempts())
    rest = list(reevaluate_best(second))
    assert {final.task for final in done}.isdisjoint({final.task for final in rest})
    assert {final.task for final in [*done, *rest]} == set(bests(second))
    assert list(reevaluate_best(second)) == []


def test_the_next_best_takes_the_place_of_one_that_does_not_hold_up(tmp_path):
    first = finished(tmp_path / "a", Watched())
    name, fallen = next((name, best) for name, best in bests(first).items() if sum(a.outcome.feasible for a in first.history[name]) > 1)
    first.executor.lies = {fallen}
    found = [final for final in reevaluate_best(first) if final.task == name]
    assert [final.outcome.feasible for final in found] == [False, True]
    assert found[0].attempt == fallen
    assert pending(first.run) == []


def test_the_loop_takes_no_notice(tmp_path):
    straight = finished(tmp_path / "straight", Oracle(), tasks=[task("relu"), task("gelu")])
    stopped = engine(tmp_path / "stopped", executor=Watched(lies={f"t/relu/{n}" for n in range(9)}), budget=3, tasks=straight.run.tasks)
    list(stopped.attempts())
    assert any(not final.outcome.feasible for final in reevaluate_best(stopped))
    stopped.close()
    resumed = engine(tmp_path / "stopped", budget=6)
    list(resumed.attempts())
    assert (tmp_path / "stopped/attempts.jsonl").read_bytes() == (tmp_path / "straight/attempts.jsonl").read_bytes()


def test_trouble_of_the_judge_is_an_incident_and_tried_again_by_the_next_session(tmp_path):
    made = finished(tmp_path / "a", Watched())
    down = next(iter(bests(made).values()))
    made.executor.down = {down}
    assert down not in {final.attempt for final in reevaluate_best(made)}
    assert f"judging {down} again: device lost" in made.run.incidents.read_text()
    made.executor.down = set()
    assert [final.attempt for final in reevaluate_best(made)] == [down]


def test_a_user_who_stops_it_does_not_wait(tmp_path):
    made = finished(tmp_path / "a", Watched())
    going = reevaluate_best(made)
    next(going)
    made.stop_reason = "interrupted"
    assert list(going) == []
    assert len(final_results.read_final_results(made.run.folder)) == 1


def test_equal_runs_have_equal_finals(tmp_path):
    for name, concurrency in (("one", 1), ("many", 8)):
        list(reevaluate_best(finished(tmp_path / name, Oracle(), concurrency=concurrency)))
    assert (tmp_path / "one/finals.jsonl").read_bytes() == (tmp_path / "many/finals.jsonl").read_bytes()


def test_a_line_cut_short_is_judged_again_and_damage_is_named(tmp_path):
    good = FinalResult(task="t/x", attempt="t/x/0", outcome=WRONG)
    final_results.append_final_result(tmp_path, good)
    with (tmp_path / "finals.jsonl").open("ab") as file:
        file.write(b'{"task": "t/y", "att')
    assert list(final_results.read_final_results(tmp_path)) == ["t/x/0"]
    final_results.append_final_result(tmp_path, good.model_copy(update={"attempt": "t/x/1"}))
    assert list(final_results.read_final_results(tmp_path)) == ["t/x/0", "t/x/1"]
    (tmp_path / "finals.jsonl").write_text("nonsense\n")
    with pytest.raises(UserError, match="remove it and resume"):
        final_results.read_final_results(tmp_path)
