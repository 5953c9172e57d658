"""Tunables: constants of a kernel whose other values its author declares in a comment, so that a tuner can try them without a model.

    constexpr int TILE_ROWS = 128;  // tune: TILE_ROWS = 64 | 128 | 256
    // tune where: TILE_ROWS * COLS <= 49152

In Python the comment begins with `#`. It stands at the end of the definition's line, or directly above it. The value in the definition is
the default. A candidate is untrusted: only the number of such a definition is ever replaced, only by a declared number, and constraints
are evaluated by `constraints.py`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

from evokernel.core import c_tokens
from evokernel.core.constraints import Constraint, ConstraintError, Number, parse_constraint
from evokernel.core.errors import CandidateError

MAX_TUNABLES, MAX_VALUES, MAX_CONSTRAINTS = 12, 16, 8
NUMBER = r"-?(?:0|[1-9]\d{0,11})(?:\.\d{1,12})?(?:[eE]-?\d{1,2})?"
COMMENT = re.compile(r"(?://|#|/\*)\s*tune(?P<where>\s+where)?\s*:(?P<body>.*?)(?:\*/)?\s*", re.DOTALL)
DECLARATION = re.compile(rf"(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<values>{NUMBER}(?:\s*\|\s*{NUMBER})*)")
C_DEFINITION = re.compile(
    rf"\s*(?:#\s*define\s+(?P<macro>[A-Za-z_]\w*)\s+\(?|"
    rf"(?:[A-Za-z_][\w:]*\s+)+(?P<name>[A-Za-z_]\w*)\s*(?::\s*\w+\s*)?(?:=\s*|\{{\s*))(?P<number>{NUMBER})(?P<suffix>[uUlLfFzZ]{{0,3}})\s*[)}}]?\s*;?\s*"
)
Setting = dict[str, Number]
"""One value for each tunable, by its name."""


class Definition(NamedTuple):
    """A constant that the source defines by a number; `start` and `stop` are the number's place in its line."""

    name: str
    line: int
    start: int
    stop: int
    number: str


class Comment(NamedTuple):
    """A comment `tune:` or `tune where:` of a file."""

    line: int
    text: str


class Source(NamedTuple):
    """What matters of a file: its comments about tuning, its definitions by line, and the lines that contain code."""

    comments: list[Comment]
    definitions: dict[int, Definition]
    code_lines: list[int]


class Place(NamedTuple):
    """Where a tunable is defined."""

    file: str
    definition: Definition


