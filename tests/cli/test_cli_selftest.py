"""`evokernel selftest`: real candidates through the real verifier, and malformed folders."""

from pathlib import Path

import pytest
from cli_helpers import Call

from evokernel.app.selftest import read_case
from evokernel.core.errors import UserError
from evokernel.core.records import GateResult, Outcome

BODY = 'extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {\n'
RIGHT = BODY + "    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = x[i] * 2 + 1;\n}\n"
FORKS = BODY + "    fork();\n}\n"


def write_candidate(home: Path, name: str, first: str, text: str = RIGHT) -> Path:
    path = home / f"{name}.cpp"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first}\n{text}")
    return path


@pytest.mark.slow(one_in=5)
def test_expected_outcomes_exit_with_0(call: Call, tmp_path: Path, task_file: Path) -> None:
    write_candidate(tmp_path, "escapes/forks", f"// selftest: task={task_file} gate=screen reason=forbidden", FORKS)
    write_candidate(tmp_path, "honest/plain", f"// selftest: task={task_file} timeout=60")
    result = call("selftest", "--backend", "cpp", "--workers", 1, "--candidates", tmp_path)
    assert result.code == 0, result
    assert "All outcomes are as expected" in result.out
    assert ["cpp", "escapes", "1", "1"] in [line.split() for line in result.out.splitlines()]
    assert "[2/2] expected" in result.err


def test_unexpected_outcome_is_listed_and_exits_with_1(call: Call, tmp_path: Path, task_file: Path) -> None:
    write_candidate(tmp_path, "escapes/forks", f"// selftest: task={task_file} gate=check reason=crash", FORKS)
    write_candidate(tmp_path, "honest/forks-too", f"// selftest: task={task_file}", FORKS)
    write_candidate(tmp_path, "timing/left-out", f"// selftest: task={task_file} gate=time reason=mismatch", FORKS)
    options = ("--backend", "cpp", "--workers", 1, "--candidates", tmp_path, "--category", "escapes", "--category", "honest")
    result = call("selftest", *options)
    assert result.code == 1
    assert "cpp escapes/forks" in result.out
    assert "expected: fails check with crash\n  actual:   fails screen with forbidden" in result.out
    assert "expected: passes" in result.out
    assert "2 of 2 outcomes not as expected" in result.out
    report = call("selftest", *options, "--json").json
    assert not report["all_as_expected"]
    assert [(one["category"], one["name"], one["as_expected"]) for one in report["candidates"]] == [
        ("escapes", "forks", False),
        ("honest", "forks-too", False),
    ]
    assert report["candidates"][0]["outcome"]["gates"][0]["reason"] == "forbidden"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--backend", "nowhere"), "unknown backend 'nowhere'"),
        (("--category", "timings"), "did you mean 'timing'?"),
        (("--candidates", "nowhere"), "no folder 'nowhere'"),
        (("--backend", "cpp", "--candidates", "."), "no candidates for cpp"),
    ],
)
def test_wrong_input_is_one_line_and_exits_with_2(
    options: tuple[str, ...], words: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("selftest", *options)
    assert result.code == 2
    assert words in result.err


def test_unavailable_backend_is_reported(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.backends.cpp.plugin.unavailable_reason", lambda self: "no compiler today")
    result = call("selftest", "--backend", "cpp")
    assert result.code == 2
    assert "no compiler today" in result.err


@pytest.mark.parametrize(
    ("place", "first", "words"),
    [
        ("timing/x", "// nothing result", "first line must be a comment"),
        ("timing/x", "// selftest: task=starter/softmax gate=time", "lacks reason"),
        ("timing/x", "// selftest: gate=time reason=mismatch", "lacks task"),
        ("timing/x", "// selftest: task=starter/softmax gate=tiem reason=mismatch", "did you mean 'time'?"),
        ("timing/x", "// selftest: task=starter/softmax gate=time reason=wrong", "unknown reason 'wrong'"),
        ("timing/x", "// selftest: task=starter/softmax gate=time reason=mismatch,", "unknown reason ''"),
        ("timing/x", "// selftest: task=a task=b gate=time reason=mismatch", "each key once"),
        ("timing/x", "// selftest: task=a gate=time reason=mismatch timeout=soon", "number of seconds"),
        ("timing/x", "// selftest: task=a gate=time reason=mismatch why=not", "unknown key 'why'"),
        ("honest/x", "// selftest: task=a gate=time", "unknown key 'gate'"),
        ("honest/x", "// selftest: task", "as key=value"),
    ],
)
def test_malformed_first_line_is_refused(place: str, first: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.cpp") as caught:
        read_case("cpp", write_candidate(tmp_path, place, first))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("place", "first", "words"),
    [
        ("odd/x", "// selftest: task=starter/softmax gate=time reason=mismatch", "unknown category 'odd'"),
        ("honest/x", "// selftest: task=starter/nothing", "x.cpp"),
        ("honest/x", "// selftest: task=starter", "matches 16 tasks"),
        ("honest/x", "// selftest: task=starter/softmax backend.thread=2", "no setting 'thread'"),
    ],
)
def test_unusable_candidates_are_refused_before_any_verification(place: str, first: str, words: str, call: Call, tmp_path: Path) -> None:
    write_candidate(tmp_path, place, first)
    result = call("selftest", "--backend", "cpp", "--workers", 1, "--candidates", tmp_path)
    assert result.code == 2
    assert words in result.err
    assert "expected" not in result.err


def test_first_line_is_parsed(tmp_path: Path) -> None:
    path = write_candidate(tmp_path, "timing/x", "// selftest: task=a gate=check,time reason=mismatch,nan timeout=2.5 backend.threads=2")
    one = read_case("cpp", path)
    assert (one.name, one.gates, one.reasons, one.timeout_s, one.settings) == (
        "timing/x",
        ("check", "time"),
        ("mismatch", "nan"),
        2.5,
        {"threads": 2},
    )

    def is_expected(gate: str, passed: bool, reason: str = "") -> bool:
        return one.is_expected_outcome(Outcome(gates=(GateResult(gate=gate, passed=passed, reason=reason),)))

    assert is_expected("time", False, "nan")
    assert not is_expected("time", False, "crash")
    assert not is_expected("build", False, "nan")
    assert not is_expected("time", True)
    assert not one.is_expected_outcome(Outcome(gates=()))
    assert not read_case("cpp", write_candidate(tmp_path, "honest/y", "// selftest: task=a")).is_expected_outcome(Outcome(gates=()))
