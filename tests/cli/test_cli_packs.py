"""Packs from the command line: made, looked at, audited, taken in, begun with."""

import json
from pathlib import Path
from shutil import copy

import pytest
from cli_calls import TASK, Call, Said
from test_cli_bad_input import refused

from evokernel.core.plugins import make_plugin

RENAMED = TASK.replace("(self, x)", "(self, given)").replace("x * 2 + 1", "given * 3 + 4").replace("64, 48", "8, 8")


def values(call: Call, bank: Path) -> dict[str, tuple[float | None, float | None]]:
    return {one["id"]: (one["q1"], one["q2"]) for one in call("memory", "list", "--limit", 999, "--memory", bank, "--json").json}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the bank lies that the first test to ask for one made."""
    return tmp_path_factory.mktemp("learned") / "one.db"


@pytest.fixture
def learned(kept: Path, call: Call, task_file: Path, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bank of a small run."""
    if missing := make_plugin("backend", "cpp").missing():
        pytest.skip(missing)
    monkeypatch.chdir(tmp_path)
    if not kept.exists():
        assert run(call, str(kept), task_file, script).code == 0
    for file in kept.parent.glob("one.db*"):
        copy(file, tmp_path)
    return tmp_path / "one.db"


def run(call: Call, bank: str, task: Path, script: Path, *more: object) -> Said:
    generator = ("--generator", "from_files", "--set", f"generator.folder={script}", "--set", "clock=synthetic", "--workers", 1)
    return call("run", "--backend", "cpp", "--tasks", task, "--budget", 2, "--memory", bank, *generator, *more, "--json")


def test_a_pack_from_one_run_warms_another(learned: Path, call: Call, task_file: Path, script: Path, tmp_path: Path) -> None:
    pack = tmp_path / "pack.jsonl"
    made = call("memory", "export", pack, "--memory", learned, "--json").json
    seen = call("memory", "inspect", pack, "--json").json
    assert seen["intact"]
    assert seen["header"]["sha256"] == made["sha256"] == seen["sha256"]
    (origin,) = seen["header"]["runs"]
    assert {"compiler", "evokernel", "python"} <= origin["versions"].keys()
    assert (origin["backend"], origin["generator"], origin["seed"]) == ("cpp", "script", 0)
    for name in ("learning.db", "frozen.db"):
        took = call("memory", "import", pack, "--memory", name, "--json").json
        assert (took["items"], took["signed"], took["notes"]) == (made["items"], True, [])
        assert values(call, tmp_path / name) == values(call, learned)
    assert made["sha256"][:12] in call("memory", "stats", "--memory", "frozen.db").out
    before = values(call, learned)
    for name, more in (("learning.db", ()), ("frozen.db", ("--set", "frozen=true"))):
        assert run(call, name, task_file, script, *more).code == 0
        after = values(call, tmp_path / name)
        assert ({id: after[id] for id in before} == before) == (name == "frozen.db")


def test_other_toolchains_and_old_formats_are_told(learned: Path, call: Call, tmp_path: Path) -> None:
    pack = tmp_path / "pack.jsonl"
    call("memory", "export", pack, "--memory", learned)
    assert "as its header says" in call("memory", "inspect", pack).out
    body = pack.read_text().partition("\n")[2]
    (tmp_path / "old.jsonl").write_text(f'{{"evokernel_memory": 1}}\n{body}')
    said = call("memory", "import", "old.jsonl", "--memory", "two.db")
    assert said.code == 0
    assert "note: not signed (format 1" in said.err
    header = json.loads(pack.read_text().partition("\n")[0])
    header["runs"][0]["versions"]["compiler"] = "g++ 1.0"
    header["runs"].append({**header["runs"][0], "run": "other", "backend": "cuba"})
    header["backends"]["cuba"] = 0
    pack.write_text(f"{json.dumps(header)}\n{body}")
    refused(call("memory", "import", pack, "--memory", "three.db"), "its header was changed", "--unsigned")
    assert call("memory", "inspect", pack, "--json").code == 1
    notes = call("memory", "import", pack, "--memory", "three.db", "--unsigned", "--json").json["notes"]
    assert len(notes) == 3
    assert "compiler g++ 1.0, here" in notes[1]
    assert "'cuba'" in notes[2]


def test_the_audit_finds_a_renamed_duplicate_and_export_leaves_it_behind(learned: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "tripled.py").write_text(RENAMED)
    (tmp_path / "ops" / "other.py").write_text(TASK.replace("x * 2 + 1", "torch.tanh(x)"))
    call("memory", "export", "pack.jsonl", "--memory", learned)
    told = call("memory", "audit", "pack.jsonl", "--tasks", "ops/tripled.py")
    assert told.code == 1
    assert "under other names" in told.out
    found = call("memory", "audit", learned, "--tasks", "ops/tripled.py", "--json")
    assert found.code == 1
    assert {leak["why"] for leak in found.json["leaks"]} == {"structure"}
    assert found.json["told"] == ["ops/tripled"]
    assert call("memory", "audit", "pack.jsonl", "--tasks", "ops/other.py").code == 0
    clean = call("memory", "export", "clean.jsonl", "--memory", learned, "--held-out", "ops", "--json").json
    assert clean["held_out"]["items"] == len(found.json["leaks"])
    assert call("memory", "audit", "clean.jsonl", "--tasks", "ops", "--kernels", learned, "--json").json["clean"]
    assert call("memory", "inspect", "clean.jsonl", "--json").json["header"]["filters"]["held_out"] == "ops"


def test_bad_input(learned: Path, call: Call, tmp_path: Path) -> None:
    call("memory", "export", "pack.jsonl", "--memory", learned)
    (tmp_path / "cut.jsonl").write_bytes((tmp_path / "pack.jsonl").read_bytes()[:-100])
    refused(call("memory", "import", "cut.jsonl", "--memory", "x.db"), "cut.jsonl", "not what was exported", "--unsigned")
    refused(call("memory", "import", "cut.jsonl", "--memory", "x.db", "--unsigned"), "cut.jsonl, line")
    refused(call("memory", "import", "none.jsonl", "--memory", "x.db"), "cannot read memory pack none.jsonl")
    refused(call("memory", "inspect", learned), "not a memory pack")
    refused(call("memory", "inspect", "none.jsonl"), "none.jsonl")
    refused(call("memory", "audit", "none.jsonl", "--tasks", "starter"), "none.jsonl", "name a memory bank or a pack")
    refused(call("memory", "audit", "pack.jsonl", "--tasks", "strater"), "strater", "starter")
    refused(call("memory", "audit", "pack.jsonl"), "--tasks")
    refused(call("memory", "audit", "pack.jsonl", "--tasks", "starter", "--kernels", "none.db"), "none.db")
    refused(call("memory", "export", "x.jsonl", "--memory", learned, "--held-out", "level9"), "level9")
    refused(call("memory", "export", "x.jsonl", "--memory", "none.db"), "none.db")
    assert not (tmp_path / "x.db").exists()
    assert not (tmp_path / "x.jsonl").exists()
    said = call("memory", "export", "x.jsonl", "--memory", learned, "--suite", "stater", "--without", "nothing/such")
    assert said.code == 0
    assert said.err.count("note: nothing in") == 2
