"""Suggests existing API names for unknown names in a compiler error."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).parent
UNKNOWN_NAME = re.compile(
    r"'(?:\w+::)*(?P<name>\w+)' (?:is not a member of|was not declared in|does not name a type|has not been declared)"
    r"|has no member named '(?P<member>\w+)'|there are no arguments to '(?P<free>\w+)' that depend"
)
DECLARATION = re.compile(
    r"^\s*(?:template <[^;{]*?>\s*)?(?:inline |constexpr |static )*[\w:<>*&, ]+?\b([A-Z]\w+)\("
    r"|\b(?:class|struct|using) ([A-Z]\w+)|^SIMULATOR_\w+\((\w+),",
    re.M,
)
MIN_SIMILARITY, MAX_SUGGESTIONS = 0.72, 3


def suggest_names(text: str) -> list[str]:
    """One line for each unknown name in a compiler's output, with a replacement."""
    plain = text.replace("‘", "'").replace("’", "'")
    unknown_names = dict.fromkeys(match["name"] or match["member"] or match["free"] for match in UNKNOWN_NAME.finditer(plain))
    return [line for name in list(unknown_names)[:MAX_SUGGESTIONS] if (line := suggest_name(name))]


def suggest_name(name: str) -> str:
    """A suggestion for an unknown name; "" if there is none."""
    if replacement := load_invented_names().get(name):
        return f"Ascend C has no {name}: {replacement}"
    if matches := find_close_matches(name, declared_names()):
        return f"Ascend C has no {name}; did you mean {' or '.join(matches)}?"
    return ""


@lru_cache
def load_invented_names() -> dict[str, str]:
    """Names that models often invent, with the existing function."""
    replacements: dict[str, str] = tomllib.loads((HERE / "names.toml").read_text())["names"]
    return replacements


@lru_cache
def declared_names() -> frozenset[str]:
    """Names with a capital first letter that the headers declare."""
    names = set()
    for path in (HERE / "simulator").rglob("*.h"):
        for groups in DECLARATION.findall(path.read_text()):
            names |= {name for name in groups if name}
    return frozenset(names)


def find_close_matches(name: str, names: Iterable[str]) -> list[str]:
    """Names with a similar spelling, ignoring case."""
    by_lower = {one.lower(): one for one in sorted(names)}
    return [by_lower[one] for one in difflib.get_close_matches(name.lower(), by_lower, 2, MIN_SIMILARITY) if by_lower[one] != name]
