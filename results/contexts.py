"""Summarizes the prompts of first attempts, by arm: `python results/contexts.py FOLDER [WORDS]` (an experiment whose arms have a pack).

With words (`matmul,matrix_vector`), it also prints how often the prompt contained a correct kernel of an operator whose name contains one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

KERNEL_ROLES = ("trace", "experience")


def read_attempts(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the attempts of one run in their order."""
    yield from map(json.loads, (folder / "attempts.jsonl").read_text().splitlines())


def is_feasible(attempt: dict[str, Any]) -> bool:
    """Whether an attempt passed all gates."""
    return all(gate["passed"] for gate in attempt["outcome"]["gates"])


def source_attempt(item: str) -> str:
    """Return the id of the attempt that a memory item, or a note about it, comes from."""
    return item.rpartition(":")[2].removesuffix("/note")


class FirstAttempt(NamedTuple):
    """An operator's first attempt and the kernels in its prompt."""

    operators: int
    """Number of operators whose kernels the prompt contained."""
    correct_kernels: int
    failed_kernels: int
    is_feasible: bool
    has_matching_kernel: bool
    """Whether the prompt contained a correct kernel of an operator that matches the words."""


def first_attempts(run: Path, feasible: dict[str, bool], words: Sequence[str]) -> Iterator[FirstAttempt]:
    """Yield the first attempt on each operator of a run; `feasible` is known for earlier attempts and is extended."""
    tasks: set[str] = set()
    for attempt in read_attempts(run):
        feasible[attempt["id"]] = is_feasible(attempt)
        if attempt["task"] in tasks:
            continue
        tasks.add(attempt["task"])
        sources = [source_attempt(ref["id"]) for ref in attempt["shown_items"] if ref["role"] in KERNEL_ROLES]
        outcomes = [feasible[one] for one in sources if one in feasible]
        has_match = any(feasible.get(one) and word in one.rpartition("/")[0] for one in sources for word in words)
        operators = len({one.rpartition("/")[0] for one in sources})
        yield FirstAttempt(operators, sum(outcomes), len(outcomes) - sum(outcomes), is_feasible(attempt), has_match)


def main(folder: Path, words: Sequence[str]) -> None:
    arms: dict[str, list[FirstAttempt]] = {}
    for run in sorted(one.parent for one in folder.glob("*/attempts.jsonl")):
        arm, _, seed = run.name.rpartition("-")
        packs = [attempt for pack in (folder / "packs").glob(f"*-{seed}") if pack.is_dir() for attempt in read_attempts(pack)]
        arms.setdefault(arm, []).extend(first_attempts(run, {attempt["id"]: is_feasible(attempt) for attempt in packs}, words))
    print(
        "means per first attempt. arm: operators shown, correct kernels shown, failed kernels shown, share of attempts that passed"
        + (f", share with a correct kernel of {' or '.join(words)}" if words else "")
    )
    for arm, attempts in arms.items():
        operators, correct, failed, passed_share, match_share = (mean(column) for column in zip(*attempts, strict=True))
        print(f"{arm}: {operators:.2f}, {correct:.2f}, {failed:.2f}, {passed_share:.0%}" + (f", {match_share:.0%}" if words else ""))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2].split(",") if sys.argv[2:] else ())
