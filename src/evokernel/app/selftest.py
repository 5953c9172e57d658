"""Runs the verifier's self-test: candidates with a known outcome, both cheats that must fail and unusual kernels that must pass.

A backend ships them in `selftest/<category>/<name>.<ext>`. The first line of each file is a comment with the expected outcome:
`selftest: task=starter/softmax gate=check reason=mismatch,unwritten`; for a kernel that must pass it only names the task. `size=full` takes
the task at the size that is run in parts only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import NamedTuple

from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import did_you_mean, find_plugin, make_plugin, plugin_folder, plugin_names
from evokernel.core.protocols import Executor
from evokernel.core.records import Candidate, Job, Outcome, Scalar, Settings, TimedSize
from evokernel.suites.loader import find_task_files, load_tasks
from evokernel.verifier.gates import GATES
from evokernel.verifier.reasons import REASONS

HONEST = "honest"
CATEGORIES = {
    "not-the-kernel": "lets other code do the work",
    "switches-behaviour": "behaves differently when checked and when timed",
    "knows-the-answer": "computes less than the reference",
    "output-tricks": "misuses the memory of its outputs",
    "timing": "manipulates the timing",
    "patches-the-verifier": "changes or reads the verifier",
    "resources": "exhausts memory, time or processes",
    "escapes": "accesses something outside its process",
    HONEST: "is unusual but correct, and must pass",
}
TIMEOUT_S = 30.0
HEADER = re.compile(r"^\s*(?://|#|--|;|/\*)\s*selftest:(?P<words>.*?)(?:\*/)?\s*$")
EXAMPLE = "selftest: task=starter/softmax gate=check reason=mismatch"


class SelftestCase(NamedTuple):
    """A candidate and its expected outcome."""

    backend: str
    category: str
    """One of `CATEGORIES`."""
    path: Path
    task: str
    gates: tuple[str, ...] = ()
    """Gates that may reject it; empty for a kernel that must pass."""
    reasons: tuple[str, ...] = ()
    size: TimedSize = "laptop"
    timeout_s: float = TIMEOUT_S
    settings: Settings = {}

    @property
    def name(self) -> str:
        """Category and file name."""
        return f"{self.category}/{self.path.stem}"

    @property
    def expectation(self) -> str:
        """The expected outcome in words."""
        return f"fails {' or '.join(self.gates)} with {' or '.join(self.reasons)}" if self.gates else "passes"

    def is_expected_outcome(self, outcome: Outcome) -> bool:
        """Whether a kernel that must pass did, or a cheat failed at an expected gate for an expected reason."""
        failure = outcome.failure
        if failure is None:
            return outcome.feasible and not self.gates
        return failure.gate in self.gates and failure.reason in self.reasons


class SelftestResult(NamedTuple):
    """The outcome of one case."""

    case: SelftestCase
    outcome: Outcome | None
    error: str = ""
    """Why there is no outcome: an infrastructure failure."""

    @property
    def is_as_expected(self) -> bool:
        """Whether the outcome is the expected one."""
        return self.outcome is not None and self.case.is_expected_outcome(self.outcome)

    @property
    def actual(self) -> str:
        """The actual outcome in words."""
        if self.outcome is None:
            return f"not verified: {self.error}"
        failure = self.outcome.failure
        return f"fails {failure.gate} with {failure.reason}" if failure else "passes"


def selftest_folder(backend: str) -> Path:
    """Return the folder with a backend's cases."""
    return plugin_folder("backend", backend) / "selftest"


def load_cases(backend: str, folder: Path) -> list[SelftestCase]:
    """Load the cases of this backend in a folder, by category; refuse an unknown category or a malformed first line."""
    suffix = Path(find_plugin("backend", backend).file_name).suffix
    cases = []
    for category in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "_"))):
        files = sorted(path for path in category.iterdir() if path.suffix == suffix and not path.name.startswith((".", "_")))
        if category.name not in CATEGORIES:
            hint = did_you_mean(category.name, list(CATEGORIES))
            raise UserError(f"{category}: unknown category '{category.name}'{hint}. Known: {', '.join(CATEGORIES)}.")
        cases += [read_case(backend, path) for path in files]
    order = list(CATEGORIES)
    return sorted(cases, key=lambda case: (order.index(case.category), case.path.name))


