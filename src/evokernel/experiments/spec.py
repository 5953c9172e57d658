"""What an experiment is: a TOML file that says which operators, which arms and how many seeds, and what is to be told of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from evokernel.core.config import RunConfig, apply_override, merge_settings, parse_config, read_toml
from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean
from evokernel.core.records import Record

Table = dict[str, Any]
NAME = re.compile(r"[\w.+-]+")


class Learned(Record):
    """A memory pack: what a run on some groups of operators learned."""

    name: str
    groups: tuple[str, ...]
    settings: Table = {}
    without: tuple[str, ...] = ()
    """Groups of which every trace is taken out: those it is tried on."""


class PlannedArm(Record):
    """One way to do the same work."""

    name: str
    about: str = ""
    groups: tuple[str, ...] = ()
    """What it is tried on; all groups unless said."""
    settings: Table = {}
    pack: str = ""
    """The memory pack it begins with; without one, with seed knowledge only."""
    needs: str = ""
    """A setting without which it is left out, and told so, such as `generator.command`."""

    def lacks(self) -> bool:
        """Whether that setting is not given."""
        value: Any = self.settings
        for part in self.needs.split(".") if self.needs else ():
            value = value.get(part, {}) if isinstance(value, Mapping) else {}
        return bool(self.needs) and not value


class Plan(Record):
    """A whole experiment. What `[settings]` say holds for every run, and an arm's own win over it."""

    name: str = ""
    title: str
    about: str
    kind: Literal["rates", "outcomes", "transfer", "timeline", "retrieval", "curriculum"] = "rates"
    groups: dict[str, str]
    """What `--tasks` takes, by the name under which figures are told."""
    told: tuple[str, ...] = ()
    """The groups that figures are told of; all unless said."""
    seeds: int = Field(default=3, ge=1)
    settings: Table = {}
    again: Table | None = None
    """Settings by which bests are judged again when a run is over."""
    packs: tuple[Learned, ...] = ()
    arms: tuple[PlannedArm, ...]
    against: tuple[tuple[str, str], ...] = ()
    """Arms that are compared, operator by operator and seed by seed."""
    paper: Table = {}
    """What was published: `columns` and `rows`, and a `note`."""

    @model_validator(mode="after")
    def is_whole(self) -> Plan:
        """Names that are used are defined."""
        names, groups, packs = [arm.name for arm in self.arms], set(self.groups), {pack.name for pack in self.packs}
        if len(set(names)) != len(names) or not all(NAME.fullmatch(name) for name in (*names, *groups, *packs)):
            raise ValueError("arms, groups and packs need names of letters, digits and .+-_, and arms different ones")
        for used in (*(arm.groups for arm in self.arms), *(pack.groups + pack.without for pack in self.packs), self.told):
            if unknown := set(used) - groups:
                raise ValueError(f"no group '{min(unknown)}'; there are: {', '.join(groups)}")
        for arm in self.arms:
            if arm.pack and arm.pack not in packs:
                raise ValueError(f"arm '{arm.name}' begins with pack '{arm.pack}', which is not defined")
        for pair in self.against:
            if unknown := set(pair) - set(names):
                raise ValueError(f"no arm '{min(unknown)}'; there are: {', '.join(names)}")
        return self

    def groups_of(self, arm: PlannedArm) -> tuple[str, ...]:
        return arm.groups or tuple(self.groups)

    def config(self, more: Mapping[str, Any]) -> RunConfig:
        """A run's settings, checked."""
        table: Table = {}
        for given in (self.settings, more):
            merge_settings(table, given)
        return parse_config(table)

    def tables(self) -> dict[str, Table]:
        """The settings of packs and arms, by what they are called."""
        return {f"pack '{pack.name}'": pack.settings for pack in self.packs} | {f"arm '{arm.name}'": arm.settings for arm in self.arms}


@contextmanager
def named(whose: str) -> Iterator[None]:
    """What is wrong is said with a name before it."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{whose}: {error}") from error


def shipped() -> dict[str, Path]:
    """The experiments that come with the package, by name."""
    home = Path(str(resources.files("evokernel.experiments") / "paper"))
    return {path.stem: path for path in sorted(home.glob("*.toml"))}


def settings_of(table: Table, part: str, name: str, path: Path) -> Table:
    """An arm's or a pack's own, in a file that is not checked yet."""
    listed = table.get(part, [])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise UserError(f"{path}: {part} is no list of tables: write [[{part}]] above each {part[:-1]}, with a name below it")
    known = {str(one.get("name", "")): one for one in listed}
    if name not in known:
        raise UserError(f"{path} has no {part[:-1]} '{name}'{did_you_mean(name, list(known))}; it has: {', '.join(known) or 'none'}")
    return settings_in(known[name], path)


def settings_in(table: Table, path: Path) -> Table:
    """What a file says there, or an empty table, to be added to."""
    found = table.setdefault("settings", {})
    if not isinstance(found, dict):
        raise UserError(f"{path}: settings = {found!r} is no table: write settings = {{ key = value }}")
    return found


def by(plan: Plan, protocol: str) -> Plan:
    """The same with runs that go by one protocol and bests that are judged again by the other."""
    other = {"paper": "strict", "strict": "paper"}[protocol]
    return plan.model_copy(update={"settings": {**plan.settings, "protocol": protocol}, "again": {**(plan.again or {}), "protocol": other}})


def read(name: str, sets: Sequence[str] = ()) -> Plan:
    """One of those, or a file; settings of the form `key=value` win over what it says."""
    known = shipped()
    path = Path(name) if name.endswith(".toml") else known.get(name)
    if path is None:
        raise UserError(
            f"no experiment '{name}'{did_you_mean(name, list(known))}; there are: {', '.join(known)}, or a file of yours (.toml)"
        )
    table = read_toml(path)
    own = set(Plan.model_fields)
    for text in sets:
        key, _, rest = text.partition(".")
        if key.strip() in ("arms", "packs"):
            apply_override(settings_of(table, key.strip(), rest.partition(".")[0], path), rest.partition(".")[2])
        else:
            apply_override(table if text.partition("=")[0].strip().partition(".")[0] in own else settings_in(table, path), text)
    try:
        plan = Plan.model_validate({**table, "name": path.stem})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise UserError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ').lower()}") from error
    for whose, settings in plan.tables().items():
        with named(whose):
            plan.config(settings)
    return plan
