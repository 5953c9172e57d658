"""`evokernel serve`: verification over HTTP for several tenants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.bank_options import BankType, embedder_option
from evokernel.cli.output import TERMS_EPILOG, json_option, print_json, print_text
from evokernel.core.errors import UserError
from evokernel.core.labels import format_count
from evokernel.core.requirements import require_extra

if TYPE_CHECKING:
    from evokernel.app.verification_pool import VerificationPool
    from evokernel.core.bank_uri import BankLocation
    from evokernel.service.tenants import TokenFile
    from evokernel.service.verification_queue import QueueSettings

PORT = 8766
FOLDER = Path("evokernel-service")
TOKENS = Path("evokernel-tokens.toml")
MODULES = ("fastapi", "uvicorn", "prometheus_client")


@click.group(invoke_without_command=True, epilog=TERMS_EPILOG)
@click.option("--host", default="127.0.0.1", metavar="NAME", help="Address; one that other machines reach requires --tokens. [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, metavar="N", help=f"Port; 0 chooses a free one. [{PORT}]")
@click.option("--tokens", "token_file", type=click.Path(path_type=Path), metavar="FILE", help="Tenants and hashes of their tokens.")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, metavar="FOLDER", help=f"Accepted jobs and results. [{FOLDER}]")
@click.option("--workers", type=click.IntRange(0), default=0, metavar="N", help="Parallel verifications; 0: one per core. [0]")
@click.option("--executor", default="local", metavar="NAME", help="Where verifications run: local, ray or command. [local]")
@click.option("--tasks", "task_specs", multiple=True, metavar="SPEC", help="Offer these tasks besides the shipped suites; may be repeated.")
@click.option("--allow-task-source", is_flag=True, help="Let clients send references: code that runs in the verifier, outside the sandbox.")
@click.option("--memory", "bank", type=BankType(), metavar="PATH|URL", help="Memory bank that every tenant may search.")
@embedder_option
@click.option("--max-queued", type=click.IntRange(1), default=1000, metavar="N", help="Jobs of all tenants that wait or run. [1000]")
@click.option("--keep-days", type=click.FloatRange(0, min_open=True), default=30.0, metavar="N", help="How long results are kept. [30]")
@click.option("--keep-mib", type=click.FloatRange(1), default=1024.0, metavar="N", help="How much is kept for each tenant. [1024]")
@click.option("--drain-s", type=click.FloatRange(0), default=300.0, metavar="S", help="Time for running jobs after SIGTERM. [300]")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Setting of every verification, such as timeout_s=20.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Serve verification over HTTP: single kernels, batches, progress, tasks, profiles and memory search.

    \b
    Examples:
      evokernel serve
      evokernel serve --workers 4 --tasks my_suite/ --memory team.db
      evokernel serve token alice --tokens tokens.toml
      evokernel serve --host 0.0.0.0 --tokens tokens.toml --executor ray
      curl -s localhost:8766/v1/tasks

    Accepted jobs survive a crash: they are on disk before the client gets an answer. SIGTERM finishes what runs and keeps
    what is queued. --json prints what would be served and exits.
    """
    if ctx.invoked_subcommand is None:
        serve(**options)


@command.command("token")
@click.argument("name")
@click.option("--tokens", "path", type=click.Path(path_type=Path), default=TOKENS, metavar="FILE", help=f"Token file. [{TOKENS}]")
@json_option
def make_token(name: str, path: Path, as_json: bool) -> None:
    """Make a token for the tenant NAME. It is printed once; the file keeps its hash.

    \b
    Example: evokernel serve token alice --tokens tokens.toml
    """
    require_extra("the service", "serve", MODULES)
    from evokernel.service.tenants import add_token

    token = add_token(path, name)
    if as_json:
        print_json({"tenant": name, "token": token, "file": str(path)})
    else:
        print_text(f"Wrote the hash of a new token for {name} to {path}. The token is shown only now:", err=True)
        print_text(token)


