"""Reads the TOML file of an experiment: its operators, arms, seeds and settings, and the groups and comparisons it reports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from evokernel.app.factory import check_plugin_settings
from evokernel.core.config import RunConfig, apply_override, merge_settings, parse_config, read_toml
from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean
from evokernel.core.records import Record
from evokernel.experiments.axes import add_axis_arms

Table = dict[str, Any]
NAME = re.compile(r"[\w.+-]+")


class PackSpec(Record):
    """A memory pack that a run on some groups of operators learns."""

    name: str
    groups: tuple[str, ...] = ()
    settings: Table = {}
    exclude_groups: tuple[str, ...] = ()
    """Groups that the pack must not reveal: those that arms with this pack are evaluated on."""
    source: str = ""
    """An earlier pack from which this one is made, instead of by a run of its own."""
    misleading_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the attempts in `source` whose outcome is turned around: slow and failed kernels are praised, fast ones called wrong."""


class ArmSpec(Record):
    """One variant of the experiment: its settings and its memory."""

    name: str
    description: str = ""
    groups: tuple[str, ...] = ()
    """The groups it is evaluated on; empty: all groups."""
    settings: Table = {}
    pack: str = ""
    """The memory pack it starts with; empty: it starts with seed knowledge only."""
    needs: str = ""
    """A setting such as `generator.command`; the arm is skipped with a notice if the setting is missing."""
    levels: dict[str, str] = {}
    """By axis: the value that this arm has; empty if the arm is not made from axes."""

    def is_missing_setting(self) -> bool:
        """Whether the setting that the arm needs is missing."""
        value: Any = self.settings
        for part in self.needs.split(".") if self.needs else ():
            value = value.get(part, {}) if isinstance(value, Mapping) else {}
        return bool(self.needs) and not value


class ExperimentPlan(Record):
    """The decisions that are fixed before an experiment runs, so that its test is a test."""

    tuned_on: tuple[str, ...]
    """Groups on which settings may be tuned, and from which memory packs are learned."""
    tested_on: tuple[str, ...]
    """Groups of the test, which is run once."""
    measures: tuple[str, ...]
    """Measures as reports name them; the first one decides."""
    smallest_difference: float = Field(gt=0)
    """The smallest difference of the first measure that is worth having; a share, not points."""
    power: float = Field(default=0.8, gt=0, lt=1)
    """Probability of showing a difference of this size at 95 % confidence."""
    operators: int = Field(ge=2)
    """Operators that this takes, with the experiment's number of seeds."""
    variance_from: str = ""
    """The recorded results from which the variance was taken: file, pair of arms."""


