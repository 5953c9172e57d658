"""Serve a model on this machine: server processes on the loopback interface that outlive the command that started them."""

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
PROGRAM_VARIABLE = "EVOKERNEL_LLAMA_SERVER"
"""Environment variable with the path of a llama-server to use instead of xllamacpp."""
DEFAULT_CONTEXT = 8192
LOAD_TIMEOUT_S = 300.0
POLL_S = 0.1
LOG_LINES = 3


class ServerInstance(Record):
    """One server process and its port."""

    pid: int
    start_time: str
    port: int
    log: str

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def state(self) -> Literal["running", "not answering", "exited"]:
        if not processes.is_running(self.pid, self.start_time):
            return "exited"
        return "running" if is_answering(self.url) else "not answering"


class ServedModel(Record):
    """A model that was started, as stored in the state file."""

    model: str
    file: str
    threads: int
    context: int
    engine: str
    started_at: float
    instances: tuple[ServerInstance, ...]

    @property
    def running_instances(self) -> tuple[ServerInstance, ...]:
        """The instances whose process still runs, whether or not it answers."""
        return tuple(instance for instance in self.instances if processes.is_running(instance.pid, instance.start_time))


def state_file() -> Path:
    """The file that stores which model was started."""
    return paths.cache_folder() / "local-model" / "state.json"


def read_state() -> ServedModel | None:
    """The model that was started last and not stopped; its processes may have exited."""
    try:
        return ServedModel.model_validate_json(state_file().read_text(encoding="utf-8"))
    except OSError:
        return None
    except ValidationError as error:
        log.warning("%s cannot be read (%s validation errors): no model counts as started", state_file(), error.error_count())
        return None


def start_model(
    name: str = "",
    *,
    threads: int = 1,
    context: int = DEFAULT_CONTEXT,
    port: int = 0,
    instances: int = 1,
    program: str = "",
    load_timeout_s: float = LOAD_TIMEOUT_S,
    on_wait: Callable[[float], None] = lambda seconds: None,
) -> ServedModel:
    """Start a model and return once every instance answers. Each instance uses one thread by default, to leave cores to other work."""
    with paths.hold_lock(state_file().with_name("lock")):
        if (running := read_state()) and running.running_instances:
            instance = running.running_instances[0]
            raise UserError(f"{running.model} is already served at {instance.url} (pid {instance.pid}): evokernel model stop")
        file = models.resolve_model_file(name or default_model())
        label = name if name in models.load_catalogue() else file.stem if name else default_model()
        make_command, engine = select_engine(program)
        commands = {number: make_command(str(file), number, threads, context, label) for number in find_free_ports(port, instances)}
        server = ServedModel(
            model=label,
            file=str(file),
            threads=threads,
            context=context,
            engine=engine,
            instances=start_instances(commands, load_timeout_s, on_wait),
            started_at=time.time(),
        )
        paths.write_bytes(state_file(), server.model_dump_json(indent=2).encode())
        return server


def start_instances(
    commands: Mapping[int, Sequence[str]], load_timeout_s: float, on_wait: Callable[[float], None]
) -> tuple[ServerInstance, ...]:
    """Start a process for each port and wait until all of them answer; if one fails or we are interrupted, terminate all."""
    servers: list[tuple[ServerInstance, subprocess.Popen[bytes]]] = []
    is_ready = False
    try:
        for port, command in commands.items():
            servers.append(spawn_server(command, port))
        deadline = time.monotonic() + load_timeout_s
        for instance, process in servers:
            wait_until_ready(instance, process, deadline, on_wait)
        is_ready = True
    finally:
        for instance, process in () if is_ready else servers:
            processes.terminate(instance.pid, instance.start_time)
            process.wait()
    return tuple(instance for instance, _ in servers)


def stop_model() -> ServedModel | None:
    """Terminate all processes of the started model; None if no model was started."""
    with paths.hold_lock(state_file().with_name("lock")):
        server = read_state()
        if server is None:
            return None
        for instance in server.instances:
            processes.terminate(instance.pid, instance.start_time)
        state_file().unlink(missing_ok=True)
        return server


def ensure_running() -> ServedModel:
    """The model that is served; the default model is started if none is."""
    server = read_state()
    if server and server.running_instances:
        exited = len(server.instances) - len(server.running_instances)
        if exited:
            log.warning("%d of %d instances of %s have exited", exited, len(server.instances), server.model)
        return server.model_copy(update={"instances": server.running_instances})
    name = default_model()
    log.warning("no local model is served: starting %s (stop it with 'evokernel model stop')", name)
    return start_model(name)


