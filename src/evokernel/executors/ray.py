"""Verifies on a Ray cluster: on any node that offers the job's backend.

Ray places jobs, hands out devices and asks for more nodes. Whether a node still lives is watched here: a job tells where it has begun and
gives signs of life, so that one on a node that hangs is given to another long before Ray would notice (it takes a minute; never, when only
the process with the job hangs). Whatever the first node says later is thrown away with the stream it would come by.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any

os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # read when imported: Ray tells of lost nodes on stdout, where JSON may be
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")  # nor shall a call that comes too late start a cluster of its own
import ray
from ray.exceptions import RayError

from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import PartialBackend
from evokernel.core.records import Job, Outcome, Settings
from evokernel.executors import ray_resources
from evokernel.executors.worker_process import WorkerBug, WorkerProcess, found_there

log = logging.getLogger(__name__)
SLICE_S, REACH_S = 2.0, 10.0
SHUNNED_S = 300.0
"""For how long a node that fell silent, or failed several jobs in a row, gets no job while another can take it."""
IN_A_ROW = 3
NODE_ID = "ray.io/node-id"


class Silent(InfraError):
    """Nothing more is expected of a job."""


class Resubmit(Exception):
    """The job has not begun, and may wait at a node that has fallen silent since."""


class Ray:
    """`address` is the cluster's; "auto" is the one this machine belongs to. `jobs` are given to it at a time, each tried `tries` times.

    A job takes `cores` and, where nodes offer devices for its backend, one of them to itself: 1 / `share` of one with `share` above 1, when
    only timing is alone on the device. `resources` are wanted besides, as `name=amount`. A node silent for `silence_s` is given up; a job
    waits `wait_s` for a node that offers its backend at all.
    """

    def __init__(
        self,
        address: str = "auto",
        jobs: int = 128,
        tries: int = 3,
        cores: float = 1,
        share: int = 1,
        resources: Sequence[str] = (),
        silence_s: float = 30,
        wait_s: float = 600,
    ) -> None:
        if min(jobs, tries, share) < 1 or silence_s <= 0 or cores < 0:
            raise ValueError("jobs, tries and share must be at least 1, silence_s above 0, cores at least 0")
        self.tries, self.cores, self.share, self.silence_s, self.wait_s = tries, cores, share, silence_s, wait_s
        self.extra = amounts(resources)
        self.shunned: dict[str, float] = {}
        self.in_a_row: Counter[str] = Counter()
        self.closing = threading.Event()
        CONNECTION.open(address)
        self.pool = ThreadPoolExecutor(jobs)

    def submit(self, job: Job) -> Future[Outcome]:
        return self.pool.submit(self.verify, job)

    def verify(self, job: Job) -> Outcome:
        """Tries nodes, each time another where there is one."""
        avoided: set[str] = set()
        for left in reversed(range(self.tries)):
            try:
                return self.once(job, avoided)
            except InfraError as error:
                if not left or isinstance(error, WorkerBug) or self.closing.is_set():
                    raise
                log.warning("%s: %s; trying elsewhere", job.task.id, error)
        raise InfraError("no tries left")

    def once(self, job: Job, avoided: set[str]) -> Outcome:
        """One node's verdict. A job that has not begun is asked for again when its node may be one that hangs; that is no try."""
        while True:
            options = self.options(job.backend, avoided)
            stream = STREAM.options(**options).remote(job.model_dump_json(), self.silence_s / 5)
            try:
                return self.follow(stream, avoided, time.monotonic())
            except (Silent, Resubmit) as error:
                ray.cancel(stream, force=True)  # ends the process it runs in, so never for a job that has been answered
                if isinstance(error, Silent):
                    raise

    def follow(self, stream: Any, avoided: set[str], submitted: float) -> Outcome:
        """Where the job has begun, its signs of life, its answer."""
        node, heard = "", submitted
        while True:
            try:
                said = self.next(stream)
            except (RayError, StopIteration) as error:
                self.trouble(node, avoided)
                raise InfraError(f"node {named(node)} was lost: {first_line(error)}") from error
            if self.closing.is_set():
                raise Silent("the run is over")
            if said is not None:
                heard = time.monotonic()
            if not node and said is None:
                self.waited(submitted)
            elif not node:
                node = str(said)
            elif said:
                return self.answered(node, said, avoided)
            elif time.monotonic() - heard > self.silence_s:
                self.trouble(node, avoided, at_once=True)
                raise Silent(f"node {named(node)} has given no sign of life for {self.silence_s:g} s")

    def next(self, stream: Any) -> str | None:
        """What came next within a short time. (`next(stream)` itself would wait for a lost node for ever.)"""
        ref = stream._next_sync(SLICE_S)
        return None if ref.is_nil() else str(ray.get(ref, timeout=self.silence_s))

    def answered(self, node: str, said: str, avoided: set[str]) -> Outcome:
        try:
            outcome = found_there(said)
        except UserError as error:
            raise UserError(f"node {named(node)}: {error}") from error
        except WorkerBug:
            raise
        except InfraError as error:
            self.trouble(node, avoided)
            raise InfraError(f"node {named(node)}: {error}") from error
        self.in_a_row.pop(node, None)
        return outcome

    def trouble(self, node: str, avoided: set[str], at_once: bool = False) -> None:
        """Notes who had it: this job goes elsewhere, and all do when that happens again and again."""
        avoided.add(node)
        self.in_a_row[node] += 1
        if node and (at_once or self.in_a_row[node] >= IN_A_ROW):
            self.shunned[node] = time.monotonic()

    def waited(self, submitted: float) -> None:
        """For a job that has not begun."""
        if any(at > submitted for at in self.shunned.values()):
            raise Resubmit

    def options(self, backend: str, avoided: set[str]) -> dict[str, Any]:
        """What a job asks Ray for; waits until a node has it, or says what is missing."""
        nodes = self.offering(backend)
        wanted = {ray_resources.backend(backend): 1.0, **self.extra}
        if any(ray_resources.device(backend) in node["Resources"] for node in nodes):
            kinds = {kind for node in nodes if ray_resources.device(backend) in node["Resources"] for kind in node["Resources"]}
            taken = [ray_resources.device(backend), *(kind for kind in ray_resources.ACCELERATORS if kind in kinds)]
            wanted = {**dict.fromkeys(taken, 1 / self.share), **wanted}
        gone = {node for node, at in self.shunned.items() if time.monotonic() - at < SHUNNED_S} | avoided
        others = [node["NodeID"] for node in nodes if node["NodeID"] not in gone]
        selector = {NODE_ID: f"in({','.join(others)})" if len(others) > 1 else others[0]} if others and len(others) < len(nodes) else None
        gpus = wanted.pop("GPU", 0)
        return {"num_cpus": self.cores, "num_gpus": gpus, "resources": wanted, "label_selector": selector}

    def offering(self, backend: str) -> list[dict[str, Any]]:
        """The nodes that have a backend."""
        began, told = time.monotonic(), False
        while True:
            if not ray.is_initialized():
                raise InfraError("the connection to the Ray cluster is closed")
            found = [node for node in ray.nodes() if node["Alive"] and ray_resources.backend(backend) in node["Resources"]]
            if found:
                return found
            lack = f"no node of the Ray cluster offers '{ray_resources.backend(backend)}'"
            if self.closing.is_set() or time.monotonic() - began > self.wait_s:
                raise InfraError(f"{lack}: 'evokernel worker --check' on a node says how to start Ray there")
            if not told:
                log.warning("%s; waiting up to %g s for one ('evokernel worker --check' on a node says how to start it)", lack, self.wait_s)
                told = True
            self.closing.wait(SLICE_S)

    def toolchain(self, backend: str, settings: Settings) -> dict[str, str]:
        """What one of the nodes judges with. Raises UserError when it offers what it cannot do."""
        try:
            options = self.options(backend, set())
            said = json.loads(ray.get(DESCRIBE.options(**options).remote(backend, settings), timeout=self.wait_s))
        except (InfraError, RayError) as error:
            raise UserError(f"the Ray cluster cannot judge: {first_line(error)}") from error
        if said["lacks"]:
            raise UserError(f"node {named(said['node'])} offers backend '{backend}', which cannot work there: {said['lacks']}")
        return dict(said["versions"])

    def close(self) -> None:
        self.closing.set()
        self.pool.shutdown(cancel_futures=True)
        CONNECTION.close()