class ExperimentSpec(Record):
    """An experiment. `[settings]` apply to every run; the settings of an arm or a pack override them."""

    name: str = ""
    title: str
    description: str
    kind: Literal["rates", "outcomes", "transfer", "timeline", "retrieval", "curriculum"] = "rates"
    groups: dict[str, str]
    """Task patterns as in `--tasks`, by the group's name in reports."""
    report_groups: tuple[str, ...] = ()
    """The groups that the report covers; empty: all groups."""
    seeds: int = Field(default=3, ge=1)
    settings: Table = {}
    final_eval: Table | None = None
    """Settings of the re-evaluation of the best kernels after a run; None: they are not re-evaluated."""
    packs: tuple[PackSpec, ...] = ()
    axes: dict[str, dict[str, Table]] = {}
    """By axis: its values, each with its settings. Every combination of values is an arm, next to the `arms` of the file."""
    arms: tuple[ArmSpec, ...]
    reuse_outcomes: bool | Literal["measured"] = False
    """Verify a kernel once for all runs of the experiment, where latencies are estimates; a reused outcome draws no new inputs. `measured`
    does so with measured latencies, too."""
    compare: tuple[tuple[str, str], ...] = ()
    """Pairs of arms to compare, paired by operator and seed."""
    paper: Table = {}
    """Published figures: `columns` and `rows`, and a `note`."""
    plan: ExperimentPlan | None = None
    """The decisions fixed before the experiment runs; None for an exploratory experiment."""

    @model_validator(mode="after")
    def check_names(self) -> ExperimentSpec:
        """Check that all names are well formed and that every name in use is defined."""
        names, groups, packs = [arm.name for arm in self.arms], set(self.groups), {pack.name for pack in self.packs}
        if len(set(names)) != len(names) or not all(NAME.fullmatch(name) for name in (*names, *groups, *packs)):
            raise ValueError("names of arms, groups and packs consist of letters, digits and .+-_, and names of arms must differ")
        for names_in_use in (
            *(arm.groups for arm in self.arms),
            *(pack.groups + pack.exclude_groups for pack in self.packs),
            self.report_groups,
        ):
            if unknown := set(names_in_use) - groups:
                raise ValueError(f"group '{min(unknown)}' is not defined; the groups are: {', '.join(groups)}")
        for arm in self.arms:
            if arm.pack and arm.pack not in packs:
                raise ValueError(f"arm '{arm.name}' starts with pack '{arm.pack}', which is not defined")
        for pair in self.compare:
            if unknown := set(pair) - set(names):
                raise ValueError(f"arm '{min(unknown)}' is not defined; the arms are: {', '.join(names)}")
        return self

    @model_validator(mode="after")
    def check_pack_sources(self) -> ExperimentSpec:
        """Check that every pack is learned on groups, or made from a pack that is defined before it."""
        for place, pack in enumerate(self.packs):
            if bool(pack.groups) == bool(pack.source):
                raise ValueError(f"pack '{pack.name}' needs either groups or a source")
            if pack.source and pack.source not in {earlier.name for earlier in self.packs[:place]}:
                raise ValueError(f"pack '{pack.name}' is made from '{pack.source}', which is not defined before it")
        return self

    @model_validator(mode="after")
    def check_plan(self) -> ExperimentSpec:
        """Check that the test of a plan uses operators that nothing was tuned on."""
        if self.plan is None:
            return self
        tuned_on, tested_on = set(self.plan.tuned_on), set(self.plan.tested_on)
        if unknown := (tuned_on | tested_on) - set(self.groups):
            raise ValueError(f"group '{min(unknown)}' is not defined; the groups are: {', '.join(self.groups)}")
        if both := tuned_on & tested_on:
            raise ValueError(f"group '{min(both)}' is both tuned on and tested on")
        for arm in self.arms:
            if outside := set(self.groups_of_arm(arm)) - tested_on:
                raise ValueError(f"arm '{arm.name}' is evaluated on group '{min(outside)}', which the plan does not test on")
        for pack in self.packs:
            if outside := set(pack.groups) - tuned_on:
                raise ValueError(f"pack '{pack.name}' is learned on group '{min(outside)}', which is not tuned on")
        return self

    def groups_of_arm(self, arm: ArmSpec) -> tuple[str, ...]:
        """Return the groups that an arm is evaluated on."""
        return arm.groups or tuple(self.groups)

    def run_config(self, *overrides: Mapping[str, Any]) -> RunConfig:
        """Return the validated settings of a run: those of all runs with these overrides; later ones win."""
        # As in the recorded results; `[settings]` may choose others. A uniform prior leaves everything to be learned.
        table: Table = {"size": "laptop", "generator": {"name": "template_search", "prior": "uniform"}}
        for settings in (self.settings, *overrides):
            merge_settings(table, settings)
        return parse_config(table)

    def settings_tables(self) -> dict[str, Table]:
        """Return the settings of packs and arms, by the name that error messages use."""
        return {f"pack '{pack.name}'": pack.settings for pack in self.packs} | {f"arm '{arm.name}'": arm.settings for arm in self.arms}


