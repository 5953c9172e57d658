"""`evokernel export`: the best kernels of a run, to use elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import draw, emit, json_option, tell


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Where they go. [FOLDER/export]")
@click.option("--task", "spec", default="", metavar="SPEC", help="Only this task: its id, its name, or a pattern.")
@json_option
def command(folder: Path, out: Path | None, spec: str, as_json: bool) -> None:
    """Best kernels of a run: each with its reference, a PyTorch wrapper, a test and its provenance.

    \b
    Examples:
      evokernel export runs/my-run
      evokernel export runs/my-run --task softmax --out softmax-kernel
    """
    from evokernel.core.run import Run
    from evokernel.reports import formatting
    from evokernel.reports.export import export

    run = Run.open(folder)
    done = export(run, run.attempts(), out or folder / "export", spec)
    if as_json:
        kernels = [{**one._asdict(), "folder": str(one.folder)} for one in done.kernels]
        emit(
            {
                "folder": str(done.folder),
                "kernels": kernels,
                "unsolved": done.unsolved,
                "wrapped": done.wrapped,
                "clock": done.clocks,
                "baseline": done.baselines,
            }
        )
        return
    cells = [[one.task, formatting.latency(one.latency_us), formatting.ratio(one.speedup), str(one.folder)] for one in done.kernels]
    tell(draw(["task", "latency", "speed-up", "folder"], cells, [False, True, True]))
    tell(f"Times: {formatting.clock_label(done.clocks)}; speed-up over {formatting.baseline_label(done.baselines)}.")
    if done.unsolved:
        tell(f"not solved: {', '.join(done.unsolved)}")
    if done.wrapped:
        tell(f"\ntest them: python -m pytest {done.folder}")
    else:
        tell(f"\nbackend '{run.config.plugin_name('backend')}' brings no PyTorch wrapper, so there is none")
