"""The tasks that clients may name: the shipped suites, those of the operator, and, where allowed, references that a client sends."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from evokernel.app.kernel_files import load_backend_classes
from evokernel.app.verification_pool import PlannedVerification, VerificationPool
from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean, plugin_names
from evokernel.core.records import Task
from evokernel.reports.task_report import task_record
from evokernel.service.models import VerificationRequest
from evokernel.suites.loader import TaskFile, find_task_files, suite_names

DESCRIBE_TIMEOUT_S = 120
MAX_DESCRIBED = 64
DESCRIBE_COMMAND = (sys.executable, "-P", "-m", "evokernel.service.describe_source")


class UnknownTask(UserError):
    """No task has this id."""


class Catalog:
    """Plans verifications of the tasks that this server offers. Thread-safe."""

    def __init__(self, pool: VerificationPool, specs: Sequence[str] = (), allow_source: bool = False) -> None:
        self.pool, self.allow_source = pool, allow_source
        shipped = list_shipped_files()
        own = [file for spec in specs for file in find_task_files(spec)]
        self.files = {file.id: file for file in (*shipped, *own)}
        self.specs = {file.id: file.id for file in shipped} | {file.id: file.spec for file in own}
        self.backends = tuple(plugin_names("backend"))
        self.described: OrderedDict[str, Task] = OrderedDict()
        self.lock = threading.Lock()

    def list_files(self, suite: str = "", category: str = "") -> list[TaskFile]:
        """The tasks of a suite and a category, or all."""
        return [file for file in self.files.values() if suite in ("", file.id.partition("/")[0]) and category in ("", file.category)]

    def find_spec(self, id: str) -> str:
        """What names a task for the pool. Raises UnknownTask: a client cannot name files of the server."""
        if id not in self.specs:
            raise UnknownTask(f"this server has no task '{id}'{did_you_mean(id, list(self.specs))}; GET /v1/tasks lists its tasks")
        return self.specs[id]

    def describe(self, id: str, backend: str, size: str | None) -> dict[str, object]:
        """What a kernel for a task must do on a backend."""
        from evokernel.core.config import resolve_config

        spec = self.find_spec(id)
        config = resolve_config(None, (), base=self.pool.settings | {"backend": {"name": self.check_backend(backend)}}, size=size)
        return task_record(self.pool.load_task(spec, config), backend)

    def check_backend(self, name: str) -> str:
        """Return the name of a shipped backend. Other plug-ins would be imported into the server, so that a client cannot name them."""
        if name not in self.backends:
            raise UserError(f"unknown backend '{name}'{did_you_mean(name, list(self.backends))}; backends: {', '.join(self.backends)}")
        return name

    def load_task(self, request: VerificationRequest) -> str | Task:
        """The task of a request: what names it for the pool, or the task that the client's own reference defines."""
        if request.task_source is None:
            return self.find_spec(str(request.task))
        if not self.allow_source:
            raise UserError("this server takes no task_source; name one of its tasks (GET /v1/tasks), or ask its operator to allow it")
        key = hashlib.sha256(request.task_source.encode()).hexdigest()
        with self.lock:
            task = self.described.get(key)
        if task is None:
            task = describe_source(request.task_source, f"client/{key[:16]}")
            with self.lock:
                self.described[key] = task
                while len(self.described) > MAX_DESCRIBED:
                    self.described.popitem(last=False)
        return task

    def plan(self, request: VerificationRequest, task: str | Task, seed: int = 0) -> PlannedVerification:
        """Plan a verification. The kernel is always given as files: the pool would take a single line of text for a path."""
        backend = self.check_backend(request.backend)
        files = request.files or {load_backend_classes()[backend].file_name: request.kernel or ""}
        overrides = [f"seed={seed}", *([f"timeout_s={request.timeout_s}"] if request.timeout_s else [])]
        return self.pool.plan(files, task, backend=backend, size=request.size, baselines=request.baselines, overrides=overrides)


@lru_cache
def list_shipped_files() -> tuple[TaskFile, ...]:
    """The tasks of all shipped suites."""
    return tuple(find_task_files(",".join(suite_names())))


def describe_source(source: str, id: str) -> Task:
    """Derive the task of a client's reference in a process of its own: the reference is code. Raises UserError if it is not a task."""
    with tempfile.TemporaryDirectory(prefix="evokernel-task-") as folder:
        path = Path(folder) / "task.py"
        path.write_text(source, encoding="utf-8")
        try:
            process = subprocess.run(
                [*DESCRIBE_COMMAND, str(path), id], capture_output=True, text=True, timeout=DESCRIBE_TIMEOUT_S, stdin=subprocess.DEVNULL
            )
            reply = json.loads(process.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired as error:
            raise UserError(f"task_source took longer than {DESCRIBE_TIMEOUT_S} s to describe. Make its sizes smaller.") from error
        except (ValueError, IndexError) as error:
            raise UserError("task_source ended its process before it was described") from error
    if "user_error" in reply:
        raise UserError(f"task_source: {reply['user_error']}".replace(str(path), "the reference"))
    return Task.model_validate(reply["task"])
