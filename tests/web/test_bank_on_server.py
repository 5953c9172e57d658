"""Memory on the page, from a bank on a real server: the same views, no password anywhere, and a server that goes away comes back."""

import json
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

import made_run
import pytest
from bank_parts import learn, open_bank, with_history
from click.testing import CliRunner
from engine_parts import task

from evokernel.cli import web
from evokernel.core.bank_uri import parse_location
from evokernel.core.errors import UserError

SECRET = "p4ge-Wort"


@pytest.fixture(scope="module")
def bank(postgres):
    """For a login with a password."""
    postgres.execute(f"CREATE ROLE looker LOGIN PASSWORD '{SECRET}'")
    with_history(parse_location(postgres.url("page")))
    postgres.execute("GRANT USAGE ON SCHEMA page TO looker")
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA page TO looker")
    return postgres.url("page", user=f"looker:{SECRET}")


@pytest.fixture
def key(bank):
    return parse_location(bank).name.replace("/", "~")


def got(url, view="memory", **state):
    return urlopen(f"{url}/{view}?{urlencode(state)}").read().decode()


def test_every_view_of_memory(bank, key, tmp_path, serve):
    made_run.write_run(tmp_path / "runs" / "one", *made_run.made(), memory=str(parse_location(bank)))
    url = serve([tmp_path / "runs"], [parse_location(bank)]).url
    pages = [
        (got(url), "14 items"),
        (got(url, q="GELU drafted mismatch"), "2 items"),
        (got(url, q=task("gelu").source, how="meaning", kind="trace"), "nearest first"),
        (got(url, least="-5"), "the most valuable first"),
        (got(url, "item", bank=key, id="cpp/tip"), "after 3 visits"),
        (got(url, "run", run="one"), f"bank={quote(key, safe='')}"),
    ]
    for body, text in pages:
        assert text in body
        assert SECRET not in body
    assert "looker@127.0.0.1" in pages[0][0]
    with pytest.raises(HTTPError) as caught:
        got(url, "item", bank=key, id="nothing")
    assert SECRET not in caught.value.read().decode()


def test_what_is_learned_arrives(bank, key, postgres, tmp_path, serve):
    url = serve([tmp_path], [parse_location(bank)]).url
    with urlopen(f"{url}/live?{urlencode({'view': 'item', 'bank': key, 'id': 'cpp/tip', 'mark': 'old'})}") as stream:
        lines = iter(stream.readline, b"")
        events = (json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: "))
        next(events)
        with open_bank(parse_location(postgres.url("page")), "other") as writer:
            learn(writer, "relu", 7, ["cpp/tip"])
        assert "t/relu/7" in next(events)["shown"]


def test_a_server_that_goes_away_is_said_and_comes_back(bank, postgres, tmp_path, serve):
    url = serve([tmp_path], [parse_location(bank)]).url
    before = got(url)
    postgres.stop()
    with pytest.raises(HTTPError) as caught:
        got(url)
    said = caught.value.read().decode()
    assert caught.value.code == 503
    assert caught.value.headers["refresh"] == "5"
    assert "cannot be reached" in said
    assert SECRET not in said
    postgres.start()
    assert got(url) == before


def test_the_command_shows_no_password_and_refuses_what_is_no_bank(bank, postgres, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(web.command, ["--json", "--memory", bank], catch_exceptions=False).output
    assert json.loads(said)["memory"] == [{"key": parse_location(bank).name.replace("/", "~"), "path": str(parse_location(bank))}]
    assert SECRET not in said
    with pytest.raises(UserError, match="there is no memory bank at postgresql://"):
        CliRunner().invoke(web.command, ["--json", "--memory", postgres.url("nobody_made_this")], catch_exceptions=False)
