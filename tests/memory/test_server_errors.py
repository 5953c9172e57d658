"""A server that ends sessions, is locked by other processes, or gets values that it cannot store."""

import select

import psycopg
import pytest
from bank_parts import learn, load_stage_values, make_bank_with_history, open_bank, release_when_refused
from test_memory_bank import item
from time_limits import HANG_S

from evokernel.core.bank_uri import parse_location
from evokernel.core.errors import InfraError, UserError
from evokernel.memory import postgres as postgres_module
from evokernel.memory import revoke as revoke_module
from evokernel.memory import schema
from evokernel.memory.queries import BankBrowser, ItemQuery


def end_session(connection, setting):
    """Apply a time limit and wait until the server has ended the session because of it."""
    connection.execute(setting)
    assert select.select([connection.fileno()], [], [], HANG_S)[0], "the server did not end the session"


def test_writer_reconnects_after_an_idle_session_timeout(postgres, caplog):
    url = parse_location(postgres.url("idle"))
    with open_bank(url, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
        end_session(bank._connection._connection, "SET idle_session_timeout = '100ms'")
        learn(bank, "relu", 0, ["cpp/tip"])
    assert "idle-session timeout" in caplog.text
    assert load_stage_values(url)["cpp/tip", "draft"].visits == 1


def test_browser_reconnects_after_an_idle_session_timeout(postgres):
    with BankBrowser(make_bank_with_history(parse_location(postgres.url("idle_page")))) as browser:
        before = browser.list_page(ItemQuery(), 9)
        end_session(browser._connection._connection, "SET idle_session_timeout = '100ms'")
        assert browser.list_page(ItemQuery(), 9) == before


def test_transaction_is_repeated_after_its_session_ends(postgres, monkeypatch):
    monkeypatch.setattr(postgres_module, "RETRY_WAITS_S", (0.0,))
    url = parse_location(postgres.url("idle_inside"))
    server = schema.open_or_create(url)
    timeouts = []

    def slow():
        if not timeouts:
            timeouts.append(end_session(server._connection, "SET idle_in_transaction_session_timeout = '100ms'"))
        return server.execute("SELECT 1").fetchone()[0]

    assert server.run_in_transaction(slow) == 1
    server.close()
    with pytest.raises(InfraError, match="cannot be reached"), postgres_module.translate_db_errors(url):
        raise psycopg.errors.IdleInTransactionSessionTimeout("terminating connection")


def test_opening_a_bank_waits_for_a_long_transaction(postgres, monkeypatch, caplog):
    monkeypatch.setattr(postgres_module, "LOCK_TIMEOUT_S", 0.1)
    url = parse_location(postgres.url("held_when_opened"))
    open_bank(url, "a").close()
    holder = schema.open_or_create(url)
    holder.begin_write()
    with release_when_refused(holder, caplog):
        open_bank(url, "b").close()
    assert "trying again" in caplog.text


def test_writer_sees_rows_committed_while_it_waited(postgres):
    """Whatever the default isolation level of the server."""
    url = parse_location(postgres.url("waits") + "&options=-c%20default_transaction_isolation%3Dserializable")
    with open_bank(url, "a") as bank, open_bank(url, "b") as other:
        bank.add([item("cpp/tip", "practice")])
        bank._connection.begin_write()
        assert bank._connection.execute("SHOW transaction_isolation").fetchone()[0] == "read committed"
        bank._connection.execute("ROLLBACK")
        learn(other, "relu", 0, ["cpp/tip"])


def test_value_that_no_server_can_store_is_rejected(postgres):
    url = make_bank_with_history(parse_location(postgres.url("zero")))
    with BankBrowser(url) as browser:
        for action in (lambda: browser.list_page(ItemQuery(task="a\0b"), 9), lambda: browser.get_item("a\0")):
            with pytest.raises(UserError, match="cannot store or search"):
                action()


def test_connection_lost_during_the_run_lookup_is_an_infrastructure_error(postgres, monkeypatch):
    def raise_lost_connection(*_):
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(revoke_module, "find_run_folders", raise_lost_connection)
    with pytest.raises(InfraError, match="cannot be reached"):
        revoke_module.revoke(make_bank_with_history(parse_location(postgres.url("lost_looking"))), "a:t/relu/0")
