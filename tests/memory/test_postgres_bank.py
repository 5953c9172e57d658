"""A bank on a server: what is said when it cannot be used, and that no password is ever written down."""

import json
import logging
import threading

import psycopg
import pytest
from bank_parts import HASH, as_before, learn, open_bank, refusal, standings, with_history
from click.testing import CliRunner
from engine_parts import task
from test_memory_bank import item

from evokernel.cli import doctor, memory
from evokernel.core.bank_uri import parse_location
from evokernel.core.config import resolve_config
from evokernel.core.errors import InfraError, UserError
from evokernel.core.protocols import ItemValue
from evokernel.core.records import Stage
from evokernel.core.run import Run
from evokernel.memory import ledger, remote_index, schema
from evokernel.memory import postgres as on_server
from evokernel.memory.bank import Bank
from evokernel.memory.consolidate import consolidate
from evokernel.memory.distill import QUARANTINED
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


def test_what_cannot_be_reached(postgres, guest, monkeypatch):
    monkeypatch.setattr(on_server, "WAITS_S", ())
    nowhere = parse_location(f"postgresql://guest:{SECRET}@127.0.0.1:1/x")
    for action in (lambda: open_bank(nowhere, "r"), lambda: Bank.read(nowhere)):
        assert SECRET not in refusal(InfraError, action, "postgresql://guest@127.0.0.1:1/x", "cannot be reached", "refused")
    wrong = "wr0ng-W0rd"
    message = refusal(
        UserError, lambda: open_bank(parse_location(guest("s", wrong)), "r"), "password authentication failed", "PGPASSWORD", "pgpass"
    )
    assert wrong not in message
    refusal(UserError, lambda: Bank.read(parse_location(postgres.url("s", user="guest"))), "PGPASSWORD")
    refusal(UserError, lambda: Bank.read(parse_location(postgres.url("s", database="nothing"))), "nothing", "does not exist", "createdb")
    refusal(UserError, lambda: Bank.read(parse_location("postgresql://h/db?colour=red")), "is no URL of a server", "colour")
    refusal(UserError, lambda: parse_location("mysql://h/db"), "mysql", "postgresql://")
    refusal(UserError, lambda: parse_location("postgresql://h/db?schema=A-B"), "A-B", "small letters")
    refusal(UserError, lambda: parse_location("postgresql://h/db?schema=pg_bank"), "pg_bank", "not pg_")
    assert "1234" not in refusal(UserError, lambda: parse_location("postgresql://u:1234?x@h/db"), "%3F")
    assert SECRET not in refusal(UserError, lambda: parse_location(f"postgresql://u:{SECRET}?x@h/db"), "%3F")


def test_what_is_no_bank_or_none_of_ours(postgres):
    refusal(UserError, lambda: Bank.read(parse_location(postgres.url("nobody_made"))), "there is no memory bank", "evokernel run")
    postgres.execute("CREATE SCHEMA others")
    postgres.execute("CREATE TABLE others.things (n integer)")
    refusal(UserError, lambda: open_bank(parse_location(postgres.url("others")), "r"), "no memory bank", "?schema=OTHER")
    postgres.execute("CREATE TABLE others.meta (n integer)")
    for action in (open_bank, lambda url, _: Bank.read(url)):
        refusal(UserError, lambda action=action: action(parse_location(postgres.url("others")), "r"), "no memory bank", "?schema=OTHER")
    newer = parse_location(postgres.url("newer"))
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
    refusal(UserError, lambda: schema.connect(parse_location("postgresql://h/db")), "pip install 'evokernel[postgres]'")


