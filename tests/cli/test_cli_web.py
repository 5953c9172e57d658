"""`evokernel web` from the outside: what it serves, what it refuses, how it ends."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import made_run
import pytest
from cli_calls import Call

pytest.importorskip("starlette", reason="the page needs evokernel[web]")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tasks, attempts = made_run.made()
    made_run.write_run(tmp_path / "runs" / "one", tasks, attempts)
    return tmp_path / "runs"


def test_json_says_what_would_be_served(runs: Path, call: Call) -> None:
    said = call("web", "--json", "--host", "0.0.0.0").json
    assert [(run["key"], run["id"], run["state"], run["attempts"]) for run in said["runs"]] == [("one", "made-run", "finished", 9)]
    assert (said["token"], said["memory"]) == (True, [])
    assert call("web", "--json").json["url"] == "http://127.0.0.1:8765/"


def test_without_the_extra_it_says_so(runs: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "uvicorn" else known(name, *more))
    said = call("web")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "pip install 'evokernel[web]'" in said.err


def test_what_is_not_there_is_refused(runs: Path, call: Call) -> None:
    for words, text in ((["nowhere"], "nowhere"), (["--memory", "no.db"], "no.db"), (["--export", "runs/none", "out"], "none")):
        said = call("web", *words)
        assert (said.code, said.err.count("\n")) == (2, 1), said
        assert text in said.err


def test_a_port_that_is_taken(runs: Path, call: Call) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = call("web", "--port", str(taken.getsockname()[1]))
    assert said.code == 2
    assert "--port" in said.err


def test_an_export_opens_by_itself(runs: Path, call: Call) -> None:
    said = call("web", "--export", "runs/one", "out", "--json").json
    assert said["pages"] == 1 + 1 + 3 + 9 + 2
    pages = {page.name: page.read_text() for page in Path("out").glob("*.html")}
    assert len(pages) == said["pages"]
    for text in pages.values():
        linked = [part.partition('"')[0] for part in text.split('href="')[1:]]
        assert all((Path("out") / link).exists() for link in linked if not link.startswith(("#", "data:")))
        assert "://" not in text
    assert call("web", "--export", "runs/one", "out").code == 0
    assert call("web", "--export", "runs", "runs").code == 2


@pytest.mark.parametrize("more", [[], ["--token", "secret"]])
def test_it_serves_until_it_is_told_to_end(runs: Path, more: list[str]) -> None:
    program = [sys.executable, "-m", "evokernel.cli.main", "web", "--port", "0", *more]
    process = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        address = next(word for word in line.split() if word.startswith("http"))
        assert ("token=secret" in address) == bool(more)
        if not more:
            assert b"one" in urlopen(f"{address}run?run=one").read()
            looking = urlopen(f"{address}live?view=run&run=one")
            assert looking.readline() == b"retry: 1000\n"
        else:
            with pytest.raises(HTTPError, match="401"):  # this client keeps no cookie
                urlopen(address)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode in (0, 130)
    assert errors.strip() == ""
