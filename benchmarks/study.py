"""Code that the studies in this folder share: common options, tables as Markdown and JSON, exit codes."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Outcome
from evokernel.executors.local import LocalExecutor
from evokernel.experiments.report_writer import table_to_markdown
from evokernel.reports.tables import Table


def write_tables(folder: Path, name: str, tables: Sequence[Table], figures: Mapping[str, Any]) -> None:
    """Write `name.md` and `name.json`, and print the tables."""
    text = "\n".join(map(table_to_markdown, tables))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text)
    (folder / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(text)


def make_parser(description: str | None, out: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every study."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--backend", default="cpp", choices=("cpp", "pallas", "triton"))
    parser.add_argument("--budget", type=int, default=30, help="attempts per operator [30]")
    parser.add_argument("--workers", type=int, default=0, help="verifications in parallel [one per core]")
    parser.add_argument("--timing-s", type=float, default=0.2, help="seconds for timing a kernel during a run [0.2]")
    parser.add_argument("--out", type=Path, default=Path(out), help=f"folder of the runs; existing runs are resumed [{out}]")
    return parser


def abandon(pending: Iterable[Future[Outcome]], executor: LocalExecutor) -> None:
    """Cancel verifications and kill the workers at once, for a benchmark whose time is over."""
    for future in pending:
        future.cancel()
    for worker in executor.workers:
        if worker.process:
            with suppress(ProcessLookupError):
                os.killpg(worker.process.pid, signal.SIGKILL)


def run_main(main: Callable[[], None]) -> int:
    """Run the study and return its exit code. Print errors that the user can fix, and Ctrl-C, in one line."""
    logging.basicConfig(level=logging.ERROR)
    try:
        main()
    except (UserError, InfraError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command resumes", file=sys.stderr)
        return 130
    return 0