def test_a_reader_may_look_and_is_told_what_it_may_not(postgres, guest):
    url = parse_location(postgres.url("shared"))
    with open_bank(url, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
    theirs = parse_location(guest("shared"))
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
    config = resolve_config(None, (f"memory={url}",), id="a", backend="cpp")
    assert SECRET not in config.model_dump_json()
    run = Run.create(tmp_path / "run", config, [task("relu")], {"versions": {}, "hardware": {}})
    with Bank.open(parse_location(run.config.memory), HASH, backend="cpp", run="a", folder=run.folder) as bank:  # this process was told it
        learn(bank, "relu", 0, [])
        with caplog.at_level(logging.WARNING):
            bank._connection._connection.close()
            learn(bank, "relu", 1, [])
        assert SECRET not in repr(vars(bank))
    export(parse_location(url), tmp_path / "run" / "pack.jsonl")
    result = CliRunner().invoke(memory.command, ["stats", "--memory", url])
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    said = [result.output, caplog.text, *(file.read_text() for file in files)]
    assert "guest@127.0.0.1" in result.output
    assert (run.folder / "run.toml").read_text().count("guest@127.0.0.1") == 1
    assert not [text for text in said if SECRET in text]


def test_the_environment_gives_the_password(postgres, guest, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with open_bank(parse_location(postgres.url("by_environment", user="guest")), "a") as bank:
        learn(bank, "relu", 0, [])


def test_a_server_that_stays_away_is_infrastructure_trouble_and_nothing_is_lost(postgres, monkeypatch, caplog):
    monkeypatch.setattr(on_server, "WAITS_S", (0.05,))
    url = parse_location(postgres.url("away"))
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
    url = parse_location(postgres.url("unconfirmed"))
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
    url = parse_location(postgres.url(f"older{version}"))
    with open_bank(url, "a") as bank:
        learn(bank, "relu", 0, ["cpp/tip"])
    before, now = standings(url), export(url, tmp_path / "now.jsonl")
    as_before(url, version)
    assert export(url, tmp_path / "before.jsonl").sha256 == now.sha256
    with open_bank(url, "b") as bank:
        assert len(bank.search("relu", 9)) == 2
    assert standings(url) == before


def test_from_a_file_to_a_server_and_back(file, postgres, tmp_path):
    url = parse_location(postgres.url("moved"))
    first = export(file, tmp_path / "first.jsonl")
    import_pack(url, tmp_path / "first.jsonl", HASH)
    second = export(url, tmp_path / "second.jsonl")
    assert (second.sha256, second.items, second.updates) == (first.sha256, 14, 8)
    assert standings(url) == standings(file)


def test_doctor_looks_at_the_server(postgres, monkeypatch):
    said = {check["name"]: check for check in json.loads(CliRunner().invoke(doctor.command, ["--json"]).output)["checks"]}
    assert said["postgres"]["state"] == "ok"
    there = doctor.bank(parse_location(postgres.url("looked_at")))
    assert there.state == "ok"
    assert "PostgreSQL" in there.detail
    assert "pgvector" in there.detail
    assert "no bank yet" in there.detail
    away = doctor.bank(parse_location("postgresql://127.0.0.1:1/x"))
    assert (away.state, "cannot be reached" in away.detail) == ("missing", True)


def test_who_tidies_for_long_is_waited_for(postgres, monkeypatch, caplog):
    monkeypatch.setattr(on_server, "LOCK_TIMEOUT_S", 0.1)
    url = parse_location(postgres.url("held_long"))
    with open_bank(url, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
        holder = schema.connect(url)
        holder.begin()
        done = threading.Timer(0.5, lambda: holder.execute("ROLLBACK"))
        done.start()
        learn(bank, "relu", 0, ["cpp/tip"])
        done.join()
        holder.close()
    assert "trying again" in caplog.text
    assert standings(url)["cpp/tip", "draft"].visits == 1


def test_values_of_a_large_bank_are_of_one_moment(postgres, monkeypatch):
    """Somebody learns right after it was looked up that nobody had."""
    monkeypatch.setattr(on_server, "LARGE", 0)
    url = parse_location(postgres.url("one_moment"))
    with open_bank(url, "a") as bank:
        bank.add([item("cpp/tip", "practice"), item("a:t/relu/9", task="t/relu")])
        bank.update("t/relu/0", Stage.DRAFT, {"cpp/tip": 1.0}, 0.5)
    look_up = ledger.values_of

    def after_another(connection, items):
        monkeypatch.setattr(ledger, "values_of", look_up)
        with open_bank(url, "b") as other:
            other.update("t/relu/1", Stage.DRAFT, {"cpp/tip": -1.0}, 0.5)
        return look_up(connection, items)

    with open_bank(url, "c") as bank:
        assert bank._far
        monkeypatch.setattr(ledger, "values_of", after_another)
        assert bank.values(["cpp/tip"], Stage.DRAFT)["cpp/tip"] == ItemValue(0.5, 1)
    assert standings(url)["cpp/tip", "draft"].visits == 2


@pytest.mark.parametrize("many", [0, 1000])
def test_what_is_hidden_takes_no_place_in_a_large_bank(postgres, monkeypatch, many):
    monkeypatch.setattr(on_server, "LARGE", 0)
    monkeypatch.setattr(on_server, "MANY", many)
    url = parse_location(postgres.url(f"hidden_{many}"))
    near = [item(f"a:t/relu/{n}", key="relu", task="t/relu", code="cheat()", reason=sorted(QUARANTINED)[0]) for n in range(3)]
    with open_bank(url, "a") as bank:
        bank.add([*near, item("a:t/relu/3", key="relu", task="t/relu", code="x")])
    with open_bank(url, "b") as bank:
        assert [hit.item.id for hit in bank.search("relu", 1)] == ["a:t/relu/3"]


def test_few_keys_are_all_looked_at_where_filters_leave_little(postgres, monkeypatch):
    monkeypatch.setattr(on_server, "LARGE", 0)
    monkeypatch.setattr(remote_index, "NEAR", (2, 2))
    monkeypatch.setattr(remote_index, "MOST", 4)
    url = parse_location(postgres.url("all_keys"))
    with open_bank(url, "a") as bank:
        bank.add([item("a:t/x/0", key="something else entirely", task="t/x", bottleneck="memory")])
        bank.add([item(f"a:t/relu/{n}", key=f"relu relu relu {3 * letter}", task="t/relu") for n, letter in enumerate("abcdefghijklmnop")])
    with open_bank(url, "b") as bank:
        assert bank._far
        assert [hit.item.id for hit in bank.search("relu", 1, bottleneck="memory")] == ["a:t/x/0"]


def test_an_index_that_went_with_its_transaction_is_made_again(postgres):
    url = parse_location(postgres.url("index_again"))
    with open_bank(url, "a") as bank:
        server, lost = bank._connection, []

        def lose_it_once(*given):
            if not lost:
                lost.append(True)
                postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state <> 'idle'")
            return put(*given)

        put, server.put_vector = server.put_vector, lambda *given: (put(*given), lose_it_once(*given))[0]
        bank.add([item("a:t/x/0", task="t/x")])
        assert lost
        assert server.is_indexed("cpp")


def test_an_old_pgvector_is_not_asked(postgres, monkeypatch):
    url = parse_location(postgres.url("old_vector"))
    with open_bank(url, "a") as bank:
        bank.add([item("a:t/x/0", task="t/x")])
        assert bank._connection.is_indexed("cpp")
        monkeypatch.setattr(on_server, "VECTOR", (99, 0))
        assert not bank._connection.is_indexed("cpp")
    with open_bank(url, "b") as bank:
        bank.add([item("b:t/y/0", task="t/y")])
    assert "pgvector" in on_server.looked_at(url)
    assert "not used" in on_server.looked_at(url)
    new = parse_location(postgres.url("old_vector_from_the_first"))
    with open_bank(new, "a") as bank:
        bank.add([item("a:t/x/0", task="t/x")])
    assert not postgres.execute("SELECT 1 FROM pg_indexes WHERE schemaname = 'old_vector_from_the_first' AND indexname LIKE 'keys_near%'")


def test_two_banks_make_the_extension_at_once(postgres):
    postgres.execute("CREATE DATABASE two_banks")
    with psycopg.connect(postgres.url("x", database="two_banks").partition("?")[0]) as other:
        other.execute("CREATE EXTENSION vector SCHEMA public")
        done = threading.Timer(1.0, other.commit)
        with open_bank(parse_location(postgres.url("second", database="two_banks")), "a") as bank:
            done.start()
            bank.add([item("a:t/x/0", task="t/x")])
            done.join()
            bank.add([item("a:t/y/0", task="t/y")])
            assert bank._connection.is_indexed("cpp")
            assert len(bank.search("t", 9)) == 2


def test_a_file_needs_no_client_library():
    """Who uses files does not wait for it, either."""
    import subprocess
    import sys

    code = "import sys, evokernel.cli.main, evokernel.memory.bank, evokernel.web.run_index; print('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_large_bank_is_seen_as_it_was_whoever_learns_or_tidies(postgres, monkeypatch):
    monkeypatch.setattr(on_server, "LARGE", 0)
    url = with_history(parse_location(postgres.url("as_it_was")))
    before = {key[0]: value for key, value in standings(url).items() if key[1] == "draft"}
    names = sorted(before)
    assert len(names) >= 3
    with open_bank(url, "b") as bank:
        assert bank._far
        assert bank.values(names[:1], Stage.DRAFT) == {names[0]: before[names[0]]}
        with open_bank(url, "c") as other:
            other.update("t/relu/1", Stage.DRAFT, {names[1]: -1.0}, 0.5)
        assert bank.values(names[1:2], Stage.DRAFT) == {names[1]: before[names[1]]}, "somebody learned"
        assert consolidate(url).merged
        assert bank.values(names[2:], Stage.DRAFT) == {name: before[name] for name in names[2:]}, "somebody tidied"


def test_a_large_bank_is_seen_as_it_was_whoever_takes_in_a_pack_with_merges(postgres, monkeypatch, tmp_path):
    copy, url = tmp_path / "copy.db", parse_location(postgres.url("taken_in"))
    for path in (copy, url):
        with open_bank(path, "a") as bank:
            bank.add([item("a:t/relu/1", task="t/relu", code="x = 1")])
            bank.update("t/relu/2", Stage.DRAFT, {"a:t/relu/1": 1.0}, 0.5)
    with open_bank(copy, "d") as bank:
        bank.add([item("d:t/relu/1", task="t/relu", code="x = 1")])
        bank.update("t/relu/3", Stage.DRAFT, {"d:t/relu/1": -1.0}, 0.5)
    assert consolidate(copy).merged
    export(copy, tmp_path / "pack.jsonl")
    monkeypatch.setattr(on_server, "LARGE", 0)
    with open_bank(url, "b") as bank:
        before = bank._far.values(["a:t/relu/1"])
        assert import_pack(url, tmp_path / "pack.jsonl", HASH).updates == 1
        assert bank._far.values(["a:t/relu/1"]) == before
    with open_bank(url, "b") as bank:
        assert bank._far.values(["a:t/relu/1"]) == before
    assert standings(url)["a:t/relu/1", "draft"] == ItemValue(-0.25, 2)
