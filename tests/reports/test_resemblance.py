"""Which lines of a kernel resemble its start point or the memory items of its prompt."""

from evokernel.reports.resemblance import Source, count_lines, extract_code, mark_lines

CARD = Source(
    "A",
    "Tile loops",
    extract_code("", "Use tiles:\n```cpp\nfor (int64_t t = 0; t < n; t += TILE) sum += dot(x + t, y + t, TILE);\n```\nend"),
)
KERNEL = """// sums
for (int64_t t = 0; t < n; t += TILE) sum += dot(x + t, y + t, TILE);  // taken over
for (int64_t k = 0; k < m; k += 64) total += dot(a + k, b + k, 64);
}
float scale = 1.0f / (float)(rows * columns);
"""


def keys(lines):
    return ["".join(match.source.key if match.is_exact else match.source.key.lower() for match in line.matches) for line in lines]


def test_equal_lines_and_renamed_lines_are_marked():
    lines = mark_lines(KERNEL, None, [CARD])
    assert keys(lines) == ["", "A", "a", "", ""]
    assert [line.text for line in lines] == KERNEL.splitlines()
    assert count_lines({"kernel.cpp": lines}) == {"A": 2}


def test_line_of_the_start_point_is_not_credited_to_memory():
    start = Source("S", "the start point", KERNEL.splitlines()[1])
    assert keys(mark_lines(KERNEL, start, [CARD])) == ["", "S", "sa", "", ""]


def test_short_lines_and_prose_are_not_compared():
    brace = Source("B", "other", "}\nreturn 0;\nfor (int64_t t = 0; t < n; t += TILE) in prose")
    assert keys(mark_lines("}\nreturn 0;\n", None, [brace])) == ["", ""]
    assert extract_code("", "for (int i = 0; i < n; ++i) in prose") == ""


def test_comments_over_several_lines_keep_line_numbers():
    text = "/* a\nb */\nfor (int64_t t = 0; t < n; t += TILE) sum += dot(x + t, y + t, TILE);"
    assert keys(mark_lines(text, None, [CARD])) == ["", "", "A"]
