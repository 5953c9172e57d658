"""How words bear on decisions: what a failure reason, a bottleneck, a knowledge card or another writer's code points at."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from evokernel.core.records import Profile


@dataclass(frozen=True)
class Hints:
    """How words bear on decisions; read from the dialect's hints.toml."""

    signs: tuple[tuple[str, str, re.Pattern[str]], ...] = ()
    """What other writers' code reveals: decision, option, pattern; where several fit, the first of a decision counts."""
    suspects: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Which decisions a failure reason points at, and how strongly."""
    strength: Mapping[str, float] = field(default_factory=dict)
    """How many failures one with this reason counts for; 1 unless listed."""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words in a failure's detail that point at a decision."""
    cards: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Phrases by which knowledge cards name an option."""
    forbidden: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Phrases by which knowledge cards warn of an option."""
    needs: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Names of the API an option is written with: who was shown none of them, in a card or in code, hardly comes up with it."""
    remedies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What a profile's bottleneck, or a phrase of its summary, makes worth changing first; `up` and `down` give the direction."""
    sizes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Failure reasons that more of something brings about: decisions whose larger numbers are then suspect, too."""
    numbers: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    """Where a message of this failure reason names the sizes it refuses; other numbers in messages say nothing."""
    common: frozenset[str] = frozenset()
    """Options whose words stand in any message."""
    minor: tuple[str, ...] = ()
    """Decisions that seldom change the time: a refinement seldom changes them."""

    def remedy(self, profile: Profile | None) -> dict[str, str]:
        """Decisions worth changing first, and in which direction of their options."""
        found = dict(self.remedies.get(profile.bottleneck, {})) if profile else {}
        for phrase, changes in self.remedies.items():
            if profile and " " in phrase and phrase in profile.summary:
                found |= changes
        return found

    def is_spelled(self, option: str, reason: str, detail: str) -> bool:
        """Whether a message holds an option as a word of its own, or names it among the sizes it refuses; common words say nothing."""
        if option.isdigit():
            named = self.numbers[reason].findall(detail) if reason in self.numbers else ()
            return option in re.findall(r"\d+", " ".join(named))
        if option in self.common:
            return False
        return re.search(rf"(?<![\w.]){re.escape(option)}(?![\w.])", detail) is not None

    @staticmethod
    def read(path: Path) -> Hints:
        """The hints of a dialect."""
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return Hints(
            signs=tuple((s["decision"], s["option"], re.compile(s["pattern"], re.IGNORECASE if s.get("any_case") else 0))
                        for s in table["signs"]),
            suspects=table["suspects"],
            strength=table.get("strength", {}),
            words={name: tuple(words) for name, words in table["words"].items()},
            cards={(c["decision"], c["option"]): tuple(c["phrases"]) for c in table["cards"] if "phrases" in c},
            forbidden={(c["decision"], c["option"]): tuple(c["warnings"]) for c in table["cards"] if "warnings" in c},
            needs={(c["decision"], c["option"]): tuple(c["needs"]) for c in table["cards"] if "needs" in c},
            remedies={word: dict.fromkeys(r, "") if isinstance(r, list) else r for word, r in table["remedies"].items()},
            numbers={reason: re.compile(pattern) for reason, pattern in table.get("numbers", {}).items()},
            common=frozenset(table.get("common", ())),
            minor=tuple(table.get("minor", ())),
            sizes={reason: tuple(names) for reason, names in table.get("sizes", {}).items()},
        )  # fmt: skip


@cache
def hints_in(folder: Path) -> Hints:
    """The hints of a dialect, read once."""
    return Hints.read(folder / "hints.toml")
