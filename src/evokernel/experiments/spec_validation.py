"""Settings of an experiment, looked at before anything runs: what would be refused hours later is refused at once."""

from __future__ import annotations

from evokernel.app.factory import check_parts
from evokernel.experiments.arm_runs import judged_by
from evokernel.experiments.spec import Plan, named


def check(plan: Plan) -> None:
    """Of every pack and arm, and of second judgements; nothing is started."""
    for whose, settings in plan.tables().items():
        with named(whose):
            check_parts(plan.config(settings))
    for arm in plan.arms if plan.again is not None else ():
        with named(f"arm '{arm.name}', judged again"):
            check_parts(judged_by(plan.config(arm.settings), plan.again or {}))
