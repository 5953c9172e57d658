"""`evokernel extract`: a model's operators as tasks, a run's kernels back in the model, and one line for every mistake."""

from pathlib import Path

import pytest
from cli_helpers import Call
from model_parts import GELU, MODEL, make_run

CHEAP = ["--set", "clock=synthetic", "--set", "protocol=paper"]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.py"
    path.write_text(MODEL)
    return path


@pytest.mark.slow(one_in=5)
def test_tasks_from_a_model_and_kernels_back_into_it(model: Path, call: Call) -> None:
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
    result = call("extract", model, "--kernels-from", "runs/one", "--all")
    assert result.code == 0, result
    assert "The model with kernels is correct." in result.out
    assert "not comparable" in result.out  # synthetic times have no clock
    assert call("extract", model, "--kernels-from", "runs/one", "--all", "--json").json["replaced"] == 1


def test_wrong_kernel_exits_with_1(model: Path, call: Call) -> None:
    assert call("extract", model, "--min-share", "0.001").code == 0
    (task,) = model.parent.glob("operators/small/*gelu*")
    make_run(model.parent / "run", str(task), GELU.replace("0.5f", "0.6f"))
    result = call("extract", model, "--kernels-from", "run")
    assert result.code == 1
    assert "is wrong" in result.out


def test_slower_kernel_is_left_out_unless_asked_for(model: Path, call: Call) -> None:
    assert call("extract", model, "--min-share", "0.001").code == 0
    (task,) = model.parent.glob("operators/small/*gelu*")
    make_run(model.parent / "run", str(task), GELU, latency_us=60.0)
    result = call("extract", model, "--kernels-from", "run")
    assert result.code == 1
    assert "left out: 6.00× slower than PyTorch eager" in " ".join(result.out.split())
    assert "No operator was replaced: no kernel is faster than its best baseline." in result.out
    result = call("extract", model, "--kernels-from", "run", "--all")
    assert result.code == 0
    assert "6.00× slower than PyTorch eager" in " ".join(result.out.split())
    assert "The model with kernels is correct." in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "cannot read task file"),
        (["small.txt"], "is not a Python file"),
        (["small.py", "--min-share", "1"], "Lower --min-share"),
        (["small.py", "--kernels-from", "nowhere"], "is not a run folder"),
        (["still.py"], "calls no torch operator"),
        (["broken.py"], "line 1"),
    ],
)
def test_wrong_input_is_one_line(model: Path, call: Call, arguments: list[str], message: str) -> None:
    (model.parent / "small.txt").write_text(MODEL)
    (model.parent / "still.py").write_text(MODEL.replace("return torch.softmax", "return x.view(-1)\n        return torch.softmax"))
    (model.parent / "broken.py").write_text("def")
    result = call("extract", *arguments)
    assert result.code == 2
    assert message in result.err.splitlines()[-1]
    assert not (model.parent / "operators").exists()


def test_folder_with_other_files_is_refused(model: Path, call: Call) -> None:
    (model.parent / "out").mkdir()
    (model.parent / "out" / "mine.py").write_text("")
    result = call("extract", model, "--out", "out")
    assert result.code == 2
    assert "choose another folder with --out" in result.err