class Connection:
    """This process's one connection to a cluster, for as long as an executor needs it."""

    def __init__(self) -> None:
        self.users, self.lock = 0, threading.Lock()
        self.is_ours = False

    def open(self, address: str) -> None:
        with self.lock:
            if not self.users and not ray.is_initialized():
                try:
                    refuse_unreachable(address)
                    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
                except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                    fix = "'ray start --head' starts one, and --set executor.address=HOST:6379 names it"
                    raise UserError(f"no Ray cluster at '{address}' ({first_line(error)}): {fix}") from error
                self.is_ours = True
            self.users += 1

    def close(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users and self.is_ours:
                ray.shutdown()
                self.is_ours = False


def refuse_unreachable(address: str) -> None:
    """Raises OSError: Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=REACH_S).close()


CONNECTION = Connection()
JUDGE = WorkerProcess()
"""On a node: the judge of the process that Ray gives jobs to, one at a time."""


def judged(line: str, beat_s: float) -> Iterator[str]:
    """On a node: where it is, then an empty sign of life every so often, last the judge's answer."""
    yield str(ray.get_runtime_context().get_node_id())
    job = Job.model_validate_json(line)
    if why := lacks(job.backend, json.dumps(job.settings)):
        yield json.dumps({"infra": f"backend '{job.backend}' cannot work there: {why}"})
        return
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(JUDGE.ask, job)
        while True:
            try:
                yield asked.result(beat_s)
                return
            except TimeoutError:
                yield ""
            except InfraError as error:
                yield json.dumps({"broken" if isinstance(error, WorkerBug) else "infra": str(error)})
                return


def described(backend: str, settings: Settings) -> str:
    """On a node: what `toolchain` asks for."""
    try:
        lack = lacks(backend, json.dumps(settings))
        versions = make_plugin("backend", backend, **settings).versions() if not lack else {}
    except UserError as error:
        lack, versions = str(error), {}
    return json.dumps({"node": str(ray.get_runtime_context().get_node_id()), "lacks": lack, "versions": versions})


@lru_cache
def lacks(backend: str, settings: str) -> str:
    """On a node: why it cannot judge what it offers to judge."""
    try:
        made = make_plugin("backend", backend, **json.loads(settings))
        halved = made.limitations() if isinstance(made, PartialBackend) and not made.can_check_values else None
        return str(made.missing() or halved or "")
    except UserError:
        return ""  # the judge will say so, to whoever can mend it


STREAM = ray.remote(num_returns="streaming", max_retries=0)(judged)
DESCRIBE = ray.remote(max_retries=0)(described)


def amounts(resources: Sequence[str]) -> dict[str, float]:
    """`["accelerator_type:H200=0.01"]` as Ray takes it."""
    try:
        pairs = [text.rpartition("=") for text in resources]
        if not all(name for name, _, _ in pairs):
            raise ValueError
        return {name: float(amount) for name, _, amount in pairs}
    except (ValueError, AttributeError) as error:
        raise UserError(f"executor.resources = {resources!r}: write a list of name=amount, such as ['GPU=1']") from error


def named(node: str) -> str:
    """A node as people know it: its address, and the beginning of its id."""
    found = next((one["NodeManagerHostname"] for one in ray.nodes() if one["NodeID"] == node), "") if ray.is_initialized() else ""
    return f"{found or 'unknown'} ({node[:8]})" if node else "not known yet"


def first_line(error: BaseException) -> str:
    """The first sentence of what Ray says, which is long."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text.partition(". ")[0][:200]


plugin = Ray
