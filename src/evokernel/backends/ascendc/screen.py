"""What has no place in an operator project: in its text, and in the library built from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from evokernel.backends.native import screen
from evokernel.backends.native.built import refuse_foreign
from evokernel.backends.native.elf import read

RULES = Path(__file__).parent / "screen.toml"


def findings(files: Mapping[str, str]) -> Iterator[str]:
    """Each with its file and line."""
    rules = screen.read(RULES)
    for name, text in sorted(files.items()):
        yield from screen.findings(name, text, rules, files)


def check_object(library: Path, runtime: Path) -> None:
    """Refuses what is called from outside, save the twin and what computing needs."""
    built, twin = read(library), read(runtime)
    if built is None or twin is None:
        return
    refuse_foreign(built, screen.read(RULES).symbols, "arithmetic, memory and Ascend C", frozenset(twin.symbols.offered))
