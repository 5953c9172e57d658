"""What the studies beside this file share: progress on stderr, tables as Markdown and JSON, one way to end."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evokernel.core.errors import InfraError, UserError
from evokernel.core.finals import Final
from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.reports import words
from evokernel.reports.tables import Table


class Progress:
    """A line on stderr every few seconds."""

    def __init__(self, every_s: float = 10.0) -> None:
        self.every_s, self.told, self.begun = every_s, 0.0, time.monotonic()
        self.counts: Counter[str] = Counter()

    def __call__(self, run: Run, made: Attempt | Final) -> None:
        what = "judged again" if isinstance(made, Final) else "feasible" if made.outcome.feasible else "failed"
        self.counts[what] += 1
        if time.monotonic() - self.told > self.every_s:
            self.told = time.monotonic()
            counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
            print(f"{words.duration(self.told - self.begun)}: {run.folder.name}: {counts}", file=sys.stderr, flush=True)


def markdown(table: Table) -> str:
    """A table with its title and what is to be said of it."""
    lines = [f"## {table.title}", ""] if table.title else []
    lines += ["| " + " | ".join(column.name for column in table.columns) + " |", "|---" * len(table.columns) + "|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.shown()]
    return "\n".join([*lines, "", *([table.caption, ""] if table.caption else [])])


def write(folder: Path, name: str, tables: Sequence[Table], figures: Mapping[str, Any]) -> None:
    """`name.md` and `name.json`; the tables on stdout as well."""
    text = "\n".join(map(markdown, tables))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text)
    (folder / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(text)


def options(about: str | None, out: str) -> argparse.ArgumentParser:
    """What every study takes."""
    given = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    given.add_argument("--backend", default="cpp", choices=("cpp", "pallas"))
    given.add_argument("--budget", type=int, default=30, help="attempts per operator [30]")
    given.add_argument("--workers", type=int, default=0, help="verifications at a time [one per core]")
    given.add_argument("--timing-s", type=float, default=0.2, help="seconds for timing a kernel while the loop goes on [0.2]")
    given.add_argument("--out", type=Path, default=Path(out), help=f"folder of the runs, gone on with where it has some [{out}]")
    return given


def ended(main: Callable[[], None]) -> int:
    """Exit code; what a user can mend, and Ctrl-C, are told in a line."""
    logging.basicConfig(level=logging.ERROR)
    try:
        main()
    except (UserError, InfraError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        return 130
    return 0
