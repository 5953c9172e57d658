"""The environment (V): gates in order, the first failure ends it. The judge decides here and never loads the candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evokernel.core.records import Job, Outcome


def verify(job: Job) -> Outcome:
    """What the judge finds about a candidate. Raises InfraError when nobody could judge it, UserError for a broken task."""
    from evokernel.verify.verifier import verify as judge  # the child imports this package too, and must stay light

    return judge(job)
