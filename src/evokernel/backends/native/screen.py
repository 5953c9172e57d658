"""First look at the text, for what has no place in a kernel; the built object is looked at as well, and that does not lie."""

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

LIMIT_BYTES = 256 << 10
LITERALS = 4096
LONE_RETURN = re.compile(r"\r(?!\n)")
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
RESERVED = re.compile(r"__\w*|_[A-Z]\w*")
NOT_QUALIFIERS = {"return", "throw", "else", "case", "do", "new", "delete", "and", "or", "not"}


class Rules(NamedTuple):
    """The word lists of `screen.toml` here, and what a backend's own adds to them or takes away."""

    headers: frozenset[str]
    quoted: re.Pattern[str]
    """Headers that may be included in quotes, besides the candidate's own files."""
    allowed: str
    """What may be included, in words."""
    directives: frozenset[str]
    pragmas: frozenset[str]
    compilers: frozenset[str]
    conditions: re.Pattern[str]
    attributes: frozenset[str]
    called_only: frozenset[str]
    reaches: dict[str, str]
    """Word to what it reaches for."""
    reaching: tuple[tuple[re.Pattern[str], str], ...]
    """The same for all words of a form."""
    symbols: re.Pattern[str]
    """The names a built kernel may leave for the loader to find."""


@lru_cache
def read(own: Path) -> Rules:
    """The rules of a backend, from the general ones and its own file."""
    table, more = (tomllib.loads(path.read_text()) for path in (Path(__file__).parent / "screen.toml", own))
    names, headers = more.get("names", {}), more.get("headers", {})
    free = set(names.get("free", "").split())
    reaches = [*table["reaches"].items(), *more.get("reaches", {}).items()]
    forms = more.get("forms", {}).items()
    return Rules(
        headers=frozenset(f"{' '.join(table['headers'].values())} {headers.get('added', '')}".split()),
        quoted=any_of(headers.get("quoted", ())),
        allowed=headers["allowed"],
        directives=frozenset(table["directives"]["allowed"].split()),
        pragmas=frozenset(table["directives"]["pragmas"].split()),
        compilers=frozenset(table["directives"]["compilers"].split()),
        conditions=any_of((*table["directives"]["conditions"], *more.get("directives", {}).get("conditions", ()))),
        attributes=frozenset(table["attributes"]["refused"].split()),
        called_only=frozenset(f"{table['names']['called']} {names.get('called', '')}".split()),
        reaches={word: what for what, words in reaches for word in words.split() if word not in free},
        reaching=tuple((re.compile(form), what) for what, form in forms),
        symbols=any_of((*table["symbols"]["allowed"], *more.get("symbols", {}).get("allowed", ()))),
    )


def any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """One expression for several; without any, it fits nothing."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)")


def tokens(source: str) -> Iterator[Token]:
    """The text as the preprocessor sees it: comments and blanks gone, signs in their usual spelling."""
    for token in c_tokens.tokenize(source):
        if token.kind not in ("comment", "space"):
            yield token._replace(kind="string" if token.kind == "raw" else token.kind, text=token.text.replace("%:", "#"))


def findings(name: str, source: str, rules: Rules, files: Collection[str] = ()) -> Iterator[str]:
    """What has no place in a kernel, each with its line; `files` are the candidate's own, which may include each other."""
    if len(source.encode()) > LIMIT_BYTES:
        yield f"{name} is longer than {LIMIT_BYTES >> 10} KiB: compute what a table would hold"
        return
    found = list(tokens(source))
    if sum(token.kind == "number" for token in found) > LITERALS:
        yield f"{name} holds more than {LITERALS} number literals: compute what a table would hold"
    if returned := LONE_RETURN.search(source):
        yield f"{name} line {source.count(chr(10), 0, returned.start()) + 1}: '\\r' without '\\n' after it ends a line for compilers only"
    for token in c_tokens.tokenize(source):
        if token.kind != "comment" and (control := CONTROL.search(token.text)):
            yield f"{name} line {token.line}: {control[0]!r} is no character of a program"
    for token in found:
        if token.kind in ("word", "sign") and not token.text.isascii():
            yield f"{name} line {token.line}: {token.text!r} is not ASCII"
        if token.kind == "torn":
            yield f"{name} line {token.line}: a raw string with an escaped line end in it"
    may_include = partial(is_header, rules=rules, name=name, files=files)
    noted = {*directives(found, rules, may_include), *words(without_includes(found), rules), *attributes(found, rules)}
    yield from (f"{name} line {at}: {what}" for at, what in sorted(noted))


def without_includes(found: Sequence[Token]) -> list[Token]:
    """The tokens of all lines but those that include a header: its name is no word of the program."""
    included = {id(token) for line in lines(found) if line[0].text == "include" for token in line}
    return [token for token in found if id(token) not in included]


def lines(found: Sequence[Token]) -> Iterator[list[Token]]:
    """The preprocessor's lines, without the sign they begin with."""
    line: list[Token] = []
    for token in [*found, Token("newline", "\n", 0)]:
        if token.kind != "newline":
            line.append(token)
            continue
        if len(line) > 1 and line[0].text == "#":
            yield line[1:]
        line = []


