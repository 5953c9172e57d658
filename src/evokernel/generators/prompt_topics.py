"""Topics of rules and costs that matter to an operator: a prompt leaves out what no part of it can use."""

from __future__ import annotations

from evokernel.core.op_taxonomy import list_needed_kinds
from evokernel.core.records import Task

TOPICS = frozenset({"products", "indices", "ordering", "functions", "softmax", "norms", "scans"})
"""Matrix products; gathers and scatters; sorting; activations and other functions; and library calls for softmax, norms and scans."""
TOPICS_BY_KIND = {
    "activation": {"functions"},
    "attention": {"products", "softmax"},
    "convolution": {"products"},
    "elementwise": {"functions"},
    "fuse": set[str](),
    "gather": {"products", "indices", "ordering"},
    "loss": {"functions", "softmax", "indices"},
    "matmul": {"products"},
    "normalisation": {"norms"},
    "optimiser": set[str](),
    "pooling": {"indices"},
    "recurrent": {"products", "functions"},
    "reduction": {"products", "indices", "functions", "softmax"},
    "softmax": {"softmax"},
}
"""What each kind of computation can use; a kind that is not listed can use everything. Products add up what a reduction sums."""


def list_topics(task: Task) -> frozenset[str]:
    """The topics that any part of an operator can use."""
    kinds = list_needed_kinds(task.family, task.families)
    topics = frozenset().union(*(TOPICS_BY_KIND.get(kind, TOPICS) for kind in kinds)) if kinds else TOPICS
    return topics | {"products"} if "@" in task.source else topics
