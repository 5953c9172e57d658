"""`evokernel extract`: a model's operators as tasks, a run's kernels back in the model, and one line for every mistake."""

import sys
from pathlib import Path

import pytest
from cli_calls import Call

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from model_parts import GELU, MODEL, a_run

CHEAP = ["--set", "clock=synthetic", "--set", "protocol=paper"]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.py"
    path.write_text(MODEL)
    return path


def test_from_a_model_to_a_run_and_back(model: Path, call: Call) -> None:
    made = call("extract", model, "--min-share", "0.001", "--json")
    assert made.code == 0
    assert sorted(one["function"].rpartition(".")[2] for one in made.json["operators"]) == ["gelu", "linear", "linear", "softmax"]
    (task,) = [one["task"] for one in made.json["operators"] if "gelu" in one["function"]]
    (model.parent / "replies" / Path(task).stem).mkdir(parents=True)
    (model.parent / "replies" / Path(task).stem / "1.cpp").write_text(GELU)
    more = [
        "--generator",
        "from_files",
        "--set",
        "generator.folder=replies",
        "--budget",
        1,
        "--fresh",
        "--out",
        "runs/one",
        "--json",
        *CHEAP,
    ]
    assert call("run", "--backend", "cpp", "--tasks", task, *more).code == 0
    said = call("extract", model, "--with", "runs/one")
    assert said.code == 0, said
    assert "the model with kernels is right" in said.out
    assert "not comparable" in said.out  # synthetic times are nobody's
    assert call("extract", model, "--with", "runs/one", "--json").json["replaced"] == 1


def test_a_wrong_kernel_gives_exit_code_one(model: Path, call: Call) -> None:
    assert call("extract", model, "--min-share", "0.001").code == 0
    (task,) = model.parent.glob("operators/small/*gelu*")
    a_run(model.parent / "run", str(task), GELU.replace("0.5f", "0.6f"))
    said = call("extract", model, "--with", "run")
    assert said.code == 1
    assert "is not right" in said.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.py"], "cannot be read"),
        (["small.txt"], "is no Python file"),
        (["small.py", "--min-share", "1"], "give a lower --min-share"),
        (["small.py", "--with", "nowhere"], "is not a run folder"),
        (["still.py"], "calls no operator"),
        (["broken.py"], "line 1"),
    ],
)
def test_mistakes_are_told_in_one_line(model: Path, call: Call, arguments: list[str], says: str) -> None:
    (model.parent / "small.txt").write_text(MODEL)
    (model.parent / "still.py").write_text(MODEL.replace("return torch.softmax", "return x.view(-1)\n        return torch.softmax"))
    (model.parent / "broken.py").write_text("def")
    said = call("extract", *arguments)
    assert said.code == 2
    assert says in said.err.splitlines()[-1]
    assert not (model.parent / "operators").exists()


def test_tasks_are_not_mixed_with_others(model: Path, call: Call) -> None:
    (model.parent / "out").mkdir()
    (model.parent / "out" / "mine.py").write_text("")
    said = call("extract", model, "--out", "out")
    assert said.code == 2
    assert "give another folder with --out" in said.err
