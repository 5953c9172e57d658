"""`evokernel selftest`: real candidates through the real judge, and folders that are not as they must be."""

from pathlib import Path

import pytest
from cli_calls import Call

from evokernel.core.errors import UserError
from evokernel.core.records import GateResult, Outcome
from evokernel.experiments.selftest import read

BODY = 'extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {\n'
RIGHT = BODY + "    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = x[i] * 2 + 1;\n}\n"
FORKS = BODY + "    fork();\n}\n"


def put(home: Path, name: str, first: str, text: str = RIGHT) -> Path:
    path = home / f"{name}.cpp"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first}\n{text}")
    return path


def test_all_right_ends_with_0(call: Call, tmp_path: Path, task_file: Path) -> None:
    put(tmp_path, "escapes/forks", f"// selftest: task={task_file} gate=screen reason=forbidden", FORKS)
    put(tmp_path, "honest/plain", f"// selftest: task={task_file} timeout=60")
    said = call("selftest", "--backend", "cpp", "--workers", 1, "--candidates", tmp_path)
    assert said.code == 0, said
    assert "all judged rightly" in said.out
    assert ["cpp", "escapes", "1", "1"] in [line.split() for line in said.out.splitlines()]
    assert "[2/2] right" in said.err


def test_a_wrong_verdict_is_named_and_ends_with_1(call: Call, tmp_path: Path, task_file: Path) -> None:
    put(tmp_path, "escapes/forks", f"// selftest: task={task_file} gate=check reason=crash", FORKS)
    put(tmp_path, "honest/forks-too", f"// selftest: task={task_file}", FORKS)
    put(tmp_path, "timing/left-out", f"// selftest: task={task_file} gate=time reason=mismatch", FORKS)
    options = ("--backend", "cpp", "--workers", 1, "--candidates", tmp_path, "--class", "escapes", "--class", "honest")
    said = call("selftest", *options)
    assert said.code == 1
    assert "cpp escapes/forks" in said.out
    assert "must be: fails check with crash\n  was:     fails screen with forbidden" in said.out
    assert "must be: passes" in said.out
    assert "2 of 2 judged wrongly" in said.out
    found = call("selftest", *options, "--json").json
    assert not found["right"]
    assert [(one["class"], one["name"], one["right"]) for one in found["candidates"]] == [
        ("escapes", "forks", False),
        ("honest", "forks-too", False),
    ]
    assert found["candidates"][0]["outcome"]["gates"][0]["reason"] == "forbidden"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--backend", "nowhere"), "no backend called 'nowhere'"),
        (("--class", "timings"), "did you mean 'timing'?"),
        (("--candidates", "nowhere"), "no folder 'nowhere'"),
        (("--backend", "cpp", "--candidates", "."), "no candidates of cpp"),
    ],
)
def test_bad_input_is_one_line_and_2(
    options: tuple[str, ...], words: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("selftest", *options)
    assert said.code == 2
    assert words in said.err


def test_a_backend_that_cannot_work_is_said_to(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.backends.cpp.plugin.missing", lambda self: "no compiler today")
    said = call("selftest", "--backend", "cpp")
    assert said.code == 2
    assert "no compiler today" in said.err


@pytest.mark.parametrize(
    ("place", "first", "words"),
    [
        ("timing/x", "// nothing said", "first line must be a comment"),
        ("timing/x", "// selftest: task=starter/softmax gate=time", "lacks reason"),
        ("timing/x", "// selftest: gate=time reason=mismatch", "lacks task"),
        ("timing/x", "// selftest: task=starter/softmax gate=tiem reason=mismatch", "did you mean 'time'?"),
        ("timing/x", "// selftest: task=starter/softmax gate=time reason=wrong", "no reason 'wrong'"),
        ("timing/x", "// selftest: task=starter/softmax gate=time reason=mismatch,", "no reason ''"),
        ("timing/x", "// selftest: task=a task=b gate=time reason=mismatch", "every word once"),
        ("timing/x", "// selftest: task=a gate=time reason=mismatch timeout=soon", "number of seconds"),
        ("timing/x", "// selftest: task=a gate=time reason=mismatch why=not", "no word 'why'"),
        ("honest/x", "// selftest: task=a gate=time", "no word 'gate'"),
        ("honest/x", "// selftest: task", "as key=value"),
    ],
)
def test_a_malformed_first_line_is_refused(place: str, first: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.cpp") as caught:
        read("cpp", put(tmp_path, place, first))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("place", "first", "words"),
    [
        ("odd/x", "// selftest: task=starter/softmax gate=time reason=mismatch", "no class 'odd'"),
        ("honest/x", "// selftest: task=starter/nothing", "x.cpp"),
        ("honest/x", "// selftest: task=starter", "names"),
        ("honest/x", "// selftest: task=starter/softmax backend.thread=2", "no setting 'thread'"),
    ],
)
def test_what_cannot_be_judged_is_refused_before_anything_is(place: str, first: str, words: str, call: Call, tmp_path: Path) -> None:
    put(tmp_path, place, first)
    said = call("selftest", "--backend", "cpp", "--workers", 1, "--candidates", tmp_path)
    assert said.code == 2
    assert words in said.err
    assert "right" not in said.err


def test_what_a_first_line_says(tmp_path: Path) -> None:
    path = put(tmp_path, "timing/x", "// selftest: task=a gate=check,time reason=mismatch,nan timeout=2.5 backend.threads=2")
    one = read("cpp", path)
    assert (one.name, one.gates, one.reasons, one.timeout_s, one.settings) == (
        "timing/x",
        ("check", "time"),
        ("mismatch", "nan"),
        2.5,
        {"threads": 2},
    )

    def judged(gate: str, passed: bool, reason: str = "") -> bool:
        return one.is_judged_rightly(Outcome(gates=(GateResult(gate=gate, passed=passed, reason=reason),)))

    assert judged("time", False, "nan")
    assert not judged("time", False, "crash")
    assert not judged("build", False, "nan")
    assert not judged("time", True)
    assert not one.is_judged_rightly(Outcome(gates=()))
    assert not read("cpp", put(tmp_path, "honest/y", "// selftest: task=a")).is_judged_rightly(Outcome(gates=()))
