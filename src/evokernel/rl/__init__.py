"""Reinforcement learning on kernels: a reward, a reward function for batches, a data set of tasks, and an environment for `verifiers`.

`verifiers.load_environment("evokernel.rl")` finds `load_environment` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def load_environment(
    tasks: str = "starter",
    backend: str = "cpp",
    size: str | None = None,
    max_turns: int = 1,
    workers: int = 0,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    stop_when_correct: bool = False,
) -> Any:
    """Return a `verifiers` environment whose data set are the tasks of the split `train`; `validation` is its evaluation data set.

    With `max_turns` above 1 the model sees the verifier's feedback after each kernel. `workers` are parallel verifications; 0: one per
    core. `settings` are those of a verification, such as {"timeout_s": 20}. Warns if the tasks are too few for the split `validation`;
    the evaluation data set is then `train`. Raises UserError if the extra `rl` is not installed.
    """
    from evokernel.rl.requirements import require_packages

    require_packages("verifiers", "datasets")
    from evokernel.rl.environment import make_environment

    return make_environment(
        tasks,
        backend,
        size=size,
        max_turns=max_turns,
        workers=workers,
        seed=seed,
        settings=settings,
        stop_when_correct=stop_when_correct,
    )
