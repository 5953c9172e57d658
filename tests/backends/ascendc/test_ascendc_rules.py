"""Every rule of the simulator is violated exactly where expected, and reported with line, event, rule and hint."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ascendc_mutants import Group, Mutant, Result, called, mutants
from sampling import one_in

from evokernel.backends.ascendc.build import build as compile_project
from evokernel.backends.ascendc.diagnostics import explain_simulator_error, load_rules, locate_line
from evokernel.backends.native.toolchain import missing_compiler_message
from evokernel.core.errors import CandidateError
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import Candidate
from evokernel.suites.loader import load_tasks
from evokernel.verifier.reasons import REASONS

HOME = plugin_folder("backend", "ascendc")
FILES = ("kernel", "library", "host", "bind")
HARMLESS, LEVELS = ("allowed", "notes"), ("strict", "hardware")
CODE = re.compile(r'"(E-[A-Z0-9-]+)')
needs_compiler = pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")


def bases(name: str) -> list[str]:
    """Of the mutants in a file."""
    return list(dict.fromkeys(mutant.base for mutant in mutants(name)))


BASES = [(name, base) for name in FILES for base in bases(name)]


@cache
def sources() -> str:
    return "".join(path.read_text() for path in sorted((HOME / "simulator").rglob("*")) if path.suffix in (".h", ".hpp", ".cpp"))


def test_every_code_has_a_rule_and_a_mutant():
    raised, written = set(CODE.findall(sources())), set(load_rules())
    covered = {mutant.code for name in FILES for mutant in mutants(name)}
    covered |= set(CODE.findall(Path(__file__).with_name("test_ascendc_parts.py").read_text()))  # launches in parts
    covered |= set(CODE.findall(Path(__file__).with_name("test_ascendc_lists.py").read_text()))  # lists of tensors
    assert not raised - written, "raised by the simulator and not in rules.toml"
    assert not written - raised, "in rules.toml and never raised: delete them"
    assert not raised - covered, "without a mutant that breaks them"
    assert sum(len(mutants(name)) for name in FILES) >= 40


@pytest.mark.parametrize("code", load_rules())
def test_every_rule_has_a_hint(code):
    rule = load_rules()[code]
    assert set(rule) == {"reason", "rule", "hint"}
    assert rule["reason"] in REASONS
    assert all(len(rule[part]) >= 10 and rule[part].endswith((".", ";", "}")) for part in ("rule", "hint"))


class Ran(NamedTuple):
    """All alternatives of a base, compiled and called together: those that break a rule, and those that break none."""

    group: Group
    workdir: Path
    found: dict[str, list[Result]]
    """At each level, the unchanged base first."""

    def of(self, name: str, level: str) -> Iterator[tuple[int, Mutant, Result]]:
        """Those that a file brings, each with its place among all."""
        own = mutants(name)
        for index, mutant in enumerate(self.group.mutants):
            if mutant in own:
                yield index, mutant, self.found[level][index + 1]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ran]:
    """By the name of a base, when it is first asked for."""

    @cache
    def once(base: str) -> Ran:
        group = Group([mutant for name in (*FILES, *HARMLESS) for mutant in mutants(name) if mutant.base == base])
        workdir = tmp_path_factory.mktemp(base)
        group.build(workdir)
        return Ran(group, workdir, {level: called(workdir, level, group.calls()) for level in LEVELS})

    return once


@pytest.mark.slow(one_in=5)
@needs_compiler
@pytest.mark.parametrize(("name", "base"), one_in(4, BASES, lambda one: one[1]))
def test_mutants_violate_exactly_their_rule(name: str, base: str, ran: Callable[[str], Ran]):
    group, workdir, found_at = ran(base)
    for level in LEVELS:
        first = found_at[level][0]
        assert (first.code, first.text, first.notes) == ("", "", ()), "the base breaks a rule"
    wrong = []
    for index, mutant, found in ran(base).of(name, "strict"):
        noted = found_at["hardware"][index + 1]
        place = locate_line(workdir, {group.file: group.source}, found.addresses)
        line = group.line(index)
        if found.code != mutant.code:
            wrong.append(f"{mutant.code} ({mutant.new}): {found.code or 'nothing'} {found.text}")
        elif not (place.startswith(f"{group.file} line {line} ") if line else not place):
            wrong.append(f"{mutant.code} ({mutant.new}): at {place or 'no line'}, not line {line}")
        elif {*noted.notes, noted.code} - {"", mutant.then} != {mutant.code} and noted.code != (mutant.then or mutant.code):
            wrong.append(f"{mutant.code} ({mutant.new}): hardware has {noted}")
        elif is_noted(mutant.code) and mutant.code not in noted.notes and noted.code != mutant.then:
            wrong.append(f"{mutant.code} ({mutant.new}): is not noted on hardware: {noted}")
    assert not wrong, "\n".join(wrong)


@needs_compiler
def test_hardware_continues_after_a_division_by_zero(ran: Callable[[str], Ran]):
    [found] = [found for _, mutant, found in ran("scalar").of("kernel", "hardware") if mutant.code == "E-DIVIDE"]
    assert (found.code, found.notes) == ("", ("E-DIVIDE",))


@pytest.mark.slow(one_in=5)
@needs_compiler
@pytest.mark.parametrize("base", bases("allowed"))
def test_valid_variants_violate_no_rule(base: str, ran: Callable[[str], Ran]):
    for level in LEVELS:
        for _, mutant, found in ran(base).of("allowed", level):
            assert mutant.code in load_rules()
            assert (found.code, found.text, found.notes) == ("", "", ()), mutant.new


@pytest.mark.slow(one_in=5)
@needs_compiler
@pytest.mark.parametrize("base", bases("notes"))
def test_notes_are_recorded_without_violation(base: str, ran: Callable[[str], Ran]):
    for level in LEVELS:
        unchanged = ran(base).found[level][0]
        for _, mutant, found in ran(base).of("notes", level):
            assert (found.code, found.text, found.notes) == ("", "", ())
            assert mutant.code in found.remarks
            assert mutant.code not in unchanged.remarks


SIZES = ((48, 128), (29, 173), (1, 1), (3, 2000))
GOOD = [path for path in sorted((HOME / "samples").iterdir()) if path.name.startswith("good")]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("sample", one_in(10, GOOD, lambda path: path.name))
def test_good_samples_violate_no_rule(sample: Path, tmp_path: Path):
    backend = make_plugin("backend", "ascendc", toolchain="simulator")
    task = load_tasks(str(HOME / "samples" / "task.py"))[0]
    files = {str(file.relative_to(sample)): file.read_text() for file in sample.rglob("*") if file.is_file()}
    project = backend.parse_project(task, Candidate(backend="ascendc", files=files))
    compile_project(project, tmp_path)
    plan = {"op": project.op, "function": project.bound_function, "call": project.call_arguments}
    calls = [sized(rows, columns) | plan for rows, columns in SIZES]
    for level in LEVELS:
        for found in called(tmp_path, level, calls):
            assert (found.code, found.text, found.notes) == ("", "", ())


def sized(rows: int, columns: int) -> dict[str, Any]:
    """A call of the samples' task."""
    shapes = {"x": [rows, columns], "scale": [columns], "shift": [columns], "out": [rows, columns]}
    return {"inputs": ["x", "scale", "shift"], "numbers": [["columns", columns], ["slope", 0.25]], "shapes": shapes}


def is_noted(code: str) -> bool:
    """Whether all places that raise a code let hardware go on."""
    raised = re.findall(rf'(\w+)\(\s*(?:[^"();]*\? *)?"{code}["\\]', sources())
    return set(raised) == {"reportViolation"}


@needs_compiler
def test_violation_message_has_line_rule_and_hint(ran):
    group, workdir, found = ran(mutants("kernel")[0].base)
    result = found["strict"][1]
    error = explain_simulator_error(
        workdir, {group.file: group.source}, CandidateError("raised", f"simulator\t{result.code}\t{result.addresses}\t{result.text}")
    )
    assert error.reason == "local_memory"
    first, rule, hint = error.detail.splitlines()
    assert first.startswith(
        f"E-UB-FULL at op_kernel.cpp line {group.line(0)} `DataCopy(y, yGm[at], count);`: DataCopy GM->UB needs bytes [204800, +1024) of UB"
    )
    assert rule.startswith("Rule: ")
    assert hint.startswith("Hint: ")
