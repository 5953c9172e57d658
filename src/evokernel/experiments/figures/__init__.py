"""How single figures of the paper are laid out: by the kind of an experiment, more tables and plots than every experiment has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.experiments.figures import curriculum, outcomes, timeline
from evokernel.reports.metrics import Tried
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Table

Found = Mapping[str, Sequence[Tried]]
"""By arm: every operator, of the first seed."""


class Layout(NamedTuple):
    """What one kind of experiment tells besides."""

    tables: Callable[[Found], list[Table]]
    drawings: Callable[[Found, Path], list[Plot | None]]


LAYOUTS = {module.__name__.rpartition(".")[2]: Layout(module.tables, module.drawings) for module in (outcomes, timeline, curriculum)}
