"""The journal survives what kills its writer."""

import json
import subprocess
import sys

import pytest
from engine_parts import attempt

from evokernel.core.errors import UserError
from evokernel.core.journal import Journal


def test_reads_back_what_was_appended(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    made = [attempt(n) for n in range(3)]
    for one in made:
        journal.append(one)
    assert list(journal.read()) == made


def test_a_half_written_last_line_is_no_attempt(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    journal.append(attempt(0))
    with journal.path.open("a") as file:
        file.write('{"id": "half')
    assert len(list(journal.read())) == 1
    journal.repair()
    journal.append(attempt(1))
    assert [a.id for a in journal.read()] == ["t/x/0", "t/x/1"]


def test_damage_in_the_middle_names_the_line_and_the_fix(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    for n in range(3):
        journal.append(attempt(n))
    lines = journal.path.read_text().splitlines()
    lines[1] = json.dumps({"id": "torn"})
    journal.path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=r"line 2 is damaged.*head -n 1"):
        list(journal.read())


def test_a_full_disk_leaves_no_torn_line(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    journal.append(attempt(0))
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
    done = subprocess.run([sys.executable, "-c", code, str(journal.path), attempt(1).model_dump_json(), str(size + 100)])
    assert done.returncode == 7
    assert journal.path.stat().st_size == size
