"""A bank on a server: what is said when it cannot be used, and that no password is ever written down."""

import json
import logging
import threading

import psycopg
import pytest
from bank_parts import HASH, as_before, learn, open_bank, standings
from click.testing import CliRunner
from engine_parts import task
from test_memory_bank import item

from evokernel.cli import doctor, memory
from evokernel.core.address import place
from evokernel.core.config import resolve
from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Stage
from evokernel.core.run import Run
from evokernel.memory import postgres as on_server
from evokernel.memory import schema
from evokernel.memory.bank import Bank
from evokernel.memory.packs import export, import_pack
from evokernel.memory.tables import VERSION

SECRET = "s3cret-Wort"


@pytest.fixture
def guest(postgres):
    """A login with a password."""
    if not postgres.execute("SELECT 1 FROM pg_roles WHERE rolname = 'guest'"):
        postgres.execute(f"CREATE ROLE guest LOGIN PASSWORD '{SECRET}'")
        postgres.execute("GRANT CREATE ON DATABASE postgres TO guest")
    return lambda schema, password=SECRET: postgres.url(schema, user=f"guest:{password}")


def refusal(kind, action, *words):
    with pytest.raises(kind) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


def test_what_cannot_be_reached(postgres, guest, monkeypatch):
    monkeypatch.setattr(on_server, "WAITS_S", ())
    nowhere = place(f"postgresql://guest:{SECRET}@127.0.0.1:1/x")
    for action in (lambda: open_bank(nowhere, "r"), lambda: Bank.read(nowhere)):
        assert SECRET not in refusal(InfraError, action, "postgresql://guest@127.0.0.1:1/x", "cannot be reached", "refused")
    wrong = "wr0ng-W0rd"
    message = refusal(UserError, lambda: open_bank(place(guest("s", wrong)), "r"), "password authentication failed", "PGPASSWORD", "pgpass")
    assert wrong not in message
    refusal(UserError, lambda: Bank.read(place(postgres.url("s", user="guest"))), "PGPASSWORD")
    refusal(UserError, lambda: Bank.read(place(postgres.url("s", database="nothing"))), "nothing", "does not exist", "createdb")
    refusal(UserError, lambda: Bank.read(place("postgresql://h/db?colour=red")), "is no URL of a server", "colour")
    refusal(UserError, lambda: place("mysql://h/db"), "mysql", "postgresql://")
    refusal(UserError, lambda: place("postgresql://h/db?schema=A-B"), "A-B", "small letters")
    assert SECRET not in refusal(UserError, lambda: place(f"postgresql://u:{SECRET}?x@h/db"), "%3F")


def test_what_is_no_bank_or_none_of_ours(postgres):
    refusal(UserError, lambda: Bank.read(place(postgres.url("nobody_made"))), "there is no memory bank", "evokernel run")
    postgres.execute("CREATE SCHEMA others")
    postgres.execute("CREATE TABLE others.things (n integer)")
    refusal(UserError, lambda: open_bank(place(postgres.url("others")), "r"), "no memory bank", "?schema=OTHER")
    newer = place(postgres.url("newer"))
    open_bank(newer, "r").close()
    postgres.execute("UPDATE newer.meta SET value = '99' WHERE name = 'schema'")
    for action in (lambda: open_bank(newer, "s"), lambda: Bank.read(newer)):
        refusal(UserError, action, "newer evokernel", "schema 99")


