"""Laws of the loop: equal runs are equal, a resumed run equals the straight one, infrastructure failures teach nothing."""

from collections import Counter

import pytest
from engine_parts import ArithmeticExecutor, EchoGenerator, make_engine, make_task

from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.core.plugins import plugin_names
from evokernel.core.records import Candidate, Stage, Usage
from evokernel.core.run import Run
from evokernel.generators.replay import Replay


def read_journal(folder):
    return (folder / "attempts.jsonl").read_bytes()


def values(e):
    ids = sorted({ref.id for attempts in e.history.values() for a in attempts for ref in a.shown_items})
    return {stage: e.memory.values(ids, stage) for stage in Stage}


def without_cost(attempt):
    return attempt.model_copy(update={"usage": Usage(), "candidate": attempt.candidate.model_copy(update={"usage": Usage()})})


def test_drafts_until_feasible_then_refines(tmp_path):
    e = make_engine(tmp_path / "a", budget=8)
    attempts = list(e.make_attempts())
    assert len(attempts) == 5 * 8
    for name in {a.task for a in attempts}:
        own = [a for a in attempts if a.task == name]
        first = next((i for i, a in enumerate(own) if a.outcome.feasible), len(own))
        assert all(a.stage is Stage.DRAFT for a in own[: first + 1])
        assert all(a.stage is Stage.REFINE and a.start_point for a in own[first + 1 :])
    assert any(a.stage is Stage.REFINE for a in attempts)


@pytest.mark.parametrize("policy", plugin_names("policy"))
def test_journal_is_independent_of_concurrency(tmp_path, policy):
    tasks = [make_task(name) for name in ("relu", "gelu", "tanh")]
    for name, concurrency in (("one", 1), ("many", 8)):
        attempts = list(make_engine(tmp_path / name, tasks=tasks, concurrency=concurrency, budget=6, policy=policy).make_attempts())
        assert Counter(attempt.task for attempt in attempts) == {task.id: 6 for task in tasks}, "the budget is kept"
    # concurrency is a setting of the run, not of its read_journal
    assert read_journal(tmp_path / "one") == read_journal(tmp_path / "many")


@pytest.mark.parametrize("policy", plugin_names("policy"))
def test_resumed_and_replayed_runs_equal_the_straight_run(tmp_path, policy):
    parts = {"tasks": [make_task("relu"), make_task("gelu")], "budget": 7, "policy": policy}
    straight = make_engine(tmp_path / "straight", **parts)
    list(straight.make_attempts())
    iterator = (stopped := make_engine(tmp_path / "stopped", **parts)).make_attempts()
    for _ in range(9):  # in the middle of a round
        next(iterator)
    iterator.close()
    stopped.close()
    resumed = make_engine(tmp_path / "stopped", **parts)
    assert len(list(resumed.make_attempts())) == 14
    assert len(resumed.generator.calls) + len(stopped.generator.calls) == 14, "a resumed run repeats no call"
    assert read_journal(tmp_path / "stopped") == read_journal(tmp_path / "straight")
    assert values(resumed) == values(straight)
    replayed = make_engine(tmp_path / "replayed", generator=Replay("cpp", str(tmp_path / "straight")), **parts)
    assert [without_cost(a) for a in replayed.make_attempts()] == [without_cost(a) for a in straight.run.attempts()]
    assert values(replayed) == values(straight)


def test_resumed_run_equals_straight_run_at_every_point(tmp_path):
    straight = make_engine(tmp_path / "straight", budget=4)
    total = len(list(straight.make_attempts()))
    for cut in range(0, total, 3):
        folder = tmp_path / f"cut{cut}"
        first = make_engine(folder, budget=4)
        iterator = first.make_attempts()
        for _ in range(cut):
            next(iterator)
        iterator.close()
        first.close()
        second = make_engine(folder, budget=4)
        list(second.make_attempts())
        assert read_journal(folder) == read_journal(tmp_path / "straight"), f"cut after {cut}"
        assert values(second) == values(straight)


def test_larger_budget_continues_after_the_smaller_one(tmp_path):
    less = make_engine(tmp_path / "a", budget=2)
    list(less.make_attempts())
    less.close()
    more = make_engine(tmp_path / "a", budget=5)
    list(more.make_attempts())
    assert sorted(more.generator.calls) == sorted(f"t/{n}/{i}" for n in ("relu", "gelu", "tanh", "sum", "max") for i in (2, 3, 4))


def test_stop_when_feasible_spends_the_budget_on_unsolved_tasks(tmp_path):
    straight = make_engine(tmp_path / "straight", budget=6, stop_when="feasible")
    attempts = list(straight.make_attempts())
    for name in {a.task for a in attempts}:
        feasible_flags = [a.outcome.feasible for a in attempts if a.task == name]
        assert not any(feasible_flags[:-1])
        assert feasible_flags[-1] or len(feasible_flags) == 6
    assert straight.run.is_complete(attempts)
    assert not straight.run.is_complete(attempts[:-1])
    cut = make_engine(tmp_path / "cut", budget=6, stop_when="feasible")
    iterator = cut.make_attempts()
    next(iterator), next(iterator)
    iterator.close()
    cut.close()
    list(make_engine(tmp_path / "cut", budget=6, stop_when="feasible").make_attempts())
    assert read_journal(tmp_path / "cut") == read_journal(tmp_path / "straight")


