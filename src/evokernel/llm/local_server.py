"""A model on this machine: servers on loopback that outlive the command which started them, and what is known of them."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from evokernel.core import paths
from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Record
from evokernel.llm import llama_build, models, processes
from evokernel.llm.serve_main import HOST

log = logging.getLogger(__name__)

ENGINE = "xllamacpp"
PROGRAM = "EVOKERNEL_LLAMA_SERVER"
"""Environment variable with a llama-server to use in place of xllamacpp."""
CONTEXT = 8192
LOADING_S = 300.0
POLL_S = 0.1
LOG_LINES = 3


class Instance(Record):
    """One process, and where it answers."""

    pid: int
    born: str
    port: int
    log: str

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def state(self) -> Literal["running", "not answering", "gone"]:
        if not processes.is_running(self.pid, self.born):
            return "gone"
        return "running" if answers(self.url) else "not answering"


class Served(Record):
    """A model that was started, as the state file keeps it."""

    model: str
    file: str
    threads: int
    context: int
    engine: str
    since: float
    instances: tuple[Instance, ...]

    @property
    def alive(self) -> tuple[Instance, ...]:
        """Those that still run, answering or not."""
        return tuple(one for one in self.instances if processes.is_running(one.pid, one.born))


def state_file() -> Path:
    return paths.cache_folder() / "local-model" / "state.json"


def served() -> Served | None:
    """What was started last and not stopped; its processes may be gone."""
    try:
        return Served.model_validate_json(state_file().read_text(encoding="utf-8"))
    except OSError:
        return None
    except ValidationError as error:
        log.warning("%s cannot be read (%s); it counts as nothing started", state_file(), error.error_count())
        return None


def start(
    name: str = "",
    *,
    threads: int = 1,
    context: int = CONTEXT,
    port: int = 0,
    instances: int = 1,
    program: str = "",
    loading_s: float = LOADING_S,
    waiting: Callable[[float], None] = lambda seconds: None,
) -> Served:
    """Starts a model and returns once every instance answers. Other cores are left alone: one thread each, unless more are asked for."""
    with paths.hold_lock(state_file().with_name("lock")):
        if (before := served()) and before.alive:
            raise UserError(f"{before.model} is already served at {before.alive[0].url} (pid {before.alive[0].pid}): evokernel model stop")
        file = models.file_of(name or default())
        label = name if name in models.catalogue() else file.stem if name else default()
        command, engine = engine_for(program)
        commands = {number: command(str(file), number, threads, context, label) for number in free_ports(port, instances)}
        made = brought_up(commands, loading_s, waiting)
        facts = {"model": label, "file": str(file), "threads": threads, "context": context, "engine": engine}
        found = Served(**facts, since=time.time(), instances=made)
        paths.write_bytes(state_file(), found.model_dump_json(indent=2).encode())
        return found


def brought_up(commands: Mapping[int, Sequence[str]], loading_s: float, waiting: Callable[[float], None]) -> tuple[Instance, ...]:
    """A process for each port, all of them answering; when one cannot, or we are interrupted, none is left."""
    made: list[tuple[Instance, subprocess.Popen[bytes]]] = []
    is_up = False
    try:
        for port, command in commands.items():
            made.append(spawned(command, port))
        until = time.monotonic() + loading_s
        for one, process in made:
            wait_for(one, process, until, waiting)
        is_up = True
    finally:
        for one, process in () if is_up else made:
            processes.end(one.pid, one.born)
            process.wait()
    return tuple(one for one, _ in made)


def stop() -> Served | None:
    """Ends what was started, for sure; None when there was nothing."""
    with paths.hold_lock(state_file().with_name("lock")):
        found = served()
        if found is None:
            return None
        for one in found.instances:
            processes.end(one.pid, one.born)
        state_file().unlink(missing_ok=True)
        return found


def ready() -> Served:
    """The model that is served, started first where none is: for whoever asks for the model `local`."""
    found = served()
    if found and found.alive:
        if found.alive != found.instances:
            log.warning("%d of %d instances of %s are gone", len(found.instances) - len(found.alive), len(found.instances), found.model)
        return found.model_copy(update={"instances": found.alive})
    name = default()
    log.warning("no local model is served: starting %s ('evokernel model stop' ends it)", name)
    return start(name)


def default() -> str:
    """The model to start when none is named: the catalogue's first that is here."""
    there = models.fetched()
    if not there:
        size = models.known(models.DEFAULT).bytes / 1e9
        raise UserError(f"no local model is served and none is fetched: evokernel model fetch ({size:.1f} GB), then evokernel model start")
    return there[0].name


