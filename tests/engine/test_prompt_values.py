"""The bandit over prompt variants: bounded values from the journal alone, better variants more often, exact resume and replay."""

from collections import Counter
from random import Random

import pytest
from engine_parts import EchoGenerator, make_attempt, make_engine

from evokernel.core.records import Attempt, GateResult, Outcome, Stage
from evokernel.engine.prompt_values import PromptValues
from evokernel.generators.replay import Replay

VARIANTS = {"history": ("full", "latest", "summary"), "rules": ("full", "brief")}


def rewarded(n: int, reward: float, stage=Stage.DRAFT, **variants: str) -> Attempt:
    return make_attempt(n, stage=stage).model_copy(update={"reward": reward, "prompt_variants": variants})


def test_value_is_the_mean_reward_by_stage_in_any_order():
    attempts = [rewarded(n, Random(n).uniform(-1, 1), history="full" if n % 2 else "latest") for n in range(40)]
    forward, backward = PromptValues(), PromptValues()
    for attempt in attempts:
        forward.learn(Attempt.model_validate_json(attempt.model_dump_json()))
    for attempt in reversed(attempts):
        backward.learn(attempt)
    value = forward.get(Stage.DRAFT, "history", "full")
    assert value.visits == 20
    assert value.q == pytest.approx(sum(a.reward for a in attempts[1::2]) / 20)
    assert value.q == pytest.approx(backward.get(Stage.DRAFT, "history", "full").q)
    assert forward.get(Stage.REFINE, "history", "full").visits == 0
    assert all(-1 <= one.q <= 1 for one in forward.values.values())


def test_outcome_that_blames_the_machine_changes_no_value():
    values = PromptValues()
    killed = Outcome(gates=(GateResult(gate="check", passed=False, reason="killed"),))
    values.learn(rewarded(0, -1.0, history="full").model_copy(update={"outcome": killed}))
    values.learn(make_attempt(1))  # an older journal records no variants
    assert values.values == {}


def test_better_variant_is_chosen_more_often_and_the_others_are_still_tried():
    values = PromptValues()
    for n in range(30):
        values.learn(rewarded(n, 0.8, history="latest"))
        values.learn(rewarded(n, -0.2, history="full"))
    chosen = Counter(values.choose(VARIANTS, Stage.DRAFT, f"0/t/x/{n}")["history"] for n in range(300))
    assert chosen["latest"] > 200
    assert 0 < chosen["summary"] < 90  # never tried, so it may be better
    assert chosen["full"] < 10
    untried = Counter(PromptValues().choose(VARIANTS, Stage.DRAFT, f"0/t/x/{n}")["history"] for n in range(300))
    assert min(untried[name] for name in VARIANTS["history"]) > 60


class VariantEcho(EchoGenerator):
    """Writes the variants into its kernels; shows the history from the second attempt on."""

    prompt_variants = VARIANTS

    def write(self, state, context):
        reply = super().write(state, context)
        shown = {name: variant for name, variant in context.prompt_variants.items() if name != "history" or state.attempts}
        text = f"{reply.candidate.code} {sorted(shown.items())}"
        candidate = reply.candidate.model_copy(update={"files": {"kernel.cpp": text}})
        return reply.model_copy(update={"candidate": candidate, "prompt_variants": shown})


def run_variants(folder, stop_after=None, generator=None):
    engine, attempts = make_engine(folder, budget=4, generator=generator or VariantEcho()), []
    try:
        for attempt in engine.make_attempts():
            attempts.append(attempt)
            if len(attempts) == stop_after:
                break
        return attempts, engine.prompt_values.values
    finally:
        engine.close()


@pytest.mark.parametrize("stop_after", [2, 11])
def test_resumed_run_equals_straight_run(tmp_path, stop_after):
    straight, values = run_variants(tmp_path / "straight")
    assert {name for attempt in straight[:5] for name in attempt.prompt_variants} == {"rules"}
    assert all(set(attempt.prompt_variants) == set(VARIANTS) for attempt in straight[5:])
    assert len({attempt.prompt_variants["history"] for attempt in straight[5:]}) > 1
    run_variants(tmp_path / "cut", stop_after)
    assert run_variants(tmp_path / "cut") == (straight, values)


def test_replayed_run_learns_equal_values(tmp_path):
    recorded, values = run_variants(tmp_path / "recorded")
    replayed, replayed_values = run_variants(tmp_path / "replayed", generator=Replay("cpp", journal=str(tmp_path / "recorded")))
    assert [attempt.prompt_variants for attempt in replayed] == [attempt.prompt_variants for attempt in recorded]
    assert replayed_values == values


def test_generator_without_variants_is_left_alone(tmp_path):
    attempts, values = run_variants(tmp_path, generator=EchoGenerator())
    assert all(attempt.prompt_variants == {} for attempt in attempts)
    assert values == {}