def default_model() -> str:
    """The model to start if none is named: the first downloaded model of the catalogue."""
    downloaded_models = models.list_downloaded_models()
    if not downloaded_models:
        size = models.find_model(models.DEFAULT_MODEL).bytes / 1e9
        raise UserError(
            f"no local model is served and none is downloaded: evokernel model fetch ({size:.1f} GB), then evokernel model start"
        )
    return downloaded_models[0].name


def find_missing_engine() -> str:
    """Why no engine is available to start a model, with the command to install one; empty if there is one."""
    if os.environ.get(PROGRAM_VARIABLE) or llama_build.program_path().is_file() or importlib.util.find_spec(ENGINE) is not None:
        return ""
    return "xllamacpp is not installed: pip install 'evokernel[local]'"


def describe_engine() -> str:
    """The engine that `start_model` would use, with its version."""
    if program := os.environ.get(PROGRAM_VARIABLE):
        return program
    if llama_build.program_path().is_file():
        return f"{llama_build.SERVER_NAME} ({llama_build.LLAMA_CPP.package}), built for this processor"
    try:
        version = metadata.version(ENGINE)
    except metadata.PackageNotFoundError:
        return ENGINE
    return f"{ENGINE} {version}; a build for this processor is several times faster: evokernel model build"


def select_engine(program: str) -> tuple[Callable[..., list[str]], str]:
    """A function that makes the command of an instance, and the engine's name: a llama-server if one is named or built, else xllamacpp."""
    built_program = str(llama_build.program_path()) if llama_build.program_path().is_file() else ""
    if program := program or os.environ.get(PROGRAM_VARIABLE, "") or built_program:
        path = shutil.which(os.path.expanduser(program))
        if not path:
            raise UserError(f"there is no program '{program}': give the path of a llama-server (--server, or {PROGRAM_VARIABLE})")
        return lambda file, port, threads, context, name: llama_server_command(path, file, port, threads, context, name), path
    if reason := find_missing_engine():
        raise UserError(reason)
    return lambda *arguments: [sys.executable, "-P", "-m", "evokernel.llm.serve_main", *map(str, arguments)], ENGINE


def llama_server_command(program: str, file: str, port: int, threads: int, context: int, name: str) -> list[str]:
    """The command line of llama.cpp's server with the same parameters as evokernel.llm.serve_main."""
    options = {"-m": file, "--host": HOST, "--port": port, "-t": threads, "-tb": threads, "-c": context, "-np": 1, "-a": name}
    return [program, *(str(word) for pair in options.items() for word in pair)]


def spawn_server(command: Sequence[str], port: int) -> tuple[ServerInstance, subprocess.Popen[bytes]]:
    """Start a process in a new session, so that neither a closed terminal nor Ctrl-C reaches it."""
    log_file = state_file().with_name(f"server-{port}.log")
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", start_new_session=True)
    start_time = processes.read_start_time(process.pid)
    return ServerInstance(pid=process.pid, start_time=start_time, port=port, log=str(log_file)), process


def wait_until_ready(instance: ServerInstance, process: subprocess.Popen[bytes], deadline: float, on_wait: Callable[[float], None]) -> None:
    """Return once the server answers; InfraError with the end of its log if it exits or the deadline passes."""
    start = time.monotonic()
    while not is_answering(instance.url):
        if process.poll() is not None:
            raise InfraError(f"the server exited while loading the model: {log_tail(Path(instance.log))}; the full log is {instance.log}")
        if time.monotonic() > deadline:
            raise InfraError(f"the server did not answer in time: {log_tail(Path(instance.log))}; the full log is {instance.log}")
        on_wait(time.monotonic() - start)
        time.sleep(POLL_S)


def is_answering(url: str) -> bool:
    """Whether a server has loaded its model and answers."""
    try:
        return get_json(f"{url}/health").get("status") == "ok"
    except (OSError, ValueError):
        return False


def get_json(url: str, timeout_s: float = 5.0) -> dict[str, Any]:
    """A JSON object from a server on this machine, without a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=timeout_s) as response:
        value = json.loads(response.read(1_000_000))
    return value if isinstance(value, dict) else {}


def find_free_ports(first_port: int, count: int) -> list[int]:
    """Free ports: `first_port` and those after it, or any if it is 0."""
    with ExitStack() as cleanup:
        probes = [cleanup.enter_context(socket.socket()) for _ in range(count)]
        for number, probe in enumerate(probes):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = first_port + number if first_port else 0
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError) as error:
                raise UserError(f"port {port} cannot be used ({error}): choose another with --port, or leave it out") from error
        return [int(probe.getsockname()[1]) for probe in probes]


def log_tail(log_file: Path) -> str:
    """The last lines of a log, on one line."""
    try:
        lines = [line.strip() for line in log_file.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return " · ".join(lines[-LOG_LINES:])[-400:] or "the log is empty"
