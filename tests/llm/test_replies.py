"""Extraction of kernels from replies of many forms."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.core.plugins import make_plugin, plugin_folder, plugin_names
from evokernel.generators.prompting import entry_symbol
from evokernel.llm.replies import FILE_CHARS, read_reply
from evokernel.suites.loader import load_tasks

CODE = 'extern "C" void kernel(const float* x) {\n  x[0];\n}\n'
OLD = 'extern "C" void kernel(const float* x) {\n  // old\n}\n'
HELPER = "static float f(float v) {\n  return v;\n}\n"
TEST = "int main() {\n  kernel(nullptr);\n}\n"

REPLIES_WITH_CODE = {
    "a named block": f"```cpp kernel.cpp\n{CODE}```",
    "prose around": f"Here it is.\n\n```cpp kernel.cpp\n{CODE}```\nGood luck!",
    "a language only": f"```c++\n{CODE}```",
    "a colon": f"```cpp:kernel.cpp\n{CODE}```",
    "an attribute": f'```cpp title="src/kernel.cpp"\n{CODE}```',
    "braces": f"```{{.cpp filename=kernel.cpp}}\n{CODE}```",
    "a name only": f"```kernel.cpp\n{CODE}```",
    "no info": f"```\n{CODE}```",
    "tildes": f"~~~cpp\n{CODE}~~~",
    "a longer fence": f"````cpp kernel.cpp\n{CODE}````",
    "the name before": f"**`kernel.cpp`**:\n\n```cpp\n{CODE}```",
    "last one wins": f"```cpp\n{OLD}```\nOn second thought:\n```cpp\n{CODE}```",
    "a closed block before an open one": f"```cpp\n{CODE}```\nor\n```cpp\n{OLD[:30]}",
    "the name beats a later block": f"```cpp kernel.cpp\n{CODE}```\nThe old one was\n```cpp\n{OLD}```",
    "the entry beats the name": f"```cpp kernel.cpp\n{HELPER}```\n```cpp\n{CODE}```",
    "a test after it": f"```cpp kernel.cpp\n{CODE}```\n```cpp test.cpp\n{TEST}```",
    "an unnamed test after it": f"```cpp\n{CODE}```\nTry it:\n```cpp\n{TEST}```",
    "a shell block after it": f"```cpp\n{CODE}```\n```bash\ng++ kernel.cpp\n```",
    "an open fence": f"Sure:\n```cpp kernel.cpp\n{CODE}",
    "an open block before": f"```cpp\nfor (;;)\n\n```cpp kernel.cpp\n{CODE}```",
    "wrapped in markdown": f"```markdown\nText\n```cpp kernel.cpp\n{CODE}```\n```",
    "an indented list": "1. Do this:\n   ```cpp kernel.cpp\n" + "".join(f"   {line}\n" for line in CODE.splitlines()) + "   ```",
    "thoughts": f"<think>\n```cpp\n{OLD}```\n</think>\n```cpp\n{CODE}```",
    "thoughts without a start": f"```cpp\n{OLD}```\n</think>\n```cpp\n{CODE}```",
    "windows line ends": f"```cpp kernel.cpp\n{CODE}```".replace("\n", "\r\n"),
    "no fence": CODE,
    "no fence, prose around": f"The kernel:\n\n{CODE}\nIt is fast.",
}


@pytest.mark.parametrize("text", REPLIES_WITH_CODE.values(), ids=REPLIES_WITH_CODE)
def test_kernel_is_extracted(text):
    assert read_reply(text, "kernel.cpp", "kernel").files == {"kernel.cpp": CODE}


REPLIES_WITHOUT_CODE = {
    "": "empty",
    "  \n": "empty",
    "I cannot help with that.": "no code (I cannot help",
    "<think>let me see": "only thoughts",
    f"<think>\n```cpp\n{CODE}```": "only thoughts",
    "```diff\n- a\n+ b\n```": "diffs are not supported",
    "```cpp\n@@ -1,2 +1,2 @@\n- void kernel() {\n+ void kernel(int) {\n```": "diffs are not supported",
    "```\nsome words in a box\n```": "no code block of the reply defines the kernel",
    "```bash\nmake\n```": "no code block",
    "```cpp\n```": "no code",
    f"```cpp\n{CODE}{'// x' * FILE_CHARS}\n```": "more than",
}


@pytest.mark.parametrize("text", REPLIES_WITHOUT_CODE, ids=lambda text: text[:20])
def test_reply_without_code_gives_the_reason(text):
    parsed = read_reply(text, "kernel.cpp", "kernel")
    assert parsed.files == {}
    assert REPLIES_WITHOUT_CODE[text] in parsed.note
    assert "\n" not in parsed.note


def test_code_without_the_entry_point_is_extracted_for_the_verifier():
    assert read_reply(f"```cpp kernel.cpp\n{HELPER}```", "kernel.cpp", "kernel").files == {"kernel.cpp": HELPER}
    assert read_reply(f"```cpp\n{HELPER}```", "kernel.cpp", "kernel").files == {"kernel.cpp": HELPER}


def test_named_block_replaces_its_include():
    text = f'```cpp helper.h\n{HELPER}```\n```cpp kernel.cpp\n#include <cmath>\n#include "helper.h"\n#include "other.h"\n{CODE}```'
    assert read_reply(text, "kernel.cpp", "kernel").files == {"kernel.cpp": f'#include <cmath>\n{HELPER}#include "other.h"\n{CODE}'}


def test_file_name_in_a_first_comment_is_used():
    other, mine = f"// kernel.cpp\n{HELPER}", f"// notes.cpp\n{HELPER}"
    assert read_reply(f"```cpp\n{other}```\n```cpp\n{mine}```", "kernel.cpp", "kernel").files == {"kernel.cpp": other}


def test_prose_becomes_the_note_and_is_truncated():
    assert read_reply(f"One pass,\nno temporaries.\n```cpp\n{CODE}```", "kernel.cpp", "kernel").note == "One pass, no temporaries."
    assert len(read_reply(f"{'word ' * 900}\n```cpp\n{CODE}```", "kernel.cpp", "kernel").note) <= 500
    assert "ended inside" in read_reply(f"```cpp\n{CODE}", "kernel.cpp", "kernel").note


def test_python_file_is_extracted():
    code = "import jax\n\n\ndef kernel(x_ref, o_ref):\n    o_ref[...] = x_ref[...]\n"
    for text in (f"```python\n{code}```", f"Here:\n\n{code}"):
        assert read_reply(text, "kernel.py", "kernel").files == {"kernel.py": code}


MARKS = ["```", "````", "~~~", "```cpp\n", "```cpp kernel.cpp\n", "```diff\n", "<think>", "</think>", "@@ ", "```a.h\n", '#include "a.h"\n']
BITS = ["\n", " ", "\t", "kernel(", "void kernel(", CODE, "{", "}", "\r", "\0", "\ud800", "é", "// kernel.cpp\n", "text"]
PIECES = st.sampled_from([*MARKS, *BITS])


@pytest.mark.slow(one_in=5)
@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=25).map("".join))
def test_no_reply_raises(text):
    parsed = read_reply(text, "kernel.cpp", "kernel")
    assert parsed.files or parsed.note
    "".join(parsed.files.values()).encode()
    parsed.note.encode()


LONG = {
    "thoughts": "<think>\n" * 100_000,
    "empty thoughts": "<think></think>\n" * 60_000,
    "blanks": "```" + " " * 900_000 + "`",
    "fences": "```\n" * 200_000,
    "heads": "void kernel(" * 80_000,
    "ticks": "`" * 10**6,
}


@pytest.mark.timeout(120)  # seconds if time grows with the length, hours if it grows with its square
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_parsing_time_is_linear(text):
    assert read_reply(text, "kernel.cpp", "kernel").files == {}


@pytest.mark.parametrize("backend", plugin_names("backend"))
def test_kernel_of_every_backend_is_extracted_with_and_without_fences(backend):
    plugin = make_plugin("backend", backend)
    folder = plugin_folder("backend", backend) / "samples"
    symbol = entry_symbol(plugin.entry_point(load_tasks(str(folder / "task.py"))[0]))
    code = (folder / "good" / plugin.file_name).read_text()
    other = "```text\nno code\n```\n"
    assert read_reply(f"{other}```\n{code}```\n{other}", plugin.file_name, symbol).files == {plugin.file_name: code}
    assert symbol in read_reply(f"The kernel:\n\n{code}\nIt is fast.", plugin.file_name, symbol).files[plugin.file_name]
