"""Verifies on a Ray cluster, on any node that offers the job's backend.

Ray places jobs, assigns devices and requests nodes. This module monitors the nodes: a job reports the node on which it began and sends
heartbeats, so that a job on a node that hangs goes to another node long before Ray would notice (Ray takes a minute, and never notices if
only the job's process hangs). A late reply of the first node is discarded with its stream.
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

os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # read at import: Ray reports lost nodes on stdout, which may carry JSON
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")  # a late call must not start a new cluster
import ray
from ray.exceptions import RayError

from evokernel.core.backend import Backend
from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Job, Outcome, Settings
from evokernel.executors import ray_resources
from evokernel.executors.worker_pool import WorkerBug, WorkerProcess, parse_remote_reply

log = logging.getLogger(__name__)
POLL_S, CONNECT_TIMEOUT_S = 2.0, 10.0
AVOIDANCE_S = 300.0
"""How long a node that stopped sending heartbeats, or failed several jobs in a row, gets no job while another node can take it."""
MAX_CONSECUTIVE_FAILURES = 3
NODE_ID_LABEL = "ray.io/node-id"


class JobAbandoned(InfraError):
    """The executor no longer waits for a job."""


class Resubmit(Exception):
    """The job has not begun, and may be queued at a node that has stopped sending heartbeats since."""


class RayExecutor:
    """`address` is the cluster's; "auto" is the cluster of this machine. `jobs` run at a time, each with `max_attempts` attempts.

    A job takes `cores` and, if nodes offer devices for its backend, one device; with `jobs_per_device` above 1 it takes that fraction, and
    only timing has the device to itself. `resources` are required in addition, as `name=amount`. A node without a heartbeat for
    `heartbeat_timeout_s` is given up; a job waits `placement_timeout_s` for a node that offers its backend.
    """

    def __init__(
        self,
        address: str = "auto",
        jobs: int = 128,
        max_attempts: int = 3,
        cores: float = 1,
        jobs_per_device: int = 1,
        resources: Sequence[str] = (),
        heartbeat_timeout_s: float = 30,
        placement_timeout_s: float = 600,
    ) -> None:
        if min(jobs, max_attempts, jobs_per_device) < 1 or heartbeat_timeout_s <= 0 or cores < 0:
            raise ValueError("jobs, max_attempts and jobs_per_device must be at least 1, heartbeat_timeout_s above 0, cores at least 0")
        self.max_attempts, self.cores, self.jobs_per_device, self.heartbeat_timeout_s, self.placement_timeout_s = (
            max_attempts,
            cores,
            jobs_per_device,
            heartbeat_timeout_s,
            placement_timeout_s,
        )
        self.extra_resources = parse_amounts(resources)
        self.avoided_since: dict[str, float] = {}
        self.consecutive_failures: Counter[str] = Counter()
        self.closing = threading.Event()
        CONNECTION.open(address)
        self.pool = ThreadPoolExecutor(jobs)

    def submit(self, job: Job) -> Future[Outcome]:
        return self.pool.submit(self.verify, job)

    def verify(self, job: Job) -> Outcome:
        """Verify a job, each attempt on another node if there is one."""
        avoided_nodes: set[str] = set()
        for remaining in reversed(range(self.max_attempts)):
            try:
                return self.verify_once(job, avoided_nodes)
            except InfraError as error:
                if not remaining or isinstance(error, WorkerBug) or self.closing.is_set():
                    raise
                log.warning("%s: %s; trying another node", job.task.id, error)
        raise InfraError("all attempts to verify the job failed")

    def verify_once(self, job: Job, avoided_nodes: set[str]) -> Outcome:
        """Return one node's outcome. A job that has not begun is submitted again if its node may hang; that is not a new attempt."""
        while True:
            options = self.make_task_options(job.backend, avoided_nodes)
            stream = STREAM_TASK.options(**options).remote(job.model_dump_json(), self.heartbeat_timeout_s / 5)
            try:
                return self.follow_stream(stream, avoided_nodes, time.monotonic())
            except (JobAbandoned, Resubmit) as error:
                ray.cancel(stream, force=True)  # kills the job's process, so never after a reply
                if isinstance(error, JobAbandoned):
                    raise

    def follow_stream(self, stream: Any, avoided_nodes: set[str], submitted: float) -> Outcome:
        """Read the job's messages: the node on which it began, heartbeats, then its reply."""
        node, last_heartbeat = "", submitted
        while True:
            try:
                message = self.next_message(stream)
            except (RayError, StopIteration) as error:
                self.record_failure(node, avoided_nodes)
                raise InfraError(f"lost node {format_node(node)}: {summarize_error(error)}") from error
            if self.closing.is_set():
                raise JobAbandoned("the run has ended")
            if message is not None:
                last_heartbeat = time.monotonic()
            if not node and message is None:
                self.raise_if_node_lost(submitted)
            elif not node:
                node = str(message)
            elif message:
                return self.parse_answer(node, message, avoided_nodes)
            elif time.monotonic() - last_heartbeat > self.heartbeat_timeout_s:
                self.record_failure(node, avoided_nodes, at_once=True)
                raise JobAbandoned(f"node {format_node(node)} has sent no heartbeat for {self.heartbeat_timeout_s:g} s")

    def next_message(self, stream: Any) -> str | None:
        """Return the next message, or None if none arrives soon. (`next(stream)` itself would wait for a lost node forever.)"""
        ref = stream._next_sync(POLL_S)
        return None if ref.is_nil() else str(ray.get(ref, timeout=self.heartbeat_timeout_s))

    def parse_answer(self, node: str, message: str, avoided_nodes: set[str]) -> Outcome:
        """Return the outcome in a node's reply, and record a failure of the node."""
        try:
            outcome = parse_remote_reply(message)
        except UserError as error:
            raise UserError(f"node {format_node(node)}: {error}") from error
        except WorkerBug:
            raise
        except InfraError as error:
            self.record_failure(node, avoided_nodes)
            raise InfraError(f"node {format_node(node)}: {error}") from error
        self.consecutive_failures.pop(node, None)
        return outcome

    def record_failure(self, node: str, avoided_nodes: set[str], at_once: bool = False) -> None:
        """Record a failure of a node: this job avoids it, and all jobs do after several failures in a row."""
        avoided_nodes.add(node)
        self.consecutive_failures[node] += 1
        if node and (at_once or self.consecutive_failures[node] >= MAX_CONSECUTIVE_FAILURES):
            self.avoided_since[node] = time.monotonic()

    def raise_if_node_lost(self, submitted: float) -> None:
        """Raise Resubmit for a job that has not begun if a node was lost since."""
        if any(at > submitted for at in self.avoided_since.values()):
            raise Resubmit

    def make_task_options(self, backend: str, avoided_nodes: set[str]) -> dict[str, Any]:
        """Return the resources that a job requests from Ray; wait until a node offers them, or raise."""
        nodes = self.wait_for_nodes(backend)
        resources = {ray_resources.backend_resource(backend): 1.0, **self.extra_resources}
        if any(ray_resources.device_resource(backend) in node["Resources"] for node in nodes):
            kinds = {kind for node in nodes if ray_resources.device_resource(backend) in node["Resources"] for kind in node["Resources"]}
            device_resources = [ray_resources.device_resource(backend), *(kind for kind in ray_resources.ACCELERATORS if kind in kinds)]
            resources = {**dict.fromkeys(device_resources, 1 / self.jobs_per_device), **resources}
        excluded = {node for node, at in self.avoided_since.items() if time.monotonic() - at < AVOIDANCE_S} | avoided_nodes
        other_nodes = [node["NodeID"] for node in nodes if node["NodeID"] not in excluded]
        selector = (
            {NODE_ID_LABEL: f"in({','.join(other_nodes)})" if len(other_nodes) > 1 else other_nodes[0]}
            if other_nodes and len(other_nodes) < len(nodes)
            else None
        )
        gpus = resources.pop("GPU", 0)
        return {"num_cpus": self.cores, "num_gpus": gpus, "resources": resources, "label_selector": selector}

    def wait_for_nodes(self, backend: str) -> list[dict[str, Any]]:
        """Return the nodes that offer a backend; wait for one up to `placement_timeout_s`."""
        start_s, is_warned = time.monotonic(), False
        while True:
            if not ray.is_initialized():
                raise InfraError("the connection to the Ray cluster is closed")
            nodes = [node for node in ray.nodes() if node["Alive"] and ray_resources.backend_resource(backend) in node["Resources"]]
            if nodes:
                return nodes
            problem = f"no node of the Ray cluster offers '{ray_resources.backend_resource(backend)}'"
            if self.closing.is_set() or time.monotonic() - start_s > self.placement_timeout_s:
                raise InfraError(f"{problem}; run 'evokernel worker --check' on a node for the command that starts Ray there")
            if not is_warned:
                log.warning(
                    "%s; waiting up to %g s for one (run 'evokernel worker --check' on a node for the command that starts it)",
                    problem,
                    self.placement_timeout_s,
                )
                is_warned = True
            self.closing.wait(POLL_S)

    def toolchain(self, backend: str, settings: Settings) -> dict[str, str]:
        """Return the toolchain of one node. Raise UserError if it offers a backend that does not work there."""
        try:
            options = self.make_task_options(backend, set())
            description = json.loads(ray.get(DESCRIBE_TASK.options(**options).remote(backend, settings), timeout=self.placement_timeout_s))
        except (InfraError, RayError) as error:
            raise UserError(f"the Ray cluster cannot verify: {summarize_error(error)}") from error
        if description["unavailable_reason"]:
            node, reason = format_node(description["node"]), description["unavailable_reason"]
            raise UserError(f"node {node} offers backend '{backend}', but it is unavailable there: {reason}")
        return dict(description["versions"])

    def close(self) -> None:
        self.closing.set()
        self.pool.shutdown(cancel_futures=True)
        CONNECTION.close()


