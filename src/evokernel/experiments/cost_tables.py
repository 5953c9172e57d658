"""Builds the table of costs: attempts, tokens, money and verification time of arms and of the memory packs they start with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from evokernel.core.records import Usage
from evokernel.experiments.results import PROTOCOLS, Results, flatten_seeds
from evokernel.reports import formatting, metrics, round_stats
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Column, Table


class ArmCost(NamedTuple):
    """Cost of one arm or pack over all seeds. An unknown figure is None."""

    name: str
    attempts: int
    correct: int
    """Operators with a correct kernel; each seed counts separately."""
    usage: Usage
    verification_s: float | None

    @property
    def cost_usd(self) -> float | None:
        """0 if no model was called."""
        return self.usage.cost_usd if self.usage.calls else 0.0

    def divide_by_correct(self, value: float | None) -> float | None:
        """Return the value per correct kernel; None without one."""
        return value / self.correct if value is not None and self.correct else None

    def table_row(self) -> tuple[str | int | None, ...]:
        """Return the cells of `cost_table`."""
        tokens = (self.usage.input_tokens, self.usage.output_tokens)
        token_text = "none" if not self.usage.calls else "not reported" if None in tokens else f"{tokens[0]:,} + {tokens[1]:,}"
        usd_per_correct = self.divide_by_correct(self.usage.cost_usd if self.usage.calls else None)
        verification = "not reported" if self.verification_s is None else formatting.format_duration(self.verification_s)
        return (
            self.name,
            self.attempts,
            self.correct,
            token_text,
            format_cost(self),
            f"${usd_per_correct:.4f}" if usd_per_correct is not None else formatting.UNKNOWN,
            verification,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {
            "attempts": self.attempts,
            "correct": self.correct,
            "model_calls": self.usage.calls,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "model_s": self.usage.seconds if self.usage.calls else None,
            "cost_usd": self.cost_usd,
            "cost_usd_per_correct": self.divide_by_correct(self.cost_usd),
            "verification_s": self.verification_s,
            "verification_s_per_correct": self.divide_by_correct(self.verification_s),
        }


def format_cost(cost: ArmCost) -> str:
    """Return the money spent on models as text."""
    if not cost.usage.calls or cost.usage.cost_usd == 0:
        return "none"
    return "not reported" if cost.usage.cost_usd is None else f"${cost.usage.cost_usd:.2f}"


def list_costs(results: Results) -> list[ArmCost]:
    """Return the costs of arms, then of memory packs."""
    arms = [arm_cost(arm, flatten_seeds(seeds)) for arm, seeds in results.by_arm.items()]
    return [*arms, *(arm_cost(f"memory pack {name}", task_results) for name, task_results in results.pack_results.items())]


def arm_cost(name: str, task_results: Sequence[TaskResult]) -> ArmCost:
    """Sum the costs of an arm or pack; verification includes re-evaluations."""
    attempts = [attempt for result in task_results for attempt in result.attempts]
    outcomes = [
        final.outcome
        for result in task_results
        for final in (*result.reevaluations.values(), *(result.other_protocol_results or {}).values())
    ]
    seconds = sum(map(round_stats.verification_s, attempts)) + sum(gate.seconds for outcome in outcomes for gate in outcome.gates)
    return ArmCost(name, len(attempts), sum(result.is_solved for result in task_results), metrics.total_usage(attempts), seconds or None)


def cost_table(results: Results) -> Table:
    """Return the costs of arms and packs."""
    if results.final_protocol:
        protocol = f"{PROTOCOLS[results.final_protocol]}, re-evaluation"
    else:
        protocol = f"{PROTOCOLS[results.loop_protocol]}, in the loop"
    columns = (
        Column("arm"),
        Column("attempts", "count"),
        Column("correct", "count", explanation=f"operators with a correct kernel ({protocol}), counted for each seed"),
        Column("tokens read + written", explanation="by the model"),
        Column("cost", explanation="money for model calls, US dollars"),
        Column("cost per correct kernel"),
        Column("verification", explanation="time of the verifier, including re-evaluations"),
    )
    return Table("Costs", columns, tuple(cost.table_row() for cost in list_costs(results)), "Over all seeds and operators.")