def directives(found: Sequence[Token], rules: Rules, may_include: Callable[[str], bool]) -> Iterator[tuple[int, str]]:
    """Preprocessor lines that reach outside: unknown headers, paths, questions about the build, anything but the common directives."""
    own = own_macros(found)
    unreadable = pasting(own)
    for first, *rest in lines(found):
        if first.kind != "word" or first.text not in rules.directives:
            yield first.line, f"#{first.text} is not allowed"
        elif first.text == "include":
            header = "".join(part.text for part in rest)
            if not may_include(header):
                yield first.line, f"#include {header} is not allowed, only {rules.allowed}"
        elif first.text == "pragma":
            yield from ((first.line, what) for what in pragma([part.text for part in rest], rules))
        elif first.text in ("if", "elif", "ifdef", "ifndef"):
            yield from ((first.line, what) for what in conditions(first.text, rest, own, unreadable, rules, may_include))
    for index, token in enumerate(found):
        following = [part for part in found[index + 1 : index + 6] if part.kind != "newline"]
        if token.text == "_Pragma" and len(following) > 1 and following[1].kind == "string":
            inner = following[1].text.partition('"')[2].removesuffix('"').replace('\\"', '"')
            yield from ((token.line, what) for what in pragma([part.text for part in tokens(inner)], rules))


def is_header(text: str, rules: Rules, name: str, files: Collection[str]) -> bool:
    """Whether this is one of the headers that a file of the candidate may include."""
    header = text[1:-1] if len(text) > 2 and (text[0], text[-1]) in {("<", ">"), ('"', '"')} else ""
    if not header:
        return False
    return header in rules.headers or bool(rules.quoted.fullmatch(header)) or (text[0] == '"' and is_own(header, name, files))


def is_own(header: str, name: str, files: Collection[str]) -> bool:
    """Whether a header is one of the candidate's own files: beside the one that includes it, or below any of its folders."""
    if posixpath.normpath(posixpath.join(posixpath.dirname(name), header)) in files:
        return True
    return ".." not in header.split("/") and any(f"/{file}".endswith(f"/{header}") for file in files)


def pragma(said: Sequence[str], rules: Rules) -> Iterator[str]:
    """What has no place in a pragma; those that no compiler knows harm nobody."""
    if said and said[0] in rules.pragmas:
        yield f"#pragma {said[0]} is not allowed"
    elif len(said) > 1 and said[0] in ("GCC", "clang") and said[1] not in rules.compilers:
        yield f"#pragma {said[0]} {said[1]} is not allowed"


def own_macros(found: Sequence[Token]) -> dict[str, set[str]]:
    """What the candidate defines itself: every name with all words and signs of its definitions."""
    own: dict[str, set[str]] = {}
    for first, *rest in lines(found):
        if first.text == "define" and rest:
            own.setdefault(rest[0].text, set()).update(token.text for token in rest[1:])
    return own


def pasting(own: dict[str, set[str]]) -> set[str]:
    """The macros that put tokens together, or use one that does."""
    found = {"##"}
    while more := {name for name, body in own.items() if name not in found and body & found}:
        found |= more
    return found


def conditions(
    directive: str, asked: Sequence[Token], own: dict[str, set[str]], unreadable: set[str], rules: Rules, may_include: Callable[[str], bool]
) -> Iterator[str]:
    """Questions a kernel has no need to ask: how this build is made, what files there are."""
    for index, token in enumerate(asked):
        if token.text == "__has_include":
            header = "".join(part.text for part in asked[index + 2 :]).partition(")")[0]
            if not may_include(header):
                yield f"__has_include({header}) looks for what may not be included"
        elif token.kind == "word" and RESERVED.fullmatch(token.text) and token.text not in own:
            if not rules.conditions.fullmatch(token.text):
                yield f"#{directive} {token.text} asks for what a kernel has no need to know"
        elif directive in ("if", "elif") and token.text in unreadable:
            yield f"#{directive} {token.text}: a condition that pastes tokens cannot be read"


def words(found: Sequence[Token], rules: Rules) -> Iterator[tuple[int, str]]:
    """Identifiers that reach for something a kernel does not need."""
    code = [token for token in found if token.kind != "newline"]
    for index, token in enumerate(code):
        what = reached(token.text, rules) if token.kind == "word" else None
        if what is None:
            continue
        if token.text in rules.called_only and not is_foreign(code[max(0, index - 2) : index]):
            continue  # a name of the candidate's own; if it is not, the built object's symbols tell
        yield token.line, f"`{token.text}` reaches for {what}"


def reached(word: str, rules: Rules) -> str | None:
    """What a word reaches for, if it does."""
    if what := rules.reaches.get(word):
        return what
    return next((what for form, what in rules.reaching if form.fullmatch(word)), None)


def is_foreign(before: Sequence[Token]) -> bool:
    """Whether what precedes a name takes it from the global scope or from the standard library."""
    texts = [token.text for token in before]
    return bool(texts) and texts[-1] == "::" and (len(texts) < 2 or texts[0] in {"std", *NOT_QUALIFIERS} or before[0].kind != "word")


def attributes(found: Sequence[Token], rules: Rules) -> Iterator[tuple[int, str]]:
    """Attributes that run code while loading, or move, rename or export it."""
    code = [token for token in found if token.kind != "newline"]
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
    """`visibility("default")` is harmless: only the entry point is exported, whatever else asks for it."""
    return [token.text for token in code] == ["visibility", "(", '"default"']


def pastes_tokens(source: str) -> bool:
    """Whether macros could spell words that the text does not hold."""
    return any(token.text == "##" for token in tokens(source))


def unwanted_words(expanded: str, rules: Rules, files: Collection[str]) -> list[str]:
    """The words refused in the candidate's part of text that the preprocessor has expanded."""
    return [what for _, what in words(list(tokens(own_part(expanded, files))), rules)]


def own_part(expanded: str, files: Collection[str]) -> str:
    """The lines of preprocessed text that stem from the candidate's files, named as the compiler was given them, not from a header."""
    own, kept = False, []
    for line in expanded.splitlines():
        if marker := re.match(r'# \d+ "([^"]*)"', line):
            own = marker[1] in files
        elif own:
            kept.append(line)
    return "\n".join(kept)
