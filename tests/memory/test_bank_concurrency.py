"""Several processes write to one bank: no update is lost, and a killed process leaves an intact bank."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sampling import one_in

from evokernel.core.bank_uri import parse_location
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import Stage
from evokernel.memory import ledger
from evokernel.memory.bank import Bank
from evokernel.memory.schema import connect_read_only

WRITER = Path(__file__).parent / "bank_writer.py"


def start_writer(path, run, attempts):
    command = [sys.executable, str(WRITER), str(path), run, str(attempts)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def read_stored_values(path):
    connection = connect_read_only(path)
    rows = connection.execute("SELECT item, stage, scope, q, visits FROM item_values")
    values = {(item, stage, scope): ItemValue(q, visits) for item, stage, scope, q, visits in rows}
    folded_values = ledger.fold_updates(connection.execute(f"{ledger.ACTIVE_ROWS} ORDER BY seq"))
    assert values == folded_values, "the table of values is the fold of the ledger, bit for bit"
    connection.close()
    return values


@pytest.mark.slow(one_in=5)
def test_no_update_is_lost_between_processes(tmp_path):
    path = tmp_path / "bank.db"
    writers = [start_writer(path, f"run{n}", 60) for n in range(4)]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 4
    for writer in writers:
        writer.stdout.close()
    values = read_stored_values(path)
    assert values["shared", "draft", ""].visits == 4 * 60
    with Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="later") as bank:
        assert len(bank.search("anything", 1000, ("trace",))) == 4 * 60


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("how", one_in(3, ("kill", "immediate", "fast")))
def test_eight_processes_survive_a_server_restart(postgres, how):
    path = parse_location(postgres.url(f"eight_{how}"))
    writers = [start_writer(path, f"run{n}", 50) for n in range(8)]
    for writer in writers:
        while int(writer.stdout.readline()) < 10:
            pass
    assert any(writer.poll() is None for writer in writers), "the writers are still running"
    postgres.restart(how)
    assert [writer.wait(timeout=200) for writer in writers] == [0] * 8
    for writer in writers:
        writer.stdout.close()
    values = read_stored_values(path)
    assert values["shared", "draft", ""].visits == 8 * 50
    with Bank.open_reader(path) as reader:
        steps = reader.value_history("shared")
        assert len({(step.run, step.attempt) for step in steps}) == len(steps) == 8 * 50
        assert [step.q_before for step in steps] == [0.0, *(step.q_after for step in steps[:-1])], "updates are applied one after the other"
        assert reader.compute_stats().items == 8 * 50


def test_killed_writer_loses_no_committed_update(banks):
    path = banks()
    writer = start_writer(path, "run0", 1_000_000)
    last_printed = 0
    while last_printed < 40:
        last_printed = int(writer.stdout.readline())
    time.sleep(0.003)
    writer.send_signal(signal.SIGKILL)
    last_printed = max(last_printed, *(int(line) for line in writer.stdout.read().split("\n")[:-1] or [last_printed]))
    writer.wait(timeout=200)
    values = read_stored_values(path)
    assert values["shared", "draft", ""].visits in (
        last_printed + 1,
        last_printed + 2,
    )  # one more may have been committed but not yet printed
    with Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="run0") as bank:
        assert bank.is_resumed
        assert bank.values(["shared"], Stage.DRAFT)["shared"] == ItemValue()
        for n in range(last_printed + 3):  # the loop replays its journal
            bank.update(f"t/x/{n}", Stage.DRAFT, {"shared": (n % 5) / 2 - 1}, 0.3)
        assert bank.values(["shared"], Stage.DRAFT)["shared"] == read_stored_values(path)["shared", "draft", ""]