class GapGenerator(EchoGenerator):
    """Generator that has no template for one task."""

    def write(self, state, context):
        reply = super().write(state, context)
        if state.task.id != "t/gelu":
            return reply
        return reply.model_copy(update={"candidate": Candidate(backend="cpp", files={}, notes="no template", is_unsupported=True)})


def test_task_that_the_generator_cannot_write_gets_one_attempt(tmp_path):
    engine = make_engine(tmp_path / "a", budget=3, generator=GapGenerator())
    attempts = list(engine.make_attempts())
    assert Counter(attempt.task for attempt in attempts) == {"t/gelu": 1} | {f"t/{n}": 3 for n in ("relu", "tanh", "sum", "max")}
    failure = next(attempt for attempt in attempts if attempt.task == "t/gelu").outcome.failure
    assert (failure.gate, failure.reason, failure.detail) == ("write", "no_template", "no template")
    assert engine.run.is_complete(attempts)
    engine.close()
    resumed = make_engine(tmp_path / "a", budget=5, generator=GapGenerator())
    assert Counter(attempt.task for attempt in resumed.make_attempts())["t/gelu"] == 1


def test_stored_reply_is_not_requested_again(tmp_path):
    class Dies:
        def submit(self, job):
            raise KeyboardInterrupt

        def close(self):
            pass

    first = make_engine(tmp_path / "a", budget=1, executor=Dies(), tasks=[make_task("relu")])
    with pytest.raises(KeyboardInterrupt):
        list(first.make_attempts())
    first.close()
    assert first.generator.calls == ["t/relu/0"]
    second = make_engine(tmp_path / "a", budget=1)
    (attempts,) = second.make_attempts()
    assert second.generator.calls == []
    assert attempts.usage.input_tokens == 1


def test_infrastructure_failure_earns_no_reward_and_costs_no_budget(tmp_path):
    e = make_engine(tmp_path / "a", budget=3, executor=ArithmeticExecutor({"t/gelu/1", "t/sum/0"}))
    attempts = list(e.make_attempts())
    assert len(attempts) == 15
    assert {a.round for a in attempts if a.task == "t/gelu"} == {0, 2, 3}
    assert e.run.incidents.read_text().count("device lost") == 2
    for attempt in attempts:
        prompt_ids = attempt.candidate.files["kernel.cpp"].split()[2:]
        assert [ref.id for ref in attempt.shown_items] == prompt_ids, (
            "credit goes to the items of the prompt, although the reply was verified a round later"
        )
    before = values(e)
    e.close()
    again = make_engine(tmp_path / "a", budget=3)
    assert list(again.make_attempts()) == attempts
    assert again.generator.calls == []
    assert values(again) == before


def test_round_without_attempts_stops_the_run(tmp_path):
    class Down(EchoGenerator):
        def write(self, state, context):
            raise InfraError("model service is down")

    e = make_engine(tmp_path / "a")
    e.generator = Down()
    with pytest.raises(InfraError, match="incidents"):
        list(e.make_attempts())
    assert not (tmp_path / "a" / "attempts.jsonl").exists()


def test_limit_stops_cleanly_and_run_can_be_resumed(tmp_path):
    class Poor(EchoGenerator):
        def write(self, state, context):
            if len(self.calls) >= 7:
                raise StopRun("the budget of 7 calls is spent")
            return super().write(state, context)

    e = make_engine(tmp_path / "a", budget=4, concurrency=1)
    e.generator = Poor()
    assert len(list(e.make_attempts())) == 7
    assert "7 calls" in e.stop_reason
    e.close()
    list(make_engine(tmp_path / "a", budget=4).make_attempts())
    list(make_engine(tmp_path / "straight", budget=4).make_attempts())
    assert read_journal(tmp_path / "a") == read_journal(tmp_path / "straight")


def test_second_writer_is_refused(tmp_path):
    first_engine = make_engine(tmp_path / "a")
    with pytest.raises(UserError, match="another process"):
        Run.open(tmp_path / "a").lock()
    first_engine.close()
    Run.open(tmp_path / "a").lock()


def test_existing_run_is_not_overwritten(tmp_path):
    e = make_engine(tmp_path / "a")
    with pytest.raises(UserError, match="resume"):
        Run.create(tmp_path / "a", e.run.config, e.run.tasks, {})


def test_reply_without_code_fails_at_the_write_gate(tmp_path):
    class Chatty(EchoGenerator):
        def write(self, state, context):
            reply = super().write(state, context)
            empty = reply.candidate.model_copy(update={"files": {}, "notes": "the reply first_engine no code"})
            return reply.model_copy(update={"candidate": empty})

    e = make_engine(tmp_path / "a", budget=1)
    e.generator = Chatty()
    attempts = list(e.make_attempts())
    assert {(a.outcome.failure.gate, a.outcome.failure.reason, a.reward) for a in attempts} == {("write", "no_code", -1.0)}
