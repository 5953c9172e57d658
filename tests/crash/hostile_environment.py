"""The environment of a hostile run: a home with a secret, a run folder, a bank and temporary files, all monitored."""

import ctypes
import hashlib
import os
import secrets
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hostile_tools import LIVES_S

PR_SET_CHILD_SUBREAPER = 36
COMMON = ("/dev/shm", "/tmp", "/var/tmp", "/run", "/dev/mqueue")

ACTS_FOR_ONE_WORKER = (
    *("fork_bomb", "daemon", "thread_bomb", "kills_the_verifier", "stops_the_verifier", "blames_the_machine", "raises_the_verifiers_error"),
    *("says_done", "closes_everything", "shrinks_the_memory", "grows_the_memory", "changes_inputs", "memory_hog", "floods_the_log"),
    *("links", "network", "deletes_the_verifiers_folder", "swaps_the_verifiers_folder", "better_conditions", "exits_well"),
    *("takes_its_results_away", "answers_with_a_tower", "answers_with_a_number", "dies_of_an_odd_signal"),
)
"""Acts for one persistent worker, alternating with honest candidates; a run plays the others."""


class HostileEnvironment:
    """Folders and secrets below `root` that a hostile candidate attacks."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.where, self.tmp, self.cache = root / "where", root / "tmp", cache
        self.home, self.run, self.bank = self.where / "home", self.where / "run", self.where / "bank.db"
        self.token, self.secret = secrets.token_hex(6), secrets.token_hex(16)
        for folder in (self.home / ".keys", self.home / "work" / "deep", self.tmp):
            folder.mkdir(parents=True)
        (self.home / ".keys" / "secret").write_text(f"secret = {self.secret}\n")
        (self.home / ".keys" / "secret").chmod(0o600)
        (self.home / "notes.txt").write_text("notes\n" * 100)
        (self.home / "work" / "deep" / "draft.md").write_text("draft\n")
        (self.home / "work" / "link").symlink_to("deep")
        self.before = self.describe_home()

    def describe_home(self) -> dict[str, tuple[object, ...]]:
        """Return mode, owner, links, time and content of every file in the home."""
        files_by_name = {}
        for path in sorted([self.home, *self.home.rglob("*")]):
            facts = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(facts.st_mode) else ""
            files_by_name[str(path.relative_to(self.where))] = (facts.st_mode, facts.st_uid, facts.st_nlink, facts.st_mtime_ns, content)
        return files_by_name

    def environment(self, *path: Path) -> dict[str, str]:
        """Return the environment of the run: its home and temporary folder, and a secret that no candidate may learn."""
        own = {"HOME": self.home, "TMPDIR": self.tmp, "EVOKERNEL_CACHE": self.cache}
        own |= {"TORCHINDUCTOR_CACHE_DIR": self.cache / "torch", "MPLCONFIGDIR": self.cache / "matplotlib"}
        python_path = os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])
        return {**os.environ, **{name: str(value) for name, value in own.items()}, "HOSTILE_SECRET": self.secret, "PYTHONPATH": python_path}

    def backend_settings(self, port: int) -> dict[str, str]:
        return {"where": str(self.where), "token": self.token, "port": f"port-{port}"}

    def find_problems(self) -> list[str]:
        """Return what was changed or left behind, and where the secret occurs."""
        now = self.describe_home() if self.home.exists() else {}
        problems = [
            f"home: {name} has changed" for name in sorted(self.before.keys() | now.keys()) if self.before.get(name) != now.get(name)
        ]
        problems += [f"temporary: {path.name} was left" for path in self.tmp.iterdir()]
        for folder in filter(os.path.isdir, COMMON):
            problems += [f"{folder}: {name} was left" for name in os.listdir(folder) if self.token in name]
        problems += [
            f"shared memory: {line}" for line in list_shared_segments() if line.split()[0] == str(int(self.token, 16) & 0x7FFFFFFF)
        ]
        problems += [
            f"secret: found in {path}"
            for path in list_files(self.where)
            if path not in list_files(self.home) and self.secret.encode() in path.read_bytes()
        ]
        problems += [f"processes: {pid} runs in our folders" for pid in find_processes_in(self.where.parent)]
        return problems

    def release(self) -> None:
        """Let pytest remove files that a candidate tried to make immutable."""
        subprocess.run(["chattr", "-R", "-i", str(self.tmp)], stderr=subprocess.DEVNULL)


def list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def list_shared_segments() -> list[str]:
    """Return the System V shared memory segments, one line each."""
    try:
        return Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return []


def find_processes_in(folder: Path) -> list[int]:
    """Return processes whose working folder is below a folder."""
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.readlink(path / "cwd").startswith(str(folder)):
                pids.append(int(path.name))
    return pids


def list_child_processes() -> set[int]:
    """Return the children of this process: as a subreaper it adopts every orphan among its descendants."""
    pids: set[int] = set()
    for path in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            pids |= {int(word) for word in (path / "children").read_text().split()}
    return pids


def describe_process(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "?"


@contextmanager
def collect_stray_processes() -> Iterator[list[str]]:
    """Collect and kill descendants of this process that outlive the block, in whatever session."""
    libc, problems = ctypes.CDLL(None), list[str]()
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    before = list_child_processes()
    try:
        yield problems
    finally:
        deadline = time.monotonic() + LIVES_S / 2
        while (remaining := list_child_processes() - before) and time.monotonic() < deadline:
            for pid in remaining:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.02)
        problems += [f"processes: {pid} was left: {describe_process(pid)}" for pid in remaining]
        while remaining := list_child_processes() - before:
            for pid in remaining:
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0)


class DiskMonitor:
    """Measures a folder ten times a second and records its maximum size."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.max_bytes, self.max_files = folder, 0, 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.measure, daemon=True)

    def __enter__(self) -> "DiskMonitor":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()

    def measure(self) -> None:
        while not self.done.wait(0.1):
            used_bytes, names, folders = 0, 0, [str(self.folder)]
            while folders:
                with suppress(OSError), os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        names += 1
                        with suppress(OSError):
                            used_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                            if entry.is_dir(follow_symlinks=False):
                                folders.append(entry.path)
            self.max_bytes, self.max_files = max(self.max_bytes, used_bytes), max(self.max_files, names)


class Listener:
    """Listens on this machine for connections from candidates."""

    def __init__(self) -> None:
        self.streams, self.packets, self.local = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
        self.streams.bind(("127.0.0.1", 0))
        self.port = self.streams.getsockname()[1]
        self.packets.bind(("127.0.0.1", self.port))
        self.local.bind(f"\0hostile-{self.port}")
        for line in (self.streams, self.local):
            line.listen()

    def close(self) -> list[str]:
        """Close the sockets and return the connections that arrived."""
        connections = []
        for line in (self.streams, self.packets, self.local):
            line.setblocking(False)
            with suppress(OSError):
                line.accept() if line is not self.packets else line.recv(64)
                connections.append(f"network: a connection arrived over {line.family.name} {line.type.name}")
            line.close()
        return connections
