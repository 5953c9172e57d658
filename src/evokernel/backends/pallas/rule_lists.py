"""Loads `program_rules.toml`: the operations that a traced program may and may not contain."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class ProgramRules:
    """The lists and limits of `program_rules.toml`."""

    tiny_elements: int
    tiny_total: int
    constant_bytes: int
    grid_steps: int
    layout: frozenset[str]
    indexed_layout: frozenset[str]
    views: frozenset[str]
    arithmetic: frozenset[str]
    calls: frozenset[str]
    loops: frozenset[str]
    refused_outside: Mapping[str, str]
    refused_inside: Mapping[str, str]
    """Operation to the reason why it is refused. The same holds for `refused_outside`."""
    known_operations: frozenset[str]
    """Every operation that may occur in a program, and those that are refused only because their work belongs in a kernel."""
    reserved_params: Mapping[str, str]
    compiler_params: frozenset[str]


@lru_cache
def load_rules() -> ProgramRules:
    """The program rules; reads the file on the first call."""
    table = tomllib.loads((Path(__file__).parent / "program_rules.toml").read_text())
    limits, outside = table["limits"], {name: frozenset(names.split()) for name, names in table["outside"].items()}

    def collect_refusals(where: str) -> dict[str, str]:
        kinds = [kind for kind in table["refused"].values() if kind.get("where", where) == where]
        return {name: kind["message"] for kind in kinds for name in kind["names"].split()}

    return ProgramRules(
        tiny_elements=limits["tiny_elements"],
        tiny_total=limits["tiny_total"],
        constant_bytes=limits["constant_bytes"],
        grid_steps=limits["grid_steps"],
        layout=outside["layout"],
        indexed_layout=outside["indexed"],
        views=outside["views"],
        arithmetic=outside["arithmetic"],
        calls=outside["calls"],
        loops=outside["loops"],
        refused_outside=collect_refusals("outside"),
        refused_inside=collect_refusals("inside"),
        known_operations=frozenset().union(
            *outside.values(), table["inside"]["known"].split(), table["refused"]["linear"]["names"].split()
        ),
        reserved_params=table["reserved"],
        compiler_params=frozenset(table["compiler_params"]["allowed"].split()),
    )
