"""Settings of a run, one table per part. They come from defaults, a TOML file and `--set`; unknown settings are refused."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from evokernel.core import bank_uri
from evokernel.core.cores import usable_cores
from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean
from evokernel.core.records import Attempt, Settings, VerificationSettings
from evokernel.core.state import expected_gain

ENVIRONMENT_TABLES = ("versions", "hardware")
"""Tables of a saved run that are not settings. `versions-2` and `hardware-2` describe the environment of a later resume."""
PARTS = ("backend", "generator", "policy", "executor", "embedder")
Table = dict[str, Any]


class RunConfig(VerificationSettings):
    """All settings that determine a run. The run folder stores them after resolution."""

    id: str = ""
    """Name of the run in its folder and in the memory bank; built from date and time if empty."""
    tasks: str = "starter"
    """A suite, `suite/name`, a path or a glob; separate several with commas."""
    size: Literal["auto", "laptop", "full"] = "auto"
    """Size of the tasks at which kernels are timed. `laptop`: at most 8 million elements. `full`: the sizes of published benchmarks and
    current models. `auto`: `full` if backend and suite are for it."""
    start: str = ""
    """File or folder with first kernels of the user's own: each is verified as the first attempt on the task it is named after."""
    budget: int = Field(default=10, ge=1)
    """Attempts per task (T)."""
    stop_when: Literal["budget", "feasible", "gain"] = "budget"
    """When a task gets no more attempts. `budget`: after its budget. Earlier with `feasible`: after its first feasible kernel;
    with `gain`: when the expected gain of a further attempt falls below `min_expected_gain`."""
    min_expected_gain: float = Field(default=0.05, ge=0)
    """With `stop_when = "gain"`: refining stops when a further attempt is expected to save less than this share of the latency."""
    min_novelty: float = Field(default=0, ge=0, lt=1)
    """Smallest share of a kernel that must differ from each earlier attempt on its task; otherwise it is not verified. 0: verify all."""
    drafts_per_attempt: int = Field(default=1, ge=1, le=16)
    """Candidates that the generator writes for each attempt; only the most promising one is verified. All of them are paid for."""
    draft_filter: Literal["surrogate", "estimate"] = "surrogate"
    """What ranks drafts. `surrogate`: a forecast learned from the run's attempts. `estimate`: the latency that the backend estimates for
    each draft, on backends that estimate latencies; the surrogate adds the chance to be correct."""
    workers: int = Field(default=0, ge=0)
    """Parallel verifications; 0: one per core."""
    concurrency: int = Field(default=16, ge=1)
    """Attempts in flight, waiting for a model or a verifier."""
    schedule: Literal["rounds", "streaming"] = "rounds"
    """`streaming`: the next attempt on a task does not wait for other tasks. Runs with equal seeds may then differ."""
    memory: str = "evokernel-memory.db"
    """The memory bank: a path relative to the working folder, or `postgresql://…`; the run stores the URL without its password."""
    fresh: bool = False
    """Start from seed knowledge only, with a new bank inside the run folder."""
    memory_read_only: bool = False
    """Do not change the bank: the run learns no values, and other tasks do not see its new items."""
    backend: Settings = {"name": "pallas"}
    """Kernel language, toolchain and device: `name`, and the settings of that backend."""
    generator: Settings = {"name": "template_search"}
    """What writes candidates: `name`, and the settings of that generator."""
    policy: Settings = {"name": "value"}
    """What chooses contexts and learns values: `name`, and the settings of that policy."""
    executor: Settings = {"name": "local"}
    """Where verifications run: `name`, and the settings of that executor."""
    embedder: Settings = {"name": "hash"}
    """How items are found by similarity: `name`, and the settings of that embedder."""

    @field_validator("memory")
    @classmethod
    def redact_memory_password(cls, value: str) -> str:
        """Remove the password from the bank's URL; this process keeps it in memory."""
        return bank_uri.redact_password(value)

    @field_validator(*PARTS)
    @classmethod
    def require_plugin_name(cls, value: Settings) -> Settings:
        """Refuse a plug-in table without a name."""
        if not isinstance(value.get("name"), str):
            raise ValueError("needs a name")
        return value

    def plugin_name(self, part: str) -> str:
        """Name of the plug-in chosen for a part such as `backend`."""
        return str(getattr(self, part)["name"])

    def plugin_settings(self, part: str) -> Settings:
        """Settings of that plug-in, without its name."""
        return {key: value for key, value in getattr(self, part).items() if key != "name"}

    def remaining_attempts(self, attempts: Sequence[Attempt]) -> int:
        """Number of attempts that a task still gets after these."""
        if attempts and attempts[-1].candidate.is_unsupported:
            return 0
        if self.stop_when == "feasible" and any(attempt.outcome.feasible for attempt in attempts):
            return 0
        if self.stop_when == "gain" and expected_gain(attempts) < self.min_expected_gain:
            return 0
        return max(0, self.budget - len(attempts))

    def bank_location(self, folder: Path) -> bank_uri.BankLocation:
        """The memory bank of a run in this folder."""
        return folder / "memory.db" if self.fresh else bank_uri.parse_location(self.memory)

    @property
    def worker_count(self) -> int:
        """Number of parallel verifications."""
        return self.workers or usable_cores()


