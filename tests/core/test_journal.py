"""The journal survives crashes of its writer."""

import json
import subprocess
import sys

import pytest
from engine_parts import make_attempt

from evokernel.core.errors import UserError
from evokernel.core.journal import Journal


def test_journal_reads_back_appended_attempts(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    attempts = [make_attempt(n) for n in range(3)]
    for one in attempts:
        journal.append(one)
    assert list(journal.read()) == attempts


def test_incomplete_last_line_is_skipped_and_repaired(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    journal.append(make_attempt(0))
    with journal.path.open("a") as file:
        file.write('{"id": "half')
    assert len(list(journal.read())) == 1
    journal.repair()
    journal.append(make_attempt(1))
    assert [a.id for a in journal.read()] == ["t/x/0", "t/x/1"]


def test_damaged_line_error_names_line_and_fix(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    for n in range(3):
        journal.append(make_attempt(n))
    lines = journal.path.read_text().splitlines()
    lines[1] = json.dumps({"id": "torn"})
    journal.path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=r"line 2 is damaged.*head -n 1"):
        list(journal.read())


@pytest.mark.toolchain
def test_full_disk_leaves_no_incomplete_line(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    journal.append(make_attempt(0))
    size = journal.path.stat().st_size
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from evokernel.core.errors import UserError\n"
        "from evokernel.core.journal import Journal\n"
        "from evokernel.core.records import Attempt\n"
        "attempt, limit = Attempt.model_validate_json(sys.argv[2]), int(sys.argv[3])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "try:\n"
        "    Journal(Path(sys.argv[1])).append(attempt)\n"
        "except UserError:\n"
        "    sys.exit(7)\n"
    )
    process = subprocess.run([sys.executable, "-c", code, str(journal.path), make_attempt(1).model_dump_json(), str(size + 100)])
    assert process.returncode == 7
    assert journal.path.stat().st_size == size
