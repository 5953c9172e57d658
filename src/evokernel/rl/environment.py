"""An environment for `verifiers`: a model writes a kernel for a task; with several turns it sees the verifier's feedback in between."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping
from typing import Any

import verifiers as vf

from evokernel.core.errors import UserError
from evokernel.core.records import Outcome
from evokernel.generators.prompting import shared_builder
from evokernel.generators.step_prompts import build_feedback_prompt
from evokernel.rl.dataset import load_task_splits
from evokernel.rl.reward import CHEATING_REWARD, WRONG_REWARD
from evokernel.rl.scoring import CompletionScorer, ScoredCompletion, completion_text

EMPTY_VALIDATION = (
    "'{tasks}' has too few tasks for a split 'validation': the environment evaluates on its training tasks. "
    "Name ten or more, of several operator families, such as tasks='starter'."
)
SCORED_TURNS = "scored_turns"
"""Key of a rollout's state: the scored completions, one for each turn."""


class KernelEnv(vf.MultiTurnEnv):  # type: ignore[misc]
    """Each completion is verified when it arrives, and its reward is stored with its turn.

    A verification that fails for reasons of the infrastructure ends the rollout with an error, which trainers leave out or repeat.
    """

    def __init__(self, scorer: CompletionScorer, *, max_turns: int = 1, stop_when_correct: bool = False, **options: Any) -> None:
        self.scorer, self.stop_when_correct = scorer, stop_when_correct
        rubric = vf.Rubric(funcs=[kernel_reward], weights=[1.0])
        for metric in (is_correct, is_cheating):
            rubric.add_metric(metric)
        super().__init__(max_turns=max_turns, rubric=rubric, **options)

    async def setup_state(self, state: vf.State) -> vf.State:
        """Start a rollout without scored turns."""
        state[SCORED_TURNS] = []
        return state

    async def add_trajectory_step(self, state: vf.State, trajectory_step: Any) -> None:
        """Verify the kernel of a turn before the turn is stored."""
        scored = await asyncio.to_thread(self.score_turn, state, trajectory_step)
        trajectory_step["reward"] = scored.reward
        trajectory_step["extras"] |= describe_turn(scored)
        state[SCORED_TURNS].append(scored)
        await super().add_trajectory_step(state, trajectory_step)
        if scored.reward is None:
            raise vf.InfraError(scored.error or f"the verifier could not decide: {describe_failure(scored.outcome)}")

    def score_turn(self, state: vf.State, trajectory_step: Any) -> ScoredCompletion:
        """Verify the kernel in the last message of a turn."""
        messages = [message if isinstance(message, Mapping) else message.model_dump() for message in trajectory_step["completion"]]
        info = state["info"]
        [scored] = self.scorer.score([completion_text(messages)], [info["kernel_task"]], [info["backend"]])
        return scored

    async def env_response(self, messages: Any, state: vf.State, **options: Any) -> list[dict[str, str]]:
        """The verifier's feedback on the last kernel."""
        last: ScoredCompletion = state[SCORED_TURNS][-1]
        assert last.outcome
        text = build_feedback_prompt(shared_builder(last.candidate.backend), last.task, last.outcome)
        return [{"role": "user", "content": text}]

    @vf.stop  # type: ignore[untyped-decorator]
    async def has_correct_kernel(self, state: vf.State) -> bool:
        """Whether the rollout ends early because its last kernel is correct."""
        turns = state[SCORED_TURNS]
        return bool(self.stop_when_correct and turns and turns[-1].outcome and turns[-1].outcome.feasible)

    @vf.teardown  # type: ignore[untyped-decorator]
    async def stop_workers(self) -> None:
        """Stop the workers of the verifier."""
        self.scorer.close()


def describe_turn(scored: ScoredCompletion) -> dict[str, Any]:
    """What a trainer may log about a turn; None where nothing was measured."""
    outcome = scored.outcome
    return {
        "is_correct": outcome.feasible if outcome else None,
        "reason": describe_failure(outcome) if outcome and outcome.failure else None,
        "latency_us": outcome.latency_us if outcome else None,
        "speedup": outcome.speedup if outcome else None,
    }


def describe_failure(outcome: Outcome | None) -> str:
    """The reason of a failure in one word."""
    return outcome.failure.reason if outcome and outcome.failure else "no outcome"


def rollout_reward(turns: list[ScoredCompletion]) -> float:
    """The reward of the best kernel of a rollout; the minimum if any of its kernels cheats."""
    rewards = [scored.reward for scored in turns if scored.reward is not None]
    return CHEATING_REWARD if CHEATING_REWARD in rewards else max(rewards, default=WRONG_REWARD)


async def kernel_reward(state: vf.State) -> float:
    """The reward of a rollout."""
    return rollout_reward(state[SCORED_TURNS])


async def is_correct(state: vf.State) -> float:
    """Whether a kernel of the rollout passed every gate."""
    return float(any(scored.outcome and scored.outcome.feasible for scored in state[SCORED_TURNS]))


async def is_cheating(state: vf.State) -> float:
    """Whether a kernel of the rollout cheats."""
    return float(any(scored.reward == CHEATING_REWARD for scored in state[SCORED_TURNS]))


def make_environment(
    tasks: str,
    backend: str,
    *,
    max_turns: int,
    size: str | None,
    workers: int,
    seed: int,
    settings: Mapping[str, Any] | None,
    stop_when_correct: bool,
) -> KernelEnv:
    """Build the environment from the splits train and validation."""
    if max_turns < 1:
        raise UserError(f"max_turns is {max_turns}, but a rollout has at least one turn. Use 1 or more.")
    splits = load_task_splits(tasks, backend, size=size, seed=seed)
    parts = {name: add_info(part) for name, part in splits.items()}
    evaluation = parts["validation"]
    if not len(evaluation):
        evaluation = parts["train"]
        warnings.warn(EMPTY_VALIDATION.format(tasks=tasks), stacklevel=3)
    scorer = CompletionScorer(backend, workers=workers, size=size, settings=settings)
    return KernelEnv(scorer, max_turns=max_turns, stop_when_correct=stop_when_correct, dataset=parts["train"], eval_dataset=evaluation)


def add_info(part: Any) -> Any:
    """Put the columns that the verifier needs into `info`, which a rollout keeps; `verifiers` reserves the name `task`."""
    rows = [{"kernel_task": row["task"], "backend": row["backend"], "family": row["family"]} for row in part]
    return part.remove_columns([name for name in part.column_names if name != "prompt"]).add_column("info", rows)
