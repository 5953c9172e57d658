"""Prompt files are filled strictly and literally."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.core.errors import UserError
from evokernel.llm.render import fence, one_line, render


def test_values_are_text_not_templates_and_nothing_is_escaped(tmp_path):
    (tmp_path / "a.md").write_text("<{{ x }}>\n{% include 'b.md' %}")
    (tmp_path / "b.md").write_text("b: {{ x | one_line }}\n")
    assert render(tmp_path / "a.md", x="{{ 7 * 7 }} & <b>\n1") == "<{{ 7 * 7 }} & <b>\n1>\nb: {{ 7 * 7 }} & <b> 1\n"


@pytest.mark.parametrize("text", ["{{ y }}", "{{ x.y }}", "{% if %}", "{% include 'gone.md' %}"])
def test_a_prompt_file_that_cannot_be_filled_is_named(tmp_path, text):
    (tmp_path / "a.md").write_text(text)
    with pytest.raises(UserError, match=r"a\.md"):
        render(tmp_path / "a.md", x="")


@given(st.text(alphabet="`~\n a#"))
def test_a_fence_holds_whatever_is_in_it(text):
    block = fence(text, "cpp").split("\n")
    ticks = block[-1]
    assert set(ticks) == {"`"}
    assert block[0] == ticks + "cpp"
    assert not [line for line in block[1:-1] if re.match(rf"\s*`{{{len(ticks)},}}", line)]


def test_one_line_is_one_line():
    assert one_line("a\n\n b\tc") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