class Connection:
    """This process's connection to a cluster, shared by all executors."""

    def __init__(self) -> None:
        self.users, self.lock = 0, threading.Lock()
        self.is_ours = False

    def open(self, address: str) -> None:
        with self.lock:
            if not self.users and not ray.is_initialized():
                try:
                    check_reachable(address)
                    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
                except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                    fix = "start one with 'ray start --head', or set its address with --set executor.address=HOST:6379"
                    raise UserError(f"no Ray cluster at '{address}' ({summarize_error(error)}); {fix}") from error
                self.is_ours = True
            self.users += 1

    def close(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users and self.is_ours:
                ray.shutdown()
                self.is_ours = False


def check_reachable(address: str) -> None:
    """Raise OSError if the address does not accept connections: Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()


CONNECTION = Connection()
NODE_WORKER = WorkerProcess()
"""On a node: the worker process that verifies the jobs of this Ray process, one at a time."""


def stream_job(line: str, heartbeat_s: float) -> Iterator[str]:
    """On a node: yield the node's id, then empty heartbeats, and last the worker's reply."""
    yield str(ray.get_runtime_context().get_node_id())
    job = Job.model_validate_json(line)
    if reason := find_unavailable_reason(job.backend, json.dumps(job.settings)):
        yield json.dumps({"infra_error": f"backend '{job.backend}' is unavailable on the node: {reason}"})
        return
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(NODE_WORKER.request_outcome, job)
        while True:
            try:
                yield pending.result(heartbeat_s)
                return
            except TimeoutError:
                yield ""
            except InfraError as error:
                yield json.dumps({"worker_bug" if isinstance(error, WorkerBug) else "infra_error": str(error)})
                return


def describe_node(backend: str, settings: Settings) -> str:
    """On a node: return its id, the versions of a backend's toolchain, and why the backend is unavailable."""
    try:
        reason = find_unavailable_reason(backend, json.dumps(settings))
        versions = make_plugin("backend", backend, **settings).versions() if not reason else {}
    except UserError as error:
        reason, versions = str(error), {}
    return json.dumps({"node": str(ray.get_runtime_context().get_node_id()), "unavailable_reason": reason, "versions": versions})


@lru_cache
def find_unavailable_reason(backend: str, settings: str) -> str:
    """On a node: return why a backend that it offers does not work, or an empty text."""
    try:
        plugin: Backend = make_plugin("backend", backend, **json.loads(settings))
        if reason := plugin.unavailable_reason():
            return reason
        return "" if plugin.capabilities.can_check_values else plugin.capabilities.limitations
    except UserError:
        return ""  # the verifier reports this error to the user


STREAM_TASK = ray.remote(num_returns="streaming", max_retries=0)(stream_job)
DESCRIBE_TASK = ray.remote(max_retries=0)(describe_node)


def parse_amounts(resources: Sequence[str]) -> dict[str, float]:
    """Convert `["accelerator_type:H200=0.01"]` to the resources that Ray takes."""
    try:
        pairs = [text.rpartition("=") for text in resources]
        if not all(name for name, _, _ in pairs):
            raise ValueError
        return {name: float(amount) for name, _, amount in pairs}
    except (ValueError, AttributeError) as error:
        raise UserError(f"executor.resources = {resources!r}: write a list of name=amount, such as ['GPU=1']") from error


def format_node(node: str) -> str:
    """Return a node's host name and the beginning of its id."""
    hostname = next((info["NodeManagerHostname"] for info in ray.nodes() if info["NodeID"] == node), "") if ray.is_initialized() else ""
    return f"{hostname or 'unknown'} ({node[:8]})" if node else "(not assigned yet)"


def summarize_error(error: BaseException) -> str:
    """Return the first sentence of Ray's long error text."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text.partition(". ")[0][:200]


plugin = RayExecutor
