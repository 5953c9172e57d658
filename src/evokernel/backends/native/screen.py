"""Screens C++ source text for constructs that a kernel may not use. Object checks follow after the build and cannot be deceived by text."""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from evokernel.core import c_tokens
from evokernel.core.c_tokens import Token

MAX_SOURCE_BYTES = 256 << 10
MAX_LITERALS = 4096
LONE_RETURN = re.compile(r"\r(?!\n)")
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
RESERVED = re.compile(r"__\w*|_[A-Z]\w*")
NOT_QUALIFIERS = {"return", "throw", "else", "case", "do", "new", "delete", "and", "or", "not"}


class ScreenRules(NamedTuple):
    """The word lists of `native/screen.toml`, extended or relaxed by the backend's own `screen.toml`."""

    headers: frozenset[str]
    quoted_headers: re.Pattern[str]
    """Headers that may be included in quotes, in addition to the candidate's own files."""
    allowed_headers_text: str
    """Describes the allowed headers in error messages."""
    directives: frozenset[str]
    pragmas: frozenset[str]
    compiler_pragmas: frozenset[str]
    condition_names: re.Pattern[str]
    attributes: frozenset[str]
    refused_when_qualified: frozenset[str]
    refused_words: dict[str, str]
    """Maps a refused word to what it gives access to."""
    refused_patterns: tuple[tuple[re.Pattern[str], str], ...]
    """Pairs of a pattern for refused words and what they give access to."""
    allowed_symbols: re.Pattern[str]
    """Symbols that a built kernel may import."""


@lru_cache
def read_rules(backend_file: Path) -> ScreenRules:
    """Reads the rules of a backend: the general ones combined with its own file."""
    table, more = (tomllib.loads(path.read_text()) for path in (Path(__file__).parent / "screen.toml", backend_file))
    names, headers = more.get("names", {}), more.get("headers", {})
    free = set(names.get("free", "").split())
    reaches = [*table["reaches"].items(), *more.get("reaches", {}).items()]
    forms = more.get("forms", {}).items()
    return ScreenRules(
        headers=frozenset(f"{' '.join(table['headers'].values())} {headers.get('added', '')}".split()),
        quoted_headers=join_patterns(headers.get("quoted", ())),
        allowed_headers_text=headers["allowed"],
        directives=frozenset(table["directives"]["allowed"].split()),
        pragmas=frozenset(table["directives"]["pragmas"].split()),
        compiler_pragmas=frozenset(table["directives"]["compilers"].split()),
        condition_names=join_patterns((*table["directives"]["conditions"], *more.get("directives", {}).get("conditions", ()))),
        attributes=frozenset(table["attributes"]["refused"].split()),
        refused_when_qualified=frozenset(f"{table['names']['called']} {names.get('called', '')}".split()),
        refused_words={word: what for what, words in reaches for word in words.split() if word not in free},
        refused_patterns=tuple((re.compile(form), what) for what, form in forms),
        allowed_symbols=join_patterns((*table["symbols"]["allowed"], *more.get("symbols", {}).get("allowed", ()))),
    )


def join_patterns(patterns: Iterable[str]) -> re.Pattern[str]:
    """Joins patterns with `|`; without patterns the result matches nothing."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)")


def preprocessor_tokens(source: str) -> Iterator[Token]:
    """Yields the tokens that the preprocessor sees: without comments and blanks, with digraphs replaced."""
    for token in c_tokens.tokenize(source):
        if token.kind not in ("comment", "space"):
            yield token._replace(kind="string" if token.kind == "raw" else token.kind, text=token.text.replace("%:", "#"))


def find_violations(name: str, source: str, rules: ScreenRules, files: Collection[str] = ()) -> Iterator[str]:
    """Yields each construct that a kernel may not use, with its line. `files` are the candidate's files, which may include each other."""
    if len(source.encode()) > MAX_SOURCE_BYTES:
        yield f"{name} is longer than {MAX_SOURCE_BYTES >> 10} KiB; compute values instead of storing tables"
        return
    program_tokens = list(preprocessor_tokens(source))
    if sum(token.kind == "number" for token in program_tokens) > MAX_LITERALS:
        yield f"{name} holds more than {MAX_LITERALS} number literals; compute values instead of storing tables"
    if lone_return := LONE_RETURN.search(source):
        yield f"{name} line {source.count(chr(10), 0, lone_return.start()) + 1}: end the line with '\\n', not with '\\r' alone"
    for token in c_tokens.tokenize(source):
        if token.kind != "comment" and (control := CONTROL.search(token.text)):
            yield f"{name} line {token.line}: the control character {control[0]!r} is not allowed"
    for token in program_tokens:
        if token.kind in ("word", "sign") and not token.text.isascii():
            yield f"{name} line {token.line}: {token.text!r} is not ASCII; use ASCII identifiers and operators"
        if token.kind == "torn":
            yield f"{name} line {token.line}: a raw string may not contain an escaped line end"
    may_include = partial(is_allowed_header, rules=rules, name=name, files=files)
    violations = {
        *check_directives(program_tokens, rules, may_include),
        *check_words(drop_include_lines(program_tokens), rules),
        *check_attributes(program_tokens, rules),
    }
    yield from (f"{name} line {at}: {what}" for at, what in sorted(violations))


