"""Which tests need a toolchain, and a guard against tests that start a program without saying so."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FOLDERS = ("crash", "executors", "sandbox", "service", "web")
"""Every test below these folders needs a toolchain."""
HEAVY = ("torch", "jax", "ray", "triton", "playwright", "torchax", "suite_checks", "model_parts")
"""Every test in a file that imports one of these needs a toolchain: the import alone takes seconds."""
TOOLS = (
    *("subprocess", "evokernel.app import factory", "evokernel.app.factory", "evokernel.backends.native.toolchain"),
    *("evokernel.verifier import", "evokernel.reference", "cann_toolkit", "vector_bench", "library_kernels", "quick_builds"),
    *("evokernel.suites.loader import load_tasks", "chat_server", "embedding_server", "package_index"),
)
"""Every test in a file that imports one of these needs a toolchain, unless the file itself marks some of its tests with `toolchain`."""
FIXTURES = {"postgres", "browser", "serve", "call", "compiled", "hostile", "only_index"}
"""Every test with one of these fixtures needs a toolchain."""
OWN_MARK = "mark.toolchain"
PROGRAM_EVENTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind")
QUICK_PROGRAMS = ("git", "uname")


def needs_toolchain(item: pytest.Item) -> bool:
    """Whether a test says so itself, or its file, its folder or one of its fixtures does."""
    fixtures = FIXTURES.intersection(getattr(item, "fixturenames", ()))
    return item.get_closest_marker("toolchain") is not None or bool(fixtures) or is_toolchain_path(item.path)


@cache
def is_toolchain_path(path: Path) -> bool:
    """Whether all tests in a file or folder need a toolchain."""
    if any(path.is_relative_to(HERE / folder) for folder in FOLDERS):
        return True
    text = path.read_text() if path.suffix == ".py" else ""
    return imports_any(text, HEAVY) or (OWN_MARK not in text and imports_any(text, TOOLS))


def imports_any(text: str, names: tuple[str, ...]) -> bool:
    """Whether a module imports one of these when it is imported itself."""
    return re.search(rf"^(?:import|from) (?:{'|'.join(map(re.escape, names))})\b", text, re.MULTILINE) is not None


class ProgramGuard:
    """Fails a test that starts a program or a server or imports a heavy module."""

    def __init__(self) -> None:
        self.is_watching = False
        sys.addaudithook(self.check_event)

    def check_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_watching:
            return
        if event in PROGRAM_EVENTS:
            words = arguments[1] if len(arguments) > 1 else ()
            program = Path(str(words[0])).name if isinstance(words, list | tuple) and words else str(words)
            if program not in QUICK_PROGRAMS:
                self.refuse(f"{event} {words}"[:200])

    def refuse(self, what: str) -> None:
        self.is_watching = False
        pytest.fail(f"not a fast test: mark it with pytest.mark.toolchain, or extend the rules in tests/tiers.py. It did: {what}")

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Fail at the first program that the block starts, or if it has imported a heavy module."""
        self.is_watching, before = True, set(sys.modules)
        try:
            yield
        finally:
            self.is_watching = False
        if modules := set(HEAVY) & (set(sys.modules) - before):
            self.refuse(f"import {' and '.join(sorted(modules))}")
