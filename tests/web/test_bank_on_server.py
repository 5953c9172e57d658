"""Memory pages of a bank on a real database server: same pages, no password, and recovery from an outage."""

import json
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

import pytest
import sample_run
from bank_parts import learn, make_bank_with_history, open_bank
from click.testing import CliRunner
from engine_parts import make_task

from evokernel.cli import web
from evokernel.core.bank_uri import parse_location
from evokernel.core.errors import UserError

SECRET = "p4ge-Wort"


@pytest.fixture(scope="module")
def bank(postgres):
    """A bank whose user needs a password."""
    postgres.execute(f"CREATE ROLE looker LOGIN PASSWORD '{SECRET}'")
    make_bank_with_history(parse_location(postgres.url("page")))
    postgres.execute("GRANT USAGE ON SCHEMA page TO looker")
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA page TO looker")
    return postgres.url("page", user=f"looker:{SECRET}")


@pytest.fixture
def key(bank):
    return parse_location(bank).name.replace("/", "~")


def get_page(url, view="memory", **state):
    return urlopen(f"{url}/{view}?{urlencode(state)}").read().decode()


def test_memory_pages_show_a_bank_on_a_server(bank, key, tmp_path, serve):
    sample_run.write_run(tmp_path / "runs" / "one", *sample_run.make_sample(), memory=str(parse_location(bank)))
    url = serve([tmp_path / "runs"], [parse_location(bank)]).url
    pages = [
        (get_page(url), "14 items"),
        (get_page(url, q="GELU drafted mismatch"), "2 items"),
        (get_page(url, q=make_task("gelu").source, how="meaning", kind="trace"), "most similar first"),
        (get_page(url, min_value="-5"), "highest value first"),
        (get_page(url, "item", bank=key, id="cpp/tip"), "after 3 visits"),
        (get_page(url, "run", run="one"), f"bank={quote(key, safe='')}"),
    ]
    for body, text in pages:
        assert text in body
        assert SECRET not in body
    assert "looker@127.0.0.1" in pages[0][0]
    with pytest.raises(HTTPError) as error_info:
        get_page(url, "item", bank=key, id="nothing")
    assert SECRET not in error_info.value.read().decode()


def test_value_updates_arrive_live(bank, key, postgres, tmp_path, serve):
    url = serve([tmp_path], [parse_location(bank)]).url
    with urlopen(f"{url}/live?{urlencode({'view': 'item', 'bank': key, 'id': 'cpp/tip', 'mark': 'old'})}") as stream:
        lines = iter(stream.readline, b"")
        events = (json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: "))
        next(events)
        with open_bank(parse_location(postgres.url("page")), "other") as writer:
            learn(writer, "relu", 7, ["cpp/tip"])
        assert "t/relu attempt 8" in next(events)["shown"]


def test_outage_of_the_server_is_reported_and_recovers(bank, postgres, tmp_path, serve):
    url = serve([tmp_path], [parse_location(bank)]).url
    before = get_page(url)
    postgres.stop()
    with pytest.raises(HTTPError) as error_info:
        get_page(url)
    body = error_info.value.read().decode()
    assert error_info.value.code == 503
    assert error_info.value.headers["refresh"] == "5"
    assert "cannot be reached" in body
    assert SECRET not in body
    postgres.start()
    assert get_page(url) == before


def test_command_hides_the_password_and_refuses_a_missing_bank(bank, postgres, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = CliRunner().invoke(web.command, ["--json", "--memory", bank], catch_exceptions=False).output
    assert json.loads(output)["memory"] == [{"key": parse_location(bank).name.replace("/", "~"), "path": str(parse_location(bank))}]
    assert SECRET not in output
    with pytest.raises(UserError, match="there is no memory bank at postgresql://"):
        CliRunner().invoke(web.command, ["--json", "--memory", postgres.url("no_such_schema")], catch_exceptions=False)
