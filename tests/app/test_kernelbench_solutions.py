"""Names of solutions and their problems, scores, reports and the store of results: nothing is compiled or run."""

import json
from pathlib import Path

import pytest

from evokernel.app.kernelbench import report, runner
from evokernel.app.kernelbench.evaluation import mean_of, read_criterion
from evokernel.app.kernelbench.results import CriterionResult, SolutionResult, StrictResult, criterion_score, strict_score
from evokernel.app.kernelbench.solution_client import SolutionReply
from evokernel.app.kernelbench.solution_files import (
    MappedSolution,
    NameParts,
    ProblemIndex,
    Solution,
    UnmappedSolution,
    find_solutions,
    map_solutions,
    parse_name,
    read_index,
)
from evokernel.core.errors import UserError

PROBLEM = "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return x\n\n"
PROBLEM += "def get_inputs():\n    return [torch.rand(4)]\n"
SOLUTION = "import torch.nn as nn\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the layout of a KernelBench checkout."""
    for level, names in {1: ("1_Square_matmul", "23_Softmax", "26_GELU_"), 2: ("1_Conv2D_ReLU", "23_Conv3d_GroupNorm_Mean")}.items():
        folder = tmp_path / "KernelBench" / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}.py").write_text(PROBLEM)
    return tmp_path / "KernelBench"


