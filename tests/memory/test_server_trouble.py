"""A bank on a server that ends sessions, is held by others, or is asked what it cannot hold."""

import threading
import time

import psycopg
import pytest
from bank_parts import learn, open_bank, standings, with_history
from test_memory_bank import item

from evokernel.core.bank_uri import parse_location
from evokernel.core.errors import InfraError, UserError
from evokernel.memory import postgres as on_server
from evokernel.memory import revoke as revoking
from evokernel.memory import schema
from evokernel.memory.queries import Browser, Wanted


def test_a_session_that_the_server_ended_for_doing_nothing_is_begun_again(postgres, caplog):
    url = parse_location(postgres.url("idle"))
    with open_bank(url, "a") as bank:
        bank.add([item("cpp/tip", "practice")])
        bank._connection._connection.execute("SET idle_session_timeout = '100ms'")
        time.sleep(0.5)
        learn(bank, "relu", 0, ["cpp/tip"])
    assert "idle-session timeout" in caplog.text
    assert standings(url)["cpp/tip", "draft"].visits == 1


def test_whoever_looks_now_and_then_does_not_notice(postgres):
    with Browser(with_history(parse_location(postgres.url("idle_page")))) as browser:
        before = browser.page(Wanted(), 9)
        browser._connection._connection.execute("SET idle_session_timeout = '100ms'")
        time.sleep(0.5)
        assert browser.page(Wanted(), 9) == before


def test_a_session_that_ends_inside_a_transaction(postgres, monkeypatch):
    monkeypatch.setattr(on_server, "WAITS_S", (0.0,))
    url = parse_location(postgres.url("idle_inside"))
    server = schema.connect(url)
    lost = []

    def slow():
        if not lost:
            lost.append(server.execute("SET idle_in_transaction_session_timeout = '100ms'"))
            time.sleep(0.5)
        return server.execute("SELECT 1").fetchone()[0]

    assert server.written(slow) == 1
    server.close()
    with pytest.raises(InfraError, match="cannot be reached"), on_server.trouble(url):
        raise psycopg.errors.IdleInTransactionSessionTimeout("terminating connection")


def test_who_tidies_for_long_is_waited_for_when_a_bank_is_opened(postgres, monkeypatch, caplog):
    monkeypatch.setattr(on_server, "LOCK_TIMEOUT_S", 0.1)
    url = parse_location(postgres.url("held_when_opened"))
    open_bank(url, "a").close()
    holder = schema.connect(url)
    holder.begin()
    done = threading.Timer(0.5, lambda: holder.execute("ROLLBACK"))
    done.start()
    open_bank(url, "b").close()
    done.join()
    holder.close()
    assert "trying again" in caplog.text


def test_a_writer_sees_what_was_written_while_it_waited(postgres):
    """Whatever the server's own way with transactions."""
    url = parse_location(postgres.url("waits") + "&options=-c%20default_transaction_isolation%3Dserializable")
    with open_bank(url, "a") as bank, open_bank(url, "b") as other:
        bank.add([item("cpp/tip", "practice")])
        bank._connection.begin()
        assert bank._connection.execute("SHOW transaction_isolation").fetchone()[0] == "read committed"
        bank._connection.execute("ROLLBACK")
        learn(other, "relu", 0, ["cpp/tip"])


def test_what_no_server_can_hold_is_refused(postgres):
    url = with_history(parse_location(postgres.url("zero")))
    with Browser(url) as browser:
        for action in (lambda: browser.page(Wanted(task="a\0b"), 9), lambda: browser.get("a\0")):
            with pytest.raises(UserError, match="cannot hold"):
                action()


def test_a_server_that_goes_away_while_runs_are_looked_up(postgres, monkeypatch):
    def lost(*_):
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(revoking, "where_runs_are", lost)
    with pytest.raises(InfraError, match="cannot be reached"):
        revoking.revoke(with_history(parse_location(postgres.url("lost_looking"))), "a:t/relu/0")
