"""`evokernel bench kernelbench` as a user calls it, without a GPU: solutions of our own with known results."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
from cli_helpers import Call

HOME = Path(__file__).parents[2] / "benchmarks" / "kernelbench"
EXPECTED = tomllib.loads((HOME / "expected.toml").read_text())


def take_solutions(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        shutil.copy(HOME / "solutions" / f"level_1_problem_{name}_kernel.py", folder)
    return folder


def describe(result: dict) -> tuple[str, str]:
    strict = result["strict"]
    return (f"{strict['gate']}: {strict['reason']}" if strict["verdict"] == "failed" else strict["verdict"]), result["criterion"]["verdict"]


def expected_results(path: str, with_torch: bool = False) -> tuple[str, str]:
    """What a machine without a GPU says about a solution."""
    row = EXPECTED[Path(path).stem]
    strict = row.get("cpu_strict", row["strict"])
    return row.get("strict_with_torch", strict) if with_torch else strict, row.get("cpu_kernelbench", row["kernelbench"])


def test_every_solution_has_an_expected_result() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in (HOME / "solutions").glob("*.py"))


def test_bad_folders_are_one_clear_line(call: Call, tmp_path: Path) -> None:
    result = call("bench", "kernelbench", "--solutions", tmp_path / "gone", "--problems", HOME / "problems")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "there is no folder" in result.err
    (tmp_path / "hash.py").write_text("class ModelNew: pass\n")
    result = call("bench", "kernelbench", "--solutions", tmp_path, "--problems", HOME / "problems")
    assert result.code == 2
    assert "no solution has a problem: hash.py" in result.err


@pytest.mark.toolchain
@pytest.mark.slow(group="kernelbench", one_in=2)
def test_results_without_a_gpu_and_resuming(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    folder = take_solutions(tmp_path / "mine", "1_sample_2", "3_sample_0", "3_sample_1")
    (folder / "hash.py").write_text("class ModelNew: pass\n")
    options = ["bench", "kernelbench", "--solutions", folder, "--problems", HOME / "problems", "--out", tmp_path / "out"]
    options += ["--set", "backend.device=never", "--json", tmp_path / "all.json"]
    first = call(*options)
    assert first.code == 1, "a file without a problem is left"
    record = json.loads((tmp_path / "all.json").read_text())
    assert {one["solution"]: describe(one) for one in record["solutions"]} == {
        one["solution"]: expected_results(one["solution"]) for one in record["solutions"]
    }
    assert record["only_kernelbench"] == ["level_1_problem_1_sample_2_kernel.py", "level_1_problem_3_sample_1_kernel.py"]
    assert [one["name"] for one in record["unmapped"]] == ["hash.py"]
    assert record["solutions"][0]["operators"] == ["add", "mul"]
    assert "only KernelBench's criterion passes: 2" in first.out
    assert "3_sample_1_kernel.py | level1/3_Scaled_bias_relu | check: mismatch" in (tmp_path / "out" / "report.md").read_text()
    take_solutions(folder, "1_sample_3")
    second = call(*options)
    assert second.err.count("from an earlier run") == 3
    assert "level_1_problem_1_sample_3_kernel.py: strict failed (check: mismatch), KernelBench failed" in second.err
    with_torch = call(*options, "--allow-torch", "--limit", 1)
    assert "[1/1] level_1_problem_1_sample_2_kernel.py: strict passed, KernelBench passed" in with_torch.err
