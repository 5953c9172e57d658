"""A bank that cannot be used gives one line that names the fix, and no data is lost."""

import sqlite3

import pytest
from bank_parts import assert_error
from test_memory_bank import item

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Stage
from evokernel.memory.bank import Bank
from evokernel.memory.schema import open_or_create
from evokernel.memory.tables import write_transaction


def open_bank(path, run="r", **embedder):
    return Bank.open(path, make_plugin("embedder", "hash", **embedder), backend="cpp", run=run)


def make_filled_bank(path, n=50):
    with open_bank(path) as bank:
        bank.add([item(f"i{k}", text=f"word{k} " * 200) for k in range(n)])
        bank.update("t/x/0", Stage.DRAFT, {"i0": 1.0}, 0.3)
    return path


def test_file_that_is_not_a_database_is_rejected(tmp_path):
    path = tmp_path / "bank.db"
    path.write_text("these are not the bytes of a database, and there are enough of them to be sure of that")
    assert_error(UserError, lambda: open_bank(path), "bank.db", "damaged", "--memory OTHER")
    assert_error(UserError, lambda: Bank.open_reader(path), "bank.db", "damaged", "--memory OTHER")
    assert path.read_text().startswith("these are not")


def test_damaged_pages_are_detected(tmp_path):
    path = make_filled_bank(tmp_path / "bank.db")
    content = bytearray(path.read_bytes())
    for page in range(3, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    assert_error(UserError, lambda: open_bank(path), "damaged", "--memory OTHER")
    assert_error(UserError, lambda: Bank.open_reader(path), "damaged", "--memory OTHER")


def test_truncated_file_is_detected(tmp_path):
    path = make_filled_bank(tmp_path / "bank.db")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert_error(UserError, lambda: open_bank(path), "damaged", "--memory OTHER")


def test_unreadable_record_is_reported(tmp_path):
    path = make_filled_bank(tmp_path / "bank.db")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE items SET record = '{\"id\": 3}' WHERE id = 'i7'")
    connection.close()
    assert_error(UserError, lambda: open_bank(path, run="s"), "unreadable record", "--memory OTHER")
    assert_error(UserError, lambda: list(Bank.open_reader(path).find_items()), "unreadable record")


def test_database_of_another_program_is_rejected(tmp_path):
    path = tmp_path / "bank.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other_table (number INTEGER)")
    connection.close()
    assert_error(UserError, lambda: open_bank(path), "not a memory bank", "--memory OTHER")


def test_bank_of_a_newer_version_is_rejected(tmp_path):
    path = make_filled_bank(tmp_path / "bank.db")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    connection.close()
    assert_error(UserError, lambda: open_bank(path), "newer evokernel", "schema 99")


def test_bank_of_another_embedder_is_rejected(tmp_path):
    path = make_filled_bank(tmp_path / "bank.db")
    assert_error(UserError, lambda: open_bank(path, run="s", dim=64), "hash-1024-v2", "hash-64-v2", "--memory OTHER")
    with open_bank(path, run="t") as bank:
        assert len(bank.search("word3", 99)) == 50


def test_unwritable_folder_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    assert_error(UserError, lambda: open_bank(tmp_path / "file" / "bank.db"), "cannot create the folder", "--memory OTHER")
    (tmp_path / "folder.db").mkdir()
    assert_error(UserError, lambda: open_bank(tmp_path / "folder.db"), "folder.db", "--memory OTHER")


def test_read_only_file_is_reported(tmp_path, monkeypatch):
    """SQLite opens the file read-only, because file modes do not stop root from writing."""
    path = make_filled_bank(tmp_path / "bank.db")
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda database, **more: connect(f"{database.as_uri()}?mode=ro", uri=True, **more))
    assert_error(UserError, lambda: open_bank(path, run="s"), "cannot be written", "--memory OTHER")


def test_missing_bank_is_reported_and_not_created(tmp_path):
    assert_error(UserError, lambda: Bank.open_reader(tmp_path / "none.db"), "none.db", "--memory PATH")
    assert not (tmp_path / "none.db").exists()


def test_full_disk_loses_no_data_and_writing_can_continue(tmp_path):
    path = make_filled_bank(tmp_path / "bank.db")
    bank = open_bank(path, run="s")
    pages = bank._connection.execute("PRAGMA page_count").fetchone()[0]
    bank._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    big = [item(f"big{n}", text="x" * 5000) for n in range(20)]
    assert_error(UserError, lambda: bank.add(big), "free some space and resume")
    assert bank.get(["big0"]) == []
    bank._connection.execute("PRAGMA max_page_count = 1000000")
    bank.add(big)
    assert len(bank.get(["big0", "big19"])) == 2
    bank.close()
    with open_bank(path, run="t") as later:
        assert len(later.search("x", 99)) == 70


def test_locked_bank_is_reported(tmp_path, monkeypatch):
    path = make_filled_bank(tmp_path / "bank.db")
    with open_bank(path, run="s") as bank:
        bank._connection.execute("PRAGMA busy_timeout = 50")
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert_error(UserError, lambda: bank.update("t/x/9", Stage.DRAFT, {"i0": 1.0}, 0.3), "another process")
        holder.execute("ROLLBACK")
        holder.close()
        bank.update("t/x/9", Stage.DRAFT, {"i0": 1.0}, 0.3)
        assert bank.values(["i0"], Stage.DRAFT)["i0"].visits == 2


def test_transaction_locks_the_bank_at_its_start_and_rolls_back_on_error(tmp_path):
    """SQLite rejects a transaction that reads first and writes later if another writer came between."""
    path = make_filled_bank(tmp_path / "bank.db")
    ours, theirs = open_or_create(path), sqlite3.connect(path, timeout=0, isolation_level=None)
    with write_transaction(ours):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            theirs.execute("BEGIN IMMEDIATE")

    def fail_halfway():
        with write_transaction(ours):
            ours.execute("DELETE FROM item_values")
            ours.execute("INSERT INTO item_values VALUES (NULL, '', '', 0, 0)")

    with pytest.raises(sqlite3.IntegrityError):
        fail_halfway()
    assert theirs.execute("SELECT count(*) FROM item_values").fetchone() == (1,)
    ours.close()
    theirs.close()
