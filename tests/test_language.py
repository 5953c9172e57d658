"""Names explain themselves and text is plain English: the rules of CONTRIBUTING.md that a program can count."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from repository import list_tracked_files

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "evokernel"
MAX_PARTICIPLE_SHARE = 0.03
MAX_PRIVATE_WORDS = 20 / 100_000
MAX_LINE = 120
MAX_PARAGRAPH_WORDS = 100

NOT_PYTHON_OF_OURS = re.compile(r"/(samples|selftest|knowledge)/|/suites/(level\d|attention|mhc|starter)/")
"""Candidates, cards and task files: their names follow the language or the benchmark they imitate."""

IRREGULAR_PARTICIPLES = frozenset(
    [
        "told",
        "kept",
        "known",
        "found",
        "said",
        "made",
        "given",
        "left",
        "held",
        "seen",
        "shown",
        "taken",
        "written",
        "asked",
        "begun",
        "gone",
        "come",
        "came",
        "met",
        "sent",
        "built",
        "lost",
        "spent",
        "drawn",
        "chosen",
        "brought",
        "bought",
        "caught",
        "taught",
        "thought",
        "done",
        "ran",
        "apart",
        "aside",
        "beside",
        "elsewhere",
        "whole",
        "alike",
        "again",
        "near",
        "far",
        "behind",
        "within",
        "without",
    ]
)
REGULAR_PARTICIPLE = re.compile(r"^[a-z]{2,}(?:ed|tten|ken|sen|wn)$")
NOT_PARTICIPLES = frozenset(
    [
        "need",
        "seed",
        "speed",
        "feed",
        "embed",
        "red",
        "bed",
        "shed",
        "breed",
        "exceed",
        "proceed",
        "succeed",
        "indeed",
        "hundred",
        "sacred",
        "open",
        "token",
        "even",
        "seven",
        "eleven",
        "ten",
        "often",
    ]
)

PRIVATE_WORDS = {  # pattern: what to write instead
    r"\b(?:is|are|was|be|been|being|were|it|as) told\b|\btold (?:of|apart|by|in|to|with)\b": "reported, shown, distinguished",
    r"\bwhoever\b": "the person or component that acts, by name",
    r"\bnobody\b": "no user, no process: name it",
    r"\bwhat (?:was|were) \w+": "a noun: the item, the candidate, the result",
    r"\b(?:gone|goes|go|going) on with\b": "resumed, continues",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bnoughts?\b": "zero",
    r"\bjudged again\b": "re-evaluated",
    r"\bjudges?\b|\bjudged\b|\bjudging\b": "verifier, verify, evaluate",
    r"\bheld against\b": "compared with",
    r"\bh[eo]ld(?:s|ing)? up\b": "passes re-evaluation",
    r"\bstands? in for\b|\bstand-ins?\b": "replaces, substitute",
    r"\bso (?:many|often) (?:attempts|visits|rounds|calls|times|tries)\b": "N",
    r"\bjail(?:s|ed)?\b": "sandbox",
    r"\btwins?\b": "simulator",
    r"\bput aside\b": "archived",
    r"\bfound out\b": "detected",
    r"\byardstick\b": "tolerance",
    r"\bfor the asking\b": "on request",
}
ALLOWED: dict[tuple[str, str], str] = {}
"""(file, pattern) of private words that may stay, with the reason."""
LAYOUT_EXCEPTIONS = {  # pattern of pages whose lines may be long: reason
    r"tests/golden/.*": "prompts, compared letter by letter with what the code writes",
    r"results/[\w-]+/experiment\.md": "written by `evokernel experiment`, one line per note",
}


def is_bare_participle(name: str) -> bool:
    """Whether a name says neither what a thing is nor what a function does: `kept`, `found`, but not `kept_replies`."""
    name = name.lstrip("_")
    return name in IRREGULAR_PARTICIPLES or (name not in NOT_PARTICIPLES and "_" not in name and REGULAR_PARTICIPLE.match(name) is not None)


def python_files() -> list[Path]:
    return [path for path in sorted(SRC.rglob("*.py")) if not NOT_PYTHON_OF_OURS.search(path.as_posix())]


@cache
def list_names() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The names of functions and of variables, each with its place."""
    functions, variables = [], []
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append((node.name, f"{path.relative_to(SRC)}:{node.lineno}"))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                variables.append((node.id, f"{path.relative_to(SRC)}:{node.lineno}"))
    return functions, variables


