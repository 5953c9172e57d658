"""Extract a kernel file from a model's reply, whatever its layout.

The block to use, in order of preference: a closed block that defines the entry point and has the requested file name; one that defines the
entry point under another name or none; one that only has the name; then the same for a last block that the reply never closed; then the
last code block; then, in a reply without fences, the text from its first line of code on. Among equals the last block wins, because models
correct themselves further down. Blocks are never joined, since two halves of different versions do not fit together, with one exception:
a named block that the chosen file includes (`#include "tile.h"`) replaces the include. Diffs are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

REPLY_CHARS = 1_000_000
FILE_CHARS = 200_000
NOTE_CHARS = 500

FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)$")
FILE_NAME = re.compile(r"[\w][\w./+-]{0,100}\.[A-Za-z]\w{0,5}")
THOUGHT = re.compile(r"^[ \t]*<(think|thinking)>", re.M)
DIFF = re.compile(r"^(?:@@ |diff --git |--- a/|<<<<<<< )", re.M)
CODE_LINE = re.compile(
    r"^(?:#include|#pragma|#define|extern \"C\"|using |namespace |template|static |void |def |pub |fn |const |"
    r"import |from \w+ import |@\w)",
    re.M,
)
PROSE_LANGUAGES = {"text", "txt", "plaintext", "console", "bash", "sh", "shell", "json", "output", "asm", "markdown", "md", "toml", "yaml"}


class CodeBlock(NamedTuple):
    """A fenced block of a reply."""

    language: str
    name: str
    text: str
    is_closed: bool


class ParsedReply(NamedTuple):
    """The files of a reply. `note` is the model's comment on them, or the reason why there are none."""

    files: dict[str, str]
    note: str


def read_reply(text: str, file: str, symbol: str, parts: Sequence[str] = ()) -> ParsedReply:
    """Extract `file` from a reply. `symbol` is the name of its entry point. Never raises.

    If the file consists of `parts`, each after a line `// file: NAME`, blocks with those names are joined.
    """
    reply = text[:REPLY_CHARS]
    answer = strip_thoughts(reply)
    blocks, prose = split_blocks(answer)
    chosen_block = join_parts(blocks, parts) or choose_block(blocks, file, symbol)
    if chosen_block is None and not blocks:
        chosen_block = find_unfenced_code(answer, symbol)
        prose = "" if chosen_block else prose
    if chosen_block is None:
        return ParsedReply({}, explain_missing_code(reply, answer, blocks, file))
    other_files = {block.name: block.text for block in blocks if block.name and block is not chosen_block}
    code = inline_includes(chosen_block.text, other_files)
    if len(code) > FILE_CHARS:
        return ParsedReply({}, f"the code in the reply has {len(code)} characters, more than the limit of {FILE_CHARS}; write shorter code")
    warning = "" if chosen_block.is_closed else "(the reply ended inside the code block) "
    return ParsedReply({file: code}, (warning + " ".join(prose.split()))[:NOTE_CHARS].strip())


