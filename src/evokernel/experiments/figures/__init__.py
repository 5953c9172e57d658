"""Additional tables and plots for experiments that reproduce a figure of the paper, by the experiment's kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.experiments.figures import curriculum, outcomes, timeline
from evokernel.reports.metrics import TaskResult
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Table

ResultsByArm = Mapping[str, Sequence[TaskResult]]
"""By arm: the results of all operators with the first seed."""


class PaperFigure(NamedTuple):
    """The additional tables and plots of one kind of experiment."""

    build_tables: Callable[[ResultsByArm], list[Table]]
    draw_plots: Callable[[ResultsByArm, Path], list[Plot | None]]


PAPER_FIGURES = {
    module.__name__.rpartition(".")[2]: PaperFigure(module.build_tables, module.draw_plots) for module in (outcomes, timeline, curriculum)
}