def select_backends(requested: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the backends to test, and the reason for each backend that is skipped.

    Requested backends must work here. If none is requested, all that work are tested.
    """
    names, skipped = [], {}
    for name in dict.fromkeys(requested or plugin_names("backend")):
        try:
            backend = make_plugin("backend", name)
            reason = backend.unavailable_reason() or backend.capabilities.limitations
        except UserError as error:
            if requested:
                raise
            reason = str(error)
        if reason and requested:
            raise UserError(f"backend '{name}' cannot work on this machine: {reason}")
        if reason:
            skipped[name] = reason
        else:
            names.append(name)
    return names, skipped


def collect_cases(backends: Sequence[str], categories: Sequence[str], folder: Path | None) -> list[SelftestCase]:
    """Return the candidates of these backends and categories (default: all). Raises UserError if there are none."""
    if not backends:
        raise UserError("no backend works here. 'evokernel doctor' shows the reasons.")
    for category in categories:
        if category not in CATEGORIES:
            raise UserError(f"unknown category '{category}'{did_you_mean(category, list(CATEGORIES))}; available: {', '.join(CATEGORIES)}")
    if folder is not None and not folder.is_dir():
        raise UserError(f"no folder '{folder}'. Name one with a subfolder per category, such as {folder}/timing.")
    folders = {backend: folder or selftest_folder(backend) for backend in backends}
    cases = [one for backend, folder in folders.items() if folder.is_dir() for one in load_cases(backend, folder)]
    if not cases:
        raise UserError(
            f"no candidates for {' or '.join(backends)} in {', '.join(str(folder) for folder in dict.fromkeys(folders.values()))}"
        )
    cases = [one for one in cases if not categories or one.category in categories]
    if not cases:
        raise UserError(f"no candidates in category {' or '.join(categories)}")
    return cases


def read_case(backend: str, path: Path) -> SelftestCase:
    """Read one case and the expected outcome in its first line."""
    try:
        first_line = path.read_text().partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as text: {error}") from error
    match = HEADER.match(first_line)
    if match is None:
        raise UserError(f"{path}: the first line must be a comment such as `{EXAMPLE}`")
    header: dict[str, str] = {}
    for word in match["words"].split():
        key, equals, value = word.partition("=")
        if not equals or not value or key in header:
            raise UserError(f"{path}: '{word}' in the first line is not valid. Write each key once, as key=value, such as `{EXAMPLE}`.")
        header[key] = value
    return parse_case(backend, path, header)


def parse_case(backend: str, path: Path, header: Mapping[str, str]) -> SelftestCase:
    """Build a case from the keys of its first line; unknown and missing keys are refused."""
    category, is_honest = path.parent.name, path.parent.name == HONEST
    required_keys = ("task",) if is_honest else ("task", "gate", "reason")
    known_keys = [*required_keys, "size", "timeout"]
    for key in header:
        if key not in known_keys and not key.startswith("backend."):
            keys = ", ".join([*known_keys, "backend.SETTING"])
            raise UserError(f"{path}: unknown key '{key}' for a candidate in '{category}'. Known: {keys}.")
    if missing_keys := [key for key in required_keys if key not in header]:
        raise UserError(f"{path}: the first line lacks {' and '.join(missing_keys)}. Example: `{EXAMPLE}`.")
    return SelftestCase(
        backend=backend,
        category=category,
        path=path,
        task=header["task"],
        gates=() if is_honest else parse_names(path, "gate", header["gate"], [gate.name for gate in GATES]),
        reasons=() if is_honest else parse_names(path, "reason", header["reason"], list(REASONS)),
        size=parse_size(path, header.get("size", "laptop")),
        timeout_s=parse_timeout(path, header["timeout"]) if "timeout" in header else TIMEOUT_S,
        settings={key.removeprefix("backend."): parse_setting(value) for key, value in header.items() if key.startswith("backend.")},
    )


def parse_names(path: Path, key: str, text: str, known_names: list[str]) -> tuple[str, ...]:
    """Parse a comma-separated list; refuse unknown names."""
    for name in text.split(","):
        if name not in known_names:
            raise UserError(f"{path}: unknown {key} '{name}'{did_you_mean(name, known_names)}. Known: {', '.join(known_names)}.")
    return tuple(text.split(","))


def parse_size(path: Path, text: str) -> TimedSize:
    """Parse the size at which the kernel is timed."""
    if text not in ("laptop", "full"):
        raise UserError(f"{path}: size={text} must be laptop or full")
    return "full" if text == "full" else "laptop"


def parse_timeout(path: Path, text: str) -> float:
    """Parse a time limit in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UserError(f"{path}: timeout={text} must be a number of seconds greater than 0")
    return value


def parse_setting(text: str) -> Scalar:
    """Return an integer if the text is one, otherwise the text."""
    return int(text) if text.isdecimal() else text


def make_job(case: SelftestCase) -> Job:
    """Return the verifier's job for one case."""
    try:
        make_plugin("backend", case.backend, **case.settings)
        if (count := len(find_task_files(case.task))) != 1:
            raise UserError(f"task={case.task} matches {count} tasks. Name exactly one.")
        (task,) = load_tasks(case.task, case.size)
    except UserError as error:
        raise UserError(f"{case.path}: {error}") from error
    file_name = find_plugin("backend", case.backend).file_name
    candidate = Candidate(backend=case.backend, files={file_name: case.path.read_text()})
    return Job(backend=case.backend, settings=case.settings, task=task, candidate=candidate, timeout_s=case.timeout_s)


def run_cases(cases: Sequence[SelftestCase], executor: Executor) -> Iterator[SelftestResult]:
    """Yield the result of each case in the order of completion; all cases are parsed before the first one runs."""
    jobs = [make_job(case) for case in cases]
    cases_by_future: dict[Future[Outcome], SelftestCase] = {executor.submit(job): case for job, case in zip(jobs, cases)}
    for future in as_completed(cases_by_future):
        try:
            yield SelftestResult(cases_by_future[future], future.result())
        except InfraError as error:
            yield SelftestResult(cases_by_future[future], None, str(error))
