"""Finds the solutions of a folder and the KernelBench problem of each, from the names that KernelBench and other tools give to files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean
from evokernel.suites.loader import TaskFile, find_task_files
from evokernel.suites.published_format import SOLUTION

Kind = Literal["cuda", "triton", "pytorch"]
LEVEL = re.compile(r"(?:^|[^a-z])(?:level|lvl|l)[-_]?([1-9])(?![0-9])", re.IGNORECASE)
PROBLEM = re.compile(r"(?:^|[^a-z])(?:problem|prob|task|p)[-_]?(?:id[-_]?)?(\d{1,3})(?![0-9])", re.IGNORECASE)
LEVEL_AND_NUMBER = re.compile(r"(?:^|[^a-z])(?:level|l)[-_]?([1-9])[-_](\d{1,3})(?![0-9])", re.IGNORECASE)
NUMBERED_NAME = re.compile(r"^(\d{1,3})_([A-Za-z].*)$")
ENDINGS = re.compile(
    r"(?:[._-](?:sample[-_]?\d+|kernel|solution|reference|model[-_]?new|optimi[sz]ed|generated|cuda|triton|best|v\d+|\d+))+$", re.IGNORECASE
)
MAX_DIGITS = 3
SHIPPED_SUITES = ("level1", "level2", "level3")
IGNORED_FOLDERS = {"__pycache__", "build", "cache", "node_modules"}
RENAME = "rename it like level_1_problem_23_sample_0_kernel.py, or name its problem in a file given by --index"


class Solution(NamedTuple):
    """A file that defines `ModelNew`."""

    name: str
    """Path relative to the folder."""
    path: Path
    text: str

    @property
    def kind(self) -> Kind:
        """How its kernels are written."""
        if re.search(r"\bload(?:_inline)?\s*\(", self.text) and "cpp_extension" in self.text:
            return "cuda"
        return "triton" if re.search(r"^\s*(?:import|from)\s+triton\b", self.text, re.MULTILINE) else "pytorch"

    @property
    def content_hash(self) -> str:
        """Hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class MappedSolution(NamedTuple):
    """A solution and the task file of its problem."""

    solution: Solution
    problem: TaskFile


class UnmappedSolution(NamedTuple):
    """A solution whose problem is unknown, and what its author can do about it."""

    name: str
    fix: str


class NameParts(NamedTuple):
    """What a path says about its problem."""

    level: int | None = None
    number: int | None = None
    title: str = ""
    """Name of the problem without its number, in lower case letters and digits; empty if the path has none."""


def find_solutions(folder: Path) -> tuple[list[Solution], list[str]]:
    """Return the solutions of a folder and its subfolders by name, and the Python files that define no `ModelNew`."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}. Name the folder with the solutions, such as runs/NAME of KernelBench.")
    solutions, others = [], []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") or part in IGNORED_FOLDERS for part in parts):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        name = path.relative_to(folder).as_posix()
        if SOLUTION in text:
            solutions.append(Solution(name, path, text))
        else:
            others.append(name)
    if not solutions:
        raise UserError(f"{folder} contains no solution. A solution is a .py file with `class {SOLUTION}(nn.Module)`.")
    return solutions, others


def parse_name(name: str) -> NameParts:
    """Read level, number and title from a relative path: the file's name first, then its folders from the inside out."""
    level: int | None = None
    number: int | None = None
    title = ""
    for part in reversed(Path(name).with_suffix("").parts):
        if match := LEVEL_AND_NUMBER.search(part):
            level, number = level or int(match[1]), number or int(match[2])
        if level is None and (match := LEVEL.search(part)):
            level = int(match[1])
        if number is None and (match := PROBLEM.search(part)):
            number = int(match[1])
        if not title and (match := NUMBERED_NAME.match(part)):
            number, title = number or int(match[1]), normalize_title(match[2])
    stem = Path(name).stem
    if number is None and level is not None and stem.isdecimal() and len(stem) <= MAX_DIGITS:
        number = int(stem)  # `level1/23.py`
    return NameParts(level, number, title)


def normalize_title(text: str) -> str:
    """Return a problem's name in lower case letters and digits, without words such as `kernel` or `sample_0` at its end."""
    return re.sub(r"[^a-z0-9]", "", ENDINGS.sub("", text).lower())


