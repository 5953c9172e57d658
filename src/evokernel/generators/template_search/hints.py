"""Hints: which decisions a failure reason, a bottleneck, a knowledge card or the code of another generator points to."""

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
    """Which decisions a text points to; read from the dialect's hints.toml."""

    signs: tuple[tuple[str, str, re.Pattern[str]], ...] = ()
    """Constructs in the code of other generators: decision, option, pattern. Of several matches for a decision, the first counts."""
    suspects: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The decisions that a failure reason points to, with weights."""
    strength: Mapping[str, float] = field(default_factory=dict)
    """How many failures a failure with this reason counts for; 1 unless listed."""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words in the detail of a failure that point to a decision."""
    cards: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Phrases with which knowledge cards recommend an option."""
    forbidden: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Phrases with which knowledge cards warn of an option."""
    needs: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """API names that an option uses: without one of them in a card or in code, a generator is unlikely to choose the option."""
    remedies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Decisions to change first for a bottleneck, or for a phrase of the profile's summary; `up` and `down` give the direction."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """The bottleneck whose remedies address a cause of latency."""
    sizes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Failure reasons caused by excessive sizes, with their decisions: larger options of these are then suspect, too."""
    numbers: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    """By failure reason, the part of a message that names the refused sizes; other numbers in messages are ignored."""
    common: frozenset[str] = frozenset()
    """Options that are ordinary words of messages, so that a match means nothing."""
    minor: tuple[str, ...] = ()
    """Decisions that seldom affect speed: a refinement seldom changes them."""

    def find_remedies(self, profile: Profile | None, cause: str = "") -> dict[str, str]:
        """Decisions to change first for a profile, or for one cause of its latency, each with the direction in its list of options."""
        bottleneck = self.causes.get(cause) or (profile.bottleneck if profile else "")
        remedies = dict(self.remedies.get(bottleneck, {}))
        for phrase, changes in self.remedies.items():
            if profile and " " in phrase and phrase in profile.summary:
                remedies |= changes
        return remedies

    def is_option_named(self, option: str, reason: str, detail: str) -> bool:
        """Whether a message contains an option as a separate word, or names it among the refused sizes; common words do not count."""
        if option.isdigit():
            refusals = self.numbers[reason].findall(detail) if reason in self.numbers else ()
            return option in re.findall(r"\d+", " ".join(refusals))
        if option in self.common:
            return False
        return re.search(rf"(?<![\w.]){re.escape(option)}(?![\w.])", detail) is not None

    @staticmethod
    def load(path: Path) -> Hints:
        """Loads the hints of a dialect from its hints.toml."""
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
            causes=table.get("causes", {}),
            numbers={reason: re.compile(pattern) for reason, pattern in table.get("numbers", {}).items()},
            common=frozenset(table.get("common", ())),
            minor=tuple(table.get("minor", ())),
            sizes={reason: tuple(names) for reason, names in table.get("sizes", {}).items()},
        )  # fmt: skip


@cache
def load_hints(folder: Path) -> Hints:
    """The hints in a dialect's folder, loaded once."""
    return Hints.load(folder / "hints.toml")