def test_without_the_client_library_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "evokernel.memory.postgres", None)
    monkeypatch.delattr("evokernel.memory.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "evokernel.memory.postgres")
    refusal(UserError, lambda: schema.connect(place("postgresql://h/db")), "pip install 'evokernel[postgres]'")


def test_a_reader_may_look_and_is_told_what_it_may_not(postgres, guest):
    url = place(postgres.url("shared"))
    with open_bank(url, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
    theirs = place(guest("shared"))
    refusal(UserError, lambda: Bank.read(theirs), "permission denied", "docs/shared-memory.md")
    postgres.execute("GRANT USAGE ON SCHEMA shared TO guest")
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA shared TO guest")
    with Bank.read(theirs) as archive:
        assert archive.get("cpp/tip").item.kind == "practice"
    refusal(UserError, lambda: open_bank(theirs, "b"), "permission denied")
    postgres.execute("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shared TO guest")
    with open_bank(theirs, "b") as bank:
        learn(bank, "relu", 0, ["cpp/tip"])
    postgres.execute("GRANT CREATE ON SCHEMA shared TO guest")
    with Bank.open(theirs, HASH, backend="other", run="c") as bank:  # of which it may not make the index
        bank.add([item("other:t/x/0", backend="other", task="t/x")])
    assert len(standings(url)) == 1


def test_no_password_is_kept(guest, tmp_path, monkeypatch, caplog, capsys):
    url = guest("private")
    config = resolve(None, (f"memory={url}",), id="a", backend="cpp")
    assert SECRET not in config.model_dump_json()
    run = Run.create(tmp_path / "run", config, [task("relu")], {"versions": {}, "hardware": {}})
    with Bank.open(place(run.config.memory), HASH, backend="cpp", run="a", folder=run.folder) as bank:  # this process was told it
        learn(bank, "relu", 0, [])
        with caplog.at_level(logging.WARNING):
            bank._connection._connection.close()
            learn(bank, "relu", 1, [])
        assert SECRET not in repr(vars(bank))
    export(place(url), tmp_path / "run" / "pack.jsonl")
    result = CliRunner().invoke(memory.command, ["stats", "--memory", url])
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    said = [result.output, caplog.text, *(file.read_text() for file in files)]
    assert "guest@127.0.0.1" in result.output
    assert (run.folder / "run.toml").read_text().count("guest@127.0.0.1") == 1
    assert not [text for text in said if SECRET in text]


def test_the_environment_gives_the_password(postgres, guest, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with open_bank(place(postgres.url("by_environment", user="guest")), "a") as bank:
        learn(bank, "relu", 0, [])


def test_a_server_that_stays_away_is_infrastructure_trouble_and_nothing_is_lost(postgres, monkeypatch, caplog):
    monkeypatch.setattr(on_server, "WAITS_S", (0.05,))
    url = place(postgres.url("away"))
    bank = open_bank(url, "a")
    bank.add([item("cpp/tip", "practice")])
    postgres.stop("immediate")
    refusal(InfraError, lambda: learn(bank, "relu", 0, ["cpp/tip"]), "cannot be reached")
    monkeypatch.setattr(on_server, "WAITS_S", (0.2,) * 100)
    back = threading.Timer(0.5, postgres.start)
    back.start()
    learn(bank, "relu", 0, ["cpp/tip"])  # the loop learns its journal again when it is resumed
    back.join()
    assert "trying again" in caplog.text
    bank.close()
    assert [(key, value.visits) for key, value in standings(url).items()] == [(("cpp/tip", "draft"), 1)]


def test_a_commit_nobody_confirmed_is_not_made_twice(postgres, monkeypatch):
    """The server does as it was told, and the answer is lost."""
    monkeypatch.setattr(on_server, "WAITS_S", (0.0, 0.0))
    url = place(postgres.url("unconfirmed"))
    with open_bank(url, "a") as bank:
        execute, lost = on_server.Server.execute, []

        def cut(self, statement, values=(), /):
            rows = execute(self, statement, values)
            if statement == "COMMIT" and not lost:
                lost.append(1)
                self._connection.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            return rows

        monkeypatch.setattr(on_server.Server, "execute", cut)
        bank.update("t/x/0", Stage.DRAFT, {"cpp/tip": 1.0}, 0.5)
        assert lost
    assert [(value.q, value.visits) for value in standings(url).values()] == [(0.5, 1)]


@pytest.mark.parametrize("version", range(4, VERSION))
def test_an_older_schema_is_brought_forward(postgres, version, tmp_path):
    url = place(postgres.url(f"older{version}"))
    with open_bank(url, "a") as bank:
        learn(bank, "relu", 0, ["cpp/tip"])
    before, now = standings(url), export(url, tmp_path / "now.jsonl")
    as_before(url, version)
    assert export(url, tmp_path / "before.jsonl").sha256 == now.sha256
    with open_bank(url, "b") as bank:
        assert len(bank.search("relu", 9)) == 2
    assert standings(url) == before


def test_from_a_file_to_a_server_and_back(file, postgres, tmp_path):
    url = place(postgres.url("moved"))
    first = export(file, tmp_path / "first.jsonl")
    import_pack(url, tmp_path / "first.jsonl", HASH)
    second = export(url, tmp_path / "second.jsonl")
    assert (second.sha256, second.items, second.updates) == (first.sha256, 14, 8)
    assert standings(url) == standings(file)


def test_doctor_looks_at_the_server(postgres, monkeypatch):
    said = {check["name"]: check for check in json.loads(CliRunner().invoke(doctor.command, ["--json"]).output)["checks"]}
    assert said["postgres"]["state"] == "ok"
    there = doctor.bank(place(postgres.url("looked_at")))
    assert there.state == "ok"
    assert "PostgreSQL" in there.detail
    assert "pgvector" in there.detail
    assert "no bank yet" in there.detail
    away = doctor.bank(place("postgresql://127.0.0.1:1/x"))
    assert (away.state, "cannot be reached" in away.detail) == ("missing", True)
