"""The environment of `verifiers`, driven end to end against a chat service that answers with known kernels."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import rl_samples
from chat_server import Behaviour, ChatServer

from evokernel import rl
from evokernel.core.errors import InfraError, UserError
from evokernel.executors.worker_pool import WorkerProcess
from evokernel.rl import requirements
from evokernel.rl.dataset import load_task_splits
from evokernel.rl.reward import CHEATING_REWARD, WRONG_REWARD

vf = pytest.importorskip("verifiers", reason="pip install 'evokernel[rl]'")


def load(**options: Any) -> Any:
    """The environment, found by its name as a trainer finds it."""
    return vf.load_environment("evokernel.rl", tasks=rl_samples.TASK, backend="cpp", workers=1, settings=rl_samples.SETTINGS, **options)


def run_rollouts(environment: Any, replies: Sequence[str], count: int = 1) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The outputs of rollouts whose model gives these replies, and the requests that it got."""
    from openai import AsyncOpenAI

    async def evaluate(url: str) -> Any:
        client = vf.OpenAIChatCompletionsClient(AsyncOpenAI(base_url=url, api_key="none", max_retries=0))
        return await environment.evaluate(client, "scripted", num_examples=1, rollouts_per_example=count, max_concurrent=1)

    with ChatServer(lambda request, number: Behaviour(text=replies[number])) as server:
        try:
            outputs = asyncio.run(evaluate(server.base_url))["outputs"]
        finally:
            environment.scorer.close()
        return outputs, server.requests


def test_single_turn_rollouts_get_the_reward_of_their_kernel() -> None:
    environment = load()
    assert environment.get_dataset()[0]["info"]["kernel_task"] == rl_samples.TASK
    replies = [rl_samples.completion(name) for name in ("good", "mismatch-formula", "forbidden-clock")]
    outputs, requests = run_rollouts(environment, replies, count=3)
    outputs.sort(key=lambda output: output["reward"])  # rollouts run at the same time
    rewards = [output["reward"] for output in outputs]
    assert rewards[:2] == [CHEATING_REWARD, WRONG_REWARD]
    assert rewards[2] > WRONG_REWARD
    assert [output["metrics"]["is_correct"] for output in outputs] == [0.0, 0.0, 1.0]
    assert [output["metrics"]["is_cheating"] for output in outputs] == [1.0, 0.0, 0.0]
    assert "Write a kernel for" in requests[0]["messages"][-1]["content"]


def test_feedback_of_the_verifier_comes_between_turns() -> None:
    replies = [rl_samples.completion(name) for name in ("compile_error-syntax", "mismatch-formula", "good")]
    [output], requests = run_rollouts(load(max_turns=5, stop_when_correct=True), replies)
    assert len(requests) == 3, "the rollout ends with the first correct kernel"
    assert [message["role"] for message in requests[-1]["messages"]] == ["user", "assistant"] * 2 + ["user"]
    feedback = [message["content"] for message in requests[-1]["messages"][2::2]]
    assert "compile_error" in feedback[0]
    assert "is wrong at size" in feedback[1]
    assert output["reward"] > WRONG_REWARD
    assert output["metrics"]["num_turns"] == 3


@pytest.mark.slow(one_in=3)
def test_a_cheating_turn_costs_the_rollout() -> None:
    replies = [rl_samples.completion(name) for name in ("forbidden-clock", "good")]
    [output], _ = run_rollouts(load(max_turns=2), replies)
    assert output["reward"] == CHEATING_REWARD
    assert output["metrics"]["is_correct"] == 1.0


def test_lost_workers_are_an_error_of_the_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_worker(*arguments: object, **options: object) -> str:
        raise InfraError("no worker answered")

    monkeypatch.setattr(WorkerProcess, "request_outcome", lose_worker)
    [output], _ = run_rollouts(load(), [rl_samples.completion("good")])
    assert output["error"]["error"] == "InfraError", output["error"]


def test_splits_have_prompts_and_what_the_reward_needs() -> None:
    splits = load_task_splits("starter/argmax,starter/softmax,starter/matmul", "cpp")
    rows = [row for part in splits.values() for row in part]
    assert set(splits) == {"train", "validation", "test"}
    assert {row["task"] for row in rows} == {"starter/argmax", "starter/softmax", "starter/matmul"}
    assert all(row["task"] in row["prompt"][0]["content"] and row["backend"] == "cpp" for row in rows)


def test_few_tasks_give_a_warning_that_names_the_fix() -> None:
    with pytest.warns(UserWarning, match="evaluates on its training tasks.*tasks='starter'"):
        load()


def test_a_rollout_without_turns_is_refused() -> None:
    with pytest.raises(UserError, match="max_turns is 0"):
        rl.load_environment(tasks=rl_samples.TASK, max_turns=0)


def test_missing_packages_get_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'evokernel\[rl\]'"):
        rl.load_environment()
