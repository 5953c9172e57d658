"""TRL's own trainer makes a step with real verifications; its own functions read the exported data sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rl_samples
import sample_run
import torch

from evokernel.core.records import Candidate, Stage
from evokernel.core.run import Run
from evokernel.reports.training_formats import FORMATS
from evokernel.reports.trajectories import write_rows
from evokernel.rl.reward import CHEATING_REWARD, CORRECT_REWARD, SPEED_WEIGHT, WRONG_REWARD
from evokernel.rl.trl_reward import KernelReward

trl = pytest.importorskip("trl", reason="pip install 'evokernel[rl]'")


@pytest.fixture(scope="module")
def reward() -> Iterator[KernelReward]:
    function = KernelReward("cpp", workers=2, settings=rl_samples.SETTINGS)
    yield function
    function.close()


def test_correct_wrong_and_cheating_kernels_are_told_apart(reward: KernelReward) -> None:
    other = rl_samples.completion("good").replace("\n```\n", "\n// another\n```\n")
    texts = [
        rl_samples.completion("good"),
        other,
        rl_samples.completion("mismatch-formula"),
        rl_samples.completion("forbidden-clock"),
        "no",
    ]
    completions = [text if number % 2 else [{"role": "assistant", "content": text}] for number, text in enumerate(texts)]
    rewards = reward(["?"] * 5, completions, [[1]] * 5, task=[rl_samples.TASK] * 5, level=[1] * 5)
    assert rewards[2:] == [WRONG_REWARD, CHEATING_REWARD, WRONG_REWARD]
    assert all(CORRECT_REWARD - SPEED_WEIGHT <= one <= CORRECT_REWARD + SPEED_WEIGHT for one in rewards[:2])
    assert rewards == reward(["?"] * 5, texts, task=[rl_samples.TASK] * 5), "equal kernels have equal rewards: nothing is remembered"
    reasons = [one.outcome.failure.reason if one.outcome and one.outcome.failure else "" for one in reward.last_batch]
    assert reasons == ["", "", "mismatch", "forbidden", "no_code"]


@pytest.mark.slow(one_in=4)
def test_a_slow_kernel_earns_less_than_a_fast_one() -> None:
    fast = rl_samples.completion("good")
    loop = "volatile float copy = in[j]; for (int k = 0; k < 200; ++k) copy = copy; float y = copy *"
    slow = fast.replace("#pragma omp simd\n", "").replace("float y = in[j] *", loop)
    measured = KernelReward("cpp", workers=1, settings={"protocol": "paper", "timing_s": 0.2})
    rewards = measured(["?"] * 2, [fast, slow], task=[rl_samples.TASK] * 2)
    measured.close()
    assert CORRECT_REWARD + SPEED_WEIGHT >= rewards[0] > rewards[1] >= CORRECT_REWARD - SPEED_WEIGHT
    print([(one.reward, one.outcome.speedup, one.outcome.clock) for one in measured.last_batch if one.outcome])


def make_trainer(folder: Path, reward_function: Any, completion_tokens: int, rollout: Any = None) -> Any:
    """TRL's trainer for one step of a tiny model with four completions of one prompt."""
    from datasets import Dataset

    tokenizer = rl_samples.make_tokenizer()
    row = {"prompt": [{"role": "user", "content": "Write a kernel."}], "task": rl_samples.TASK, "backend": "cpp"}
    sizes = {"per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": completion_tokens, "max_steps": 1}
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1}
    return trl.GRPOTrainer(
        model=rl_samples.make_model(tokenizer),
        reward_funcs=reward_function,
        args=trl.GRPOConfig(output_dir=str(folder), learning_rate=1e-2, use_cpu=True, bf16=False, **sizes, **quiet),
        train_dataset=Dataset.from_list([row, row]),
        processing_class=tokenizer,
        rollout_func=rollout,
    )


def train_one_step(trainer: Any) -> dict[str, float]:
    """Train and return the trainer's own record of the step."""
    trainer.train()
    [entry] = [line for line in trainer.state.log_history if "reward" in line]
    assert trainer.state.global_step == 1
    return entry


