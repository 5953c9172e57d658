"""The lists of `guard.toml`: what a traced program may do, and what it may not."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class Rules:
    """As the file has them."""

    tiny_elements: int
    tiny_total: int
    constant_bytes: int
    grid_steps: int
    layout: frozenset[str]
    indexed: frozenset[str]
    views: frozenset[str]
    arithmetic: frozenset[str]
    calls: frozenset[str]
    loops: frozenset[str]
    refused_outside: Mapping[str, str]
    refused_inside: Mapping[str, str]
    """Operation to what is wrong with it."""
    known: frozenset[str]
    """Every operation that may be somewhere in a program, or that is refused only for the work it does."""
    owned: Mapping[str, str]
    compiler_params: frozenset[str]


@lru_cache
def rules() -> Rules:
    """Read when first needed."""
    table = tomllib.loads((Path(__file__).parent / "guard.toml").read_text())
    limits, outside = table["limits"], {name: frozenset(words.split()) for name, words in table["outside"].items()}

    def refused(where: str) -> dict[str, str]:
        kinds = [kind for kind in table["refused"].values() if kind.get("where", where) == where]
        return {name: kind["words"] for kind in kinds for name in kind["names"].split()}

    return Rules(
        tiny_elements=limits["tiny_elements"],
        tiny_total=limits["tiny_total"],
        constant_bytes=limits["constant_bytes"],
        grid_steps=limits["grid_steps"],
        layout=outside["layout"],
        indexed=outside["indexed"],
        views=outside["views"],
        arithmetic=outside["arithmetic"],
        calls=outside["calls"],
        loops=outside["loops"],
        refused_outside=refused("outside"),
        refused_inside=refused("inside"),
        known=frozenset().union(*outside.values(), table["inside"]["known"].split(), table["refused"]["linear"]["names"].split()),
        owned=table["owned"],
        compiler_params=frozenset(table["compiler_params"]["allowed"].split()),
    )
