"""What an expert knows about options before any evidence: which are wrong, and which to try first; read from a dialect's prior.toml.

An experiment that studies learning sets `generator.prior = "uniform"`: all options start equal, wrong ones included.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from evokernel.core.errors import UserError
from evokernel.generators.template_search.decisions import Decision

OptionsByDecision = Mapping[str, tuple[str, ...]]
PRIORS = ("expert", "uniform")


@dataclass(frozen=True)
class Prior:
    """Options by kernel family and decision; the empty family stands for all families, a family's own entries come first."""

    wrong: Mapping[str, OptionsByDecision] = field(default_factory=dict)
    """Options that cannot compile, or give wrong results for some sizes."""
    start: Mapping[str, OptionsByDecision] = field(default_factory=dict)
    """Options to try first, in order of preference."""

    def list_right_options(self, family: str, decision: Decision) -> tuple[str, ...]:
        """The options of a decision that are not wrong; all of them if none is left."""
        wrong = find_entry(self.wrong, family, decision.name)
        return tuple(option for option in decision.options if option not in wrong) or decision.options

    def find_start(self, family: str, decision: Decision) -> str:
        """The option to try first; empty if the prior names none."""
        options = self.list_right_options(family, decision)
        return next((option for option in find_entry(self.start, family, decision.name) if option in options), "")

    @staticmethod
    def load(path: Path) -> Prior:
        """Loads the prior of a dialect."""
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return Prior(wrong=split_families(table["wrong"]), start=split_families(table["start"]))


UNIFORM_PRIOR = Prior()


def find_entry(table: Mapping[str, OptionsByDecision], family: str, name: str) -> tuple[str, ...]:
    """The options listed for a family's decision, or else for the decision in all families."""
    own = table.get(family, {})
    return own[name] if name in own else table.get("", {}).get(name, ())


def split_families(table: Mapping[str, list[str] | Mapping[str, list[str]]]) -> dict[str, OptionsByDecision]:
    """The entries for all families, and those of each family's own table."""
    families: dict[str, OptionsByDecision] = {"": {name: tuple(value) for name, value in table.items() if isinstance(value, list)}}
    for family, entries in table.items():
        if isinstance(entries, Mapping):
            families[family] = {name: tuple(options) for name, options in entries.items()}
    return families


@cache
def load_prior(folder: Path) -> Prior:
    """The prior in a dialect's folder, loaded once."""
    return Prior.load(folder / "prior.toml")


def get_prior(name: str, folder: Path) -> Prior:
    """The prior that the setting `generator.prior` names."""
    if name not in PRIORS:
        raise UserError(f"generator.prior must be {' or '.join(PRIORS)}, not '{name}'")
    return load_prior(folder) if name == "expert" else UNIFORM_PRIOR
