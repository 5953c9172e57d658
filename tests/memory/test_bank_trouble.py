"""A bank that cannot be used: one line that names the fix, and nothing lost."""

import sqlite3

import pytest
from bank_parts import refusal
from test_memory_bank import item

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Stage
from evokernel.memory.bank import Bank
from evokernel.memory.schema import connect
from evokernel.memory.tables import transaction


def open_bank(path, run="r", **embedder):
    return Bank.open(path, make_plugin("embedder", "hash", **embedder), backend="cpp", run=run)


def filled(path, n=50):
    with open_bank(path) as bank:
        bank.add([item(f"i{k}", text=f"word{k} " * 200) for k in range(n)])
        bank.update("t/x/0", Stage.DRAFT, {"i0": 1.0}, 0.3)
    return path


def test_not_a_database(tmp_path):
    path = tmp_path / "bank.db"
    path.write_text("these are not the bytes of a database, and there are enough of them to be sure of that")
    refusal(UserError, lambda: open_bank(path), "bank.db", "damaged", "--memory OTHER")
    refusal(UserError, lambda: Bank.read(path), "bank.db", "damaged", "--memory OTHER")
    assert path.read_text().startswith("these are not")


def test_damaged_pages(tmp_path):
    path = filled(tmp_path / "bank.db")
    content = bytearray(path.read_bytes())
    for page in range(3, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    refusal(UserError, lambda: open_bank(path), "damaged", "--memory OTHER")
    refusal(UserError, lambda: Bank.read(path), "damaged", "--memory OTHER")


def test_cut_off(tmp_path):
    path = filled(tmp_path / "bank.db")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refusal(UserError, lambda: open_bank(path), "damaged", "--memory OTHER")


def test_a_record_nobody_can_read(tmp_path):
    path = filled(tmp_path / "bank.db")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE items SET record = '{\"id\": 3}' WHERE id = 'i7'")
    connection.close()
    refusal(UserError, lambda: open_bank(path, run="s"), "cannot be read", "--memory OTHER")
    refusal(UserError, lambda: list(Bank.read(path).entries()), "cannot be read")


def test_another_database(tmp_path):
    path = tmp_path / "bank.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE someone (elses INTEGER)")
    connection.close()
    refusal(UserError, lambda: open_bank(path), "not a memory bank", "--memory OTHER")


def test_made_by_a_newer_version(tmp_path):
    path = filled(tmp_path / "bank.db")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    connection.close()
    refusal(UserError, lambda: open_bank(path), "newer evokernel", "schema 99")


def test_another_embedder(tmp_path):
    path = filled(tmp_path / "bank.db")
    refusal(UserError, lambda: open_bank(path, run="s", dim=64), "hash-1024-v2", "hash-64-v2", "--memory OTHER")
    with open_bank(path, run="t") as bank:
        assert len(bank.search("word3", 99)) == 50


def test_a_folder_that_cannot_be_made_or_written(tmp_path):
    (tmp_path / "file").write_text("")
    refusal(UserError, lambda: open_bank(tmp_path / "file" / "bank.db"), "cannot make the folder", "--memory OTHER")
    (tmp_path / "folder.db").mkdir()
    refusal(UserError, lambda: open_bank(tmp_path / "folder.db"), "folder.db", "--memory OTHER")


def test_a_read_only_file(tmp_path, monkeypatch):
    """The system's refusal itself: a process that may write everywhere (root) cannot be refused by file modes."""
    path = filled(tmp_path / "bank.db")
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda database, **more: connect(f"{database.as_uri()}?mode=ro", uri=True, **more))
    refusal(UserError, lambda: open_bank(path, run="s"), "cannot be written", "--memory OTHER")


def test_no_bank_to_read(tmp_path):
    refusal(UserError, lambda: Bank.read(tmp_path / "none.db"), "none.db", "--memory PATH")
    assert not (tmp_path / "none.db").exists()


def test_a_full_disk_loses_nothing_and_later_goes_on(tmp_path):
    path = filled(tmp_path / "bank.db")
    bank = open_bank(path, run="s")
    pages = bank._connection.execute("PRAGMA page_count").fetchone()[0]
    bank._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    big = [item(f"big{n}", text="x" * 5000) for n in range(20)]
    refusal(UserError, lambda: bank.add(big), "free some space and resume")
    assert bank.get(["big0"]) == []
    bank._connection.execute("PRAGMA max_page_count = 1000000")
    bank.add(big)
    assert len(bank.get(["big0", "big19"])) == 2
    bank.close()
    with open_bank(path, run="t") as later:
        assert len(later.search("x", 99)) == 70


def test_a_bank_held_by_someone_else(tmp_path, monkeypatch):
    path = filled(tmp_path / "bank.db")
    with open_bank(path, run="s") as bank:
        bank._connection.execute("PRAGMA busy_timeout = 50")
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        refusal(UserError, lambda: bank.update("t/x/9", Stage.DRAFT, {"i0": 1.0}, 0.3), "another process")
        holder.execute("ROLLBACK")
        holder.close()
        bank.update("t/x/9", Stage.DRAFT, {"i0": 1.0}, 0.3)
        assert bank.values(["i0"], Stage.DRAFT)["i0"].visits == 2


def test_a_transaction_holds_the_bank_from_its_start_and_leaves_nothing_half_done(tmp_path):
    """One that read first and wrote later would be refused whenever another writer came between."""
    path = filled(tmp_path / "bank.db")
    ours, theirs = connect(path), sqlite3.connect(path, timeout=0, isolation_level=None)
    with transaction(ours):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            theirs.execute("BEGIN IMMEDIATE")

    def half():
        with transaction(ours):
            ours.execute("DELETE FROM q")
            ours.execute("INSERT INTO q VALUES (NULL, '', '', 0, 0)")

    with pytest.raises(sqlite3.IntegrityError):
        half()
    assert theirs.execute("SELECT count(*) FROM q").fetchone() == (1,)
    ours.close()
    theirs.close()
