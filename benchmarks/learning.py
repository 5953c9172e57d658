"""Compares cold and warm starts: does `template_search` learn from the memory items in its context?

    python benchmarks/learning.py draft [--backend cpp] [--seeds 5] [--operators 40] [--budget 30] [--arms value,warm] [--out FOLDER]
    python benchmarks/learning.py refine [the same options]

`draft` makes attempts on every operator until one is feasible and reports the share of feasible operators after 1, 3, 10 and 30 attempts.
`refine` spends the complete budget; the verifier re-evaluates the best kernels and times them for longer. Both use the protocol `strict`,
because `paper` tests no odd sizes, and most kernels that pass only `paper` fail re-evaluation. The arm `warm` is `value` with a memory pack
learned on other operators. The study creates the pack when it first needs it (`--pack FILE` uses another one). The lists are in
learning.toml. Each arm and seed has a run folder; the same command resumes, also with more seeds or a larger budget. Writes draft-cpp.md
or refine-cpp.md, .json and a plot.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

import learning_tables
from study import make_parser, run_main, write_tables

from evokernel.cli.experiment import ProgressPrinter
from evokernel.core.errors import UserError
from evokernel.experiments import runner
from evokernel.experiments.arm_runs import ArmRun, ResultsByArm, learn_pack, make_arm_run
from evokernel.experiments.spec import ArmSpec, ExperimentSpec, PackSpec
from evokernel.memory.pack_file import read_pack

PACK_BUDGET = 30
PACK = "pack"
"""Name of the memory pack, and of the group of operators that it is learned on."""
FINAL_TIMING_S = 1.0
"""Seconds for timing the best kernels in the re-evaluation."""


def load_lists() -> dict[str, Any]:
    """Load the operators, the arms, and the operators for the pack."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def common_settings(args: argparse.Namespace, **other_settings: Any) -> dict[str, Any]:
    """Return the settings of all runs."""
    return {"backend": args.backend, "generator": "template_search", "workers": args.workers, "timing_s": args.timing_s, **other_settings}


def make_pack_run(args: argparse.Namespace, table: dict[str, Any]) -> ArmRun:
    """Return the run that a pack is exported from."""
    options, arm = table["pack"], ArmSpec(name=f"pack-{args.backend}")
    spec = ExperimentSpec(
        name="learning",
        title="Memory pack",
        description="The run that the pack of the arm `warm` is learned by",
        groups={"pack": ",".join(options["operators"])},
        settings=common_settings(args, budget=args.pack_budget, **options["settings"]),
        arms=(arm,),
    )
    return make_arm_run(spec, arm, options["operators"], args.out / f"pack-{args.backend}", options["seed"])


def select_arms(args: argparse.Namespace, table: dict[str, Any]) -> tuple[ArmSpec, ...]:
    """Return the arms of --arms, in that order."""
    arms_by_name = {arm["name"]: ArmSpec(**(arm | {"pack": PACK if arm.get("pack") else ""})) for arm in table["arms"]}
    if unknown_names := [name for name in args.arms.split(",") if name not in arms_by_name]:
        raise UserError(f"unknown arm '{unknown_names[0]}'; available: {', '.join(arms_by_name)}")
    return tuple(arms_by_name[name] for name in args.arms.split(","))


def make_spec(args: argparse.Namespace, table: dict[str, Any]) -> ExperimentSpec:
    """Return the experiment: arms and seeds over the first operators of the list."""
    is_draft = args.part == "draft"
    return ExperimentSpec(
        name=f"learning-{args.part}",
        title="Cold and warm start",
        description="Whether the generator learns from the memory items in its context",
        groups={"test": ",".join(table["operators"][: args.operators]), PACK: ",".join(table["pack"]["operators"])},
        packs=(PackSpec(name=PACK, groups=(PACK,)),),
        arms=tuple(arm.model_copy(update={"groups": ("test",)}) for arm in select_arms(args, table)),
        seeds=args.seeds,
        settings=common_settings(args, budget=args.budget, stop_when="feasible" if is_draft else "budget"),
        final_eval=None if is_draft else {"timing_s": FINAL_TIMING_S},
    )


def run_seeds(spec: ExperimentSpec, folder: Path, pack: Path | None, progress: ProgressPrinter) -> ResultsByArm:
    """Run all arms seed by seed, with one pack for all seeds."""
    tasks, packs = runner.select_operators(spec), {PACK: pack} if pack else {}
    by_seed = {seed: runner.run_arms(spec, tasks, folder, seed, packs, progress) for seed in range(spec.seeds)}
    return {arm.name: {seed: results[arm.name] for seed, results in by_seed.items()} for arm in spec.arms}


def pair_warm_with_cold(spec: ExperimentSpec) -> list[tuple[str, str]]:
    """Return pairs of arms, warm and cold, that differ only in the pack."""
    cold = {str(arm.settings): arm.name for arm in spec.arms if not arm.pack}
    return [(arm.name, cold[str(arm.settings)]) for arm in spec.arms if arm.pack and str(arm.settings) in cold]


def main() -> None:
    parser = make_parser(__doc__, "runs/learning")
    parser.add_argument("part", choices=("draft", "refine"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--operators", type=int, default=40, help="number of operators, from the beginning of the list [40]")
    parser.add_argument("--arms", default="passk,similarity,value,warm")
    parser.add_argument("--pack", type=Path, help="an existing memory pack")
    parser.add_argument("--pack-budget", type=int, default=PACK_BUDGET, help=f"attempts per operator for learning the pack [{PACK_BUDGET}]")
    args = parser.parse_args()
    table, progress = load_lists(), ProgressPrinter()
    spec = make_spec(args, table)
    needs_pack = any(arm.pack for arm in spec.arms)
    pack = args.pack or (learn_pack(make_pack_run(args, table), progress) if needs_pack else None)
    results = run_seeds(spec, args.out / f"{args.part}-{args.backend}", pack, progress)
    items = {packed_item.item.id: packed_item.item for packed_item in read_pack(pack).items} if pack else {}
    tables_builder = learning_tables.LearningTables(results, items, table["notes"]["from_context"], args.budget, pair_warm_with_cold(spec))
    tables, figures = tables_builder.draft_tables() if args.part == "draft" else tables_builder.refine_tables()
    tables_builder.plot(args.out, f"{args.part}-{args.backend}", is_draft=args.part == "draft")
    write_tables(args.out, f"{args.part}-{args.backend}", tables, {"settings": spec.model_dump(mode="json"), **figures})


if __name__ == "__main__":
    raise SystemExit(run_main(main))