def serve(
    host: str,
    port: int,
    token_file: Path | None,
    folder: Path,
    workers: int,
    executor: str,
    task_specs: tuple[str, ...],
    allow_task_source: bool,
    bank: BankLocation | None,
    embedder: str,
    max_queued: int,
    keep_days: float,
    keep_mib: float,
    drain_s: float,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check everything, then serve until a signal."""
    require_extra("the service", "serve", MODULES)
    from evokernel.app.http_server import host_in_url
    from evokernel.app.verification_pool import VerificationPool
    from evokernel.core.sockets import open_socket
    from evokernel.service.server import run_server
    from evokernel.service.tenants import TokenFile
    from evokernel.service.verification_queue import QueueSettings, VerificationQueue

    check_access(host, token_file)
    tokens = TokenFile(token_file) if token_file else None
    if isinstance(bank, Path) and not bank.is_file():
        raise UserError(f"there is no memory bank at {bank}. Name one with --memory PATH.")
    settings = QueueSettings(folder, max_queued, keep_days, keep_mib, task_specs, allow_task_source, bank, embedder)
    run_settings = resolve_settings(executor, sets)
    if as_json:
        print_json(serving_record(settings, tokens, host, port, run_settings))
        return
    listener = open_socket(host, port)
    pool = VerificationPool(workers, run_settings)
    queue = VerificationQueue(pool, settings, count_slots(pool))
    address = f"http://{host_in_url(host)}:{listener.getsockname()[1]}/"
    print_text(describe_server(queue.journal.recovered, address, tokens))
    run_server(queue, tokens, host, listener, drain_s)


def check_access(host: str, token_file: Path | None) -> None:
    """Refuse to serve other machines without tokens."""
    from evokernel.app.http_server import is_loopback

    if token_file is None and not is_loopback(host):
        raise UserError(f"other machines can reach {host}: name a token file with --tokens. Make one with: evokernel serve token NAME")


def resolve_settings(executor: str, sets: tuple[str, ...]) -> dict[str, Any]:
    """The settings of every verification, as a run would have them."""
    from evokernel.core.config import resolve_config

    config = resolve_config(None, sets, executor=executor)
    return config.model_dump(mode="json", include=config.model_fields_set)


def count_slots(pool: VerificationPool) -> int:
    """How many verifications are given to the executor at a time: one more than it runs, so that no worker waits for the next."""
    import inspect

    from evokernel.core.plugins import find_plugin

    config = pool.config
    parameters = inspect.signature(find_plugin("executor", config.plugin_name("executor"))).parameters
    if "jobs" not in parameters:
        return config.worker_count + 1
    jobs: Any = config.plugin_settings("executor").get("jobs", parameters["jobs"].default)
    return int(jobs) + 1


def serving_record(settings: QueueSettings, tokens: TokenFile | None, host: str, port: int, run_settings: dict[str, Any]) -> dict[str, Any]:
    """What would be served, as JSON."""
    from evokernel.app.http_server import host_in_url

    return {
        "url": f"http://{host_in_url(host)}:{port}/",
        "tenants": sorted(tokens.tenants) if tokens else ["local"],
        "folder": str(settings.folder),
        "max_queued": settings.max_queued,
        "tasks": list(settings.task_specs),
        "allow_task_source": settings.allow_task_source,
        "memory": str(settings.bank) if settings.bank else None,
        "settings": run_settings,
    }


def describe_server(recovered: int, address: str, tokens: TokenFile | None) -> str:
    """The lines that the command prints when it starts."""
    tenants = (
        f"for {format_count(len(tokens.tenants), 'tenant')}"
        if tokens
        else "without tokens: every program on this machine may use it, as the tenant 'local'"
    )
    text = f"Serving verification at {address} {tenants} (stop with Ctrl-C; OpenAPI: {address}openapi.json)"
    return text + (f"\nContinuing {format_count(recovered, 'interrupted job')}" if recovered else "")
