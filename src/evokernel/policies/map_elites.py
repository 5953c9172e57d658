"""MAP-Elites as in KernelFoundry: keep the fastest kernel of every kind, and refine kernels of all kinds.

Properties:

- The archive has one cell per behaviour (bottleneck, memory traffic, instructions), and each cell keeps its fastest kernel, the elite.
- A slower kernel stays in the archive if it behaves differently from all faster ones; within a cell only speed counts.
- A start point is the elite of a cell that is drawn uniformly, or by curiosity: cells whose refinements entered the archive are likelier.
- Some refinements recombine: they are also given the elite of another cell, or a kernel of a task that shares a part.
- While few cells are occupied, some attempts draft a different kernel, at most `draft_rate` of the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from random import Random
from typing import NamedTuple

from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, MemoryItem, Stage
from evokernel.core.state import State, is_faster
from evokernel.policies.behaviour import Behaviour, describe_behaviour
from evokernel.policies.recombination import check_rate, pick_partner
from evokernel.policies.strategy import Strategy

SELECTIONS = ("uniform", "curiosity")
ENTERED, NOT_ENTERED, MIN_CURIOSITY = 1.0, -0.5, 0.1
"""What a refinement of a cell's kernel adds to the curiosity of the cell, which begins at 1, and the least that remains."""


class Archive(NamedTuple):
    """The elite and the curiosity of each occupied cell."""

    elites: dict[Behaviour, Attempt]
    curiosity: dict[Behaviour, float]


class MapElites(Strategy):
    """Refines the elite of a random cell of the archive.

    `selection` is `uniform` or `curiosity`. `draft_rate` is the chance of another draft while fewer than `min_cells` cells are occupied,
    and the largest share of the budget that such drafts take. `recombination` is the share of refinements with a second kernel.
    """

    def __init__(
        self,
        memory: str = "value",
        selection: str = "uniform",
        draft_rate: float = 0.2,
        min_cells: int = 3,
        recombination: float = 0.2,
        budget: int = 30,
        seed: int = 0,
    ) -> None:
        super().__init__(memory, budget, seed)
        if selection not in SELECTIONS:
            raise ValueError(f"selection = '{selection}' must be one of {', '.join(SELECTIONS)}")
        if not 0 <= draft_rate <= 1:
            raise ValueError(f"draft_rate = {draft_rate} must lie between 0 and 1")
        if min_cells < 0:
            raise ValueError(f"min_cells = {min_cells} cannot be negative")
        self.selection, self.draft_rate, self.min_cells = selection, draft_rate, min_cells
        self.recombination = check_rate(recombination)

    def choose_start_point(self, state: State, random: Random) -> Attempt | None:
        """Return the elite of a cell, or None for another draft while few cells are occupied."""
        archive = build_archive(state.attempts)
        may_draft = len(archive.elites) < self.min_cells and count_later_drafts(state) < ceil(self.draft_rate * self.budget)
        if may_draft and random.random() < self.draft_rate:
            return None
        weights = [archive.curiosity[cell] if self.selection == "curiosity" else 1.0 for cell in archive.elites]
        return random.choices(list(archive.elites.values()), weights)[0]

    def choose_partner(self, state: State, memory: MemoryStore, start: Attempt, random: Random) -> MemoryItem | None:
        """Return the elite of another cell or a kernel that shares a part, at the rate of `recombination`."""
        if random.random() >= self.recombination:
            return None
        elites = build_archive(state.attempts).elites.values()
        return pick_partner(state, memory, start, list(elites), self.shows_other_tasks, random)


def build_archive(attempts: Iterable[Attempt]) -> Archive:
    """Return the archive after these attempts on a task."""
    elites: dict[Behaviour, Attempt] = {}
    curiosity: dict[Behaviour, float] = {}
    cells: dict[str | None, Behaviour] = {}
    for attempt in attempts:
        parent, has_entered = cells.get(attempt.start_point), False
        if attempt.outcome.feasible:
            cell = cells[attempt.id] = describe_behaviour(attempt)
            if has_entered := is_faster(attempt, elites.get(cell)):
                elites[cell] = attempt
                curiosity.setdefault(cell, 1.0)
        if parent:
            curiosity[parent] = max(MIN_CURIOSITY, curiosity[parent] + (ENTERED if has_entered else NOT_ENTERED))
    return Archive(elites, curiosity)


def count_later_drafts(state: State) -> int:
    """Return the number of drafts after the first feasible kernel."""
    drafts = [attempt for attempt in state.attempts if attempt.stage is Stage.DRAFT]
    first = next((place for place, attempt in enumerate(drafts) if attempt.outcome.feasible), len(drafts))
    return len(drafts[first + 1 :])


plugin = MapElites