def lacking() -> str:
    """What `start` needs and this machine does not have; nothing when it can."""
    if os.environ.get(PROGRAM) or llama_build.program().is_file() or importlib.util.find_spec(ENGINE) is not None:
        return ""
    return "xllamacpp is not installed: pip install 'evokernel[local]'"


def engine_name() -> str:
    """What `start` would use, in words."""
    if own := os.environ.get(PROGRAM):
        return own
    if llama_build.program().is_file():
        return f"{llama_build.NAME} ({llama_build.LLAMA_CPP.package}), built for this processor"
    try:
        return f"{ENGINE} {metadata.version(ENGINE)}; several times faster where built for the processor: evokernel model build"
    except metadata.PackageNotFoundError:
        return ENGINE


def engine_for(program: str) -> tuple[Callable[..., list[str]], str]:
    """How an instance is started, and with what: a llama-server that was named, or built here, else xllamacpp in a process of ours."""
    own = str(llama_build.program()) if llama_build.program().is_file() else ""
    if program := program or os.environ.get(PROGRAM, "") or own:
        found = shutil.which(os.path.expanduser(program))
        if not found:
            raise UserError(f"there is no program '{program}': give the path of a llama-server (--server, or {PROGRAM})")
        return lambda file, port, threads, context, name: llama_server(found, file, port, threads, context, name), found
    if why := lacking():
        raise UserError(why)
    return lambda *words: [sys.executable, "-P", "-m", "evokernel.llm.serve_main", *map(str, words)], ENGINE


def llama_server(program: str, file: str, port: int, threads: int, context: int, name: str) -> list[str]:
    """The same as evokernel.llm.serve_main does, in the words of llama.cpp's own server."""
    many = {"-m": file, "--host": HOST, "--port": port, "-t": threads, "-tb": threads, "-c": context, "-np": 1, "-a": name}
    return [program, *(str(word) for pair in many.items() for word in pair)]


def spawned(command: Sequence[str], port: int) -> tuple[Instance, subprocess.Popen[bytes]]:
    """A process in a session of its own, so that neither a closed terminal nor Ctrl-C reaches it."""
    logged = state_file().with_name(f"server-{port}.log")
    logged.parent.mkdir(parents=True, exist_ok=True)
    with logged.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", start_new_session=True)
    return Instance(pid=process.pid, born=processes.born(process.pid), port=port, log=str(logged)), process


def wait_for(one: Instance, process: subprocess.Popen[bytes], until: float, waiting: Callable[[float], None]) -> None:
    """Returns once it answers; InfraError with the end of its log when it never will."""
    began = time.monotonic()
    while not answers(one.url):
        if process.poll() is not None:
            raise InfraError(f"the server ended while it loaded the model: {last_words(Path(one.log))}; all of it is in {one.log}")
        if time.monotonic() > until:
            raise InfraError(f"the server did not answer in time: {last_words(Path(one.log))}; all of it is in {one.log}")
        waiting(time.monotonic() - began)
        time.sleep(POLL_S)


def answers(url: str) -> bool:
    """Whether a server has loaded its model."""
    try:
        return get(f"{url}/health").get("status") == "ok"
    except (OSError, ValueError):
        return False


def get(url: str, timeout_s: float = 5.0) -> dict[str, Any]:
    """A JSON object from a server on this machine, past any proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=timeout_s) as response:
        found = json.loads(response.read(1_000_000))
    return found if isinstance(found, dict) else {}


def free_ports(wanted: int, count: int) -> list[int]:
    """Ports nobody listens at: the one that is wanted and those after it, or any."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for number, probe in enumerate(probes):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = wanted + number if wanted else 0
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError) as error:
                raise UserError(f"port {port} cannot be used ({error}): choose another with --port, or leave it out") from error
        return [int(probe.getsockname()[1]) for probe in probes]


def last_words(logged: Path) -> str:
    """The end of a log, on one line."""
    try:
        lines = [line.strip() for line in logged.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return " · ".join(lines[-LOG_LINES:])[-400:] or "it said nothing"
