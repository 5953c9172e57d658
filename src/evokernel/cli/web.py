"""`evokernel web`: a page to watch and understand runs."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.bank_options import BankType
from evokernel.cli.output import emit, json_option, tell
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation
    from evokernel.web.run_index import Shelf

RUNS, BANK = Path("runs"), Path("evokernel-memory.db")
PORT = 8765


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path), metavar="[FOLDER]...")
@click.option(
    "--memory", "banks", multiple=True, type=BankType(), metavar="PATH|URL", help="A bank: a file, or postgresql://…; may be repeated."
)
@click.option("--host", default="127.0.0.1", metavar="NAME", help="Address to listen at; another than this machine's own asks for a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, metavar="N", help=f"0 takes a free one. [{PORT}]")
@click.option("--token", default="", metavar="TEXT", help="Ask for this token; made up where one is needed and none is given.")
@click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--export",
    "out",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="RUN OUT",
    help="Write the pages of a run to a folder, to be opened from disk, and serve nothing.",
)
@json_option
def command(
    folders: tuple[Path, ...],
    banks: tuple[BankLocation, ...],
    host: str,
    port: int,
    token: str,
    open_it: bool,
    out: tuple[Path, Path] | None,
    as_json: bool,
) -> None:
    """A page over run folders and memory banks: read-only, live while runs go on.

    \b
    Examples:
      evokernel web
      evokernel web runs results/table2 --memory team.db --port 9000
      evokernel web --memory postgresql://evo@db.example/evokernel
      evokernel web --host 0.0.0.0
      evokernel web --export runs/my-run my-run-pages

    FOLDER is a run folder or holds some, at any of a few levels; ./runs without one. The page needs no network, changes
    nothing and runs nothing. --json prints what would be served, and serves nothing.
    """
    if out:
        export(*out, as_json)
        return
    shelf = on_shelf(folders, banks)
    if as_json:
        emit(served(shelf, host, port))
        return
    serve(shelf, host, port, token, open_it)


def on_shelf(folders: tuple[Path, ...], banks: tuple[BankLocation, ...]) -> Shelf:
    """What is served; a missing ./runs is an empty page, a missing folder that was named is an error."""
    needs_extra()
    from evokernel.memory.schema import connect_to_read
    from evokernel.web.run_index import Shelf
    from evokernel.web.server import folder_or_trouble

    for bank in banks:
        if not isinstance(bank, Path):
            connect_to_read(bank).close()
        elif not bank.is_file():  # what is in it is said on the page
            raise UserError(f"there is no memory bank at {bank}: name one with --memory PATH")
    return Shelf([folder_or_trouble(folder) for folder in folders] or [RUNS], banks or ([BANK] if BANK.is_file() else []))


def export(run: Path, out: Path, as_json: bool) -> None:
    """A run's pages as files."""
    shelf = on_shelf((run,), ())
    from evokernel.web.export import export as write

    if len(shelf.runs) != 1:
        raise UserError(f"{run} holds {len(shelf.runs)} runs: name the folder of one")
    pages = write(shelf, next(iter(shelf.runs)), out)
    if as_json:
        emit({"run": str(run), "out": str(out), "pages": pages})
    else:
        tell(f"{pages} pages in {out}: open {out / 'index.html'}")


def needs_extra() -> None:
    """One line where the web server's packages are not installed."""
    from importlib.util import find_spec

    if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
        raise UserError(f"the page needs {' and '.join(missing)}: pip install 'evokernel[web]'")


def served(shelf: Shelf, host: str, port: int) -> dict[str, Any]:
    """What would be served, for programs."""
    rows = [shelf.row(key) for key in shelf.runs]
    return {
        "url": f"http://{shown(host)}:{port}/",
        "token": not is_local(host),
        "runs": [
            {"key": row.key, "folder": str(shelf.runs[row.key].folder), "id": row.id or None, "state": row.state, "attempts": row.attempts}
            for row in rows
        ],
        "memory": [{"key": key, "path": str(path)} for key, path in shelf.banks.items()],
    }


def shown(host: str) -> str:
    """A host as it stands in an address."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    return f"[{name}]" if ":" in name else name


def is_local(host: str) -> bool:
    from evokernel.web.auth import is_loopback

    return is_loopback(host)


def serve(shelf: Shelf, host: str, port: int, token: str, open_it: bool) -> None:
    """Until Ctrl-C."""
    from evokernel.web.auth import new_token
    from evokernel.web.server import Site, run

    if not token and not is_local(host):
        token = new_token()
    listening = bound(host, port)
    port = listening.getsockname()[1]
    address = f"http://{shown(host)}:{port}/" + (f"?token={token}" if token else "")
    tell(f"{len(shelf.runs)} runs, {len(shelf.banks)} memory banks at {address} (Ctrl-C ends it)")
    if open_it:
        click.launch(address)
    run(Site(shelf), host, token, listening)


def bound(host: str, port: int) -> socket.socket:
    """A socket to listen at, or one line on why there is none."""
    try:
        kind, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(kind, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
        made.listen(128)  # who is quick waits until all is ready
    except OSError as error:
        raise UserError(f"cannot listen at {host} port {port}: {error.strerror or error}; choose another with --host or --port") from error
    return made
