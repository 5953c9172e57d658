"""Tunables: how they are declared, which declarations are refused, and that only declared numbers ever enter a source."""

import pytest

from evokernel.core.constraints import ConstraintError, parse_constraint
from evokernel.core.errors import CandidateError
from evokernel.core.tunables import read_tunables

C_SOURCE = """\
constexpr int COLS = 768;
constexpr uint32_t TILE = 128u;  // tune: TILE = 64 | 128 | 256
// tune: UNROLL = 1 | 2 | 4
// tune where: TILE * COLS <= 98304 && UNROLL < 8
#define UNROLL 2
const float SCALE{0.5f};  /* tune: SCALE = 0.25 | 0.5 | 1 */
const char* text = "// tune: nothing";
"""
PYTHON_SOURCE = '''\
import triton.language as tl
# tune: ROWS = 8 | 16
ROWS: int = 8
BLOCK = tl.constexpr(256)  # tune: BLOCK = 128 | 256
"""
ROWS = 5  # tune: NOTHING = 1
"""
# tune where: ROWS * BLOCK <= 4096
'''


def read(text, name="kernel.cpp"):
    return read_tunables({name: text})


def describe(tunables):
    return {tunable.name: (tunable.default, tunable.values) for tunable in tunables.tunables}


def refuse(text, name="kernel.cpp"):
    with pytest.raises(CandidateError) as caught:
        read(text, name)
    assert caught.value.reason == "tunable"
    return caught.value.detail


def test_declarations_in_c():
    tunables = read(C_SOURCE)
    assert describe(tunables) == {"TILE": (128, (64, 128, 256)), "UNROLL": (2, (1, 2, 4)), "SCALE": (0.5, (0.25, 0.5, 1.0))}
    assert tunables.is_allowed({"TILE": 128, "UNROLL": 4, "SCALE": 1.0})
    assert not tunables.is_allowed({"TILE": 256, "UNROLL": 4, "SCALE": 1.0})


def test_declarations_in_python():
    tunables = read(PYTHON_SOURCE, "kernel.py")
    assert describe(tunables) == {"ROWS": (8, (8, 16)), "BLOCK": (256, (128, 256))}
    changed = tunables.apply({"kernel.py": PYTHON_SOURCE}, {"ROWS": 16, "BLOCK": 128})["kernel.py"]
    assert changed == PYTHON_SOURCE.replace("int = 8", "int = 16").replace("constexpr(256)", "constexpr(128)")


def test_only_the_numbers_of_definitions_change():
    changed = read(C_SOURCE).apply({"kernel.cpp": C_SOURCE}, {"TILE": 64, "UNROLL": 4, "SCALE": 1.0})["kernel.cpp"]
    expected = C_SOURCE.replace("TILE = 128u", "TILE = 64u").replace("UNROLL 2", "UNROLL 4").replace("{0.5f}", "{1.0f}")
    assert changed == expected
    assert read(changed).default == {"TILE": 64, "UNROLL": 4, "SCALE": 1.0}, "the tuned source declares the same tunables"
    assert read(changed).apply({"kernel.cpp": changed}, read(C_SOURCE).default)["kernel.cpp"] == C_SOURCE


def test_a_value_that_was_not_declared_is_never_written():
    with pytest.raises(ValueError, match="not a declared value"):
        read(C_SOURCE).apply({"kernel.cpp": C_SOURCE}, {"TILE": 32, "UNROLL": 1, "SCALE": 0.5})


def test_equal_declarations_in_two_parts_change_together():
    files = {"host.cpp": "const int T = 8;  // tune: T = 8 | 16\n", "kernel.cpp": "constexpr int T = 8;  // tune: T = 8 | 16\n"}
    assert all("T = 16;" in text for text in read_tunables(files).apply(files, {"T": 16}).values())
    assert "declared twice" in refuse("const int T = 8; // tune: T = 8 | 16\nconst int T = 8; // tune: T = 8 | 32\n")


def test_a_default_outside_the_list_is_one_of_the_values():
    assert describe(read("constexpr int T = 100;  // tune: T = 64 | 128\n")) == {"T": (100, (100, 64, 128))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("constexpr int T = 8;  // tune: T = 8 | fast\n", "numbers separated by |"),
        ("constexpr int T = 8;  // tune: T\n", "numbers separated by |"),
        ("int a;\n// tune: T = 8 | 16\nint b;\nconstexpr int T = 8;\n", "kernel.cpp:2: "),
        ("constexpr int T = N * 2;  // tune: T = 8 | 16\n", "not defined by a number"),
        ("constexpr int T = 0x10;  // tune: T = 8 | 16\n", "not defined by a number"),
        ("constexpr int T = 8;  // tune: T = 8 | 1.5\n", "must be integers"),
        ("constexpr int T = 8;  // tune: T = " + " | ".join(map(str, range(1, 40))) + "\n", "more than 16 values"),
        ("constexpr int T = 8;  // tune: T = 8 | 16\n// tune where: T * ROWS < 9\n", "`ROWS` is no tunable"),
        ("constexpr int T = 8;  // tune: T = 8 | 16\n// tune where: T > 8\n", "(T = 8) break this constraint"),
        ("// tune where: __import__('os').system('id')\n", "is not allowed"),
    ],
)
def test_wrong_declarations_name_the_line_and_the_fix(text, expected):
    detail = refuse(text)
    assert expected in detail
    assert detail.startswith("kernel.cpp:")
    assert "\n" not in detail


@pytest.mark.parametrize(
    "text",
    [
        "T.__class__ == 1",
        "T ** 9 ** 9 > 1",
        "T << 99999 > 1",
        "(lambda: 1)() == 1",
        "[T for _ in (1,)]",
        "'a' * 9 == T",
        "eval('1')",
        "min(*[T])",
        "T if T else T",
        "(" * 120 + "T" + ")" * 120,
        "T == " + "9" * 300,
        "T := 1",
        "",
    ],
)
def test_constraints_are_arithmetic_only(text):
    with pytest.raises(ConstraintError):
        parse_constraint(text, {"T"})


@pytest.mark.parametrize(
    ("text", "is_met"),
    [("T % 4 == 0 and not T > 8", True), ("1 < T <= 8", True), ("max(T, 3) // 3 == 2", True), ("T / 0 > 1", False), ("-T + 8", False)],
)
def test_constraints_are_evaluated(text, is_met):
    assert parse_constraint(text, {"T"}).is_met({"T": 8}) is is_met


def test_sources_that_cannot_be_read_declare_nothing():
    for name, text in (("kernel.py", "T = (  # tune: T = 1 | 2\n"), ("kernel.py", "T = 1\r# tune: T = x\n"), ("kernel.cpp", "")):
        assert read(text, name).tunables == ()


def test_a_comment_cannot_reach_a_number_outside_its_definition():
    """A number inside a comment, a literal or a joined line is no definition."""
    for text in (
        "/*\nconstexpr int T = 8; */ // tune: T = 8 | 16\n",
        'auto s = R"(\nconstexpr int T = 8;  // tune: T = 8 | 16\n)";\nint x; // tune: T = 8 | 16\n',
        "#define A \\\nconstexpr int T = 8;\nint x; // tune: T = 8 | 16\n",
    ):
        refuse(text)
