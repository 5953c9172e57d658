"""What first attempts were shown, arm by arm: `python results/contexts.py FOLDER [WORDS]` (of an experiment whose arms have a memory pack).

With words (`matmul,matrix_vector`), also how often a correct kernel of an operator whose name holds one of them was among it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

SHOWN = ("trace", "experience")


def attempts(folder: Path) -> Iterator[dict[str, Any]]:
    """Of one run, in their order."""
    yield from map(json.loads, (folder / "attempts.jsonl").read_text().splitlines())


def is_feasible(attempt: dict[str, Any]) -> bool:
    return all(gate["passed"] for gate in attempt["outcome"]["gates"])


def attempt_of(item: str) -> str:
    """The attempt that a memory, or a note about it, tells of."""
    return item.rpartition(":")[2].removesuffix("/note")


class First(NamedTuple):
    """An operator's first attempt."""

    operators: int
    """That it was shown kernels of."""
    correct: int
    failed: int
    passed: bool
    asked_for: bool
    """Whether a correct kernel of what was asked for was shown."""


def first_ones(run: Path, feasible: dict[str, bool], words: Sequence[str]) -> Iterator[First]:
    """Of each operator."""
    begun: set[str] = set()
    for attempt in attempts(run):
        feasible[attempt["id"]] = is_feasible(attempt)
        if attempt["task"] in begun:
            continue
        begun.add(attempt["task"])
        shown = [attempt_of(ref["id"]) for ref in attempt["shown"] if ref["role"] in SHOWN]
        known = [feasible[one] for one in shown if one in feasible]
        asked_for = any(feasible.get(one) and word in one.rpartition("/")[0] for one in shown for word in words)
        operators = len({one.rpartition("/")[0] for one in shown})
        yield First(operators, sum(known), len(known) - sum(known), is_feasible(attempt), asked_for)


def main(folder: Path, words: Sequence[str]) -> None:
    arms: dict[str, list[First]] = {}
    for run in sorted(one.parent for one in folder.glob("*/attempts.jsonl")):
        arm, _, seed = run.name.rpartition("-")
        packs = [attempt for pack in (folder / "packs").glob(f"*-{seed}") if pack.is_dir() for attempt in attempts(pack)]
        arms.setdefault(arm, []).extend(first_ones(run, {attempt["id"]: is_feasible(attempt) for attempt in packs}, words))
    print(
        "arm: operators shown, correct kernels, failed ones, first attempts that passed"
        + (f", shown {' or '.join(words)}" if words else "")
    )
    for arm, found in arms.items():
        operators, correct, failed, passed, asked_for = (mean(column) for column in zip(*found, strict=True))
        print(f"{arm}: {operators:.2f}, {correct:.2f}, {failed:.2f}, {passed:.0%}" + (f", {asked_for:.0%}" if words else ""))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2].split(",") if sys.argv[2:] else ())