class ProblemIndex:
    """The problems of a KernelBench checkout, or the shipped suites if there is none."""

    def __init__(self, files: Sequence[TaskFile], is_published: bool) -> None:
        self.files, self.is_published = list(files), is_published

    @classmethod
    def load(cls, folder: Path | None) -> ProblemIndex:
        """Read the problems of a folder; None means the shipped suites."""
        if folder is None:
            return cls(find_task_files(",".join(SHIPPED_SUITES)), is_published=False)
        if not folder.is_dir():
            raise UserError(
                f"there is no folder {folder}. Name a checkout of KernelBench: git clone github.com/ScalingIntelligence/KernelBench"
            )
        return cls(find_task_files(str(folder)), is_published=True)

    def find(self, solution: Solution, chosen: str = "") -> TaskFile | UnmappedSolution:
        """Return the problem of a solution: the chosen one, or the one that its name says.

        A `Model` in the solution's own file is ignored: a solution must not choose its reference.
        """
        return self.find_chosen(solution, chosen) if chosen else self.find_by_name(solution)

    def find_chosen(self, solution: Solution, chosen: str) -> TaskFile | UnmappedSolution:
        """Return the problem that an index file names: `level1/23`, `level1/23_Softmax` or a name of a shipped task."""
        parts = parse_name(chosen)
        matches = [file for file in self.files if file.id == chosen or matches_name(file, parts)]
        if len(matches) == 1:
            return matches[0]
        hint = did_you_mean(chosen, [file.id for file in self.files])
        return UnmappedSolution(solution.name, f"the index names '{chosen}', which is {describe_matches(matches)}{hint}; name one problem")

    def find_by_name(self, solution: Solution) -> TaskFile | UnmappedSolution:
        """Return the problem that a file's name says, if it says one."""
        parts = parse_name(solution.name)
        if not self.is_published:
            stem = normalize_title(Path(solution.name).stem.partition("level")[2].partition("_")[2] or Path(solution.name).stem)
            named = [file for file in self.files if parts.level in (None, file.level) and normalize_title(file.path.stem) == stem]
            if len(named) == 1 and parts.number is None:
                return named[0]
            needs = "it names a problem of KernelBench" if parts.number else "it names no shipped task"
            return UnmappedSolution(solution.name, f"{needs}; give a checkout of KernelBench with --problems FOLDER, or {RENAME}")
        if parts.number is None and not parts.title:
            stem = normalize_title(Path(solution.name).stem)
            parts = parts._replace(title=stem if any(title_of(file) == stem for file in self.files) else "")
        if parts.number is None and not parts.title:
            return UnmappedSolution(solution.name, f"its name says no problem; {RENAME}")
        matches = [file for file in self.files if matches_name(file, parts)]
        if len(matches) == 1:
            return matches[0]
        said = describe_parts(parts)
        return UnmappedSolution(solution.name, f"{said} is {describe_matches(matches)} in --problems; {RENAME}")


def title_of(file: TaskFile) -> str:
    """Return the normalized name of a problem without its number."""
    match = NUMBERED_NAME.match(file.path.stem)
    return normalize_title(match[2] if match else file.path.stem)


def matches_name(file: TaskFile, parts: NameParts) -> bool:
    """Whether a problem has the level, number and title that a name says."""
    match = NUMBERED_NAME.match(file.path.stem)
    number = int(match[1]) if match else None
    return (
        (parts.number is not None or bool(parts.title))
        and parts.level in (None, file.level)
        and parts.number in (None, number)
        and parts.title in ("", title_of(file))
    )


def describe_parts(parts: NameParts) -> str:
    """`level 1, problem 23, softmax`."""
    words = [f"level {parts.level}" if parts.level else "", f"problem {parts.number}" if parts.number else "", parts.title]
    return ", ".join(filter(None, words))


def describe_matches(matches: Sequence[TaskFile]) -> str:
    """`no problem`, or the names of several."""
    return f"{len(matches)} problems ({', '.join(file.id for file in matches[:3])})" if matches else "no problem"


def read_index(path: Path | None) -> dict[str, str]:
    """Read an index file: a JSON object from file names to problems."""
    if path is None:
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"cannot read {path} as JSON: {error}") from error
    if not isinstance(value, dict) or not all(isinstance(problem, str) for problem in value.values()):
        raise UserError(f'{path}: write an object from file names to problems, such as {{"a1b2.py": "level1/23"}}')
    return value


def map_solutions(
    solutions: Sequence[Solution], problems: ProblemIndex, index: Mapping[str, str]
) -> Iterator[MappedSolution | UnmappedSolution]:
    """Yield each solution with its problem, or with what to do about its name."""
    if unknown := sorted(set(index) - {key for solution in solutions for key in (solution.name, Path(solution.name).name)}):
        raise UserError(f"the index names {unknown[0]}, which is not in the folder of solutions. Correct or remove that entry.")
    for solution in solutions:
        chosen = index.get(solution.name, index.get(Path(solution.name).name, ""))
        problem = problems.find(solution, chosen)
        yield problem if isinstance(problem, UnmappedSolution) else MappedSolution(solution, problem)
