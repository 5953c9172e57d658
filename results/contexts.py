"""What first attempts were shown, arm by arm: `python results/contexts.py FOLDER` (of an experiment whose arms have a memory pack)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

SHOWN = ("trace", "experience")


def attempts(folder: Path) -> Iterator[dict[str, Any]]:
    """Of one run, in their order."""
    yield from map(json.loads, (folder / "attempts.jsonl").read_text().splitlines())


def is_feasible(attempt: dict[str, Any]) -> bool:
    return all(gate["passed"] for gate in attempt["outcome"]["gates"])


def attempt_of(item: str) -> str:
    """The attempt that a memory, or a note about it, tells of."""
    return item.rpartition(":")[2].removesuffix("/note")


def first_ones(run: Path, feasible: dict[str, bool]) -> Iterator[tuple[int, int, int, bool]]:
    """For each operator's first attempt: operators it was shown kernels of, correct ones among them, failed ones, and whether it passed."""
    begun: set[str] = set()
    for attempt in attempts(run):
        feasible[attempt["id"]] = is_feasible(attempt)
        if attempt["task"] in begun:
            continue
        begun.add(attempt["task"])
        shown = [attempt_of(ref["id"]) for ref in attempt["shown"] if ref["role"] in SHOWN]
        known = [feasible[one] for one in shown if one in feasible]
        yield len({one.rpartition("/")[0] for one in shown}), sum(known), len(known) - sum(known), is_feasible(attempt)


def main(folder: Path) -> None:
    arms: dict[str, list[tuple[int, int, int, bool]]] = {}
    for run in sorted(one.parent for one in folder.glob("*/attempts.jsonl")):
        arm, _, seed = run.name.rpartition("-")
        packs = [attempt for pack in (folder / "packs").glob(f"*-{seed}") if pack.is_dir() for attempt in attempts(pack)]
        arms.setdefault(arm, []).extend(first_ones(run, {attempt["id"]: is_feasible(attempt) for attempt in packs}))
    print("arm: operators shown, correct kernels, failed ones, first attempts that passed")
    for arm, found in arms.items():
        operators, correct, failed, passed = (mean(column) for column in zip(*found, strict=True))
        print(f"{arm}: {operators:.2f}, {correct:.2f}, {failed:.2f}, {passed:.0%}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
