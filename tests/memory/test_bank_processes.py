"""Several processes write to one bank: no update is lost, and a killed one leaves a whole bank."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evokernel.core.bank_uri import parse_location
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import Stage
from evokernel.memory import ledger
from evokernel.memory.bank import Bank
from evokernel.memory.schema import connect_to_read

WRITER = Path(__file__).parent / "bank_writer.py"


def start(path, run, attempts):
    command = [sys.executable, str(WRITER), str(path), run, str(attempts)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def stored(path):
    connection = connect_to_read(path)
    rows = connection.execute("SELECT item, stage, scope, q, visits FROM q")
    values = {(item, stage, scope): ItemValue(q, visits) for item, stage, scope, q, visits in rows}
    folded = ledger.fold(connection.execute(f"{ledger.LIVE} ORDER BY seq"))
    assert values == folded, "the table of values is the fold of the ledger, bit for bit"
    connection.close()
    return values


def test_no_update_is_lost_between_processes(tmp_path):
    path = tmp_path / "bank.db"
    writers = [start(path, f"run{n}", 60) for n in range(4)]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 4
    for writer in writers:
        writer.stdout.close()
    values = stored(path)
    assert values["shared", "draft", ""].visits == 4 * 60
    with Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="later") as bank:
        assert len(bank.search("anything", 1000, ("trace",))) == 4 * 60


@pytest.mark.parametrize("how", ["kill", pytest.param("immediate", marks=pytest.mark.slow), pytest.param("fast", marks=pytest.mark.slow)])
def test_eight_processes_and_a_server_that_goes_away_and_comes_back(postgres, how):
    path = parse_location(postgres.url(f"eight_{how}"))
    writers = [start(path, f"run{n}", 50) for n in range(8)]
    for writer in writers:
        while int(writer.stdout.readline()) < 10:
            pass
    assert any(writer.poll() is None for writer in writers), "they are in the middle of it"
    postgres.restart(how)
    assert [writer.wait(timeout=200) for writer in writers] == [0] * 8
    for writer in writers:
        writer.stdout.close()
    values = stored(path)
    assert values["shared", "draft", ""].visits == 8 * 50
    with Bank.read(path) as archive:
        steps = archive.history("shared")
        assert len({(step.run, step.attempt) for step in steps}) == len(steps) == 8 * 50
        assert [step.q_before for step in steps] == [0.0, *(step.q_after for step in steps[:-1])], "one after the other"
        assert archive.stats().items == 8 * 50


def test_a_killed_writer_loses_nothing_it_had_finished(banks):
    path = banks()
    writer = start(path, "run0", 1_000_000)
    done = 0
    while done < 40:
        done = int(writer.stdout.readline())
    time.sleep(0.003)
    writer.send_signal(signal.SIGKILL)
    done = max(done, *(int(line) for line in writer.stdout.read().split("\n")[:-1] or [done]))
    writer.wait(timeout=30)
    values = stored(path)
    assert values["shared", "draft", ""].visits in (done + 1, done + 2)  # one more may have been finished but not yet said
    with Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="run0") as bank:
        assert bank.resumed
        assert bank.values(["shared"], Stage.DRAFT)["shared"] == ItemValue()
        for n in range(done + 3):  # the loop learns its journal again
            bank.update(f"t/x/{n}", Stage.DRAFT, {"shared": (n % 5) / 2 - 1}, 0.3)
        assert bank.values(["shared"], Stage.DRAFT)["shared"] == stored(path)["shared", "draft", ""]
