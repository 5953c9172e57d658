"""Names that were invented, and those that were meant."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).parent
UNKNOWN = re.compile(
    r"'(?:\w+::)*(?P<name>\w+)' (?:is not a member of|was not declared in|does not name a type|has not been declared)"
    r"|has no member named '(?P<member>\w+)'|there are no arguments to '(?P<free>\w+)' that depend"
)
DECLARED = re.compile(
    r"^\s*(?:template <[^;{]*?>\s*)?(?:inline |constexpr |static )*[\w:<>*&, ]+?\b([A-Z]\w+)\("
    r"|\b(?:class|struct|using) ([A-Z]\w+)|^TWIN_\w+\((\w+),",
    re.M,
)
CLOSE, MOST = 0.72, 3


def meant(text: str) -> list[str]:
    """One line for each unknown name in a compiler's output, with what comes closest."""
    plain = text.replace("‘", "'").replace("’", "'")
    unknown = dict.fromkeys(match["name"] or match["member"] or match["free"] for match in UNKNOWN.finditer(plain))
    return [line for name in list(unknown)[:MOST] if (line := advice(name))]


def advice(name: str) -> str:
    """What is known about a name that does not exist."""
    if said := invented().get(name):
        return f"there is no {name} in Ascend C: {said}"
    if near := close(name, known()):
        return f"there is no {name} in Ascend C; did you mean {' or '.join(near)}?"
    return ""


@lru_cache
def invented() -> dict[str, str]:
    """Names that models like to invent, with what is there instead."""
    found: dict[str, str] = tomllib.loads((HERE / "names.toml").read_text())["names"]
    return found


@lru_cache
def known() -> frozenset[str]:
    """All that the headers declare with a capital letter."""
    found = set()
    for path in (HERE / "twin").rglob("*.h"):
        for groups in DECLARED.findall(path.read_text()):
            found |= {name for name in groups if name}
    return frozenset(found)


def close(name: str, names: Iterable[str]) -> list[str]:
    """Those spelt nearly alike, whatever their case."""
    by_lower = {one.lower(): one for one in sorted(names)}
    return [by_lower[one] for one in difflib.get_close_matches(name.lower(), by_lower, 2, CLOSE) if by_lower[one] != name]
