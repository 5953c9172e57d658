"""Memory packs from the command line: export, inspect, contamination, import, and runs that start from one."""

import json
from pathlib import Path
from shutil import copy

import pytest
from cli_helpers import TASK, Call, CommandResult
from test_user_errors import assert_refused

from evokernel.core.plugins import make_plugin

RENAMED = TASK.replace("(self, x)", "(self, given)").replace("x * 2 + 1", "given * 3 + 4").replace("64, 48", "8, 8")


def values(call: Call, bank: Path) -> dict[str, tuple[float | None, float | None]]:
    return {one["id"]: (one["q1"], one["q2"]) for one in call("memory", "list", "--limit", 999, "--memory", bank, "--json").json}


@pytest.fixture(scope="module")
def bank_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of the bank that the first test creates."""
    return tmp_path_factory.mktemp("bank") / "one.db"


@pytest.fixture
def bank(bank_path: Path, call: Call, task_file: Path, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bank of a small run."""
    if missing := make_plugin("backend", "cpp").unavailable_reason():
        pytest.skip(missing)
    monkeypatch.chdir(tmp_path)
    if not bank_path.exists():
        assert run(call, str(bank_path), task_file, script).code == 0
    for file in bank_path.parent.glob("one.db*"):
        copy(file, tmp_path)
    return tmp_path / "one.db"


def run(call: Call, bank: str, task: Path, script: Path, *more: object) -> CommandResult:
    generator = ("--generator", "from_files", "--set", f"generator.folder={script}", "--set", "clock=synthetic", "--workers", 1)
    return call("run", "--backend", "cpp", "--tasks", task, "--budget", 2, "--memory", bank, *generator, *more, "--json")


@pytest.mark.slow(one_in=5)
def test_run_starts_from_an_imported_pack(bank: Path, call: Call, task_file: Path, script: Path, tmp_path: Path) -> None:
    pack = tmp_path / "pack.jsonl"
    exported = call("memory", "export", pack, "--memory", bank, "--json").json
    content = call("memory", "inspect", pack, "--json").json
    assert content["intact"]
    assert content["header"]["sha256"] == exported["sha256"] == content["sha256"]
    (origin,) = content["header"]["runs"]
    assert {"compiler", "evokernel", "python"} <= origin["versions"].keys()
    assert (origin["backend"], origin["generator"], origin["seed"]) == ("cpp", "from_files", 0)
    for name in ("learning.db", "read_only.db"):
        imported = call("memory", "import", pack, "--memory", name, "--json").json
        assert (imported["items"], imported["signed"], imported["notes"]) == (exported["items"], True, [])
        assert values(call, tmp_path / name) == values(call, bank)
    assert exported["sha256"][:12] in call("memory", "stats", "--memory", "read_only.db").out
    before = values(call, bank)
    for name, more in (("learning.db", ()), ("read_only.db", ("--set", "memory_read_only=true"))):
        assert run(call, name, task_file, script, *more).code == 0
        after = values(call, tmp_path / name)
        assert ({id: after[id] for id in before} == before) == (name == "read_only.db")


@pytest.mark.slow(one_in=5)
def test_other_toolchains_and_changed_packs_are_reported(bank: Path, call: Call, tmp_path: Path) -> None:
    pack = tmp_path / "pack.jsonl"
    call("memory", "export", pack, "--memory", bank)
    assert "intact, sha256" in call("memory", "inspect", pack).out
    body = pack.read_text().partition("\n")[2]
    (tmp_path / "old.jsonl").write_text(f'{{"evokernel_memory": 1}}\n{body}')
    assert_refused(call("memory", "import", "old.jsonl", "--memory", "two.db"), "older evokernel (format 1", "export a new pack")
    header = json.loads(pack.read_text().partition("\n")[0])
    header["runs"][0]["versions"]["compiler"] = "g++ 1.0"
    header["runs"].append({**header["runs"][0], "run": "other", "backend": "cuba"})
    header["backends"]["cuba"] = 0
    pack.write_text(f"{json.dumps(header)}\n{body}")
    assert_refused(call("memory", "import", pack, "--memory", "three.db"), "its header was changed", "--allow-modified")
    assert call("memory", "inspect", pack, "--json").code == 1
    notes = call("memory", "import", pack, "--memory", "three.db", "--allow-modified", "--json").json["notes"]
    assert len(notes) == 3
    assert "compiler g++ 1.0, here" in notes[1]
    assert "'cuba'" in notes[2]


def test_contamination_finds_renamed_duplicate_and_export_excludes_it(bank: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "tripled.py").write_text(RENAMED)
    (tmp_path / "ops" / "other.py").write_text(TASK.replace("x * 2 + 1", "torch.tanh(x)"))
    call("memory", "export", "pack.jsonl", "--memory", bank)
    table = call("memory", "contamination", "pack.jsonl", "--tasks", "ops/tripled.py")
    assert table.code == 1
    assert "under other names" in table.out
    report = call("memory", "contamination", bank, "--tasks", "ops/tripled.py", "--json")
    assert report.code == 1
    assert {match["reason"] for match in report.json["matches"]} == {"structure"}
    assert report.json["revealed_operators"] == ["ops/tripled"]
    assert call("memory", "contamination", "pack.jsonl", "--tasks", "ops/other.py").code == 0
    clean = call("memory", "export", "clean.jsonl", "--memory", bank, "--held-out", "ops", "--json").json
    assert clean["held_out"]["items"] == len(report.json["matches"])
    assert call("memory", "contamination", "clean.jsonl", "--tasks", "ops", "--known-kernels", bank, "--json").json["clean"]
    assert call("memory", "inspect", "clean.jsonl", "--json").json["header"]["filters"]["held_out"] == "ops"


def test_wrong_input_is_refused(bank: Path, call: Call, tmp_path: Path) -> None:
    call("memory", "export", "pack.jsonl", "--memory", bank)
    (tmp_path / "cut.jsonl").write_bytes((tmp_path / "pack.jsonl").read_bytes()[:-100])
    assert_refused(
        call("memory", "import", "cut.jsonl", "--memory", "x.db"), "cut.jsonl", "differs from the exported pack", "--allow-modified"
    )
    assert_refused(call("memory", "import", "cut.jsonl", "--memory", "x.db", "--allow-modified"), "cut.jsonl, line")
    assert_refused(call("memory", "import", "none.jsonl", "--memory", "x.db"), "cannot read memory pack none.jsonl")
    assert_refused(call("memory", "inspect", bank), "not a memory pack")
    assert_refused(call("memory", "inspect", "none.jsonl"), "none.jsonl")
    assert_refused(call("memory", "contamination", "none.jsonl", "--tasks", "starter"), "none.jsonl", "Name a memory bank or a pack")
    assert_refused(call("memory", "contamination", "pack.jsonl", "--tasks", "strater"), "strater", "starter")
    assert_refused(call("memory", "contamination", "pack.jsonl"), "--tasks")
    assert_refused(call("memory", "contamination", "pack.jsonl", "--tasks", "starter", "--known-kernels", "none.db"), "none.db")
    assert_refused(call("memory", "export", "x.jsonl", "--memory", bank, "--held-out", "level9"), "level9")
    assert_refused(call("memory", "export", "x.jsonl", "--memory", "none.db"), "none.db")
    assert not (tmp_path / "x.db").exists()
    assert not (tmp_path / "x.jsonl").exists()
    result = call("memory", "export", "x.jsonl", "--memory", bank, "--suite", "stater", "--exclude", "nothing/such")
    assert result.code == 0
    assert result.err.count("has no items of") == 2
