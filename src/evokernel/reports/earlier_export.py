"""Kernels that an earlier export wrote into the same package: those of the tasks that are exported again are replaced, the others stay."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.reports.delivery import Speed, SpeedComparison


class EarlierKernel(NamedTuple):
    """A kernel of an earlier export, as its provenance describes it."""

    folder: Path
    task: str
    run: str
    backend: str
    latency_us: float | None
    comparison: SpeedComparison

    @property
    def name(self) -> str:
        """Name of its folder and operator."""
        return self.folder.name


def keep_other_kernels(folder: Path, is_replaced: Callable[[EarlierKernel], bool]) -> list[EarlierKernel]:
    """Remove the earlier kernels that a new export replaces or leaves out; return those that stay in the package."""
    kept = []
    for kernel in find_earlier_kernels(folder):
        if is_replaced(kernel):
            shutil.rmtree(kernel.folder)
        else:
            kept.append(kernel)
    return kept


def find_earlier_kernels(folder: Path) -> Iterator[EarlierKernel]:
    """Yield the kernels in the folder of a package. A folder without a readable provenance was not exported and is left alone."""
    for path in sorted(folder.glob("*/provenance.json")):
        if not (path.parent / "reference.py").is_file():
            continue
        try:
            provenance = json.loads(path.read_text(encoding="utf-8"))
            yield read_kernel(path.parent, provenance)
        except (OSError, ValueError, KeyError, TypeError):
            continue


def read_kernel(folder: Path, provenance: dict[str, Any]) -> EarlierKernel:
    """Return the kernel that a provenance describes."""
    timing = provenance["timing"]
    baseline = timing["best_baseline"] or ""
    comparison = SpeedComparison(Speed(timing["speed"]), baseline, timing["baselines_us"].get(baseline), timing["speedup"])
    return EarlierKernel(folder, provenance["task"], provenance["run"], provenance["backend"]["name"], timing["latency_us"], comparison)
