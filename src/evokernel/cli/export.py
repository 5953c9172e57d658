"""`evokernel export`: writes the best kernels of a run for use elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import TERMS_EPILOG, format_table, json_option, print_json, print_text


@click.command(epilog=TERMS_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Output folder. [FOLDER/export]")
@click.option("--task", "spec", default="", metavar="SPEC", help="Export only this task: its id, its name, or a pattern.")
@json_option
def command(folder: Path, out: Path | None, spec: str, as_json: bool) -> None:
    """Export the best kernels of a run, each with its reference, a PyTorch wrapper, a test and its provenance.

    \b
    Examples:
      evokernel export runs/my-run
      evokernel export runs/my-run --task softmax --out softmax-kernel
    """
    from evokernel.core.run import Run
    from evokernel.reports import formatting
    from evokernel.reports.export import export_kernels

    run = Run.open(folder)
    exported = export_kernels(run, run.attempts(), out or folder / "export", spec)
    if as_json:
        kernels = [{**kernel._asdict(), "folder": str(kernel.folder)} for kernel in exported.kernels]
        print_json(
            {
                "folder": str(exported.folder),
                "kernels": kernels,
                "unsolved": exported.unsolved,
                "wrapped": exported.has_wrapper,
                "clock": exported.clocks,
                "baseline": exported.baselines,
            }
        )
        return
    cells = [
        [kernel.task, formatting.format_latency(kernel.latency_us), formatting.format_ratio(kernel.speedup), str(kernel.folder)]
        for kernel in exported.kernels
    ]
    print_text(format_table(["task", "latency", "speed-up", "folder"], cells, [False, True, True]))
    print_text(f"Times: {formatting.clock_label(exported.clocks)}; speed-up over {formatting.baseline_label(exported.baselines)}.")
    if exported.unsolved:
        print_text(f"Not solved: {', '.join(exported.unsolved)}")
    if exported.has_wrapper:
        print_text(f"\nTest the kernels: python -m pytest {exported.folder}")
    else:
        print_text(f"\nbackend '{run.config.plugin_name('backend')}' has no PyTorch wrapper")
