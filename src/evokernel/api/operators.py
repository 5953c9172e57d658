"""Kernels of a run in a PyTorch model: `ek.replace_operators`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from evokernel.api.progress import is_notebook
from evokernel.api.runs import Run, open_run
from evokernel.api.views import TableView
from evokernel.core.errors import UserError
from evokernel.reports.tables import Column, Table
from evokernel.suites import cache
from evokernel.torch_models.replacement import Replacement as Replacement

Model = TypeVar("Model")
ATTRIBUTE = "evokernel_replacements"
UNCHANGED: WeakKeyDictionary[Any, Replacements] = WeakKeyDictionary()
"""The reports for models that were returned as they are, because there was nothing to replace."""
MAX_ERROR = 1e-2
"""The largest error of the model's outputs, in units of their root mean square, that `replace_operators` accepts."""


class Replacements(TableView):
    """What became of each task of a run in a model. Counts grow while the model is used.

    Attributes:
        results: One entry for each task of the run.
        max_error: The largest error of the model's outputs on the example inputs, in units of their root mean square; None
            without example inputs.
    """

    def __init__(self, results: Sequence[Replacement], max_error: float | None = None) -> None:
        self.results, self.max_error = list(results), max_error

    @property
    def replaced(self) -> list[Replacement]:
        """The kernels that compute calls of the model, where it makes the calls that they were verified for."""
        return [one for one in self.results if one.operator]

    @property
    def not_replaced(self) -> list[Replacement]:
        """The tasks whose calls torch computes, each with its reason."""
        return [one for one in self.results if not one.operator]

    def tables(self) -> list[Table]:
        """Return the table that shows the replacements, as data."""
        columns = (Column("task"), Column("operator"), Column("kernel"), Column("replaced calls", "count"), Column("torch computes"))
        rows = tuple(
            (one.task, one.operator or "–", one.speed, one.replaced_calls, one.reason or ", ".join(one.torch_calls)) for one in self.results
        )
        title = f"{len(self.replaced)} of {len(self.results)} tasks have an operator in the model"
        note = "" if self.max_error is None else f"Largest error on the example inputs: {self.max_error:.1e} of the output's size (RMS)."
        return [Table(title, columns, rows, note)]


def replace_operators(
    model: Model, run: Run | str | os.PathLike[str], inputs: Sequence[Any] | None = None, *, quiet: bool = False
) -> Model:
    """Return a model in which calls use a run's kernels: only verified ones that are faster than their best baseline.

    A kernel replaces a call if its task consists of that one torch call with the same shapes, dtypes and other arguments,
    because that is what was verified and timed; `evokernel extract` writes such tasks for a model. All other calls stay
    torch's, and so do calls that need gradients. The model that is returned shares its parameters and submodules with
    `model`, which does not change. The kernels are built and loaded into this process.

    Args:
        model: A PyTorch module.
        run: A run, or the folder of one.
        inputs: Example inputs of the model. With them, both models are called once, kernels that the model does not use are
            named, and different outputs raise an error.
        quiet: Do not show which calls were replaced; `ek.replacements(model)` returns it in any case.

    Returns:
        The model with operators; `model` itself if there is nothing to replace.

    Raises:
        UserError: PyTorch is missing, kernels of the run's backend cannot be called from PyTorch, or the outputs differ.
    """
    try:
        from torch.nn import Module

        from evokernel.torch_models.operator_replacement import check_outputs, replace_calls
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UserError(cache.NEEDS_TORCH) from error
    if not isinstance(model, Module):
        raise UserError(f"replace_operators takes a PyTorch module, not {type(model).__name__}.")
    opened = run if isinstance(run, Run) else open_run(run)
    result = replace_calls(model, opened.data)
    max_error = None if inputs is None else check_outputs(model, result, inputs)
    report = Replacements(result.results, max_error)
    if max_error is not None and not max_error <= MAX_ERROR:
        raise UserError(
            f"the outputs of the model with operators differ by {max_error:.1e} of their size (RMS). Use the model without them."
        )
    if result.model is model:
        UNCHANGED[model] = report
    else:
        setattr(result.model, ATTRIBUTE, report)
    if not quiet:
        show(report)
    replaced_model: Model = result.model
    return replaced_model


def replacements(model: Any) -> Replacements:
    """Return which calls of a model `replace_operators` replaced, and how often the operators were called.

    Args:
        model: A model that `replace_operators` returned.

    Raises:
        UserError: `replace_operators` did not return this model.
    """
    report = getattr(model, ATTRIBUTE, None)
    with suppress(TypeError):  # something that is no model may have no weak references
        report = report or UNCHANGED.get(model)
    if not isinstance(report, Replacements):
        raise UserError("replace_operators did not return this model. Call replacements with the model that it returned.")
    return report


def show(report: Replacements) -> None:
    """Show the replacements: in a notebook as a table, elsewhere as lines on stderr."""
    if is_notebook():
        from IPython import display

        notebook: Any = display
        notebook.display(report)
    else:
        sys.stderr.write(f"{report!r}\n")