@contextmanager
def prefix_errors(prefix: str) -> Iterator[None]:
    """Put a prefix before the message of a UserError."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{prefix}: {error}") from error


def shipped_experiments() -> dict[str, Path]:
    """Return the files of the experiments that the package contains, by name."""
    folder = Path(str(resources.files("evokernel.experiments") / "paper"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_part_settings(table: Table, part: str, name: str, path: Path) -> Table:
    """Return the settings of one arm or pack in a file that is not validated yet."""
    parts = table.get(part, [])
    if not isinstance(parts, list) or not all(isinstance(one, dict) for one in parts):
        raise UserError(f"{path}: {part} is not a list of tables. Write [[{part}]] above each {part[:-1]}, with its name below.")
    by_name = {str(one.get("name", "")): one for one in parts}
    if name not in by_name:
        raise UserError(f"{path} has no {part[:-1]} '{name}'{did_you_mean(name, list(by_name))}. It has: {', '.join(by_name) or 'none'}.")
    return ensure_settings_table(by_name[name], path)


def ensure_settings_table(table: Table, path: Path) -> Table:
    """Return the settings table of a file or a part of it; create an empty one if there is none."""
    settings = table.setdefault("settings", {})
    if not isinstance(settings, dict):
        raise UserError(f"{path}: settings = {settings!r} is not a table. Write settings = {{ key = value }}.")
    return settings


def with_protocol(spec: ExperimentSpec, protocol: str) -> ExperimentSpec:
    """Return the experiment with this protocol in the loop and the other one in the re-evaluation."""
    other = {"paper": "strict", "strict": "paper"}[protocol]
    return spec.model_copy(
        update={"settings": {**spec.settings, "protocol": protocol}, "final_eval": {**(spec.final_eval or {}), "protocol": other}}
    )


def find_arms(spec: ExperimentSpec, names: Sequence[str] | None) -> list[ArmSpec]:
    """Return the arms with these names, or all arms."""
    arms = {arm.name: arm for arm in spec.arms}
    for name in names or ():
        if name not in arms:
            raise UserError(f"experiment '{spec.name}' has no arm '{name}'{did_you_mean(name, list(arms))}. Its arms: {', '.join(arms)}.")
    return [arms[name] for name in names or arms]


def with_arms(spec: ExperimentSpec, selected_arms: Sequence[ArmSpec]) -> tuple[ExperimentSpec, dict[str, str]]:
    """Return the experiment with the selected arms that have their settings, and the reason for each excluded arm."""
    arms = tuple(arm for arm in selected_arms if not arm.is_missing_setting())
    if not arms:
        raise UserError(f"experiment '{spec.name}' has no arm that can run. Give the missing settings with --set.")
    names = {arm.name for arm in arms}
    used = {arm.pack for arm in arms}
    used |= {pack.source for pack in spec.packs if pack.name in used}
    packs = tuple(pack for pack in spec.packs if pack.name in used)
    comparisons = tuple(pair for pair in spec.compare if set(pair) <= names)
    reasons = {
        f"arm {arm.name}": f"{arm.needs} is not set" if arm.is_missing_setting() else "not selected"
        for arm in spec.arms
        if arm.name not in names
    }
    return spec.model_copy(update={"arms": arms, "packs": packs, "compare": comparisons}), reasons


def apply_overrides(table: Table, overrides: Sequence[str], path: Path) -> None:
    """Apply overrides `key=value` to a file that is not validated yet; those of arms and packs last, when the axes' arms exist."""
    spec_keys = set(ExperimentSpec.model_fields)
    is_of_part = {text: text.partition(".")[0].strip() in ("arms", "packs") for text in overrides}
    for text in (text for text in overrides if not is_of_part[text]):
        target = table if text.partition("=")[0].strip().partition(".")[0] in spec_keys else ensure_settings_table(table, path)
        apply_override(target, text)
    add_axis_arms(table, path)
    for text in (text for text in overrides if is_of_part[text]):
        part, _, rest = text.partition(".")
        apply_override(find_part_settings(table, part.strip(), rest.partition(".")[0], path), rest.partition(".")[2])


def read_spec(name: str, overrides: Sequence[str] = ()) -> ExperimentSpec:
    """Read a shipped experiment or a TOML file; overrides of the form `key=value` replace its settings."""
    files = shipped_experiments()
    path = Path(name) if name.endswith(".toml") else files.get(name)
    if path is None:
        available = f"{', '.join(files)}, or a .toml file of your own"
        raise UserError(f"no experiment '{name}'{did_you_mean(name, list(files))}. Available: {available}.")
    table = read_toml(path)
    apply_overrides(table, overrides, path)
    try:
        spec = ExperimentSpec.model_validate({**table, "name": path.stem})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise UserError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ').lower()}") from error
    for prefix, settings in spec.settings_tables().items():
        with prefix_errors(prefix):
            spec.run_config(settings)
    return spec


def final_eval_config(config: RunConfig, final_eval: Table) -> RunConfig:
    """Return the settings of a run's re-evaluation."""
    return parse_config({**config.model_dump(mode="json"), **final_eval})


def check_settings(spec: ExperimentSpec) -> None:
    """Check the plug-in settings of every pack, arm and re-evaluation before anything runs."""
    for prefix, settings in spec.settings_tables().items():
        with prefix_errors(prefix):
            check_plugin_settings(spec.run_config(settings))
    for arm in spec.arms if spec.final_eval is not None else ():
        with prefix_errors(f"arm '{arm.name}', re-evaluation"):
            check_plugin_settings(final_eval_config(spec.run_config(arm.settings), spec.final_eval or {}))
