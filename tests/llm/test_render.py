"""Prompt files are rendered strictly, and values literally."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.core.errors import UserError
from evokernel.llm.render import fence, one_line, render_prompt


def test_values_are_inserted_as_text_without_escaping(tmp_path):
    (tmp_path / "a.md").write_text("<{{ x }}>\n{% include 'b.md' %}")
    (tmp_path / "b.md").write_text("b: {{ x | one_line }}\n")
    assert render_prompt(tmp_path / "a.md", x="{{ 7 * 7 }} & <b>\n1") == "<{{ 7 * 7 }} & <b>\n1>\nb: {{ 7 * 7 }} & <b> 1\n"


@pytest.mark.parametrize("text", ["{{ y }}", "{{ x.y }}", "{% if %}", "{% include 'gone.md' %}"])
def test_error_names_the_prompt_file(tmp_path, text):
    (tmp_path / "a.md").write_text(text)
    with pytest.raises(UserError, match=r"a\.md"):
        render_prompt(tmp_path / "a.md", x="")


@given(st.text(alphabet="`~\n a#"))
def test_fence_is_longer_than_any_fence_inside(text):
    block = fence(text, "cpp").split("\n")
    ticks = block[-1]
    assert set(ticks) == {"`"}
    assert block[0] == ticks + "cpp"
    assert not [line for line in block[1:-1] if re.match(rf"\s*`{{{len(ticks)},}}", line)]


def test_one_line_joins_and_truncates():
    assert one_line("a\n\n b\tc") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
