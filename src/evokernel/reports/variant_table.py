"""Prompt variants in reports: how often each variant of a section was shown, and its value."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.core.records import Attempt
from evokernel.engine.prompt_values import PromptValues
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Cell, Column, Table


def variants_table(results: Sequence[TaskResult]) -> Table:
    """Return one row per stage and variant that prompts showed, section by section."""
    columns = (
        Column("section"),
        Column("variant"),
        Column("stage"),
        Column("attempts", "count", explanation="attempts whose prompt showed the variant"),
        Column("correct", "count", explanation="of these, attempts with a correct kernel"),
        Column("value", "value", explanation="mean reward of these attempts, by which the bandit chooses"),
    )
    attempts = [attempt for result in results for attempt in result.attempts if attempt.prompt_variants]
    values = PromptValues()
    for attempt in attempts:
        values.learn(attempt)
    keys = sorted({(section, variant, one.stage) for one in attempts for section, variant in one.prompt_variants.items()})
    return Table("Prompt variants", columns, tuple(variant_row(values, attempts, *key) for key in keys))


def variant_row(values: PromptValues, attempts: Sequence[Attempt], section: str, variant: str, stage: str) -> tuple[Cell, ...]:
    """Return the row of one variant at one stage."""
    own = [one for one in attempts if one.stage == stage and one.prompt_variants.get(section) == variant]
    value = values.get(own[0].stage, section, variant)
    return section, variant, stage, len(own), sum(one.outcome.feasible for one in own), value.q if value.visits else None