def map_names(folder: Path, checkout: Path | None, names: list[str], index: dict[str, str] | None = None) -> list[str]:
    """The problem of each name, or a question mark and what to do."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SOLUTION)
    solutions = [Solution(name, folder / name, SOLUTION) for name in names]
    found = map_solutions(solutions, ProblemIndex.load(checkout), index or {})
    return [one.problem.id if isinstance(one, MappedSolution) else f"? {one.fix}" for one in found]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("level_1_problem_23_sample_0_kernel.py", NameParts(1, 23)),
        ("runs/mine/level_2_problem_1_sample_12_kernel.py", NameParts(2, 1)),
        ("level1/23_Softmax.py", NameParts(1, 23, "softmax")),
        ("level_1/task_23/best_kernel.py", NameParts(1, 23)),
        ("level1/23_Softmax/kernel.py", NameParts(1, 23, "softmax")),
        ("L1_23.py", NameParts(1, 23)),
        ("23_Softmax_optimized.py", NameParts(None, 23, "softmax")),
        ("26_GELU__kernel.py", NameParts(None, 26, "gelu")),
        ("0a1b2c.py", NameParts()),
    ],
)
def test_names_of_known_tools_are_parsed(name: str, parts: NameParts) -> None:
    assert parse_name(name) == parts


def test_names_map_to_the_problems_of_a_checkout(tmp_path: Path, checkout: Path) -> None:
    names = ["level_1_problem_23_sample_0_kernel.py", "level2/23.py", "23_Softmax.py", "level_2/problem_1/0.py", "Softmax.py"]
    assert map_names(tmp_path / "mine", checkout, names) == [
        "kernelbench-level1/23_Softmax",
        "kernelbench-level2/23_Conv3d_GroupNorm_Mean",
        "kernelbench-level1/23_Softmax",
        "kernelbench-level2/1_Conv2D_ReLU",
        "kernelbench-level1/23_Softmax",
    ]


def test_a_name_without_one_problem_is_reported_with_the_fix(tmp_path: Path, checkout: Path) -> None:
    unknown, missing, ambiguous, contradiction = map_names(
        tmp_path / "mine", checkout, ["0a1b2c.py", "level_1_problem_99_kernel.py", "problem_23.py", "level_1/24_Softmax.py"]
    )
    assert "rename it like level_1_problem_23_sample_0_kernel.py" in unknown
    assert "level 1, problem 99 is no problem in --problems" in missing
    assert "2 problems (kernelbench-level1/23_Softmax, kernelbench-level2/23_Conv3d_GroupNorm_Mean)" in ambiguous
    assert "level 1, problem 24, softmax is no problem" in contradiction


def test_numbers_need_a_checkout_and_names_of_shipped_tasks_do_not(tmp_path: Path) -> None:
    numbered, shipped = map_names(tmp_path, None, ["level_1_problem_23_sample_0_kernel.py", "level1_softmax.py"])
    assert "--problems FOLDER" in numbered
    assert shipped == "level1/softmax"


def test_an_index_names_the_problem_of_any_file(tmp_path: Path, checkout: Path) -> None:
    names = ["0a1b2c.py", "sub/ffff.py"]
    index = {"0a1b2c.py": "level1/23", "ffff.py": "level2/1_Conv2D_ReLU"}
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert read_index(tmp_path / "index.json") == index
    assert map_names(tmp_path / "mine", checkout, names, index) == ["kernelbench-level1/23_Softmax", "kernelbench-level2/1_Conv2D_ReLU"]
    with pytest.raises(UserError, match=r"the index names gone\.py"):
        map_names(tmp_path / "mine", checkout, names, {"gone.py": "level1/23"})
    (wrong,) = map_names(tmp_path / "mine", checkout, names[:1], {"0a1b2c.py": "level1/77"})
    assert "which is no problem" in wrong


def test_a_solution_cannot_choose_its_reference(tmp_path: Path, checkout: Path) -> None:
    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / "own.py"
    path.write_text(PROBLEM + SOLUTION)
    found = ProblemIndex.load(checkout).find(Solution("own.py", path, PROBLEM + SOLUTION))
    assert isinstance(found, UnmappedSolution)


def test_only_files_with_a_solution_are_taken(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "level_1_problem_2_kernel.py").write_text(SOLUTION)
    (tmp_path / "notes.py").write_text("x = 1\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "old.py").write_text(SOLUTION)
    solutions, others = find_solutions(tmp_path)
    assert [one.name for one in solutions] == ["sub/level_1_problem_2_kernel.py"]
    assert others == ["notes.py"]
    with pytest.raises(UserError, match="contains no solution"):
        find_solutions(tmp_path / "empty")
    with pytest.raises(UserError, match="there is no folder"):
        find_solutions(tmp_path / "gone")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("from torch.utils.cpp_extension import load_inline\nx = load_inline(name='a')\nclass ModelNew: pass", "cuda"),
        ("import triton\nclass ModelNew: pass", "triton"),
        ("import torch  # no triton here\nclass ModelNew: pass", "pytorch"),
    ],
)
def test_kind_follows_from_the_imports(text: str, kind: str) -> None:
    assert Solution("a.py", Path("a.py"), text).kind == kind


def make_result(name: str, strict: StrictResult, criterion: CriterionResult) -> SolutionResult:
    return SolutionResult(solution=name, problem="p/1", kind="triton", key=name, strict=strict, criterion=criterion, seconds=1.0)


PASSED, FAILED, UNKNOWN = "passed", "failed", "not run"
RESULTS = [
    make_result("fast", StrictResult(verdict=PASSED, speedup=1.7), CriterionResult(verdict=PASSED, passed_loose=True, speedup=2.5)),
    make_result("slow", StrictResult(verdict=PASSED, speedup=0.5), CriterionResult(verdict=FAILED, passed_loose=True, detail="4 of 5")),
    make_result(
        "cheat",
        StrictResult(verdict=FAILED, gate="check", reason="mismatch", detail="all | wrong"),
        CriterionResult(verdict=PASSED, passed_loose=True, speedup=30.0),
    ),
    make_result("gone", StrictResult(verdict=UNKNOWN, detail="no GPU"), CriterionResult(verdict=UNKNOWN, detail="no GPU")),
]


def test_scores_count_decided_solutions_only() -> None:
    strict, criterion, loose = strict_score(RESULTS), criterion_score(RESULTS), criterion_score(RESULTS, is_loose=True)
    assert (strict.decided, strict.passed, strict.timed) == (3, 2, 2)
    assert strict.fast == {"0": 2 / 3, "1": 1 / 3, "1.5": 1 / 3, "2": 0.0}
    assert criterion.fast == {"0": 2 / 3, "1": 2 / 3, "1.5": 2 / 3, "2": 2 / 3}
    assert loose.fast["0"] == 1.0
    untimed = [make_result("a", StrictResult(verdict=PASSED), CriterionResult(verdict=UNKNOWN))]
    assert strict_score(untimed).fast == {"0": 1.0, "1": None, "1.5": None, "2": None}, "not measured is not zero"
    assert criterion_score(untimed).fast["0"] is None


def test_report_lists_disagreements_with_the_strict_reason() -> None:
    text = report.write_report(RESULTS, [UnmappedSolution("x.py", "rename it")], ["a note"], {"torch": "2"})
    only, _, rest = text.partition("## Only the strict protocol passes")
    assert "| cheat | p/1 | check: mismatch | all \\| wrong | 30.0× |" in only
    assert "| slow | p/1 |" in rest.partition("## Not run")[0]
    assert "| x.py | rename it |" in text
    assert "nothing is rewarded" in text
    record = report.results_record(RESULTS, [], [], {})
    assert (record["only_kernelbench"], record["only_strict"]) == (["cheat"], ["slow"])
    assert json.dumps(record, allow_nan=False)


def test_results_are_found_again_and_broken_files_are_not(tmp_path: Path) -> None:
    store = runner.ResultStore(tmp_path)
    store.store(RESULTS[0])
    assert store.load("fast") == RESULTS[0]
    assert store.load("slow") is None
    (tmp_path / runner.RESULTS_FOLDER / "slow.json").write_text("{")
    assert store.load("slow") is None


@pytest.mark.parametrize(
    ("claim", "failure", "verdict", "detail"),
    [
        ({"passed": 5, "passed_loose": 5}, "", "passed", ""),
        ({"passed": 3, "passed_loose": 5}, "", "failed", "3 of 5 trials match"),
        ({"passed": "5", "passed_loose": True}, "", "failed", "the process ended without a result"),
        ({"error": "NameError: x"}, "", "failed", "NameError: x"),
        ({}, "timeout: it did not finish in time", "failed", "timeout: it did not finish in time"),
        (
            {"error": "AssertionError: Torch not compiled with CUDA enabled"},
            "",
            "not run",
            "AssertionError: Torch not compiled with CUDA enabled",
        ),
    ],
)
def test_claims_of_a_process_are_read_with_care(claim: dict, failure: str, verdict: str, detail: str) -> None:
    result, operators = read_criterion(SolutionReply(claim, failure), 5, "", has_device=False)
    assert (result.verdict, result.detail, operators) == (verdict, detail, None)


def test_claimed_times_are_positive_numbers_or_none() -> None:
    claim = {"passed": 5, "passed_loose": 5, "solution_ms": [2.0, 4.0], "reference_ms": [6.0], "operators": ["mul", 7]}
    result, operators = read_criterion(SolutionReply(claim), 5, "", has_device=True)
    assert (result.speedup, result.solution_ms, operators) == (2.0, 3.0, ("mul", "7"))
    assert [mean_of(values) for values in ([], [0.0], ["a"], None, [float("nan")], [1e300])] == [None] * 6
