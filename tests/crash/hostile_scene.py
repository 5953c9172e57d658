"""The place of a hostile run: a home with a secret, a run folder, a bank, temporary files; and eyes on all of it."""

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

PR_SET_CHILD_SUBREAPER = 36
COMMON = ("/dev/shm", "/tmp", "/var/tmp", "/run", "/dev/mqueue")

IN_TURN = (
    *("fork_bomb", "daemon", "thread_bomb", "kills_the_judge", "stops_the_judge", "blames_the_machine", "raises_the_judges_error"),
    *("says_done", "closes_everything", "shrinks_the_memory", "grows_the_memory", "changes_inputs", "memory_hog", "floods_the_log"),
    *("links", "network", "deletes_the_judges_folder", "swaps_the_judges_folder", "better_conditions", "exits_well"),
    *("takes_its_results_away", "answers_with_a_tower", "answers_with_a_number", "dies_of_an_odd_signal"),
)
"""Acts for a warm judge, hostile and honest in turn; the others have theirs in a run."""


class Scene:
    """Everything a hostile candidate is told of lies below `root`."""

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
        self.before = self.seen()

    def seen(self) -> dict[str, tuple[object, ...]]:
        """Every file of the home as it is: kind, owner, time, content."""
        found = {}
        for path in sorted([self.home, *self.home.rglob("*")]):
            facts = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(facts.st_mode) else ""
            found[str(path.relative_to(self.where))] = (facts.st_mode, facts.st_uid, facts.st_nlink, facts.st_mtime_ns, content)
        return found

    def environment(self, *path: Path) -> dict[str, str]:
        """For the run: its home and its temporary folder are here, and it knows a secret that no candidate may learn."""
        own = {"HOME": self.home, "TMPDIR": self.tmp, "EVOKERNEL_CACHE": self.cache}
        own |= {"TORCHINDUCTOR_CACHE_DIR": self.cache / "torch", "MPLCONFIGDIR": self.cache / "matplotlib"}
        found = os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])
        return {**os.environ, **{name: str(value) for name, value in own.items()}, "HOSTILE_SECRET": self.secret, "PYTHONPATH": found}

    def settings(self, port: int) -> dict[str, str]:
        return {"where": str(self.where), "token": self.token, "port": f"port-{port}"}

    def complaints(self) -> list[str]:
        """What was changed, what was left behind, and where the secret turns up."""
        now = self.seen() if self.home.exists() else {}
        found = [
            f"home: {name} is not what it was" for name in sorted(self.before.keys() | now.keys()) if self.before.get(name) != now.get(name)
        ]
        found += [f"temporary: {path.name} was left" for path in self.tmp.iterdir()]
        for folder in filter(os.path.isdir, COMMON):
            found += [f"{folder}: {name} was left" for name in os.listdir(folder) if self.token in name]
        found += [f"shared memory: {line}" for line in segments() if line.split()[0] == str(int(self.token, 16) & 0x7FFFFFFF)]
        found += [
            f"secret: it is in {path}"
            for path in files(self.where)
            if path not in files(self.home) and self.secret.encode() in path.read_bytes()
        ]
        found += [f"processes: {pid} works in our folders" for pid in working_in(self.where.parent)]
        return found

    def release(self) -> None:
        """Lets pytest remove what a candidate tried to make unremovable."""
        subprocess.run(["chattr", "-R", "-i", str(self.tmp)], stderr=subprocess.DEVNULL)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def segments() -> list[str]:
    """Shared memory of the old kind, one line each."""
    try:
        return Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return []


def working_in(folder: Path) -> list[int]:
    """Processes whose working folder lies below."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.readlink(path / "cwd").startswith(str(folder)):
                found.append(int(path.name))
    return found


def children() -> set[int]:
    """Of this process, whoever started them: as a subreaper it inherits every orphan among its descendants."""
    found: set[int] = set()
    for path in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found |= {int(word) for word in (path / "children").read_text().split()}
    return found


def described(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "?"


@contextmanager
def strays() -> Iterator[list[str]]:
    """Everything that descends from this process and outlives the block, whatever session it fled to; ended here if need be."""
    libc, found = ctypes.CDLL(None), list[str]()
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    before = children()
    try:
        yield found
    finally:
        deadline = time.monotonic() + 3
        while (left := children() - before) and time.monotonic() < deadline:
            for pid in left:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.02)
        found += [f"processes: {pid} was left: {described(pid)}" for pid in left]
        while left := children() - before:
            for pid in left:
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0)


class Watch:
    """Looks at a folder ten times a second and remembers the most it held."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.most_bytes, self.most_files = folder, 0, 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def __enter__(self) -> "Watch":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()

    def look(self) -> None:
        while not self.done.wait(0.1):
            held, names, folders = 0, 0, [str(self.folder)]
            while folders:
                with suppress(OSError), os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        names += 1
                        with suppress(OSError):
                            held += entry.stat(follow_symlinks=False).st_blocks * 512
                            if entry.is_dir(follow_symlinks=False):
                                folders.append(entry.path)
            self.most_bytes, self.most_files = max(self.most_bytes, held), max(self.most_files, names)


class Listener:
    """Someone on this machine who would be glad to be told."""

    def __init__(self) -> None:
        self.streams, self.packets, self.local = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
        self.streams.bind(("127.0.0.1", 0))
        self.port = self.streams.getsockname()[1]
        self.packets.bind(("127.0.0.1", self.port))
        self.local.bind(f"\0hostile-{self.port}")
        for line in (self.streams, self.local):
            line.listen()

    def close(self) -> list[str]:
        """Who called."""
        found = []
        for line in (self.streams, self.packets, self.local):
            line.setblocking(False)
            with suppress(OSError):
                line.accept() if line is not self.packets else line.recv(64)
                found.append(f"network: someone was told over {line.family.name} {line.type.name}")
            line.close()
        return found
