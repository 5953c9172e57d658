"""`evokernel web`: starts the dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.bank_options import BankType
from evokernel.cli.output import TERMS_EPILOG, json_option, print_json, print_text
from evokernel.core.errors import UserError
from evokernel.core.labels import format_count
from evokernel.core.requirements import require_extra

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation
    from evokernel.web.run_index import RunIndex

RUNS, BANK = Path("runs"), Path("evokernel-memory.db")
PORT = 8765


@click.command(epilog=TERMS_EPILOG)
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path), metavar="[FOLDER]...")
@click.option(
    "--memory", "banks", multiple=True, type=BankType(), metavar="PATH|URL", help="Memory bank: a file, or postgresql://…; may be repeated."
)
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="NAME",
    help="Address to listen on; an address that other machines can reach requires a token. [127.0.0.1]",
)
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, metavar="N", help=f"Port; 0 chooses a free one. [{PORT}]")
@click.option("--token", default="", metavar="TEXT", help="Token that browsers must send; generated if one is required and none is given.")
@click.option("--open", "open_browser", is_flag=True, help="Open the dashboard in a browser.")
@click.option(
    "--export",
    "out",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="RUN OUT",
    help="Write the pages of RUN to the folder OUT, to open from disk, and exit.",
)
@json_option
def command(
    folders: tuple[Path, ...],
    banks: tuple[BankLocation, ...],
    host: str,
    port: int,
    token: str,
    open_browser: bool,
    out: tuple[Path, Path] | None,
    as_json: bool,
) -> None:
    """Serve a read-only dashboard of run folders and memory banks, updated live while runs are in progress.

    \b
    Examples:
      evokernel web
      evokernel web runs results/table2 --memory team.db --port 9000
      evokernel web --memory postgresql://evo@db.example/evokernel
      evokernel web --host 0.0.0.0
      evokernel web --export runs/my-run my-run-pages

    FOLDER is a run folder or contains run folders, up to a few levels deep; the default is ./runs. The dashboard needs
    no network, changes nothing and runs nothing. --json prints what would be served and exits.
    """
    if out:
        export_run(*out, as_json)
        return
    run_index = build_index(folders, banks)
    if as_json:
        print_json(serving_record(run_index, host, port))
        return
    serve(run_index, host, port, token, open_browser)


def build_index(folders: tuple[Path, ...], banks: tuple[BankLocation, ...]) -> RunIndex:
    """The runs and banks to serve. A missing ./runs gives an empty dashboard, a missing folder that was named is an error."""
    require_extra("the dashboard", "web", ("starlette", "uvicorn", "markdown_it"))
    from evokernel.memory.schema import connect_read_only
    from evokernel.web.run_index import RunIndex
    from evokernel.web.server import require_folder

    for bank in banks:
        if not isinstance(bank, Path):
            connect_read_only(bank).close()
        elif not bank.is_file():  # the dashboard reports errors in the file
            raise UserError(f"there is no memory bank at {bank}. Name one with --memory PATH.")
    return RunIndex([require_folder(folder) for folder in folders] or [RUNS], banks or ([BANK] if BANK.is_file() else []))


def export_run(run: Path, out: Path, as_json: bool) -> None:
    """Write the pages of a run as files."""
    run_index = build_index((run,), ())
    from evokernel.web.export import export_run as write

    if len(run_index.runs) != 1:
        raise UserError(f"{run} contains {format_count(len(run_index.runs), 'run')}. Name the folder of one run.")
    pages = write(run_index, next(iter(run_index.runs)), out)
    if as_json:
        print_json({"run": str(run), "out": str(out), "pages": pages})
    else:
        print_text(f"Wrote {format_count(pages, 'page')} to {out}. Next: open {out / 'index.html'}")


def serving_record(run_index: RunIndex, host: str, port: int) -> dict[str, Any]:
    """What would be served, as JSON."""
    from evokernel.app.http_server import host_in_url, is_loopback

    rows = [run_index.summary_row(key) for key in run_index.runs]
    return {
        "url": f"http://{host_in_url(host)}:{port}/",
        "token": not is_loopback(host),
        "runs": [
            {
                "key": row.key,
                "folder": str(run_index.runs[row.key].folder),
                "id": row.id or None,
                "state": row.state.label,
                "reason": row.state.explanation or None,
                "attempts": row.attempts,
            }
            for row in rows
        ],
        "memory": [{"key": key, "path": str(path)} for key, path in run_index.banks.items()],
    }


def serve(run_index: RunIndex, host: str, port: int, token: str, open_browser: bool) -> None:
    """Serve until Ctrl-C."""
    from evokernel.app.http_server import host_in_url, is_loopback, new_token
    from evokernel.core.sockets import open_socket
    from evokernel.web.server import Dashboard, run_server

    if not token and not is_loopback(host):
        token = new_token()
    listener = open_socket(host, port)
    port = listener.getsockname()[1]
    address = f"http://{host_in_url(host)}:{port}/" + (f"?token={token}" if token else "")
    print_text(
        f"Serving {format_count(len(run_index.runs), 'run')} and {format_count(len(run_index.banks), 'memory bank')} "
        f"at {address} (stop with Ctrl-C)"
    )
    if open_browser:
        click.launch(address)
    run_server(Dashboard(run_index), host, token, listener)
