"""A run's settings: one table per part. From defaults, a TOML file and `--set`, refused when unknown."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from evokernel.core import bank_uri
from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean
from evokernel.core.records import Attempt, Record, Settings
from evokernel.core.statistics import expected_gain

ENVIRONMENT_TABLES = ("versions", "hardware")
"""Tables of a saved run that are no settings; `versions-2`, `hardware-2` are of when it was gone on with otherwise."""
PARTS = ("backend", "generator", "policy", "executor", "embedder")
Table = dict[str, Any]


class RunConfig(Record):
    """Everything that decides what a run does. Saved, resolved, with the run."""

    id: str = ""
    """Names the run in its folder and in the memory bank; made from date and time when empty."""
    tasks: str = "starter"
    """A suite, `suite/name`, a path or a glob; several separated by commas."""
    budget: int = Field(default=10, ge=1)
    """Attempts per task (T)."""
    stop_when: Literal["budget", "feasible", "gain"] = "budget"
    """When a task gets no more attempts: with its budget; or sooner, with its first feasible kernel, or when little is expected."""
    min_expected_gain: float = Field(default=0.05, ge=0)
    """With `until = "gain"`: refining ends where a further attempt is expected to gain less than this share of the time."""
    min_novelty: float = Field(default=0, ge=0, lt=1)
    """The share of a kernel that must be new against each earlier attempt on its task; less is not verified. 0: everything is."""
    workers: int = Field(default=0, ge=0)
    """Verifications at a time; 0 means one per core."""
    concurrency: int = Field(default=16, ge=1)
    """Attempts in flight at a time, waiting for a model or a verifier."""
    schedule: Literal["rounds", "streaming"] = "rounds"
    """`streaming`: a task's next attempt waits for no other task's. Equal runs are then not equal."""
    seed: int = 0
    timeout_s: float = Field(default=60, gt=0)
    """For one verification."""
    timing_s: float = Field(default=1, gt=0)
    """For timing one kernel; three times as long where few calls fit, or where it is close who is faster."""
    clock: Literal["auto", "synthetic"] = "auto"
    """`synthetic` replaces every measured time by a made-up, repeatable one: for tests, never for results."""
    baselines: tuple[str, ...] = ("eager",)
    protocol: Literal["strict", "paper"] = "strict"
    """How closely kernels are looked at; `paper` is the published comparison (atol = rtol = 1e-2, five draws, no sanitizer)."""
    require_sandbox: bool = False
    """Refuse to run where a layer of the sandbox is missing."""
    llm_review: Settings = {}
    """A model that looks at correct kernels and may veto them: settings as the llm generator's, such as `model`. Off when empty."""
    memory: str = "evokernel-memory.db"
    """The bank: a path, relative to the working folder, or `postgresql://…`, which is kept without its password."""
    fresh: bool = False
    """Start from seed knowledge only, in a bank inside the run folder."""
    memory_read_only: bool = False
    """Use the bank as it is: no value is learned, and what the run adds is found by no other task."""
    backend: Settings = {"name": "pallas"}
    generator: Settings = {"name": "template_search"}
    policy: Settings = {"name": "value"}
    executor: Settings = {"name": "local"}
    embedder: Settings = {"name": "hash"}

    @field_validator("memory")
    @classmethod
    def redact_memory_password(cls, value: str) -> str:
        return bank_uri.redact_password(value)

    @field_validator(*PARTS)
    @classmethod
    def require_plugin_name(cls, value: Settings) -> Settings:
        if not isinstance(value.get("name"), str):
            raise ValueError("needs a name")
        return value

    def plugin_name(self, part: str) -> str:
        """The plug-in chosen for a part."""
        return str(getattr(self, part)["name"])

    def plugin_settings(self, part: str) -> Settings:
        """What its constructor is given."""
        return {key: value for key, value in getattr(self, part).items() if key != "name"}

    def remaining_attempts(self, made: Sequence[Attempt]) -> int:
        """How many attempts a task still gets after these."""
        if self.stop_when == "feasible" and any(attempt.outcome.feasible for attempt in made):
            return 0
        if self.stop_when == "gain" and expected_gain(made) < self.min_expected_gain:
            return 0
        return max(0, self.budget - len(made))

    @property
    def worker_count(self) -> int:
        return self.workers or usable_cores()


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resolve_config(file: Path | None, sets: Sequence[str] = (), base: Mapping[str, Any] | None = None, **flags: Any) -> RunConfig:
    """Defaults, then a TOML file, then flags that are not None, then `--set part.key=value`."""
    table: Table = dict(base or {})
    if file:
        given = read_toml(file)
        if any(
            map(is_environment_table, given)
        ):  # the file of an earlier run: its settings are wanted, not its name and what it was made on
            given = {key: value for key, value in given.items() if key != "id" and not is_environment_table(key)}
        merge_settings(table, given)
    merge_settings(table, {key: value for key, value in flags.items() if value is not None})
    for text in sets:
        apply_override(table, text)
    return parse_config(table)


def is_environment_table(name: str) -> bool:
    """Whether a table of a saved run is one of those that are no settings."""
    return name.partition("-")[0] in ENVIRONMENT_TABLES


def apply_override(table: Table, text: str) -> None:
    """One `part.key=value`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set {text}: write it as --set key=value, for example --set policy.epsilon=0.1")
    place = {"": parse_literal(value)}
    for name in reversed(key.strip().split(".")):
        place = {name: place.pop("") if "" in place else place}
    merge_settings(table, place)


def parse_config(table: Mapping[str, Any]) -> RunConfig:
    """Checked settings, or one line that says which setting is wrong."""
    known = sorted(RunConfig.model_fields)
    for key, value in table.items():
        if key not in known:
            raise UserError(f"no setting '{key}'{did_you_mean(key, known)}; there are: {', '.join(known)}")
        if key in PARTS and not isinstance(value, Mapping):
            raise UserError(f"setting '{key}' = {value!r}: give the name of a {key}, or a table with a name in it")
    try:
        return RunConfig.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"setting '{where}' = {first['input']!r}: {first['msg'].lower()}") from error


def merge_settings(table: Table, more: Mapping[str, Any]) -> None:
    """Adds settings; naming another plug-in drops the settings of the one it replaces."""
    for key, value in more.items():
        if key in PARTS and isinstance(value, str):
            value = {"name": value}
        if key in PARTS and isinstance(value, Mapping):
            old = table.get(key, RunConfig.model_fields[key].default)
            old = {"name": old} if isinstance(old, str) else old
            table[key] = {**(old if value.get("name", old["name"]) == old["name"] else {}), **value}
        elif isinstance(value, Mapping) and isinstance(table.get(key), Mapping):
            table[key] = {**table[key], **value}
        else:
            table[key] = value


def parse_literal(text: str) -> Any:
    """A TOML value when it reads as one, the bare text otherwise."""
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def read_toml(path: Path) -> Table:
    """A settings file, or one line on why it cannot be read."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error


def write_toml(table: Mapping[str, Any]) -> str:
    """Plain values first, then a section per table; JSON's scalars and lists are TOML's."""
    plain = [f"{key} = {json.dumps(value)}" for key, value in table.items() if not isinstance(value, Mapping) and value is not None]
    sections = [f"\n[{key}]\n{write_toml(value).strip()}" for key, value in table.items() if isinstance(value, Mapping)]
    return "\n".join([*plain, *sections]) + "\n"
