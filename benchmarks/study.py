"""What the studies beside this file share: progress on stderr, tables as Markdown and JSON, one way to end."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evokernel.core.errors import InfraError, UserError
from evokernel.experiments.report_writer import markdown
from evokernel.reports.tables import Table


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
