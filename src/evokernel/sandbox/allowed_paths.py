"""The files that a sandboxed process may access: the interpreter, its libraries and the system's, and no files of users."""

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
"""Rights to a device that is controlled by ioctl."""
MODIFY = READ | LIST | WRITE | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 14
"""Rights to create, write, rename within a folder and remove files and folders; no links, pipes, sockets or devices."""
SYSTEM_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store")
SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/localtime", "/etc/alternatives"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm", "/proc/sys/kernel/osrelease"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/dev/urandom", "/dev/random"),
)
PREFIX_FOLDERS = ("bin", "lib", "lib32", "lib64", "libexec", "include", "share", "sysroot", "*-linux-*", "*-apple-*", "pyvenv.cfg")

PathRule = tuple[str, int]


def list_system_paths(rights: int = READ | LIST) -> Iterator[PathRule]:
    """Yield programs, libraries and a few system files; no configuration and no user files."""
    yield from ((path, rights) for path in SYSTEM_FOLDERS)
    yield from ((path, READ | LIST) for path in SYSTEM_FILES)
    yield ("/dev/null", READ | WRITE)
    for variable in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        yield from ((path, READ | LIST) for path in os.environ.get(variable, "").split(os.pathsep) if path)


def list_python_paths(backend: object = None) -> Iterator[PathRule]:
    """Yield the standard library, installed packages, this package, and the module that defines a backend."""
    path_names = {"stdlib", "platstdlib", "purelib", "platlib"}
    paths = {path for name, path in sysconfig.get_paths().items() if name in path_names}
    paths |= {os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    paths |= {entry for entry in map(os.path.abspath, sys.path) if is_package_folder(entry)}
    yield from ((path, READ | LIST) for path in sorted(paths))
    yield (str(Path(str(evokernel.__file__)).parent), READ | LIST)
    if backend is not None and not (name := type(backend).__module__).startswith("evokernel."):
        yield from list_module_paths(sys.modules[name])


def is_package_folder(entry: str) -> bool:
    """Whether an entry of sys.path holds installed packages, and is not a user's working folder."""
    has_package_name = os.path.basename(entry) in ("site-packages", "dist-packages")
    return has_package_name or os.path.exists(os.path.join(entry, "numpy", "__init__.py")) or any(Path(entry).glob("*.dist-info"))


def list_module_paths(module: ModuleType) -> Iterator[PathRule]:
    """Yield a module's package, or its file and the Python files next to it: the folder may also hold private files."""
    top = sys.modules[module.__name__.partition(".")[0]]
    if not (file := getattr(top, "__file__", None)):
        return
    module_file = Path(file).resolve()
    if module_file.stem == "__init__":
        yield (str(module_file.parent), READ | LIST)
        return
    yield (str(module_file.parent), LIST)
    yield from ((str(path), READ) for path in module_file.parent.glob("*.py"))


@lru_cache
def list_program_paths(path: str) -> tuple[PathRule, ...]:
    """Return the folders of an installed program: its own, and the usual ones under the same prefix, from which it starts others."""
    folders = []
    for location in {Path(path).absolute(), Path(path).resolve()}:
        prefix = location.parent.parent if location.parent.name == "bin" else location.parent
        folders += [str(location.parent), *(str(folder) for name in PREFIX_FOLDERS for folder in prefix.glob(name))]
    return tuple((folder, READ | LIST | RUN) for folder in dict.fromkeys(folders))


def list_variable_paths(names: Iterable[str]) -> Iterator[PathRule]:
    """Yield the folders that environment variables name."""
    for name in names:
        yield from ((path, READ | LIST | RUN) for path in os.environ.get(name, "").split(os.pathsep) if os.path.isabs(path))


def is_restricted_device(path: str) -> bool:
    """Whether root needs a capability to write to a device that another user owns."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISCHR(status.st_mode) and bool(status.st_uid) and not status.st_mode & stat.S_IWOTH


def is_behind_closed_folder(path: str) -> bool:
    """Whether root needs a capability to reach a path, because another user owns a folder on the way and keeps it closed."""
    for folder in (Path(path), *Path(path).parents):
        try:
            status = folder.stat()
        except OSError:
            continue
        if status.st_uid and not status.st_mode & 0o001:
            return True
    return False
