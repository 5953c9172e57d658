"""The tiers of the tests: which cases a sample contains, which files need a toolchain, and the guard of the fast tier."""

import os
from collections import Counter
from pathlib import Path

import pytest
from sampling import choose_numbers
from tiers import ProgramGuard, is_toolchain_path


@pytest.mark.parametrize(("total", "count", "chosen"), [(1, 8, 1), (8, 8, 1), (9, 8, 2), (100, 10, 10)])
def test_sample_has_one_case_in_count_and_at_least_one(total, count, chosen):
    assert len(choose_numbers("a commit", "test_it", total=total, count=count, group="")) == chosen


def test_sample_follows_from_its_text_and_its_group():
    first = choose_numbers("a commit", "test_it", total=1000, count=10, group="")
    assert choose_numbers("a commit", "test_it", total=1000, count=10, group="") == first
    assert choose_numbers("another commit", "test_it", total=1000, count=10, group="") != first
    assert choose_numbers("a commit", "test_it", total=1000, count=10, group="cards") != first
    assert choose_numbers("a commit", "test_other", total=1000, count=10, group="cards") == choose_numbers(
        "a commit", "test_it", total=1000, count=10, group="cards"
    )


def test_successive_commits_cover_every_case():
    covered = {number for commit in range(60) for number in choose_numbers(f"{commit:012x}", "test_it", total=48, count=8, group="")}
    assert covered == set(range(48))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import os\n", False),
        ("import subprocess\n", True),
        ("from evokernel.verifier import verify\n", True),
        ("from evokernel.verifier.reasons import REASONS\n", False),
        ("def test_it():\n    import subprocess\n", False),
        ("import subprocess\nimport pytest\n@pytest.mark.toolchain\ndef test_it(): ...\n", False),
        ("import torch\nimport pytest\n@pytest.mark.toolchain\ndef test_it(): ...\n", True),
    ],
)
def test_file_that_imports_a_tool_needs_a_toolchain_unless_it_marks_its_own_tests(tmp_path, text, expected):
    path = tmp_path / "test_made.py"
    path.write_text(text)
    assert is_toolchain_path(path) is expected


def test_guard_fails_a_test_before_it_starts_a_program(tmp_path):
    with pytest.raises(pytest.fail.Exception, match="not a fast test"), ProgramGuard().watch():
        os.system(f"touch {tmp_path / 'started'}")
    assert not (tmp_path / "started").exists()


def test_no_two_test_files_have_the_same_name():
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == [], "pytest cannot collect both; rename one"
