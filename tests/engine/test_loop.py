"""The loop's laws: equal runs are equal, a resumed run is the straight one, infrastructure trouble teaches nothing."""

import pytest
from engine_parts import Oracle, Writer, engine, task

from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.core.records import Stage
from evokernel.core.run import Run


def journal(folder):
    return (folder / "attempts.jsonl").read_bytes()


def values(e):
    ids = sorted({ref.id for attempts in e.history.values() for a in attempts for ref in a.shown})
    return {stage: e.memory.values(ids, stage) for stage in Stage}


def test_drafts_until_feasible_then_refines(tmp_path):
    e = engine(tmp_path / "a", budget=8)
    made = list(e.attempts())
    assert len(made) == 5 * 8
    for name in {a.task for a in made}:
        mine = [a for a in made if a.task == name]
        first = next((i for i, a in enumerate(mine) if a.outcome.feasible), len(mine))
        assert all(a.stage is Stage.DRAFT for a in mine[: first + 1])
        assert all(a.stage is Stage.REFINE and a.start_point for a in mine[first + 1 :])
    assert any(a.stage is Stage.REFINE for a in made)


@pytest.mark.parametrize("policy", ["value", "similarity", "refine", "passk"])
def test_equal_whatever_the_number_of_workers(tmp_path, policy):
    for name, concurrency in (("one", 1), ("many", 8)):
        list(engine(tmp_path / name, policy=policy, concurrency=concurrency, budget=4).attempts())
    # concurrency is a setting of the run, not of its journal
    assert journal(tmp_path / "one") == journal(tmp_path / "many")


def test_resumed_equals_straight_at_every_point(tmp_path):
    straight = engine(tmp_path / "straight", budget=4)
    total = len(list(straight.attempts()))
    for cut in range(0, total, 3):
        folder = tmp_path / f"cut{cut}"
        first = engine(folder, budget=4)
        going = first.attempts()
        for _ in range(cut):
            next(going)
        going.close()
        first.close()
        second = engine(folder, budget=4)
        list(second.attempts())
        assert journal(folder) == journal(tmp_path / "straight"), f"cut after {cut}"
        assert values(second) == values(straight)


def test_a_bigger_budget_goes_on_where_the_smaller_ended(tmp_path):
    less = engine(tmp_path / "a", budget=2)
    list(less.attempts())
    less.close()
    more = engine(tmp_path / "a", budget=5)
    list(more.attempts())
    assert sorted(more.generator.calls) == sorted(f"t/{n}/{i}" for n in ("relu", "gelu", "tanh", "sum", "max") for i in (2, 3, 4))


def test_until_feasible_spends_the_budget_on_what_is_unsolved(tmp_path):
    straight = engine(tmp_path / "straight", budget=6, until="feasible")
    made = list(straight.attempts())
    for name in {a.task for a in made}:
        solved = [a.outcome.feasible for a in made if a.task == name]
        assert not any(solved[:-1])
        assert solved[-1] or len(solved) == 6
    assert straight.run.is_complete(made)
    assert not straight.run.is_complete(made[:-1])
    cut = engine(tmp_path / "cut", budget=6, until="feasible")
    going = cut.attempts()
    next(going), next(going)
    going.close()
    cut.close()
    list(engine(tmp_path / "cut", budget=6, until="feasible").attempts())
    assert journal(tmp_path / "cut") == journal(tmp_path / "straight")


def test_a_kept_reply_is_never_asked_for_again(tmp_path):
    class Dies:
        def submit(self, job):
            raise KeyboardInterrupt

        def close(self):
            pass

    first = engine(tmp_path / "a", budget=1, executor=Dies(), tasks=[task("relu")])
    with pytest.raises(KeyboardInterrupt):
        list(first.attempts())
    first.close()
    assert first.generator.calls == ["t/relu/0"]
    second = engine(tmp_path / "a", budget=1)
    (made,) = second.attempts()
    assert second.generator.calls == []
    assert made.usage.input_tokens == 1


def test_infrastructure_trouble_earns_nothing_and_spends_nothing(tmp_path):
    e = engine(tmp_path / "a", budget=3, executor=Oracle({"t/gelu/1", "t/sum/0"}))
    made = list(e.attempts())
    assert len(made) == 15
    assert {a.round for a in made if a.task == "t/gelu"} == {0, 2, 3}
    assert e.run.incidents.read_text().count("device lost") == 2
    for attempt in made:
        told = attempt.candidate.files["kernel.cpp"].split()[2:]
        assert [ref.id for ref in attempt.shown_items] == told, (
            "credit goes to what the reply was written with, though it was judged a round later"
        )
    before = values(e)
    e.close()
    again = engine(tmp_path / "a", budget=3)
    assert list(again.attempts()) == made
    assert again.generator.calls == []
    assert values(again) == before


def test_a_whole_round_of_trouble_stops_the_run(tmp_path):
    class Down(Writer):
        def write(self, state, context):
            raise InfraError("model service is down")

    e = engine(tmp_path / "a")
    e.generator = Down()
    with pytest.raises(InfraError, match="incidents"):
        list(e.attempts())
    assert not (tmp_path / "a" / "attempts.jsonl").exists()


def test_a_limit_stops_cleanly_and_can_be_resumed(tmp_path):
    class Poor(Writer):
        def write(self, state, context):
            if len(self.calls) >= 7:
                raise StopRun("the budget of 7 calls is spent")
            return super().write(state, context)

    e = engine(tmp_path / "a", budget=4, concurrency=1)
    e.generator = Poor()
    assert len(list(e.attempts())) == 7
    assert "7 calls" in e.stop_reason
    e.close()
    list(engine(tmp_path / "a", budget=4).attempts())
    list(engine(tmp_path / "straight", budget=4).attempts())
    assert journal(tmp_path / "a") == journal(tmp_path / "straight")


def test_two_writers_are_refused(tmp_path):
    held = engine(tmp_path / "a")
    with pytest.raises(UserError, match="another process"):
        Run.open(tmp_path / "a").lock()
    held.close()
    Run.open(tmp_path / "a").lock()


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path):
    e = engine(tmp_path / "a")
    with pytest.raises(UserError, match="resume"):
        Run.create(tmp_path / "a", e.run.config, e.run.tasks, {})


def test_no_code_fails_at_the_write_gate(tmp_path):
    class Chatty(Writer):
        def write(self, state, context):
            reply = super().write(state, context)
            empty = reply.candidate.model_copy(update={"files": {}, "notes": "the reply held no code"})
            return reply.model_copy(update={"candidate": empty})

    e = engine(tmp_path / "a", budget=1)
    e.generator = Chatty()
    made = list(e.attempts())
    assert {(a.outcome.failure.gate, a.outcome.failure.reason, a.reward) for a in made} == {("write", "no_code", -1.0)}
