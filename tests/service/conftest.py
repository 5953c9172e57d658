"""Servers for tests. Without the packages of the service there is nothing to test."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

collect_ignore_glob = [] if all(map(find_spec, ("fastapi", "uvicorn", "prometheus_client", "httpx"))) else ["test_*.py"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    """A server for the tenant local, with workers that the test holds."""
    from service_servers import serve_in_thread

    with serve_in_thread(tmp_path) as running:
        yield running


@pytest.fixture
def shared_server(tmp_path: Path) -> Iterator[Any]:
    """A server for two tenants, whose tokens are their names."""
    from service_servers import serve_in_thread, tenant

    with serve_in_thread(tmp_path, {name: tenant(name) for name in ("alice", "bob")}) as running:
        yield running


@pytest.fixture
def server_process(tmp_path: Path) -> Iterator[Any]:
    """A server in a process of its own, with real workers."""
    from service_servers import ServerProcess

    server = ServerProcess(tmp_path / "jobs")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """A memory bank with the cards of backend cpp."""
    from evokernel.core.plugins import make_plugin
    from evokernel.memory.bank import Bank
    from evokernel.memory.seed_cards import load_seed_cards

    path = tmp_path / "bank.db"
    with Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="one") as bank:
        bank.add(load_seed_cards("cpp"))
    return path
