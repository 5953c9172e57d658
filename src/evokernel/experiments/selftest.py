"""Candidates with a known verdict: cheats the judge must find out, and honest oddities it must let pass.

A backend ships them in `selftest/<class>/<name>.<ext>`. The first line of each is a comment that says what must come of it:
`selftest: task=starter/softmax gate=check reason=mismatch,unwritten`; an honest one only names its task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import NamedTuple

from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import did_you_mean, find_plugin, make_plugin, plugin_folder
from evokernel.core.protocols import Executor
from evokernel.core.records import Candidate, Job, Outcome, Scalar, Settings
from evokernel.generators.prompting import file_name
from evokernel.tasks.loader import files, load
from evokernel.verify.gates import GATES
from evokernel.verify.reasons import REASONS

HONEST = "honest"
CLASSES = {
    "not-the-kernel": "has something else do the work",
    "twins": "is one program when checked and another when timed",
    "knows-the-answer": "computes less than it was asked to",
    "output-tricks": "plays with the memory its results go to",
    "timing": "is fast only on the clock",
    "patches-the-judge": "changes or reads what judges it",
    "resources": "takes all there is",
    "escapes": "reaches out of its process",
    HONEST: "is unusual, and must pass",
}
TIMEOUT_S = 30.0
HEADER = re.compile(r"^\s*(?://|#|--|;|/\*)\s*selftest:(?P<words>.*?)(?:\*/)?\s*$")
EXAMPLE = "selftest: task=starter/softmax gate=check reason=mismatch"


class Specimen(NamedTuple):
    """A candidate, and what must come of it."""

    backend: str
    kind: str
    """One of `CLASSES`."""
    path: Path
    task: str
    gates: tuple[str, ...] = ()
    """Those that may stop it; none for an honest one."""
    reasons: tuple[str, ...] = ()
    timeout_s: float = TIMEOUT_S
    settings: Settings = {}

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.path.stem}"

    @property
    def expected(self) -> str:
        return f"fails {' or '.join(self.gates)} with {' or '.join(self.reasons)}" if self.gates else "passes"

    def is_judged_rightly(self, outcome: Outcome) -> bool:
        """An honest one passes; any other fails at a gate and for a reason it names."""
        failure = outcome.failure
        if failure is None:
            return outcome.feasible and not self.gates
        return failure.gate in self.gates and failure.reason in self.reasons


class Finding(NamedTuple):
    """What the judge made of a specimen."""

    specimen: Specimen
    outcome: Outcome | None
    trouble: str = ""
    """Why nobody could judge it."""

    @property
    def is_right(self) -> bool:
        return self.outcome is not None and self.specimen.is_judged_rightly(self.outcome)

    @property
    def actual(self) -> str:
        if self.outcome is None:
            return f"not judged: {self.trouble}"
        failure = self.outcome.failure
        return f"fails {failure.gate} with {failure.reason}" if failure else "passes"


def shipped(backend: str) -> Path:
    """Where a backend keeps its candidates."""
    return plugin_folder("backend", backend) / "selftest"


def collect(backend: str, home: Path) -> list[Specimen]:
    """A folder's candidates that are files of this backend, class by class; an unknown class is refused, and so is a bad first line."""
    suffix = Path(file_name(find_plugin("backend", backend))).suffix
    found = []
    for kind in sorted(path for path in home.iterdir() if path.is_dir() and not path.name.startswith((".", "_"))):
        files = sorted(path for path in kind.iterdir() if path.suffix == suffix and not path.name.startswith((".", "_")))
        if kind.name not in CLASSES:
            raise UserError(f"{kind}: no class '{kind.name}'{did_you_mean(kind.name, list(CLASSES))}; there are: {', '.join(CLASSES)}")
        found += [read(backend, path) for path in files]
    order = list(CLASSES)
    return sorted(found, key=lambda one: (order.index(one.kind), one.path.name))


def read(backend: str, path: Path) -> Specimen:
    """A candidate with what its first line says about it."""
    try:
        first = path.read_text().partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as text: {error}") from error
    match = HEADER.match(first)
    if match is None:
        raise UserError(f"{path}: the first line must be a comment such as `{EXAMPLE}`")
    said: dict[str, str] = {}
    for word in match["words"].split():
        key, equals, value = word.partition("=")
        if not equals or not value or key in said:
            raise UserError(f"{path}: '{word}' in the first line; write every word once, as key=value, such as `{EXAMPLE}`")
        said[key] = value
    return specimen(backend, path, said)


def specimen(backend: str, path: Path, said: Mapping[str, str]) -> Specimen:
    """What the words of a first line mean; each must be known, and none may be missing."""
    kind, honest = path.parent.name, path.parent.name == HONEST
    wanted = ("task",) if honest else ("task", "gate", "reason")
    allowed = [*wanted, "timeout"]
    for key in said:
        if key not in allowed and not key.startswith("backend."):
            raise UserError(f"{path}: no word '{key}' for a candidate in '{kind}'; there are: {', '.join([*allowed, 'backend.SETTING'])}")
    if lacking := [key for key in wanted if key not in said]:
        raise UserError(f"{path}: the first line lacks {' and '.join(lacking)}, such as `{EXAMPLE}`")
    return Specimen(
        backend=backend,
        kind=kind,
        path=path,
        task=said["task"],
        gates=() if honest else known(path, "gate", said["gate"], [gate.name for gate in GATES]),
        reasons=() if honest else known(path, "reason", said["reason"], list(REASONS)),
        timeout_s=seconds(path, said["timeout"]) if "timeout" in said else TIMEOUT_S,
        settings={key.removeprefix("backend."): literal(value) for key, value in said.items() if key.startswith("backend.")},
    )


def known(path: Path, what: str, text: str, words: list[str]) -> tuple[str, ...]:
    """The words of a list, all of them known."""
    for word in text.split(","):
        if word not in words:
            raise UserError(f"{path}: no {what} '{word}'{did_you_mean(word, words)}; there are: {', '.join(words)}")
    return tuple(text.split(","))


def seconds(path: Path, text: str) -> float:
    """A time limit."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UserError(f"{path}: timeout={text} must be a number of seconds above 0")
    return value


def literal(text: str) -> Scalar:
    """A whole number where it reads as one, the text otherwise."""
    return int(text) if text.isdecimal() else text


def job(specimen: Specimen) -> Job:
    """What the judge is asked."""
    try:
        make_plugin("backend", specimen.backend, **specimen.settings)
        if (count := len(files(specimen.task))) != 1:
            raise UserError(f"task={specimen.task} names {count} tasks; name one")
        (task,) = load(specimen.task)
    except UserError as error:
        raise UserError(f"{specimen.path}: {error}") from error
    candidate = Candidate(backend=specimen.backend, files={file_name(find_plugin("backend", specimen.backend)): specimen.path.read_text()})
    return Job(backend=specimen.backend, settings=specimen.settings, task=task, candidate=candidate, timeout_s=specimen.timeout_s)


def judged(specimens: Sequence[Specimen], executor: Executor) -> Iterator[Finding]:
    """Every specimen's finding, as they come in; all first lines and tasks are looked at before the first is judged."""
    jobs = [job(one) for one in specimens]
    waiting: dict[Future[Outcome], Specimen] = {executor.submit(asked): one for asked, one in zip(jobs, specimens)}
    for done in as_completed(waiting):
        try:
            yield Finding(waiting[done], done.result())
        except InfraError as error:
            yield Finding(waiting[done], None, str(error))
