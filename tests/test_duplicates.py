"""No block of code stands twice in the package.

A block is six or more lines in a row that are equal except for indentation. Blank lines, comments, docstrings, imports, signatures (which
implementations must repeat) and lines of punctuation only are passed over. Not counted: samples, self-test candidates, knowledge and
tasks, which are data and complete by themselves, and templates of texts.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "evokernel"
MIN_LINES = 6
SUFFIXES = {".py", ".h", ".hpp", ".c", ".cpp", ".cu", ".js", ".css", ".sh"}
DATA_FOLDERS = {"samples", "selftest", "knowledge"}
SUITES = {path.name for path in (SRC / "suites").iterdir() if path.is_dir()}
C_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
INCLUDE = "backends/ascendc/simulator/include"
ALLOWED = {
    frozenset({f"{INCLUDE}/kernel_tiling/kernel_tiling.h"}): "CANN's structs, whose fields are listed one by one, as in its documentation",
    frozenset({f"{INCLUDE}/graph/types.h", f"{INCLUDE}/tiling/matmul_tiling.h"}): "two enumerations of CANN that share some numbers",
}
"""By pair of files (one file for a block that stands twice in it): why the block must stand in both places."""

Line = tuple[int, str]
"""Number and text of a line."""


def is_code(path: Path) -> bool:
    parts = path.relative_to(SRC).parts
    is_task = parts[0] == "suites" and len(parts) > 2 and parts[1] in SUITES
    return path.suffix in SUFFIXES and not DATA_FOLDERS & set(parts) and not is_task


def skipped_python_lines(text: str) -> set[int]:
    """Lines of docstrings, imports and signatures."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if is_docstring or isinstance(node, ast.Import | ast.ImportFrom):
            skipped |= set(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            skipped |= set(range(node.lineno, node.body[0].lineno))
    return skipped


def code_lines(path: str, text: str) -> list[Line]:
    """The lines of a file that count."""
    is_python = path.endswith((".py", ".sh"))
    skipped = skipped_python_lines(text) if path.endswith(".py") else set()
    if not is_python:
        text = C_COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    lines = ((number, re.sub(r"\s+", " ", line.strip())) for number, line in enumerate(text.splitlines(), 1))
    comment = "#" if is_python else ("//", "#include")
    return [(number, line) for number, line in lines if number not in skipped and re.search(r"\w", line) and not line.startswith(comment)]


def find_duplicates(texts: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield two files and the places of a block that both contain, for each maximal block."""
    files = {path: code_lines(path, text) for path, text in texts.items()}
    places = defaultdict(list)
    for path, lines in files.items():
        for start in range(len(lines) - MIN_LINES + 1):
            places["\n".join(line for _, line in lines[start : start + MIN_LINES])].append((path, start))
    pairs = {(one, other) for group in places.values() for i, one in enumerate(group) for other in group[i + 1 :]}
    for (first, a), (second, b) in sorted(pairs):
        if ((first, a - 1), (second, b - 1)) in pairs or (first == second and b - a < MIN_LINES):
            continue
        count = MIN_LINES
        while ((first, a + count - MIN_LINES + 1), (second, b + count - MIN_LINES + 1)) in pairs:
            count += 1
        ranges = [f"{path}:{files[path][at][0]}-{files[path][at + count - 1][0]}" for path, at in ((first, a), (second, b))]
        yield first, second, f"{ranges[0]} and {ranges[1]} have {count} equal lines; give them one home"


@cache
def package_duplicates() -> list[tuple[str, str, str]]:
    texts = {str(path.relative_to(SRC)): path.read_text() for path in sorted(SRC.rglob("*")) if path.is_file() and is_code(path)}
    return list(find_duplicates(texts))


def test_no_block_stands_twice():
    messages = [message for first, second, message in package_duplicates() if frozenset((first, second)) not in ALLOWED]
    assert messages == [], "\n".join(messages)


def test_exceptions_are_still_needed():
    duplicates = {frozenset((first, second)) for first, second, _ in package_duplicates()}
    assert set(ALLOWED) <= duplicates


def test_planted_duplicates_are_found():
    body = "\n".join(f"    value_{n} = compute({n})" for n in range(7))
    texts = {
        "a.py": f"def first():\n{body}\n",
        "b.py": f"import os\n\n\nclass B:\n    def second(self):\n{body.replace('    v', '        v')}\n",
    }
    assert [message for *_, message in find_duplicates(texts)] == ["a.py:2-8 and b.py:6-12 have 7 equal lines; give them one home"]
    texts["b.py"] = texts["b.py"].replace("value_3", "other")
    assert list(find_duplicates(texts)) == []
    code = "\n".join(f"int value_{n};  // {n}" for n in range(6))
    assert len(list(find_duplicates({"a.h": f"{code}\n/* a\n b */\nint other;\n{code}"}))) == 1


def test_signatures_imports_and_docstrings_do_not_count():
    head = "import os\nimport re\nfrom math import (\n    exp,\n    log,\n    sin,\n)\n\n\n"
    signature = (
        'def write(\n    a: int,\n    b: int,\n    c: int,\n    d: int,\n    e: int,\n) -> None:\n    """Write.\n\n    More.\n    """\n'
    )
    assert list(find_duplicates({"a.py": f"{head}{signature}    return os\n", "b.py": f"{head}{signature}    return re\n"})) == []