@pytest.mark.parametrize("kind", [0, 1], ids=["functions", "variables"])
def test_few_names_are_bare_participles(kind: int) -> None:
    names = list_names()[kind]
    places = [f"{place} {name}" for name, place in names if is_bare_participle(name)]
    assert len(places) <= MAX_PARTICIPLE_SHARE * len(names), f"{len(places)} of {len(names)}: " + ", ".join(places[:40])


def test_participles_are_recognised() -> None:
    assert all(map(is_bare_participle, ("told", "kept", "_watched", "written")))
    assert not any(map(is_bare_participle, ("seed", "kept_replies", "is_known", "load_tasks", "speedup")))


def prose(text: str) -> str:
    """A Markdown text without code blocks, inline code and the addresses of links."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "code", text))


def texts() -> Iterator[tuple[str, str]]:
    """Everything people and models read: pages, cards, prompts, templates, and the strings and comments of the program."""
    for path in list_tracked_files("*.md"):
        yield str(path.relative_to(ROOT)), prose(path.read_text())
    for path in list_tracked_files("*.html"):
        yield str(path.relative_to(ROOT)), path.read_text()
    for path in python_files():
        text = path.read_text()
        strings = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        yield str(path.relative_to(ROOT)), "\n".join([*strings, *re.findall(r"(?:^|\s)#\s(.*)$", text, re.MULTILINE)])


def find_private_words(name: str, text: str) -> list[str]:
    return [
        f"{name}: '{match.group()}' (write: {instead})"
        for pattern, instead in PRIVATE_WORDS.items()
        if (name, pattern) not in ALLOWED
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]


def test_text_has_few_private_words() -> None:
    hits, words = [], 0
    for name, text in texts():
        words += len(text.split())
        hits += find_private_words(name, text)
    assert len(hits) <= MAX_PRIVATE_WORDS * words, f"{len(hits)} in {words} words:\n" + "\n".join(hits[:80])


def test_private_words_are_recognised() -> None:
    assert find_private_words("page.md", "Bests are judged again, whoever wrote them.")
    assert not find_private_words("page.md", "The verifier re-evaluates the best kernels when a run ends.")


def wide_lines(text: str) -> list[int]:
    """Numbers of the lines over the limit, outside code blocks, tables and templates; an address cannot be broken."""
    in_code, numbers = False, []
    head = re.match(r"---\n.*?\n---\n", text, re.DOTALL)
    for number, line in enumerate(text.split("\n"), start=1):
        if head and number <= head.group().count("\n"):
            continue  # front matter: one line per key
        if line.startswith(("```", "~~~")):
            in_code = not in_code
        elif (
            not in_code
            and not line.lstrip().startswith(("|", "!["))
            and "{%" not in line
            and "{{" not in line
            and len(re.sub(r"\]\([^)]*\)", "]()", line)) > MAX_LINE
        ):
            numbers.append(number)
    return numbers


def long_paragraphs(text: str) -> list[str]:
    """The beginnings of paragraphs and list entries with too many words."""
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)", prose(text))
    return [block.strip()[:60] for block in blocks if not block.lstrip().startswith("|") and len(block.split()) > MAX_PARAGRAPH_WORDS]


def test_pages_have_short_lines_and_paragraphs() -> None:
    pages = {str(page.relative_to(ROOT)): page.read_text() for page in list_tracked_files("*.md")}
    checked = {name: text for name, text in pages.items() if not any(re.fullmatch(pattern, name) for pattern in LAYOUT_EXCEPTIONS)}
    assert {name: lines for name, text in checked.items() if (lines := wide_lines(text))} == {}
    assert {name: paragraphs for name, text in checked.items() if (paragraphs := long_paragraphs(text))} == {}


def test_wide_lines_and_long_paragraphs_are_recognised() -> None:
    assert wide_lines("short\n" + "long " * 30) == [2]
    assert wide_lines("| " + "cell | " * 30 + "\n```\n" + "x" * 200 + "\n```") == []
    assert long_paragraphs("word " * 101)
    assert not long_paragraphs("word " * 60 + "\n\n" + "word " * 60)
