"""What an experiment took: attempts, tokens, money and the judge's time, of arms and of the memory packs they begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from evokernel.core.records import Usage
from evokernel.experiments.results import PROTOCOLS, Results, every
from evokernel.reports import formatting, metrics, round_stats
from evokernel.reports.metrics import Tried
from evokernel.reports.tables import Column, Table


class Cost(NamedTuple):
    """Of one arm or pack, all seeds together. What is not known is None."""

    name: str
    attempts: int
    correct: int
    """Operators with a correct kernel, each seed counted on its own."""
    usage: Usage
    verification_s: float | None

    @property
    def cost_usd(self) -> float | None:
        """0 where no model was called."""
        return self.usage.cost_usd if self.usage.calls else 0.0

    def per_correct(self, value: float | None) -> float | None:
        return value / self.correct if value is not None and self.correct else None

    def row(self) -> tuple[str | int | None, ...]:
        tokens = (self.usage.input_tokens, self.usage.output_tokens)
        asked = "none" if not self.usage.calls else "not reported" if None in tokens else f"{tokens[0]:,} + {tokens[1]:,}"
        each = self.per_correct(self.usage.cost_usd if self.usage.calls else None)
        judged = "not reported" if self.verification_s is None else formatting.duration(self.verification_s)
        return (
            self.name,
            self.attempts,
            self.correct,
            asked,
            money(self),
            f"${each:.4f}" if each is not None else formatting.UNKNOWN,
            judged,
        )

    def plain(self) -> dict[str, Any]:
        return {
            "attempts": self.attempts,
            "correct": self.correct,
            "model_calls": self.usage.calls,
            "tokens_in": self.usage.input_tokens,
            "tokens_out": self.usage.output_tokens,
            "model_s": self.usage.seconds if self.usage.calls else None,
            "cost_usd": self.cost_usd,
            "cost_usd_per_correct": self.per_correct(self.cost_usd),
            "verification_s": self.verification_s,
            "verification_s_per_correct": self.per_correct(self.verification_s),
        }


def money(cost: Cost) -> str:
    if not cost.usage.calls or cost.usage.cost_usd == 0:
        return "none"
    return "not reported" if cost.usage.cost_usd is None else f"${cost.usage.cost_usd:.2f}"


def costs(results: Results) -> list[Cost]:
    """Of arms, then of packs."""
    arms = [cost(arm, every(seeds)) for arm, seeds in results.found.items()]
    return [*arms, *(cost(f"memory pack {name}", tries) for name, tries in results.packs.items())]


def cost(name: str, tries: Sequence[Tried]) -> Cost:
    attempts = [attempt for tried in tries for attempt in tried.attempts]
    outcomes = [final.outcome for tried in tries for final in (*tried.finals.values(), *(tried.others or {}).values())]
    seconds = sum(map(round_stats.verification_s, attempts)) + sum(gate.seconds for outcome in outcomes for gate in outcome.gates)
    return Cost(name, len(attempts), sum(tried.solved for tried in tries), metrics.usage(attempts), seconds or None)


def table(results: Results) -> Table:
    judged = f"{PROTOCOLS[results.loop]}, as the loop judged" if not results.again else f"{PROTOCOLS[results.again]}, as judged again"
    columns = (
        Column("arm"),
        Column("attempts", "count"),
        Column("correct", "count", means=f"operators with a correct kernel ({judged}), each seed counted"),
        Column("tokens read + written"),
        Column("cost"),
        Column("cost per correct kernel"),
        Column("verification", means="seconds of the judge, second judgements included"),
    )
    return Table("What it took", columns, tuple(cost.row() for cost in costs(results)), "All seeds and operators together.")
