"""The axes of an experiment: every combination of their values is an arm, such as each strategy with each memory."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from evokernel.core.config import merge_settings
from evokernel.core.errors import UserError

Table = dict[str, Any]
SEPARATOR = "+"


def add_axis_arms(table: Table, path: Path) -> None:
    """Add an arm for every combination of the axes' values to the arms of a file that is not validated yet."""
    axes = table.get("axes", {})
    if not axes:
        return
    if not is_table_of_tables(axes) or not all(is_table_of_tables(values) and values for values in axes.values()):
        raise UserError(f"{path}: axes must name settings for each value. Write [axes.memory] with lines such as none = {{ key = value }}.")
    arms = table.setdefault("arms", [])
    if isinstance(arms, list):  # otherwise the validation names the mistake
        arms += [make_axis_arm(axes, names) for names in product(*axes.values())]


def is_table_of_tables(value: Any) -> bool:
    """Whether a value of a file is a table whose values are tables."""
    return isinstance(value, dict) and all(isinstance(one, dict) for one in value.values())


def make_axis_arm(axes: dict[str, dict[str, Table]], names: tuple[str, ...]) -> Table:
    """Return the arm with these values of the axes, such as `mcts+value`; settings of later axes are added to those of earlier ones."""
    settings: Table = {}
    for values, name in zip(axes.values(), names, strict=True):
        merge_settings(settings, values[name])
    return {"name": SEPARATOR.join(names), "settings": settings, "levels": dict(zip(axes, names, strict=True))}
