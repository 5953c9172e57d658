"""The reward: correctness first, then the clipped speed-up; the minimum for cheating, none for failures of the infrastructure."""

from __future__ import annotations

from concurrent.futures import Future
from math import log

import pytest
import sample_run

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import UNDECIDED_REASONS, Candidate, Outcome
from evokernel.rl.dataset import SPLITS, assign_splits, sibling_group
from evokernel.rl.reward import CHEATING_REASONS, CHEATING_REWARD, CORRECT_REWARD, SPEED_WEIGHT, compute_reward
from evokernel.rl.scoring import ScoredCompletion, completion_text, score_candidate
from evokernel.rl.trl_reward import KernelReward
from evokernel.suites.loader import find_task_files
from evokernel.verifier.reasons import REASONS


@pytest.mark.parametrize(
    ("latency_us", "reward"),
    [(100.0, 1.0), (50.0, 1 + 0.5 * log(2) / log(8)), (800.0, 0.5), (10_000.0, 0.5), (12.5, 1.5), (1.0, 1.5)],
)
def test_a_correct_kernel_earns_the_clipped_logarithm_of_its_speedup(latency_us: float, reward: float) -> None:
    assert compute_reward(sample_run.passed_outcome(latency_us)) == pytest.approx(reward)


def test_a_speedup_within_the_noise_is_none() -> None:
    noisy = sample_run.passed_outcome(100.0).model_copy(update={"samples_us": (80.0, 120.0) * 4, "baseline_us": {"eager": (100.0,) * 8}})
    assert compute_reward(noisy) == CORRECT_REWARD


def test_order_of_rewards() -> None:
    untimed = sample_run.passed_outcome(100.0).model_copy(update={"samples_us": (), "baseline_us": {}})
    slowest, wrong = compute_reward(sample_run.passed_outcome(1e9)), compute_reward(sample_run.failed_outcome("check", "mismatch"))
    cheating = compute_reward(sample_run.failed_outcome("screen", "forbidden"))
    assert compute_reward(untimed) == slowest == CORRECT_REWARD - SPEED_WEIGHT
    assert slowest > wrong > cheating == CHEATING_REWARD


def test_reasons_exist_and_do_not_overlap() -> None:
    assert set(REASONS) >= CHEATING_REASONS | UNDECIDED_REASONS
    assert not CHEATING_REASONS & UNDECIDED_REASONS


def test_infrastructure_earns_nothing_and_costs_nothing() -> None:
    future: Future[Outcome] = Future()
    future.set_exception(InfraError("no worker answered"))
    scored = score_candidate(sample_run.make_task("relu"), Candidate(backend="cpp", files={"kernel.cpp": "x"}), future)
    assert (scored.reward, scored.outcome, scored.error) == (None, None, "no worker answered")
    assert compute_reward(sample_run.failed_outcome("check", "killed")) is None


def test_scored_completions_are_short_in_logs() -> None:
    task, kernel = sample_run.make_task("relu"), Candidate(backend="cpp", files={"kernel.cpp": "x" * 1000})
    wrong = sample_run.failed_outcome("check", "mismatch")
    rows = [(1.0, sample_run.passed_outcome(12.5), ""), (0.0, wrong, ""), (None, None, "no worker answered")]
    assert [repr(ScoredCompletion(task, kernel, *row)) for row in rows] == [
        "ScoredCompletion(made/relu, reward 1, correct, 12.5 µs)",
        "ScoredCompletion(made/relu, reward 0, mismatch)",
        "ScoredCompletion(made/relu, reward none, no worker answered)",
    ]


def test_mistakes_get_one_line() -> None:
    with pytest.raises(UserError, match=r"'cppp'.*did you mean"):
        KernelReward("cppp")
    reward = KernelReward("cpp")
    with pytest.raises(UserError, match="no column 'task'"):
        reward(["?"], ["no"])
    with pytest.raises(UserError, match="'task' has 1 value for 2 completions"):
        reward(["?"] * 2, ["no"] * 2, task=["starter/relu"])
    with pytest.raises(UserError, match="'task' has the text 'starter/relu'"):
        reward(["?"], ["no"], task="starter/relu")
    with pytest.raises(UserError, match="'backend' has 2 values for 1 completion"):
        reward(["?"], ["no"], task=["starter/relu"], backend=["cpp"] * 2)


def test_completions_are_texts_or_conversations() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    conversation = [{"role": "assistant", "content": "old"}, {"role": "user", "content": "no"}, {"role": "assistant", "content": parts}]
    assert completion_text("plain") == "plain"
    assert completion_text(conversation) == "ab"
    assert completion_text([{"role": "assistant", "content": None}]) == completion_text([]) == ""


@pytest.mark.parametrize("spec", ["starter", "level1,level2,level3,gradients,attention"])
def test_splits_cut_between_families_and_repeat(spec: str) -> None:
    files = find_task_files(spec)
    split_of = assign_splits(files)
    assert split_of == assign_splits(list(reversed(files)))
    counts = {name: sum(split_of[sibling_group(file)] == name for file in files) for name in SPLITS}
    assert sum(counts.values()) == len(files)
    assert all(counts.values()), "no split is empty"
    assert counts["train"] == max(counts.values())
    fused = [file for file in files if file.family == "fuse"]
    assert {sibling_group(file) for file in fused} <= {
        "attention",
        "convolution",
        "matmul",
        "recurrent",
        "scan",
        "sorting",
        "normalisation",
    }