@dataclass(frozen=True)
class Tunable:
    """A constant with its declared values; the same declaration may stand at several definitions, which then change together."""

    name: str
    default: Number
    values: tuple[Number, ...]
    """All values with the default, in the order of the declaration."""
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Tunables:
    """The tunables of a candidate and the constraints on their values."""

    tunables: tuple[Tunable, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    constants: tuple[tuple[str, Number], ...] = ()
    """Other constants that constraints refer to."""

    @property
    def default(self) -> Setting:
        """The values in the source."""
        return {tunable.name: tunable.default for tunable in self.tunables}

    def is_allowed(self, setting: Mapping[str, Number]) -> bool:
        """Whether a setting meets all constraints."""
        names = dict(self.constants) | dict(setting)
        return all(constraint.is_met(names) for constraint in self.constraints)

    def apply(self, files: Mapping[str, str], setting: Mapping[str, Number]) -> dict[str, str]:
        """Return the files with the numbers of a setting. Raises ValueError for a value that was not declared."""
        edits: dict[str, list[tuple[Definition, str]]] = {}
        for tunable in self.tunables:
            if setting[tunable.name] not in tunable.values:
                raise ValueError(f"{setting[tunable.name]} is not a declared value of {tunable.name}")
            for place in tunable.places:
                edits.setdefault(place.file, []).append((place.definition, format_number(setting[tunable.name])))
        return {name: rewrite_numbers(text, edits.get(name, ())) for name, text in files.items()}


def read_tunables(files: Mapping[str, str]) -> Tunables:
    """Return the tunables that the files declare. Raises CandidateError("tunable") with the line and the fix for a wrong declaration."""
    sources = {name: read_source(name, text) for name, text in sorted(files.items()) if "tune" in text}
    found: dict[str, Tunable] = {}
    for file, comment, match, source in list_comments(sources, is_constraint=False):
        tunable = read_declaration(file, comment, match["body"].strip(), source)
        earlier = found.get(tunable.name)
        if earlier and (earlier.values, earlier.default) != (tunable.values, tunable.default):
            fail(file, comment, f"`{tunable.name}` is declared twice with other values or another default: make both equal, or remove one")
        found[tunable.name] = Tunable(tunable.name, tunable.default, tunable.values, (earlier.places if earlier else ()) + tunable.places)
        if len(found) > MAX_TUNABLES:
            fail(file, comment, f"more than {MAX_TUNABLES} tunables: declare only those that matter most")
    constants = collect_constants(sources, found)
    tunables = Tunables(tuple(found.values()), (), tuple(sorted(constants.items())))
    return add_constraints(tunables, sources)


def add_constraints(tunables: Tunables, sources: Mapping[str, Source]) -> Tunables:
    """Return the tunables with the constraints of the files; the default must meet them."""
    constraints: list[Constraint] = []
    names = dict(tunables.constants) | tunables.default
    for file, comment, match, _ in list_comments(sources, is_constraint=True):
        try:
            constraint = parse_constraint(match["body"].strip(), names)
        except ConstraintError as error:
            fail(file, comment, str(error))
        if not constraint.is_met(names):
            values = ", ".join(f"{name} = {format_number(value)}" for name, value in tunables.default.items() if name in constraint.names)
            fail(file, comment, f"the values in the source ({values}) break this constraint: change a definition or the constraint")
        constraints.append(constraint)
        if len(constraints) > MAX_CONSTRAINTS:
            fail(file, comment, f"more than {MAX_CONSTRAINTS} constraints: combine them with `and`")
    return Tunables(tunables.tunables, tuple(constraints), tunables.constants)


def list_comments(sources: Mapping[str, Source], is_constraint: bool) -> Iterator[tuple[str, Comment, re.Match[str], Source]]:
    """Yield the declarations or the constraints of all files."""
    for file, source in sources.items():
        for comment in source.comments:
            match = COMMENT.fullmatch(comment.text)
            if match and bool(match["where"]) == is_constraint:
                yield file, comment, match, source


def read_declaration(file: str, comment: Comment, body: str, source: Source) -> Tunable:
    """Return the tunable of one comment."""
    match = DECLARATION.fullmatch(body)
    if match is None:
        fail(file, comment, "write the constant's name and numbers separated by |, such as `tune: TILE = 64 | 128 | 256`")
    name = match["name"]
    definition = find_definition(comment.line, source)
    if definition is None or definition.name != name:
        example = f"{name} = 128" if file.endswith(".py") else f"constexpr int {name} = 128;"
        problem = f"`{name}` is not defined by a number on this line or directly below"
        fail(file, comment, f"{problem}: put the comment at the end of the definition's line, such as `{example}`, or above it")
    default = parse_number(definition.number)
    values = [parse_number(text.strip()) for text in match["values"].split("|")]
    if isinstance(default, int) and not all(isinstance(value, int) for value in values):
        fail(file, comment, f"the definition has the integer {default}, so all values must be integers")
    if isinstance(default, float):
        values = [float(value) for value in values]
    unique = tuple(dict.fromkeys(values if default in values else [default, *values]))
    if len(unique) > MAX_VALUES:
        fail(file, comment, f"more than {MAX_VALUES} values: keep those that are most likely to be fast")
    return Tunable(name, default, unique, (Place(file, definition),))


def find_definition(line: int, source: Source) -> Definition | None:
    """Return the definition on a comment's line, or on the next line with code if the comment has a line of its own."""
    if line in source.code_lines:
        return source.definitions.get(line)
    below = next((number for number in source.code_lines if number > line), 0)
    return source.definitions.get(below)


def collect_constants(sources: Mapping[str, Source], tunables: Mapping[str, Tunable]) -> dict[str, Number]:
    """Return the constants that the files define once, or always by the same number, and that are no tunables."""
    values: dict[str, set[Number]] = {}
    for source in sources.values():
        for definition in source.definitions.values():
            values.setdefault(definition.name, set()).add(parse_number(definition.number))
    return {name: numbers.pop() for name, numbers in values.items() if len(numbers) == 1 and name not in tunables}


def read_source(file: str, text: str) -> Source:
    """Return the comments and definitions of a file; none if it cannot be parsed, which the backend reports."""
    return read_python(text) if Path(file).suffix == ".py" else read_c(text)


def read_c(text: str) -> Source:
    """Read C, C++ and related languages."""
    comments: list[Comment] = []
    pieces: dict[int, list[str]] = {}
    for kind, token, line in c_tokens.tokenize(text):
        if kind == "comment":
            comments.append(Comment(line, token))
        elif kind != "newline":
            pieces.setdefault(line, []).append(token)
    code = {line: "".join(tokens) for line, tokens in pieces.items()}
    lines = text.removeprefix("\ufeff").split("\n")
    definitions: dict[int, Definition] = {}
    code_lines = [number for number, line in code.items() if line.strip()]
    for number in code_lines:
        match = C_DEFINITION.fullmatch(code[number])
        raw = C_DEFINITION.match(lines[number - 1]) if match and number <= len(lines) else None
        if match and raw and raw["number"] == match["number"]:  # the same text: no comment and no joined line before the number
            name = raw["name"] or raw["macro"]
            definitions[number] = Definition(name, number, raw.start("number"), raw.end("number"), raw["number"])
    return Source(comments, definitions, sorted(code_lines))


def read_python(text: str) -> Source:
    """Read Python; only definitions at module level count."""
    empty = Source([], {}, [])
    if "\r" in text or "\f" in text:  # parsers disagree on where lines end
        return empty
    try:
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return empty
    lines = text.split("\n")
    comments = [Comment(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    code_lines = sorted({token.start[0] for token in tokens if token.type not in layout})
    definitions = {}
    for statement in tree.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        target = statement.target if isinstance(statement, ast.AnnAssign) else target
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:  # tl.constexpr(128)
            value = value.args[0]
        if isinstance(target, ast.Name) and isinstance(value, ast.expr) and value.lineno == value.end_lineno == statement.lineno:
            line = lines[value.lineno - 1].encode()
            start, stop = (len(line[:offset].decode()) for offset in (value.col_offset, value.end_col_offset or 0))
            number = lines[value.lineno - 1][start:stop]
            if re.fullmatch(NUMBER, number):
                definitions[value.lineno] = Definition(target.id, value.lineno, start, stop, number)
    return Source(comments, definitions, code_lines)


def rewrite_numbers(text: str, edits: list[tuple[Definition, str]] | tuple[()]) -> str:
    """Return the text with other numbers in some definitions."""
    mark = "\ufeff" if text.startswith("\ufeff") and edits else ""
    lines = text.removeprefix(mark).split("\n")
    for definition, number in edits:
        line = lines[definition.line - 1]
        lines[definition.line - 1] = line[: definition.start] + number + line[definition.stop :]
    return mark + "\n".join(lines)


def parse_number(text: str) -> Number:
    """Return the number that a literal denotes."""
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def format_number(number: Number) -> str:
    """Return a number as a literal of C and Python."""
    return repr(number)


def fail(file: str, comment: Comment, problem: str) -> NoReturn:
    """Raise the error of a wrong declaration."""
    shown = " ".join(comment.text.split())
    raise CandidateError("tunable", f"{file}:{comment.line}: `{shown[:120]}`: {problem}")
