"""Islands as in openevolve and ShinkaEvolve: populations that evolve apart, and exchange their best kernels from time to time.

Properties:

- Attempts take turns: attempt n belongs to island n modulo the number of islands.
- An island starts with a draft of its own, which sees no correct kernel of another island.
- Before the first migration, an island refines only kernels that descend from its own drafts, and sees no other attempts.
- After every `migration_interval` attempts, a copy of each island's best kernel moves to the next island; the last one's to the first.
  So a good kernel reaches all islands after as many migrations as there are other islands, and no island is overrun at once.
- Some refinements recombine: they are also given another member of the island, or a kernel of a task that shares a part.
- Within an island, the start point is the fastest of `tournament` members drawn at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, MemoryItem
from evokernel.core.state import State, best_so_far, hidden_item_ids
from evokernel.policies.recombination import check_rate, pick_partner
from evokernel.policies.strategy import Strategy


class Islands(Strategy):
    """Refines a member of the island whose turn it is.

    `islands` is their largest number; a small budget has fewer, so that each has at least `min_attempts` attempts. An island whose first
    `max_drafts` attempts bring no correct kernel takes over the best kernel of the island before it that has one. `recombination` is the
    share of refinements with a second kernel.
    """

    def __init__(
        self,
        memory: str = "value",
        islands: int = 3,
        migration_interval: int = 9,
        tournament: int = 2,
        min_attempts: int = 4,
        max_drafts: int = 2,
        recombination: float = 0.2,
        budget: int = 30,
        seed: int = 0,
    ) -> None:
        super().__init__(memory, budget, seed)
        counts = {
            "islands": islands,
            "migration_interval": migration_interval,
            "tournament": tournament,
            "min_attempts": min_attempts,
            "max_drafts": max_drafts,
        }
        for name, value in counts.items():
            if value < 1:
                raise ValueError(f"{name} = {value} must be at least 1")
        self.count = max(1, min(islands, budget // min_attempts))
        self.migration_interval, self.tournament, self.max_drafts = migration_interval, tournament, max_drafts
        self.recombination = check_rate(recombination)

    def choose_start_point(self, state: State, random: Random) -> Attempt | None:
        """Return a member of the island whose turn it is, or None while the island needs a draft."""
        islands, (turns, place) = self.build_islands(state), divmod(len(state.attempts), self.count)
        members = islands[place]
        if not members:
            return None if turns < self.max_drafts else find_neighbour_best(islands, place)
        return best_member(random.sample(members, min(self.tournament, len(members))))

    def choose_partner(self, state: State, memory: MemoryStore, start: Attempt, random: Random) -> MemoryItem | None:
        """Return another member of the island or a kernel that shares a part, at the rate of `recombination`."""
        if random.random() >= self.recombination:
            return None
        members = self.build_islands(state)[len(state.attempts) % self.count]
        return pick_partner(state, memory, start, members, self.shows_other_tasks, random)

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Hide the attempts of other islands from a refinement; independent drafts see no attempts anyway."""
        context = super().choose(state, memory)
        if context.start_point is None:
            return context
        place = len(state.attempts) % self.count
        known = {attempt.id for attempt in (*state.attempts[place :: self.count], *self.build_islands(state)[place], context.start_point)}
        context = context.model_copy(update={"hidden_attempts": tuple(one.id for one in state.attempts if one.id not in known)})
        hidden_ids = hidden_item_ids(state, context)
        return context.model_copy(update={"items": tuple(entry for entry in context.items if entry.item.id not in hidden_ids)})

    def build_islands(self, state: State) -> list[list[Attempt]]:
        """Return the members of each island."""
        return build_islands(state.attempts, self.count, self.migration_interval)


def build_islands(attempts: Sequence[Attempt], count: int, migration_interval: int) -> list[list[Attempt]]:
    """Return the feasible kernels of each island after these attempts on a task, those that migrated to it included."""
    islands: list[list[Attempt]] = [[] for _ in range(count)]
    for number, attempt in enumerate(attempts):
        if attempt.outcome.feasible:
            islands[number % count].append(attempt)
        if (number + 1) % migration_interval == 0:
            migrants = [best_member(members) for members in islands]
            for place, migrant in enumerate(migrants):
                target = islands[(place + 1) % count]
                if migrant and migrant not in target:
                    target.append(migrant)
    return islands


def best_member(members: Sequence[Attempt]) -> Attempt | None:
    """Return the fastest member, an earlier one if none is significantly faster; None if there is none."""
    in_order = sorted(members, key=lambda attempt: attempt.round)
    return (best_so_far(in_order) or [None])[-1]


def find_neighbour_best(islands: Sequence[Sequence[Attempt]], place: int) -> Attempt | None:
    """Return the best kernel of the nearest island before this one that has a kernel."""
    return next((best for step in range(1, len(islands)) if (best := best_member(islands[place - step]))), None)


plugin = Islands
