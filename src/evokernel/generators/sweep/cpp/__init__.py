"""The sweep's C++: loops with explicit or automatic vectors, register tiles, threads."""

from __future__ import annotations

from pathlib import Path

from evokernel.generators.sweep.cpp.decisions import SKETCHES
from evokernel.generators.sweep.cpp.facts import describe
from evokernel.generators.sweep.decisions import Choice, Facts
from evokernel.generators.sweep.dialect import Dialect


def words(taken: Choice) -> Facts:
    """How pointers that do not overlap are marked."""
    return {"R": "" if taken["alias"] in ("", "none") else taken["alias"]}


dialect = Dialect(folder=Path(__file__).parent, file="kernel.cpp", fence="cpp", sketches=SKETCHES, describe=describe, words=words)