def resolve_config(file: Path | None, overrides: Sequence[str] = (), base: Mapping[str, Any] | None = None, **flags: Any) -> RunConfig:
    """Combine defaults, a TOML file, flags that are not None, and overrides `part.key=value`; later ones win."""
    table: Table = dict(base or {})
    if file:
        settings = read_toml(file)
        if any(map(is_environment_table, settings)):  # run.toml of an earlier run: take its settings, not its id and environment
            settings = {key: value for key, value in settings.items() if key != "id" and not is_environment_table(key)}
        merge_settings(table, settings)
    merge_settings(table, {key: value for key, value in flags.items() if value is not None})
    for text in overrides:
        apply_override(table, text)
    return parse_config(table)


def is_environment_table(name: str) -> bool:
    """Return whether a table of a saved run describes its environment instead of settings."""
    return name.partition("-")[0] in ENVIRONMENT_TABLES


def apply_override(table: Table, text: str) -> None:
    """Apply one override `part.key=value` to the table."""
    key, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set {text} has no '='. Write --set key=value, for example --set policy.epsilon=0.1")
    nested = {"": parse_literal(value)}
    for name in reversed(key.strip().split(".")):
        nested = {name: nested.pop("") if "" in nested else nested}
    merge_settings(table, nested)


def parse_config(table: Mapping[str, Any]) -> RunConfig:
    """Validate a table of settings. Raises UserError with one line that names the wrong setting."""
    names = sorted(RunConfig.model_fields)
    for key, value in table.items():
        if key not in names:
            raise UserError(f"unknown setting '{key}'{did_you_mean(key, names)}; available settings: {', '.join(names)}")
        if key in PARTS and not isinstance(value, Mapping):
            raise UserError(f"setting '{key}' = {value!r} must be the name of a {key}, or a table that contains a name")
    try:
        return RunConfig.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"setting '{where}' = {first['input']!r}: {first['msg'].lower()}") from error


def merge_settings(table: Table, updates: Mapping[str, Any]) -> None:
    """Merge updates into the table; choosing another plug-in drops the settings of the previous one."""
    for key, value in updates.items():
        if key in PARTS and isinstance(value, str):
            value = {"name": value}
        if key in PARTS and isinstance(value, Mapping):
            old = table.get(key, RunConfig.model_fields[key].default)
            old = {"name": old} if isinstance(old, str) else old
            is_same = "name" not in old or value.get("name", old["name"]) == old["name"]
            table[key] = {**(old if is_same else {}), **value}
        elif isinstance(value, Mapping) and isinstance(table.get(key), Mapping):
            table[key] = dict(table[key])
            merge_settings(table[key], value)
        else:
            table[key] = value


def parse_literal(text: str) -> Any:
    """Parse a TOML value; text that is not valid TOML stays text."""
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def read_toml(path: Path) -> Table:
    """Read a TOML file. Raises UserError with one line if that fails."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}. Fix the file.") from error


def format_toml(table: Mapping[str, Any]) -> str:
    """Format a table as TOML without its None values, which TOML cannot express; absent settings have their defaults."""
    import tomli_w  # here, because only runs and reports write TOML

    return tomli_w.dumps(drop_nones(table))


def drop_nones(table: Mapping[str, Any]) -> Table:
    """Return the table without None values, in sub-tables as well."""
    return {key: drop_nones(value) if isinstance(value, Mapping) else value for key, value in table.items() if value is not None}