def strip_thoughts(text: str) -> str:
    """The reply without the model's thoughts, with `\\n` line ends and without characters that cannot be written to a file."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    parts, position = list[str](), 0
    while tag := THOUGHT.search(text, position):
        parts.append(text[position : tag.start()])
        end = text.find(f"</{tag[1]}>", tag.end())
        position = end + len(tag[1]) + 3 if end >= 0 else len(text)
    text = "".join(parts) + text[position:]
    # Some services send the thoughts without their opening tag.
    return text[text.rfind("</think>") + len("</think>") :] if "</think>" in text else text


def split_blocks(text: str) -> tuple[list[CodeBlock], str]:
    """All fenced blocks and the prose around them. A fence with a language inside an open block starts a new block."""
    blocks: list[CodeBlock] = []
    prose: list[str] = []
    open_fence: re.Match[str] | None = None
    line_before, last_line, body = "", "", list[str]()
    for line in text.split("\n"):
        fence = FENCE.match(line)
        is_matching = bool(
            fence and open_fence and fence["ticks"][0] == open_fence["ticks"][0] and len(fence["ticks"]) >= len(open_fence["ticks"])
        )
        if open_fence and fence and is_matching:
            if has_content(body):
                blocks.append(make_block(open_fence, line_before, body, is_closed=not fence["info"].strip()))
            line_before, body = "", []
            open_fence = fence if fence["info"].strip() else None
        elif open_fence:
            body.append(line)
        elif fence:
            open_fence, line_before = fence, last_line
        else:
            prose.append(line)
            last_line = line if line.strip() else last_line
    if open_fence and has_content(body):
        blocks.append(make_block(open_fence, line_before, body, is_closed=False))
    return blocks, "\n".join(prose)


def has_content(body: list[str]) -> bool:
    """Whether a block has a line that is not blank."""
    return any(line.strip() for line in body)


def make_block(fence: re.Match[str], line_before: str, body: list[str], is_closed: bool) -> CodeBlock:
    """A block with its language and its file name: from the fence, from the line before it, or from a comment on its first line."""
    indent = fence["indent"]
    text = "\n".join(line.removeprefix(indent) for line in body).strip("\n") + "\n"
    info = fence["info"].strip().strip("{}")
    first_line = next(line for line in text.split("\n") if line.strip()).strip()
    is_comment = first_line.startswith(("//", "/*", "#")) and not first_line.startswith(("#include", "#pragma", "#define", "#if"))
    comment = first_line if is_comment else ""
    name = find_file_name(info) or find_file_name(line_before, short_only=True) or find_file_name(comment, short_only=True)
    words = re.split(r"[\s:,]", info.lstrip("."))
    language = "" if FILE_NAME.fullmatch(words[0]) else words[0].lower()
    return CodeBlock(language, name, text, is_closed)


def find_file_name(text: str, short_only: bool = False) -> str:
    """A file name in a line; with `short_only`, only if the line has at most six words."""
    match = FILE_NAME.search(text[:300])
    if not match or (short_only and len(text.split()) > 6):
        return ""
    return match[0].rpartition("/")[2]


def choose_block(blocks: list[CodeBlock], file: str, symbol: str) -> CodeBlock | None:
    """The block to use, by the order of preference in the module docstring."""
    code = [b for b in blocks if b.language not in ("diff", "patch") and not DIFF.search(b.text)]
    likely = [b for b in code if b.language not in PROSE_LANGUAGES or b.name == file]
    for is_closed in (True, False):
        preferences = (
            [b for b in likely if b.is_closed == is_closed and b.name == file and defines_symbol(b.text, symbol)],
            [b for b in likely if b.is_closed == is_closed and defines_symbol(b.text, symbol)],
            [b for b in likely if b.is_closed == is_closed and b.name == file],
        )
        for group in preferences:
            if group:
                return group[-1]
    rest = (
        [b for b in likely if b.language and b.is_closed]
        or [b for b in likely if b.language]
        or [b for b in likely if CODE_LINE.search(b.text)]
    )
    return rest[-1] if rest else None


def join_parts(blocks: list[CodeBlock], parts: Sequence[str]) -> CodeBlock | None:
    """The last block of each part's name as one block; None if a part is missing or one block contains several parts."""
    if not parts or any(block.text.count("// file:") > 1 for block in blocks):
        return None
    blocks_by_name = {block.name: block for block in blocks}
    if not all(part in blocks_by_name for part in parts):
        return None
    texts = [f"// file: {part}\n{blocks_by_name[part].text.removeprefix(f'// file: {part}').lstrip()}" for part in parts]
    return CodeBlock("", "", "".join(texts), all(blocks_by_name[part].is_closed for part in parts))


def defines_symbol(text: str, symbol: str) -> bool:
    """Whether the text defines the entry point rather than only calls it: a type or `def` precedes it on its line."""
    for match in re.finditer(rf"\b{re.escape(symbol)}\s*\(", text):
        before = text[max(0, match.start() - 80) : match.start()].rpartition("\n")[2].strip()
        if re.search(r"(?:^|[\s*&])(?:void|def|fn|auto|int|__global__|__aicore__)(?:\s|$)", before) and not before.startswith(
            ("//", "*", "/*")
        ):
            return True
    return False


def find_unfenced_code(text: str, symbol: str) -> CodeBlock | None:
    """The code of a reply without fences, without prose before it and, if a closing brace marks its end, after it."""
    start = CODE_LINE.search(text)
    if not start or DIFF.search(text) or not defines_symbol(text[start.start() :], symbol):
        return None
    code = text[start.start() :].strip().split("\n")
    last = max((i for i, line in enumerate(code) if line.startswith("}")), default=len(code) - 1)
    return CodeBlock("", "", "\n".join(code[: last + 1]) + "\n", True)


def inline_includes(text: str, files: dict[str, str]) -> str:
    """Replace the include lines of named blocks by the text of these blocks."""

    def file_text(include: re.Match[str]) -> str:
        return files.get(include[1].rpartition("/")[2], include[0]).rstrip("\n")

    return re.sub(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"[^\n]*$', file_text, text, flags=re.M)


def explain_missing_code(reply: str, answer: str, blocks: list[CodeBlock], file: str) -> str:
    """Why the reply has no usable code and how to reply instead; the next prompt shows this to the model."""
    instruction = f"reply with the complete {file} in one fenced block"
    if not reply.strip():
        return f"the reply was empty; {instruction}"
    if not answer.strip():
        return f"the reply contained only thoughts and ended before the answer; think less and {instruction}"
    if any(b.language in ("diff", "patch") or DIFF.search(b.text) for b in blocks) or DIFF.search(answer):
        return f"the reply is a diff, and diffs are not supported; {instruction}"
    if blocks:
        return f"no code block of the reply defines the kernel; {instruction}"
    return f"the reply contained no code ({' '.join(answer.split())[:200]}); {instruction}"
