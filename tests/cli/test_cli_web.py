"""`evokernel web`: what it serves, what it refuses, and how it ends."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import sample_run
from cli_helpers import Call

pytest.importorskip("starlette", reason="the dashboard needs evokernel[web]")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tasks, attempts = sample_run.make_sample()
    sample_run.write_run(tmp_path / "runs" / "one", tasks, attempts)
    return tmp_path / "runs"


def test_json_lists_what_would_be_served(runs: Path, call: Call) -> None:
    result = call("web", "--json", "--host", "0.0.0.0").json
    assert [(run["key"], run["id"], run["state"], run["attempts"]) for run in result["runs"]] == [("one", "made-run", "finished", 9)]
    assert (result["token"], result["memory"]) == (True, [])
    assert call("web", "--json").json["url"] == "http://127.0.0.1:8765/"


def test_missing_packages_are_reported(runs: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "uvicorn" else find_spec(name, *more))
    result = call("web")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "pip install 'evokernel[web]'" in result.err


def test_missing_folders_and_banks_are_refused(runs: Path, call: Call) -> None:
    for words, text in ((["nowhere"], "nowhere"), (["--memory", "no.db"], "no.db"), (["--export", "runs/none", "out"], "none")):
        result = call("web", *words)
        assert (result.code, result.err.count("\n")) == (2, 1), result
        assert text in result.err


def test_port_in_use_is_refused(runs: Path, call: Call) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        result = call("web", "--port", str(listener.getsockname()[1]))
    assert result.code == 2
    assert "--port" in result.err


def test_export_is_self_contained(runs: Path, call: Call) -> None:
    result = call("web", "--export", "runs/one", "out", "--json").json
    assert result["pages"] == 1 + 1 + 1 + 3 + 9 + 2
    pages = {page.name: page.read_text() for page in Path("out").glob("*.html")}
    assert len(pages) == result["pages"]
    for text in pages.values():
        targets = [part.partition('"')[0] for part in text.split('href="')[1:]]
        assert all((Path("out") / link).exists() for link in targets if not link.startswith(("#", "data:")))
        assert "://" not in text
    assert call("web", "--export", "runs/one", "out").code == 0
    assert call("web", "--export", "runs", "runs").code == 2


@pytest.mark.parametrize("more", [[], ["--token", "secret"]])
def test_dashboard_serves_until_it_is_interrupted(runs: Path, more: list[str]) -> None:
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