def drop_include_lines(program_tokens: Sequence[Token]) -> list[Token]:
    """Removes `#include` lines, because the words of a header's name are not identifiers."""
    include_tokens = {id(token) for line in directive_lines(program_tokens) if line[0].text == "include" for token in line}
    return [token for token in program_tokens if id(token) not in include_tokens]


def directive_lines(program_tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yields the tokens of each preprocessor line, without the leading `#`."""
    line: list[Token] = []
    for token in [*program_tokens, Token("newline", "\n", 0)]:
        if token.kind != "newline":
            line.append(token)
            continue
        if len(line) > 1 and line[0].text == "#":
            yield line[1:]
        line = []


def check_directives(program_tokens: Sequence[Token], rules: ScreenRules, may_include: Callable[[str], bool]) -> Iterator[tuple[int, str]]:
    """Yields forbidden preprocessor lines: unknown headers, paths, conditions about the build, and uncommon directives."""
    macros = collect_macros(program_tokens)
    unreadable = token_pasting_macros(macros)
    for first, *rest in directive_lines(program_tokens):
        if first.kind != "word" or first.text not in rules.directives:
            yield first.line, f"#{first.text} is not allowed"
        elif first.text == "include":
            header = "".join(part.text for part in rest)
            if not may_include(header):
                yield first.line, f"#include {header} is not allowed, only {rules.allowed_headers_text}"
        elif first.text == "pragma":
            yield from ((first.line, what) for what in check_pragma([part.text for part in rest], rules))
        elif first.text in ("if", "elif", "ifdef", "ifndef"):
            yield from ((first.line, what) for what in check_conditions(first.text, rest, macros, unreadable, rules, may_include))
    for index, token in enumerate(program_tokens):
        following = [part for part in program_tokens[index + 1 : index + 6] if part.kind != "newline"]
        if token.text == "_Pragma" and len(following) > 1 and following[1].kind == "string":
            inner = following[1].text.partition('"')[2].removesuffix('"').replace('\\"', '"')
            yield from ((token.line, what) for what in check_pragma([part.text for part in preprocessor_tokens(inner)], rules))


def is_allowed_header(text: str, rules: ScreenRules, name: str, files: Collection[str]) -> bool:
    """Whether a file of the candidate may include this header."""
    header = text[1:-1] if len(text) > 2 and (text[0], text[-1]) in {("<", ">"), ('"', '"')} else ""
    if not header:
        return False
    return (
        header in rules.headers
        or bool(rules.quoted_headers.fullmatch(header))
        or (text[0] == '"' and is_candidate_file(header, name, files))
    )


def is_candidate_file(header: str, name: str, files: Collection[str]) -> bool:
    """Whether a header is a file of the candidate: relative to the including file, or below any of the candidate's folders."""
    if posixpath.normpath(posixpath.join(posixpath.dirname(name), header)) in files:
        return True
    return ".." not in header.split("/") and any(f"/{file}".endswith(f"/{header}") for file in files)


def check_pragma(words: Sequence[str], rules: ScreenRules) -> Iterator[str]:
    """Yields forbidden pragmas. Pragmas that no compiler knows are harmless and allowed."""
    if words and words[0] in rules.pragmas:
        yield f"#pragma {words[0]} is not allowed"
    elif len(words) > 1 and words[0] in ("GCC", "clang") and words[1] not in rules.compiler_pragmas:
        yield f"#pragma {words[0]} {words[1]} is not allowed"


def collect_macros(program_tokens: Sequence[Token]) -> dict[str, set[str]]:
    """Collects the candidate's macros: each name with all tokens of its definitions."""
    macros: dict[str, set[str]] = {}
    for first, *rest in directive_lines(program_tokens):
        if first.text == "define" and rest:
            macros.setdefault(rest[0].text, set()).update(token.text for token in rest[1:])
    return macros


def token_pasting_macros(macros: dict[str, set[str]]) -> set[str]:
    """Returns the macros that paste tokens with `##`, directly or through another macro."""
    pasting_names = {"##"}
    while more := {name for name, body in macros.items() if name not in pasting_names and body & pasting_names}:
        pasting_names |= more
    return pasting_names


def check_conditions(
    directive: str,
    condition: Sequence[Token],
    macros: dict[str, set[str]],
    unreadable: set[str],
    rules: ScreenRules,
    may_include: Callable[[str], bool],
) -> Iterator[str]:
    """Yields conditions that a kernel does not need: how it is built, and which files exist."""
    for index, token in enumerate(condition):
        if token.text == "__has_include":
            header = "".join(part.text for part in condition[index + 2 :]).partition(")")[0]
            if not may_include(header):
                yield f"__has_include({header}) is not allowed, because {header} may not be included"
        elif token.kind == "word" and RESERVED.fullmatch(token.text) and token.text not in macros:
            if not rules.condition_names.fullmatch(token.text):
                yield f"#{directive} {token.text} is not allowed; conditions may only test the processor, the compiler and number formats"
        elif directive in ("if", "elif") and token.text in unreadable:
            yield f"#{directive} {token.text} is not allowed, because the screen cannot expand a condition that pastes tokens"


def check_words(program_tokens: Sequence[Token], rules: ScreenRules) -> Iterator[tuple[int, str]]:
    """Yields identifiers that give access to something a kernel may not use."""
    code = [token for token in program_tokens if token.kind != "newline"]
    for index, token in enumerate(code):
        what = refusal_of_word(token.text, rules) if token.kind == "word" else None
        if what is None:
            continue
        if token.text in rules.refused_when_qualified and not is_global_or_std(code[max(0, index - 2) : index]):
            continue  # probably defined by the candidate; if not, the check of the built object's symbols finds it
        yield token.line, f"`{token.text}` gives access to {what}, which a kernel may not use"


def refusal_of_word(word: str, rules: ScreenRules) -> str | None:
    """Returns what a refused word gives access to; None for an allowed word."""
    if what := rules.refused_words.get(word):
        return what
    return next((what for form, what in rules.refused_patterns if form.fullmatch(word)), None)


def is_global_or_std(before: Sequence[Token]) -> bool:
    """Whether the tokens before a name qualify it as `::name` or `std::name`."""
    texts = [token.text for token in before]
    return bool(texts) and texts[-1] == "::" and (len(texts) < 2 or texts[0] in {"std", *NOT_QUALIFIERS} or before[0].kind != "word")


def check_attributes(program_tokens: Sequence[Token], rules: ScreenRules) -> Iterator[tuple[int, str]]:
    """Yields attributes that run code at load time, or that move, rename or export code."""
    code = [token for token in program_tokens if token.kind != "newline"]
    depth, inside = 0, False
    for index, token in enumerate(code):
        following = code[index + 1].text if index + 1 < len(code) else ""
        if token.text in ("__attribute__", "__attribute", "__declspec") or (token.text == "[" and following == "["):
            inside, depth = True, 0
        if inside:
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
            if token.text in rules.attributes and not is_default_visibility(code[index : index + 3]):
                yield token.line, f"the attribute {token.text} is not allowed"
            inside = depth > 0 or token.text.startswith("__") or token.text == "["


def is_default_visibility(code: Sequence[Token]) -> bool:
    """Whether the attribute is `visibility("default")`, which is harmless because the linker exports only the entry point."""
    return [token.text for token in code] == ["visibility", "(", '"default"']


def pastes_tokens(source: str) -> bool:
    """Whether macros could create words that do not occur in the text."""
    return any(token.text == "##" for token in preprocessor_tokens(source))


def check_expanded_text(expanded: str, rules: ScreenRules, files: Collection[str]) -> list[str]:
    """Returns a message for each refused word in the candidate's part of the preprocessed text."""
    return [what for _, what in check_words(list(preprocessor_tokens(candidate_lines(expanded, files))), rules)]


def candidate_lines(expanded: str, files: Collection[str]) -> str:
    """Returns the lines of preprocessed text that come from the candidate's files, not from headers."""
    is_candidate_text, candidate_text_lines = False, []
    for line in expanded.splitlines():
        if marker := re.match(r'# \d+ "([^"]*)"', line):
            is_candidate_text = marker[1] in files
        elif is_candidate_text:
            candidate_text_lines.append(line)
    return "\n".join(candidate_text_lines)
