"""Which files a jailed process may see: the interpreter, its libraries and the system's, and nothing of the user's."""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import evokernel

READ, LIST, RUN, WRITE = 1 << 2, 1 << 3, 1 << 0, 1 << 1
DEVICE = READ | WRITE | 1 << 15
"""A device that is spoken to by ioctl."""
CHANGE = READ | LIST | WRITE | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 14
"""Files and folders may be made, written, moved within their folder and removed; no links, pipes, sockets or devices."""
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store")
FACTS = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/localtime", "/etc/alternatives"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm", "/proc/sys/kernel/osrelease"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/dev/urandom", "/dev/random"),
)
OF_A_PREFIX = ("bin", "lib", "lib32", "lib64", "libexec", "include", "share", "sysroot", "*-linux-*", "*-apple-*", "pyvenv.cfg")

Rule = tuple[str, int]


def of_the_system(rights: int = READ | LIST) -> Iterator[Rule]:
    """Programs, libraries, a few facts about the machine; none of its settings and nothing of its users."""
    yield from ((path, rights) for path in SYSTEM)
    yield from ((path, READ | LIST) for path in FACTS)
    yield ("/dev/null", READ | WRITE)
    for variable in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        yield from ((path, READ | LIST) for path in os.environ.get(variable, "").split(os.pathsep) if path)


def of_python(backend: object = None) -> Iterator[Rule]:
    """The interpreter's own libraries, installed packages, this package, and the module that a backend is written in."""
    wanted = {"stdlib", "platstdlib", "purelib", "platlib"}
    paths = {path for name, path in sysconfig.get_paths().items() if name in wanted}
    paths |= {os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    paths |= {entry for entry in map(os.path.abspath, sys.path) if is_for_packages(entry)}
    yield from ((path, READ | LIST) for path in sorted(paths))
    yield (str(Path(str(evokernel.__file__)).parent), READ | LIST)
    if backend is not None and not (name := type(backend).__module__).startswith("evokernel."):
        yield from around(sys.modules[name])


def is_for_packages(entry: str) -> bool:
    """Whether a place where modules are looked for holds installed packages, and is not somebody's working folder."""
    is_named_so = os.path.basename(entry) in ("site-packages", "dist-packages")
    return is_named_so or os.path.exists(os.path.join(entry, "numpy", "__init__.py")) or any(Path(entry).glob("*.dist-info"))


def around(module: ModuleType) -> Iterator[Rule]:
    """A module's package; or its file and those beside it, whose folder may hold other things that are nobody's business."""
    top = sys.modules[module.__name__.partition(".")[0]]
    if not (file := getattr(top, "__file__", None)):
        return
    place = Path(file).resolve()
    if place.stem == "__init__":
        yield (str(place.parent), READ | LIST)
        return
    yield (str(place.parent), LIST)
    yield from ((str(path), READ) for path in place.parent.glob("*.py"))


@lru_cache
def of_a_program(path: str) -> tuple[Rule, ...]:
    """What belongs to a program that was installed somewhere: the usual folders beside its own, where it starts others from."""
    found = []
    for place in {Path(path).absolute(), Path(path).resolve()}:
        prefix = place.parent.parent if place.parent.name == "bin" else place.parent
        found += [str(place.parent), *(str(found) for name in OF_A_PREFIX for found in prefix.glob(name))]
    return tuple((one, READ | LIST | RUN) for one in dict.fromkeys(found))


def of_variables(names: Iterable[str]) -> Iterator[Rule]:
    """Folders that variables of the environment name."""
    for name in names:
        yield from ((path, READ | LIST | RUN) for path in os.environ.get(name, "").split(os.pathsep) if os.path.isabs(path))


def is_closed_device(path: str) -> bool:
    """Whether root needs more than an owner's rights to write to a device."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISCHR(status.st_mode) and bool(status.st_uid) and not status.st_mode & stat.S_IWOTH


def is_out_of_reach(path: str) -> bool:
    """Whether root needs more than an owner's rights to get there: a folder on the way belongs to somebody who keeps it closed."""
    for place in (Path(path), *Path(path).parents):
        try:
            status = place.stat()
        except OSError:
            continue
        if status.st_uid and not status.st_mode & 0o001:
            return True
    return False