@pytest.mark.slow(one_in=2)
def test_one_step_of_grpo_changes_the_model(reward: KernelReward, tmp_path: Path) -> None:
    replies = iter([*map(rl_samples.completion, ("good", "mismatch-formula", "forbidden-clock")), "no"])

    def write_replies(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """Replace sampling, since a model of this size writes no kernel; the step computes the loss of these tokens."""
        tokenizer = trainer.processing_class
        ids = [tokenizer(next(replies))["input_ids"] + [tokenizer.eos_token_id] for _ in prompts]
        prompt_ids = [tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False) for prompt in prompts]
        return {"prompt_ids": prompt_ids, "completion_ids": ids, "logprobs": [[0.0] * len(one) for one in ids]}

    trainer = make_trainer(tmp_path, reward, 2048, write_replies)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    entry = train_one_step(trainer)
    rewards = [scored.reward for scored in reward.last_batch]
    assert rewards[1:] == [WRONG_REWARD, CHEATING_REWARD, WRONG_REWARD]
    assert entry["reward"] == entry["rewards/kernel_reward/mean"] == pytest.approx(sum(rewards) / 4, abs=1e-3)
    assert entry["reward_std"] > 0
    assert any(not torch.equal(old, new) for old, new in zip(before, trainer.model.parameters())), "the step changed no parameter"
    print({"trl": trl.__version__, "rewards": rewards, "loss": entry["loss"], "grad_norm": entry["grad_norm"]})


@pytest.mark.slow(one_in=4)
def test_one_step_with_samples_of_the_model_itself(reward: KernelReward, tmp_path: Path) -> None:
    entry = train_one_step(make_trainer(tmp_path, reward, 16))
    assert [scored.reward for scored in reward.last_batch] == [WRONG_REWARD] * 4
    assert entry["frac_reward_zero_std"] == 1, "equal rewards teach nothing"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A draft that failed, a correct draft, a faster refinement of it, and a task without a correct kernel."""
    relu, gelu = sample_run.make_task("relu"), sample_run.make_task("gelu")
    kernels = [
        Candidate(backend="cpp", files={"kernel.cpp": f"// {number}\n{sample_run.KERNEL}"}, notes=f"version {number}")
        for number in range(4)
    ]
    attempts = [
        sample_run.make_attempt(relu, 0, sample_run.failed_outcome("check", "mismatch", "every element is wrong"), candidate=kernels[0]),
        sample_run.make_attempt(relu, 1, sample_run.passed_outcome(100.0), candidate=kernels[1]),
        sample_run.make_attempt(
            relu, 2, sample_run.passed_outcome(50.0), candidate=kernels[2], stage=Stage.REFINE, start_point="made/relu/1"
        ),
        sample_run.make_attempt(relu, 3, sample_run.failed_outcome("check", "killed"), candidate=kernels[3]),
        sample_run.make_attempt(gelu, 0, sample_run.failed_outcome("build", "compile_error"), candidate=kernels[3]),
    ]
    return sample_run.write_run(tmp_path_factory.mktemp("runs") / "run", [relu, gelu], attempts)


@pytest.mark.parametrize("name", FORMATS)
def test_exports_are_conversations_that_trl_reads(run: Run, tmp_path: Path, name: str) -> None:
    from datasets import load_dataset
    from trl.data_utils import is_conversational, maybe_apply_chat_template

    tokenizer = rl_samples.make_tokenizer()
    write_rows(FORMATS[name](run), tmp_path / "rows.jsonl")
    write_rows(FORMATS[name](run), tmp_path / "rows.parquet")
    lines, table = (
        load_dataset(kind, data_files=str(tmp_path / f"rows.{end}"), split="train", cache_dir=str(tmp_path / "cache"))
        for kind, end in (("json", "jsonl"), ("parquet", "parquet"))
    )
    assert lines.to_list() == table.to_list()
    assert len(lines) == {"sft": 2, "preference": 2, "multi-turn": 1}[name]
    for row in lines:
        assert is_conversational(row)
        texts = maybe_apply_chat_template(row, tokenizer)
        assert {"sft": {"text"}, "multi-turn": {"text"}, "preference": {"prompt", "chosen", "rejected"}}[name] <= set(texts)
        assert "// 2" in (texts["chosen"] if name == "preference" else lines[-1]["messages"][-1]["content"])


def test_a_conversation_is_the_way_to_the_best_kernel(run: Run) -> None:
    [row] = FORMATS["multi-turn"](run)
    assert [message["role"] for message in row["messages"]] == ["user", "assistant"] * 3
    assert "every element is wrong" in row["messages"][2]["content"]
    assert "Make it faster" in row["messages"][4]["content"]
    assert [json.dumps(message).count("// 2") for message in row["messages"]] == [0, 0, 0, 0, 0, 1]


def test_pairs_prefer_the_best_kernel(run: Run) -> None:
    rows = list(FORMATS["preference"](run))
    assert [(row["rejected_attempt"], row["rejected_reason"]) for row in rows] == [("made/relu/0", "mismatch"), ("made/relu/1", "slower")]
    assert {row["attempt"] for row in rows} == {"made/relu/2"}
