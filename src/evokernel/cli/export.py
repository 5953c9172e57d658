"""`evokernel export`: writes the best kernels of a run for use elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import TERMS_EPILOG, format_table, json_option, print_json, print_text
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.reports.delivery import SpeedComparison
    from evokernel.reports.export import ExportResult


@click.command(epilog=TERMS_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Output folder. [FOLDER/export]")
@click.option("--task", "spec", default="", metavar="SPEC", help="Export only this task: its id, its name, or a pattern.")
@click.option("--all", "export_all", is_flag=True, help="Export kernels too that are not faster than their best baseline; names mark them.")
@click.option(
    "--package", default="", metavar="NAME", help="Name of the Python package and of the operators' namespace. [evokernel_BACKEND]"
)
@json_option
def command(folder: Path, out: Path | None, spec: str, export_all: bool, package: str, as_json: bool) -> None:
    """Export the best kernels of a run as an installable Python package of PyTorch operators, with tests and provenance.

    A kernel is exported only if it is faster than its best baseline by more than the noise of the measurement.

    \b
    Examples:
      evokernel export runs/my-run
      evokernel export runs/my-run --task softmax --out softmax-kernel
      evokernel export runs/my-run --all --package my_kernels && pip install runs/my-run/export
    """
    from evokernel.core.run import Run
    from evokernel.reports import formatting
    from evokernel.reports.export import export_kernels
    from evokernel.suites import cache

    run = Run.open(folder)
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError(cache.NEEDS_TORCH) from error
    exported = export_kernels(run, run.attempts(), out or folder / "export", spec, export_all=export_all, package=package)
    if as_json:
        print_json(export_record(exported))
        return
    cells = [
        [kernel.task, formatting.format_latency(kernel.latency_us), kernel.comparison.describe(), kernel.operator or str(kernel.folder)]
        for kernel in exported.kernels
    ]
    print_text(format_table(["task", "latency", "speed", "operator" if exported.has_wrapper else "folder"], cells, [False, True]))
    print_text(f"Times: {formatting.clock_label(exported.clocks)}. Folder: {exported.folder}")
    if exported.kept:
        print_text(f"Kept from earlier exports: {', '.join(one.task for one in exported.kept)}")
    if omitted := exported.describe_omitted():
        print_text(omitted)
    if exported.unsolved:
        print_text(f"Not solved: {', '.join(exported.unsolved)}")
    if exported.has_wrapper:
        print_text(f"\nTest the kernels: python -m pytest {exported.folder}\nInstall them:     pip install {as_path(exported.folder)}")
    else:
        print_text(f"\nbackend '{run.config.plugin_name('backend')}' has no PyTorch wrapper")


def as_path(folder: Path) -> str:
    """The folder in a form that pip does not take for the name of a package."""
    return str(folder) if folder.is_absolute() or len(folder.parts) > 1 else f"./{folder}"


def export_record(exported: ExportResult) -> dict[str, Any]:
    """The result as JSON."""
    return {
        "folder": str(exported.folder),
        "package": exported.package if exported.has_wrapper else None,
        "kernels": [
            {
                "task": kernel.task,
                "attempt": kernel.attempt,
                "folder": str(kernel.folder),
                "operator": kernel.operator or None,
                "latency_us": kernel.latency_us,
                **speed_record(kernel.comparison),
            }
            for kernel in exported.kernels
        ],
        "left_out": [{"task": one.task, **speed_record(one.comparison)} for one in exported.omitted],
        "kept": [one.task for one in exported.kept],
        "unsolved": exported.unsolved,
        "wrapped": exported.has_wrapper,
        "clock": exported.clocks,
    }


def speed_record(comparison: SpeedComparison) -> dict[str, Any]:
    """The comparison with the best baseline as JSON."""
    return {
        "speed": comparison.speed.value,
        "speedup": comparison.speedup,
        "speedup_interval": comparison.interval,
        "baseline": comparison.baseline or None,
    }
