"""The screen by patterns, for languages without a preprocessor, and the text of a single file."""

import pytest

from evokernel.backends.native.source_text import find_pattern_violations, quote_source_line, require_single_source
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate

RULES = r"""
[text]
literal = '//[^\n]*|"(?:[^"\\\n]|\\.)*"'
kept = '"std"'
[allowed."is not an allowed builtin"]
pattern = '@(\w+)'
words = "import sqrt"
[refused]
"imports a file" = '@import(?!\("std"\))'
"is inline assembly" = '\basm\b'
[refused_everywhere]
"is a block comment" = '/\*'
"""


@pytest.fixture
def rules_file(tmp_path):
    path = tmp_path / "screen.toml"
    path.write_text(RULES)
    return path


@pytest.mark.parametrize("text", ['const std = @import("std");', "// asm\nlet x = @sqrt(2);", 'let text = "asm \\" asm"; // é'])
def test_comments_and_strings_are_not_searched(text, rules_file):
    assert list(find_pattern_violations("k.x", text, rules_file)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nasm(1)", "k.x line 2: 'asm' is inline assembly"),
        ('"a" asm "b"', "k.x line 1: 'asm' is inline assembly"),
        ("// a /* b", "k.x line 1: '/*' is a block comment"),
        ("// a \\\nasm", "k.x line 2: 'asm' is inline assembly"),
        ('@import("other")', "k.x line 1: '@import' imports a file"),
        ("@cImport()", "k.x line 1: '@cImport' is not an allowed builtin"),
        ("let é = 1", "k.x line 1: 'é' is not ASCII or is a control character"),
        ("a\rb", "is not ASCII or is a control character"),
        ("1," * 5000, "k.x exceeds the limits"),
    ],
)
def test_refused_text_is_named_with_its_line(text, message, rules_file):
    (violation,) = find_pattern_violations("k.x", text, rules_file)
    assert message in violation


@pytest.mark.parametrize("files", [{}, {"other.x": "text"}, {"kernel.x": " \n"}, {"kernel.x": "text", "more.x": "text"}])
def test_candidate_must_be_one_file_with_text(files):
    with pytest.raises(CandidateError, match=r"kernel\.x"):
        require_single_source(Candidate(backend="cpp", files=files), "kernel.x")
    assert require_single_source(Candidate(backend="cpp", files={"kernel.x": "text"}), "kernel.x") == "text"


def test_quoted_line_exists():
    assert quote_source_line(2, "a\n  b\n") == "\nline 2: b"
    assert quote_source_line(0, "a") == quote_source_line(3, "a") == ""
