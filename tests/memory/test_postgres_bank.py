"""A bank on a server: error messages name the fix, and no password is ever stored."""

import json
import logging
import threading

import psycopg
import pytest
from bank_parts import (
    HASH,
    assert_error,
    learn,
    load_stage_values,
    make_bank_with_history,
    open_bank,
    release_when_refused,
    set_schema_version,
)
from click.testing import CliRunner
from engine_parts import make_task
from test_memory_bank import item

from evokernel.app.machine_checks import check_bank
from evokernel.cli import doctor, memory
from evokernel.core.bank_uri import parse_location
from evokernel.core.config import resolve_config
from evokernel.core.errors import InfraError, UserError
from evokernel.core.protocols import ItemValue
from evokernel.core.records import Stage
from evokernel.core.run import Run
from evokernel.memory import ledger, remote_index, schema
from evokernel.memory import postgres as postgres_module
from evokernel.memory.bank import Bank
from evokernel.memory.consolidate import consolidate
from evokernel.memory.distill import QUARANTINED_REASONS
from evokernel.memory.packs import export_pack, import_pack_file
from evokernel.memory.tables import VERSION

SECRET = "s3cret-Wort"


@pytest.fixture
def guest(postgres):
    """A login with a password."""
    if not postgres.execute("SELECT 1 FROM pg_roles WHERE rolname = 'guest'"):
        postgres.execute(f"CREATE ROLE guest LOGIN PASSWORD '{SECRET}'")
        postgres.execute("GRANT CREATE ON DATABASE postgres TO guest")
    return lambda schema, password=SECRET: postgres.url(schema, user=f"guest:{password}")


def test_connection_and_login_errors_name_the_fix(postgres, guest, monkeypatch):
    monkeypatch.setattr(postgres_module, "RETRY_WAITS_S", ())
    nowhere = parse_location(f"postgresql://guest:{SECRET}@127.0.0.1:1/x")
    for action in (lambda: open_bank(nowhere, "r"), lambda: Bank.open_reader(nowhere)):
        assert SECRET not in assert_error(InfraError, action, "postgresql://guest@127.0.0.1:1/x", "cannot be reached", "refused")
    wrong = "wr0ng-W0rd"
    message = assert_error(
        UserError, lambda: open_bank(parse_location(guest("s", wrong)), "r"), "password authentication failed", "PGPASSWORD", "pgpass"
    )
    assert wrong not in message
    assert_error(UserError, lambda: Bank.open_reader(parse_location(postgres.url("s", user="guest"))), "PGPASSWORD")
    assert_error(
        UserError, lambda: Bank.open_reader(parse_location(postgres.url("s", database="nothing"))), "nothing", "does not exist", "createdb"
    )
    assert_error(UserError, lambda: Bank.open_reader(parse_location("postgresql://h/db?colour=red")), "is not a valid server URL", "colour")
    assert_error(UserError, lambda: parse_location("mysql://h/db"), "mysql", "postgresql://")
    assert_error(UserError, lambda: parse_location("postgresql://h/db?schema=A-B"), "A-B", "lower-case letters")
    assert_error(UserError, lambda: parse_location("postgresql://h/db?schema=pg_bank"), "pg_bank", "must not begin with pg_")
    assert "1234" not in assert_error(UserError, lambda: parse_location("postgresql://u:1234?x@h/db"), "%3F")
    assert SECRET not in assert_error(UserError, lambda: parse_location(f"postgresql://u:{SECRET}?x@h/db"), "%3F")


