"""Monte Carlo tree search over kernels, as in OptiML: a slower kernel stays in play as long as its branch may lead to a faster one.

The tree is made of the task's attempts. The root is the task without a kernel, its children are the drafts, and the children of a kernel
are its refinements. Each attempt descends from the root and adds one child: at a kernel that may have another child, it refines that
kernel; at the root, it drafts independently. An attempt that fails or repeats a kernel is a child too, but nothing can start from it.

- Progressive widening: a node whose branch has n attempts may have up to `widening` * n ** `widening_power` children. A generator has
  endlessly many refinements to offer, so without a limit the search would never go deeper than one level.
- UCT: a node that may not have another child passes the attempt on to its child with the highest value plus
  `exploration` * sqrt(log(attempts of the node) / attempts of the child). So equally good children get equally many attempts, a better
  branch gets more of them, and no branch is given up for good.
- Value: each attempt counts in all nodes above it. Its reward is 1 for the fastest kernel of the task, falls with the logarithm of the
  latency to 0 for the slowest kernel, and is 0 for a failure or a repeated kernel.

Choose it if a faster kernel may lie behind a slower one, and the budget allows for detours (about 15 attempts or more).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log, pow, sqrt
from random import Random

from evokernel.core.records import Attempt
from evokernel.core.state import State
from evokernel.policies.kernels import list_kernels
from evokernel.policies.strategy import Strategy

MIN_SPREAD, MAX_SPREAD = log(1.1), log(4)
"""Smallest and largest difference in log latency between rewards 1 and 0: the first keeps noise small, the second one very slow kernel."""
UNKNOWN_REWARD = 0.5
"""Reward of a correct kernel without a latency if other kernels have one."""


@dataclass
class Node:
    """A kernel of the tree, or the root, with the rewards of its branch: of the attempt that wrote it, and of all attempts below."""

    kernel: Attempt | None = None
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    """The kernels that were made from this one."""
    child_count: int = 0
    """Attempts that were made from this node, with failures and repeated kernels."""
    rewards: list[float] = field(default_factory=list)

    @property
    def attempt_count(self) -> int:
        """Number of attempts of the branch, which UCT calls visits."""
        return len(self.rewards)


class Mcts(Strategy):
    """Chooses the start point by UCT with progressive widening.

    `exploration`: weight of branches with few attempts (0: always the branch of highest value). `widening`, `widening_power`: how many
    children a node may have; 0.7 and 0.5 give 2 drafts in 5 attempts and 4 in 30. `best_weight`: share of the best reward of a branch in
    its value, the mean reward has the rest (0: plain UCT; 1: only the best kernel counts, however many attempts failed).
    `memory` selects the items of other tasks that the prompt shows, as in every strategy.
    """

    def __init__(
        self,
        exploration: float = 0.4,
        widening: float = 0.7,
        widening_power: float = 0.5,
        best_weight: float = 0.75,
        memory: str = "value",
        budget: int = 30,
        seed: int = 0,
    ) -> None:
        super().__init__(memory, budget, seed)
        if exploration < 0:
            raise ValueError(f"exploration = {exploration} cannot be negative")
        if widening <= 0:
            raise ValueError(f"widening = {widening} must be above 0")
        if not (0 <= widening_power <= 1 and 0 <= best_weight <= 1):
            raise ValueError(f"widening_power = {widening_power} and best_weight = {best_weight} must lie between 0 and 1")
        self.exploration, self.best_weight = exploration, best_weight
        self.widening, self.widening_power = widening, widening_power

    def choose_start_point(self, state: State, random: Random) -> Attempt | None:
        """Descend from the root to the first node that may have another child; the root stands for a draft."""
        node = build_tree(state.attempts)
        while node.children and not self.can_widen(node):
            node = max(node.children, key=self.score)
        return node.kernel

    def can_widen(self, node: Node) -> bool:
        """Return whether progressive widening allows another child."""
        return node.child_count < self.widening * pow(node.attempt_count, self.widening_power)

    def score(self, node: Node) -> float:
        """Return the UCT score of a child: its value, and a bonus if it has few of its parent's attempts."""
        parent_count = node.parent.attempt_count if node.parent else node.attempt_count
        return self.value(node) + self.exploration * sqrt(log(parent_count) / node.attempt_count)

    def value(self, node: Node) -> float:
        """Return the value of a branch, between 0 and 1."""
        mean = sum(node.rewards) / node.attempt_count
        return self.best_weight * max(node.rewards) + (1 - self.best_weight) * mean


def build_tree(attempts: Sequence[Attempt]) -> Node:
    """Return the root of the tree of a task's attempts. A refinement of a revoked kernel becomes a child of the root."""
    root = Node()
    rewards = rate_kernels(attempts)
    nodes: dict[str, Node] = {}
    """The node of each kernel, by attempt."""
    first_nodes: dict[str, Node] = {}
    """The node of each kernel, by its code."""
    for attempt in attempts:
        parent = nodes.get(attempt.start_point or "", root)
        is_new = attempt.id in rewards
        reward = rewards.get(attempt.id, 0.0)
        parent.child_count += 1
        for ancestor in list_ancestors(parent):
            ancestor.rewards.append(reward)
        if is_new:
            first_nodes[attempt.candidate.id] = Node(attempt, parent, rewards=[reward])
            parent.children.append(first_nodes[attempt.candidate.id])
        if attempt.outcome.feasible:
            nodes[attempt.id] = first_nodes[attempt.candidate.id]
    return root


def list_ancestors(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes above it."""
    current: Node | None = node
    while current:
        yield current
        current = current.parent


def rate_kernels(attempts: Sequence[Attempt]) -> dict[str, float]:
    """Return the reward of each different kernel, by attempt: its place between the slowest and the fastest kernel of the task."""
    kernels = list_kernels(attempts)
    logs = {kernel.id: log(kernel.outcome.latency_us) for kernel in kernels if kernel.outcome.latency_us}
    if not logs:
        return dict.fromkeys((kernel.id for kernel in kernels), 1.0)
    fastest = min(logs.values())
    spread = min(max(max(logs.values()) - fastest, MIN_SPREAD), MAX_SPREAD)
    return {k.id: max(0.0, 1 - (logs[k.id] - fastest) / spread) if k.id in logs else UNKNOWN_REWARD for k in kernels}


plugin = Mcts
