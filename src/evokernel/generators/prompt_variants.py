"""Variants of prompt sections: other ways to show the same facts. With `prompt_variants`, a bandit chooses among them by their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SECTION_FILES = {
    "history": {"full": "history.md", "latest": "history-latest.md", "summary": "history-summary.md"},
    "opportunities": {"table": "opportunities.md", "largest": "opportunities-largest.md", "list": "opportunities-list.md"},
}
"""The file of each variant of a section, the default first."""
RULES_SECTION, FULL_RULES, BRIEF_RULES = "rules", "full", "brief"
"""The rules of a backend with its costs, or the few rules that small models get."""


def list_variants(has_brief_rules: bool) -> dict[str, tuple[str, ...]]:
    """Return the names of the variants of each section, the default first."""
    variants = {section: tuple(files) for section, files in SECTION_FILES.items()}
    return variants | ({RULES_SECTION: (FULL_RULES, BRIEF_RULES)} if has_brief_rules else {})


def select_files(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the file of each section: of the chosen variant, or of the default."""
    return {section: files.get(chosen.get(section, ""), next(iter(files.values()))) for section, files in SECTION_FILES.items()}


def shown_variants(chosen: Mapping[str, str], shown_sections: Sequence[str]) -> dict[str, str]:
    """Return the chosen variants of the sections that a prompt contains: only they are rewarded."""
    return {section: variant for section, variant in chosen.items() if section in shown_sections}
