"""The verifier (V in the paper): runs the gates on a candidate in order and stops at the first failure.

The verifier decides in its own process and never loads the candidate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evokernel.core.protocols import GateListener
    from evokernel.core.records import Job, Outcome


def verify(job: Job, on_gate: GateListener | None = None) -> Outcome:
    """Return the outcome of one candidate. Raise InfraError if the machine failed, UserError if the task or a setting is broken."""
    from evokernel.verifier.verifier import verify as run_verifier  # the candidate process imports this package, too: keep it light

    return run_verifier(job, on_gate)
