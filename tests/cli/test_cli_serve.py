"""`evokernel serve` refuses unsafe and impossible settings in one line, and makes tokens."""

import importlib.util
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from evokernel.cli.serve import command
from evokernel.core.errors import UserError

pytest.importorskip("fastapi", reason="the service needs evokernel[serve]")


def run(*arguments):
    result = CliRunner().invoke(command, [str(word) for word in arguments])
    return result, str(result.exception) if isinstance(result.exception, UserError) else ""


def test_a_missing_extra_is_one_line(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "fastapi" else find_spec(name, *more))
    _, error = run()
    assert error == "the service needs fastapi. Install with: pip install 'evokernel[serve]'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--host", "0.0.0.0"), "name a token file with --tokens"),
        (("--tokens", "nothing.toml"), "there is no token file"),
        (("--memory", "nothing.db"), "there is no memory bank"),
        (("--set", "timeout_s=-1"), "timeout_s"),
        (("token", "Alice!"), "not a name for a tenant"),
    ],
)
def test_wrong_settings_are_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, error = run(*arguments)
    assert message in error
    assert "\n" not in error
    assert not (tmp_path / "evokernel-service").exists()


def test_a_token_is_printed_once_and_its_tenant_served(tmp_path: Path):
    path = tmp_path / "tokens.toml"
    result, _ = run("token", "alice", "--tokens", path, "--json")
    token = json.loads(result.stdout)["token"]
    assert token not in path.read_text()
    result, _ = run("--tokens", path, "--host", "0.0.0.0", "--json", "--set", "timeout_s=5", "--executor", "local")
    record = json.loads(result.stdout)
    assert record["tenants"] == ["alice"]
    assert record["settings"]["timeout_s"] == 5
