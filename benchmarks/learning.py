"""Cold against warm: does `sweep` learn from what the memory shows it?

    python benchmarks/learning.py draft [--backend cpp] [--seeds 5] [--operators 40] [--budget 30] [--arms value,warm] [--out FOLDER]
    python benchmarks/learning.py refine [the same]

`draft` gives every operator attempts until one is feasible and tells the share of operators feasible after 1, 3, 10 and 30. `refine` spends
the whole budget; its bests are judged again, with a longer clock. Both judge strictly: the protocol `paper` tries no odd sizes, and most of
what it lets pass does not hold up. The arm `warm` is `value` with a memory pack learned on other operators, made when first needed
(`--pack FILE`: another one); the lists are in learning.toml. Each arm and seed is a run folder; the same command goes on with what is
there, also with more seeds or a larger budget. Writes draft-cpp.md or refine-cpp.md, .json and a plot.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

import learning_tables
from study import ended, options, write

from evokernel.cli.experiment import Telling
from evokernel.core.errors import UserError
from evokernel.experiments.arm_runs import Arm, Study, conduct, learn_pack
from evokernel.memory.pack_file import read

PACK_BUDGET = 30
WELL_S = 1.0
"""For timing bests when they are judged again."""


def lists() -> dict[str, Any]:
    """Operators, arms, and what the pack is learned on."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def common(given: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """Settings of all runs."""
    return {"backend": given.backend, "generator": "template_search", "workers": given.workers, "timing_s": given.timing_s, **more}


def pack_study(given: argparse.Namespace, table: dict[str, Any]) -> Study:
    """The run a pack is made from."""
    asked = table["pack"]
    settings = common(given, budget=given.pack_budget, **asked["settings"])
    arm = Arm(name=f"pack-{given.backend}")
    return Study(name="learning", tasks=tuple(asked["operators"]), arms=(arm,), seeds=(asked["seed"],), settings=settings)


def arms(given: argparse.Namespace, table: dict[str, Any], pack: Path | None) -> tuple[Arm, ...]:
    """Those asked for, in that order."""
    known = {made["name"]: Arm(**(made | {"pack": pack if made.get("pack") else None})) for made in table["arms"]}
    if unknown := [name for name in given.arms.split(",") if name not in known]:
        raise UserError(f"no arm called '{unknown[0]}'; there are: {', '.join(known)}")
    return tuple(known[name] for name in given.arms.split(","))


def study(given: argparse.Namespace, table: dict[str, Any], pack: Path | None) -> Study:
    """The arms, over the first of the operators."""
    is_draft = given.part == "draft"
    return Study(
        name=f"learning-{given.part}",
        tasks=tuple(table["operators"][: given.operators]),
        arms=arms(given, table, pack),
        seeds=tuple(range(given.seeds)),
        settings=common(given, budget=given.budget, until="feasible" if is_draft else "budget"),
        again=None if is_draft else {"timing_s": WELL_S},
    )


def warm_and_cold(made: Study) -> list[tuple[str, str]]:
    """Arms that differ in what they begin with only."""
    cold = {str(arm.settings): arm.name for arm in made.arms if not arm.pack}
    return [(arm.name, cold[str(arm.settings)]) for arm in made.arms if arm.pack and str(arm.settings) in cold]


def main() -> None:
    asked = options(__doc__, "runs/learning")
    asked.add_argument("part", choices=("draft", "refine"))
    asked.add_argument("--seeds", type=int, default=5)
    asked.add_argument("--operators", type=int, default=40, help="how many of the list, from its beginning [40]")
    asked.add_argument("--arms", default="passk,similarity,value,warm")
    asked.add_argument("--pack", type=Path, help="a memory pack learned elsewhere")
    asked.add_argument("--pack-budget", type=int, default=PACK_BUDGET, help=f"attempts per operator for making one [{PACK_BUDGET}]")
    given = asked.parse_args()
    table, progress = lists(), Telling()
    needs_pack = any(arm.pack for arm in arms(given, table, Path("asked for")))
    pack = given.pack or (learn_pack(pack_study(given, table), given.out / f"pack-{given.backend}", progress) if needs_pack else None)
    made = study(given, table, pack)
    folder = given.out / f"{given.part}-{given.backend}"
    found = conduct(made, folder, progress)
    items = {held.item.id: held.item for held in read(pack).items} if pack else {}
    told = learning_tables.Told(found, items, table["why"]["shown"], given.budget, warm_and_cold(made))
    tables, figures = told.drafting() if given.part == "draft" else told.refining()
    told.plot(given.out, f"{given.part}-{given.backend}", is_draft=given.part == "draft")
    write(given.out, f"{given.part}-{given.backend}", tables, {"settings": made.model_dump(mode="json"), **figures})


if __name__ == "__main__":
    raise SystemExit(ended(main))
