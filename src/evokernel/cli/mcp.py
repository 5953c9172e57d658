"""`evokernel mcp`: serves tools to agents over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from evokernel.cli.bank_options import BankType, embedder_option
from evokernel.cli.output import TERMS_EPILOG, json_option, print_json, print_text
from evokernel.core.errors import UserError
from evokernel.core.requirements import require_extra

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation
    from evokernel.mcp_server.server import Caller

PORT = 8767


@click.command(epilog=TERMS_EPILOG)
@click.option("--backend", default="cpp", metavar="NAME", help="Kernel language unless a call names one. [cpp]")
@click.option("--memory", type=BankType(), default="evokernel-memory.db", metavar="PATH|URL", help="Memory bank. [evokernel-memory.db]")
@embedder_option
@click.option("--out", type=click.Path(path_type=Path), default="submissions", metavar="FOLDER", help="Submitted kernels. [submissions]")
@click.option("--workers", type=click.IntRange(1), default=1, metavar="N", help="Kernels verified at the same time. [1]")
@click.option("--calls", type=click.IntRange(0), metavar="N", help="Calls of tools before the server refuses. [no limit]")
@click.option("--verifications", type=click.IntRange(0), metavar="N", help="Verifications before the server refuses. [no limit]")
@click.option("--seconds", type=click.FloatRange(0), metavar="N", help="Seconds before the server refuses. [no limit]")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a setting of verifications, such as timeout_s=20.")
@click.option("--http", "is_http", is_flag=True, help="Serve streamable HTTP instead of stdio.")
@click.option("--host", default="127.0.0.1", metavar="NAME", help="With --http: address to listen on. [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, metavar="N", help=f"With --http: port; 0 chooses one. [{PORT}]")
@click.option("--token", default="", metavar="TEXT", help="With --http: token that clients must send. [a random one, printed]")
@click.option("--connect", type=click.Path(path_type=Path), metavar="FOLDER", help="Pass calls on to the run that made this session.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    backend: str,
    memory: BankLocation,
    embedder: str,
    out: Path,
    workers: int,
    calls: int | None,
    verifications: int | None,
    seconds: float | None,
    sets: tuple[str, ...],
    is_http: bool,
    host: str,
    port: int,
    token: str,
    connect: Path | None,
    as_json: bool,
) -> None:
    """Let an agent read tasks, verify kernels, read profiles and search memory, over the Model Context Protocol.

    \b
    Examples:
      evokernel mcp
      evokernel mcp --backend triton --verifications 20 --seconds 3600
      evokernel mcp --http --port 9000
      evokernel mcp --backend cpp --memory team.db --json

    An MCP host starts this command itself. --json prints the configuration for hosts, with these options, and exits.
    --http prints the address and the token on stderr. The generator 'agent' uses --connect.
    """
    from evokernel.core.config import resolve_config
    from evokernel.core.plugins import find_plugin

    find_plugin("backend", backend)
    find_plugin("embedder", embedder)
    check_bank(ctx, memory)
    config = resolve_config(None, sets, base={"backend": {"name": backend}})
    if as_json:
        print_json(host_configuration(ctx))
        return
    require_extra("'evokernel mcp'", "mcp", ["mcp"])
    if connect:
        from evokernel.mcp_server.remote_session import RemoteSession

        serve(RemoteSession(connect), is_http, host, port, token)
        return
    from evokernel.app.verification_pool import VerificationPool
    from evokernel.core.agent_tools import CallBudget
    from evokernel.mcp_server.local_session import LocalSession

    with VerificationPool(workers, config.model_dump(mode="json", exclude_unset=True)) as pool:
        budget = CallBudget(calls, verifications, seconds)
        session = LocalSession(pool, budget, backend=backend, memory=memory, embedder=embedder, out=out, reads_paths=not is_http)
        serve(session, is_http, host, port, token)


def host_configuration(ctx: click.Context) -> dict[str, Any]:
    """The configuration that most MCP hosts read: it starts this command with the options of the command line."""
    from evokernel.core.agent_tools import make_host_configuration

    options: list[str] = []
    for parameter in ctx.command.params:
        value, name = ctx.params.get(parameter.name or ""), parameter.opts[-1]
        is_chosen = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if not is_chosen or name in ("--json", "--http", "--host", "--port", "--token"):
            continue
        for text in value if isinstance(value, tuple) else (value,):
            options += [name, str(Path(text).absolute() if isinstance(text, Path) else text)]
    return make_host_configuration(options)


def check_bank(ctx: click.Context, memory: BankLocation) -> None:
    """Refuse a bank that was asked for and does not exist; the default one may appear later."""
    is_chosen = ctx.get_parameter_source("memory") is ParameterSource.COMMANDLINE
    if is_chosen and isinstance(memory, Path) and not memory.is_file():
        raise UserError(f"there is no memory bank at {memory}. Name one with --memory PATH.")


def serve(session: Caller, is_http: bool, host: str, port: int, token: str) -> None:
    """Serve until the client closes standard input, or until Ctrl-C."""
    from evokernel.mcp_server.server import HTTP_PATH, build_server, serve_http, serve_stdio

    server = build_server(session)
    if not is_http:
        serve_stdio(server)
        return
    import secrets

    from evokernel.core.sockets import open_socket

    listener = open_socket(host, port)
    token = token or secrets.token_urlsafe(24)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listener.getsockname()[1]}{HTTP_PATH}"
    print_text(f"Serving MCP at {address} with the header 'Authorization: Bearer {token}' (stop with Ctrl-C)", err=True)
    serve_http(server, listener, token)