def test_schema_that_is_not_a_supported_bank_is_rejected(postgres):
    assert_error(
        UserError, lambda: Bank.open_reader(parse_location(postgres.url("nobody_made"))), "there is no memory bank", "evokernel run"
    )
    postgres.execute("CREATE SCHEMA others")
    postgres.execute("CREATE TABLE others.things (n integer)")
    assert_error(UserError, lambda: open_bank(parse_location(postgres.url("others")), "r"), "not a memory bank", "?schema=OTHER")
    postgres.execute("CREATE TABLE others.meta (n integer)")
    for action in (open_bank, lambda url, _: Bank.open_reader(url)):
        assert_error(
            UserError, lambda action=action: action(parse_location(postgres.url("others")), "r"), "not a memory bank", "?schema=OTHER"
        )
    newer = parse_location(postgres.url("newer"))
    open_bank(newer, "r").close()
    postgres.execute("UPDATE newer.meta SET value = '99' WHERE name = 'schema'")
    for action in (lambda: open_bank(newer, "s"), lambda: Bank.open_reader(newer)):
        assert_error(UserError, action, "newer evokernel", "schema 99")


def test_missing_client_library_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "evokernel.memory.postgres", None)
    monkeypatch.delattr("evokernel.memory.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "evokernel.memory.postgres")
    assert_error(UserError, lambda: schema.open_or_create(parse_location("postgresql://h/db")), "pip install 'evokernel[postgres]'")


def test_access_rights_of_a_guest(postgres, guest):
    url = parse_location(postgres.url("shared"))
    with open_bank(url, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
    theirs = parse_location(guest("shared"))
    assert_error(UserError, lambda: Bank.open_reader(theirs), "permission denied", "docs/shared-memory.md")
    postgres.execute("GRANT USAGE ON SCHEMA shared TO guest")
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA shared TO guest")
    with Bank.open_reader(theirs) as reader:
        assert reader.get_item("cpp/tip").item.kind == "practice"
    assert_error(UserError, lambda: open_bank(theirs, "b"), "permission denied")
    postgres.execute("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shared TO guest")
    with open_bank(theirs, "b") as bank:
        learn(bank, "relu", 0, ["cpp/tip"])
    postgres.execute("GRANT CREATE ON SCHEMA shared TO guest")
    with Bank.open(theirs, HASH, backend="other", run="c") as bank:  # for which it may not create the index
        bank.add([item("other:t/x/0", backend="other", task="t/x")])
    assert len(load_stage_values(url)) == 1


def test_password_is_never_stored(guest, tmp_path, monkeypatch, caplog, capsys):
    url = guest("private")
    config = resolve_config(None, (f"memory={url}",), id="a", backend="cpp")
    assert SECRET not in config.model_dump_json()
    run = Run.create(tmp_path / "run", config, [make_task("relu")], {"versions": {}, "hardware": {}})
    with Bank.open(
        parse_location(run.config.memory), HASH, backend="cpp", run="a", folder=run.folder
    ) as bank:  # this process has the password
        learn(bank, "relu", 0, [])
        with caplog.at_level(logging.WARNING):
            bank._connection._connection.close()
            learn(bank, "relu", 1, [])
        assert SECRET not in repr(vars(bank))
    export_pack(parse_location(url), tmp_path / "run" / "pack.jsonl")
    result = CliRunner().invoke(memory.command, ["stats", "--memory", url])
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    texts = [result.output, caplog.text, *(file.read_text() for file in files)]
    assert "guest@127.0.0.1" in result.output
    assert (run.folder / "run.toml").read_text().count("guest@127.0.0.1") == 1
    assert not [text for text in texts if SECRET in text]


def test_password_is_read_from_the_environment(postgres, guest, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with open_bank(parse_location(postgres.url("by_environment", user="guest")), "a") as bank:
        learn(bank, "relu", 0, [])


def test_unreachable_server_is_an_infrastructure_error_and_no_data_is_lost(postgres, monkeypatch, caplog):
    monkeypatch.setattr(postgres_module, "RETRY_WAITS_S", (0.05,))
    url = parse_location(postgres.url("away"))
    bank = open_bank(url, "a")
    bank.add([item("cpp/tip", "practice")])
    postgres.stop("immediate")
    assert_error(InfraError, lambda: learn(bank, "relu", 0, ["cpp/tip"]), "cannot be reached")
    monkeypatch.setattr(postgres_module, "RETRY_WAITS_S", (0.2,) * 100)
    back = threading.Timer(0.5, postgres.start)
    back.start()
    learn(bank, "relu", 0, ["cpp/tip"])  # the loop replays its journal when it is resumed
    back.join()
    assert "trying again" in caplog.text
    bank.close()
    assert [(key, value.visits) for key, value in load_stage_values(url).items()] == [(("cpp/tip", "draft"), 1)]


def test_unconfirmed_commit_is_applied_once(postgres, monkeypatch):
    """The server commits, and its answer is lost."""
    monkeypatch.setattr(postgres_module, "RETRY_WAITS_S", (0.0, 0.0))
    url = parse_location(postgres.url("unconfirmed"))
    with open_bank(url, "a") as bank:
        execute, lost_answers = postgres_module.PostgresConnection.execute, []

        def cut(self, statement, values=(), /):
            rows = execute(self, statement, values)
            if statement == "COMMIT" and not lost_answers:
                lost_answers.append(1)
                self._connection.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            return rows

        monkeypatch.setattr(postgres_module.PostgresConnection, "execute", cut)
        bank.update("t/x/0", Stage.DRAFT, {"cpp/tip": 1.0}, 0.5)
        assert lost_answers
    assert [(value.q, value.visits) for value in load_stage_values(url).values()] == [(0.5, 1)]


@pytest.mark.parametrize("version", range(4, VERSION))
def test_older_schema_is_rejected_in_one_line(postgres, version, tmp_path):
    url = parse_location(postgres.url(f"older{version}"))
    with open_bank(url, "a") as bank:
        learn(bank, "relu", 0, ["cpp/tip"])
    set_schema_version(url, version)
    for action in (lambda: export_pack(url, tmp_path / "pack.jsonl"), lambda: open_bank(url, "b"), lambda: Bank.open_reader(url)):
        assert_error(UserError, action, "older evokernel", f"schema {version}", "--memory OTHER")
    assert not (tmp_path / "pack.jsonl").exists()


def test_pack_moves_a_bank_from_a_file_to_a_server(file, postgres, tmp_path):
    url = parse_location(postgres.url("moved"))
    first = export_pack(file, tmp_path / "first.jsonl")
    import_pack_file(url, tmp_path / "first.jsonl", HASH)
    second = export_pack(url, tmp_path / "second.jsonl")
    assert (second.sha256, second.items, second.updates) == (first.sha256, 14, 8)
    assert load_stage_values(url) == load_stage_values(file)


def test_doctor_describes_the_server(postgres, monkeypatch):
    checks = {check["name"]: check for check in json.loads(CliRunner().invoke(doctor.command, ["--json"]).output)["checks"]}
    assert checks["postgres"]["state"] == "ok"
    bank_check = check_bank(parse_location(postgres.url("described")))
    assert bank_check.state == "ok"
    assert "PostgreSQL" in bank_check.detail
    assert "pgvector" in bank_check.detail
    assert "no bank yet" in bank_check.detail
    unreachable_check = check_bank(parse_location("postgresql://127.0.0.1:1/x"))
    assert (unreachable_check.state, "cannot be reached" in unreachable_check.detail) == ("missing", True)


def test_writer_waits_for_a_long_transaction(postgres, monkeypatch, caplog):
    monkeypatch.setattr(postgres_module, "LOCK_TIMEOUT_S", 0.1)
    url = parse_location(postgres.url("held_long"))
    with open_bank(url, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
        holder = schema.open_or_create(url)
        holder.begin_write()
        with release_when_refused(holder, caplog):
            learn(bank, "relu", 0, ["cpp/tip"])
    assert "trying again" in caplog.text
    assert load_stage_values(url)["cpp/tip", "draft"].visits == 1


def test_values_of_a_large_bank_are_read_in_one_snapshot(postgres, monkeypatch):
    """Another run writes an update between two queries of a reader."""
    monkeypatch.setattr(postgres_module, "MAX_ITEMS_IN_MEMORY", 0)
    url = parse_location(postgres.url("one_moment"))
    with open_bank(url, "a") as bank:
        bank.add([item("cpp/tip", "practice"), item("a:t/relu/9", task="t/relu")])
        bank.update("t/relu/0", Stage.DRAFT, {"cpp/tip": 1.0}, 0.5)
    load_values = ledger.load_values

    def load_after_another_update(connection, items):
        monkeypatch.setattr(ledger, "load_values", load_values)
        with open_bank(url, "b") as other:
            other.update("t/relu/1", Stage.DRAFT, {"cpp/tip": -1.0}, 0.5)
        return load_values(connection, items)

    with open_bank(url, "c") as bank:
        assert bank._remote_index
        monkeypatch.setattr(ledger, "load_values", load_after_another_update)
        assert bank.values(["cpp/tip"], Stage.DRAFT)["cpp/tip"] == ItemValue(0.5, 1)
    assert load_stage_values(url)["cpp/tip", "draft"].visits == 2


@pytest.mark.parametrize("many", [0, 1000])
def test_hidden_items_do_not_reduce_the_hits_of_a_large_bank(postgres, monkeypatch, many):
    monkeypatch.setattr(postgres_module, "MAX_ITEMS_IN_MEMORY", 0)
    monkeypatch.setattr(postgres_module, "MAX_EMBEDDINGS_IN_MEMORY", many)
    url = parse_location(postgres.url(f"hidden_{many}"))
    hidden_items = [
        item(f"a:t/relu/{n}", key="relu", task="t/relu", code="cheat()", reason=sorted(QUARANTINED_REASONS)[0]) for n in range(3)
    ]
    with open_bank(url, "a") as bank:
        bank.add([*hidden_items, item("a:t/relu/3", key="relu", task="t/relu", code="x")])
    with open_bank(url, "b") as bank:
        assert [hit.item.id for hit in bank.search("relu", 1)] == ["a:t/relu/3"]


def test_few_embeddings_are_all_searched_when_filters_leave_few_items(postgres, monkeypatch):
    monkeypatch.setattr(postgres_module, "MAX_ITEMS_IN_MEMORY", 0)
    monkeypatch.setattr(remote_index, "EMBEDDINGS_PER_SEARCH", (2, 2))
    monkeypatch.setattr(remote_index, "MAX_EMBEDDINGS_PER_SEARCH", 4)
    url = parse_location(postgres.url("all_keys"))
    with open_bank(url, "a") as bank:
        bank.add([item("a:t/x/0", key="something else entirely", task="t/x", bottleneck="memory")])
        bank.add([item(f"a:t/relu/{n}", key=f"relu relu relu {3 * letter}", task="t/relu") for n, letter in enumerate("abcdefghijklmnop")])
    with open_bank(url, "b") as bank:
        assert bank._remote_index
        assert [hit.item.id for hit in bank.search("relu", 1, bottleneck="memory")] == ["a:t/x/0"]


def test_index_lost_with_its_transaction_is_created_again(postgres):
    url = parse_location(postgres.url("index_again"))
    with open_bank(url, "a") as bank:
        server, terminations = bank._connection, []

        def store_and_terminate_once(*arguments):
            if not terminations:
                terminations.append(True)
                postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state <> 'idle'")
            return store_vector(*arguments)

        store_vector = server.store_vector
        server.store_vector = lambda *arguments: (store_vector(*arguments), store_and_terminate_once(*arguments))[0]
        bank.add([item("a:t/x/0", task="t/x")])
        assert terminations
        assert server.is_indexed("cpp")


def test_old_pgvector_is_not_used(postgres, monkeypatch):
    url = parse_location(postgres.url("old_vector"))
    with open_bank(url, "a") as bank:
        bank.add([item("a:t/x/0", task="t/x")])
        assert bank._connection.is_indexed("cpp")
        monkeypatch.setattr(postgres_module, "MIN_PGVECTOR", (99, 0))
        assert not bank._connection.is_indexed("cpp")
    with open_bank(url, "b") as bank:
        bank.add([item("b:t/y/0", task="t/y")])
    assert "pgvector" in postgres_module.describe_server(url)
    assert "not used" in postgres_module.describe_server(url)
    new = parse_location(postgres.url("old_vector_from_the_first"))
    with open_bank(new, "a") as bank:
        bank.add([item("a:t/x/0", task="t/x")])
    assert not postgres.execute(
        "SELECT 1 FROM pg_indexes WHERE schemaname = 'old_vector_from_the_first' AND indexname LIKE 'embeddings_near%'"
    )


def test_two_banks_create_the_extension_at_once(postgres):
    postgres.execute("CREATE DATABASE two_banks")
    with psycopg.connect(postgres.url("x", database="two_banks").partition("?")[0]) as other:
        other.execute("CREATE EXTENSION vector SCHEMA public")
        timer = threading.Timer(1.0, other.commit)
        with open_bank(parse_location(postgres.url("second", database="two_banks")), "a") as bank:
            timer.start()
            bank.add([item("a:t/x/0", task="t/x")])
            timer.join()
            bank.add([item("a:t/y/0", task="t/y")])
            assert bank._connection.is_indexed("cpp")
            assert len(bank.search("t", 9)) == 2


@pytest.mark.toolchain
def test_bank_in_a_file_does_not_import_the_client_library():
    """Nor do the command line and the dashboard."""
    import subprocess
    import sys

    code = "import sys, evokernel.cli.main, evokernel.memory.bank, evokernel.web.run_index; print('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_values_of_a_large_bank_ignore_later_updates_and_merges(postgres, monkeypatch):
    monkeypatch.setattr(postgres_module, "MAX_ITEMS_IN_MEMORY", 0)
    url = make_bank_with_history(parse_location(postgres.url("as_it_was")))
    before = {key[0]: value for key, value in load_stage_values(url).items() if key[1] == "draft"}
    names = sorted(before)
    assert len(names) >= 3
    with open_bank(url, "b") as bank:
        assert bank._remote_index
        assert bank.values(names[:1], Stage.DRAFT) == {names[0]: before[names[0]]}
        with open_bank(url, "c") as other:
            other.update("t/relu/1", Stage.DRAFT, {names[1]: -1.0}, 0.5)
        assert bank.values(names[1:2], Stage.DRAFT) == {names[1]: before[names[1]]}, "another run wrote an update"
        assert consolidate(url).merged
        assert bank.values(names[2:], Stage.DRAFT) == {name: before[name] for name in names[2:]}, "items were merged"


def test_values_of_a_large_bank_ignore_a_later_import_with_merges(postgres, monkeypatch, tmp_path):
    copy, url = tmp_path / "copy.db", parse_location(postgres.url("imported"))
    for path in (copy, url):
        with open_bank(path, "a") as bank:
            bank.add([item("a:t/relu/1", task="t/relu", code="x = 1")])
            bank.update("t/relu/2", Stage.DRAFT, {"a:t/relu/1": 1.0}, 0.5)
    with open_bank(copy, "d") as bank:
        bank.add([item("d:t/relu/1", task="t/relu", code="x = 1")])
        bank.update("t/relu/3", Stage.DRAFT, {"d:t/relu/1": -1.0}, 0.5)
    assert consolidate(copy).merged
    export_pack(copy, tmp_path / "pack.jsonl")
    monkeypatch.setattr(postgres_module, "MAX_ITEMS_IN_MEMORY", 0)
    with open_bank(url, "b") as bank:
        before = bank._remote_index.values(["a:t/relu/1"])
        assert import_pack_file(url, tmp_path / "pack.jsonl", HASH).updates == 1
        assert bank._remote_index.values(["a:t/relu/1"]) == before
    with open_bank(url, "b") as bank:
        assert bank._remote_index.values(["a:t/relu/1"]) == before
    assert load_stage_values(url)["a:t/relu/1", "draft"] == ItemValue(-0.25, 2)
