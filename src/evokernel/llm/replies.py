"""Reads a file out of a model's reply, however the reply is laid out.

Which block is taken, best first: a closed block that defines the entry point and carries the wanted file name; one that defines the
entry point under no name or another; one that only carries the name; then the same of a last block the reply never closed; then the
last block of code at all; then, without any fence, the text itself from its first line of code on. Among equals the last one wins:
models correct themselves downwards. Blocks are never joined, since half of two versions is neither, with one exception: where
the file taken includes another named block (`#include "tile.h"`), that block is put in the place of the include. Diffs are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

REPLY_CHARS = 1_000_000
FILE_CHARS = 200_000
NOTE_CHARS = 500

FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)$")
NAME = re.compile(r"[\w][\w./+-]{0,100}\.[A-Za-z]\w{0,5}")
THOUGHT = re.compile(r"^[ \t]*<(think|thinking)>", re.M)
DIFF = re.compile(r"^(?:@@ |diff --git |--- a/|<<<<<<< )", re.M)
CODE_LINE = re.compile(
    r"^(?:#include|#pragma|#define|extern \"C\"|using |namespace |template|static |void |def |import |from \w+ import |@\w)", re.M
)
PROSE = {"text", "txt", "plaintext", "console", "bash", "sh", "shell", "json", "output", "asm", "markdown", "md", "toml", "yaml"}


class Block(NamedTuple):
    """A fenced block of a reply."""

    language: str
    name: str
    text: str
    closed: bool


class Found(NamedTuple):
    """The files of a reply; when there are none, `note` says why, otherwise it is what the writer says about them."""

    files: dict[str, str]
    note: str


def read_reply(text: str, file: str, symbol: str, parts: Sequence[str] = ()) -> Found:
    """The wanted file out of a reply. `symbol` is the name its entry point defines. Never raises.

    Where a file has `parts`, each after a line `// file: NAME`, a reply that gives them as blocks of those names is put together.
    """
    whole = text[:REPLY_CHARS]
    answer = plain_text(whole)
    blocks, prose = split(answer)
    chosen = put_together(blocks, parts) or choose(blocks, file, symbol)
    if chosen is None and not blocks:
        chosen = unfenced(answer, symbol)
        prose = "" if chosen else prose
    if chosen is None:
        return Found({}, refusal(whole, answer, blocks, file))
    code = inline(chosen.text, {block.name: block.text for block in blocks if block.name and block is not chosen})
    if len(code) > FILE_CHARS:
        return Found({}, f"the code in the reply has {len(code)} characters; more than {FILE_CHARS} are not read")
    cut = "" if chosen.closed else "(the reply ended inside the code block) "
    return Found({file: code}, (cut + " ".join(prose.split()))[:NOTE_CHARS].strip())


def plain_text(text: str) -> str:
    """The reply without the model's thoughts, with one kind of line end and without what cannot be written to a file."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    kept, at = list[str](), 0
    while opened := THOUGHT.search(text, at):
        kept.append(text[at : opened.start()])
        end = text.find(f"</{opened[1]}>", opened.end())
        at = end + len(opened[1]) + 3 if end >= 0 else len(text)
    text = "".join(kept) + text[at:]
    # Some services send the thoughts without their opening tag.
    return text[text.rfind("</think>") + len("</think>") :] if "</think>" in text else text


def split(text: str) -> tuple[list[Block], str]:
    """All fenced blocks and the prose around them. A fence with a language inside an open one starts a new block: the old was left open."""
    blocks: list[Block] = []
    prose: list[str] = []
    fence: re.Match[str] | None = None
    before, last, body = "", "", list[str]()
    for line in text.split("\n"):
        found = FENCE.match(line)
        same = bool(found and fence and found["ticks"][0] == fence["ticks"][0] and len(found["ticks"]) >= len(fence["ticks"]))
        if fence and found and same:
            if blocks_content(body):
                blocks.append(block(fence, before, body, closed=not found["info"].strip()))
            before, body = "", []
            fence = found if found["info"].strip() else None
        elif fence:
            body.append(line)
        elif found:
            fence, before = found, last
        else:
            prose.append(line)
            last = line if line.strip() else last
    if fence and blocks_content(body):
        blocks.append(block(fence, before, body, closed=False))
    return blocks, "\n".join(prose)


def blocks_content(body: list[str]) -> bool:
    """Whether a block holds anything."""
    return any(line.strip() for line in body)


def block(fence: re.Match[str], before: str, body: list[str], closed: bool) -> Block:
    """A block with its language and its file name: from the fence, from the line before it, or from a comment on its first line."""
    indent = fence["indent"]
    text = "\n".join(line.removeprefix(indent) for line in body).strip("\n") + "\n"
    info = fence["info"].strip().strip("{}")
    first = next(line for line in text.split("\n") if line.strip()).strip()
    comment = first if first.startswith(("//", "/*", "#")) and not first.startswith(("#include", "#pragma", "#define", "#if")) else ""
    name = name_in(info) or name_in(before, short=True) or name_in(comment, short=True)
    words = re.split(r"[\s:,]", info.lstrip("."))
    language = "" if NAME.fullmatch(words[0]) else words[0].lower()
    return Block(language, name, text, closed)


def name_in(text: str, short: bool = False) -> str:
    """A file name in a line; with `short`, only when the line says little else."""
    found = NAME.search(text[:300])
    if not found or (short and len(text.split()) > 6):
        return ""
    return found[0].rpartition("/")[2]


def choose(blocks: list[Block], file: str, symbol: str) -> Block | None:
    """The block to take, by the order given at the top."""
    code = [b for b in blocks if b.language not in ("diff", "patch") and not DIFF.search(b.text)]
    likely = [b for b in code if b.language not in PROSE or b.name == file]
    for closed in (True, False):
        ranked = (
            [b for b in likely if b.closed == closed and b.name == file and defines(b.text, symbol)],
            [b for b in likely if b.closed == closed and defines(b.text, symbol)],
            [b for b in likely if b.closed == closed and b.name == file],
        )
        for group in ranked:
            if group:
                return group[-1]
    rest = (
        [b for b in likely if b.language and b.closed]
        or [b for b in likely if b.language]
        or [b for b in likely if CODE_LINE.search(b.text)]
    )
    return rest[-1] if rest else None


def put_together(blocks: list[Block], parts: Sequence[str]) -> Block | None:
    """The last block of each part's name as one; None when one is missing, or a block holds several parts itself."""
    if not parts or any(block.text.count("// file:") > 1 for block in blocks):
        return None
    named = {block.name: block for block in blocks}
    if not all(part in named for part in parts):
        return None
    texts = [f"// file: {part}\n{named[part].text.removeprefix(f'// file: {part}').lstrip()}" for part in parts]
    return Block("", "", "".join(texts), all(named[part].closed for part in parts))


def defines(text: str, symbol: str) -> bool:
    """Whether the text defines the entry point, not only calls it: something like a type or `def` stands before it on its line."""
    for found in re.finditer(rf"\b{re.escape(symbol)}\s*\(", text):
        before = text[max(0, found.start() - 80) : found.start()].rpartition("\n")[2].strip()
        if re.search(r"(?:^|[\s*&])(?:void|def|auto|int|__global__|__aicore__)(?:\s|$)", before) and not before.startswith(
            ("//", "*", "/*")
        ):
            return True
    return False


def unfenced(text: str, symbol: str) -> Block | None:
    """A reply that is code with perhaps some prose before and, where braces show the end of the code, after it."""
    start = CODE_LINE.search(text)
    if not start or DIFF.search(text) or not defines(text[start.start() :], symbol):
        return None
    code = text[start.start() :].strip().split("\n")
    last = max((i for i, line in enumerate(code) if line.startswith("}")), default=len(code) - 1)
    return Block("", "", "\n".join(code[: last + 1]) + "\n", True)


def inline(text: str, others: dict[str, str]) -> str:
    """Puts named blocks in the place of the lines that include them."""

    def content(include: re.Match[str]) -> str:
        return others.get(include[1].rpartition("/")[2], include[0]).rstrip("\n")

    return re.sub(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"[^\n]*$', content, text, flags=re.M)


def refusal(whole: str, answer: str, blocks: list[Block], file: str) -> str:
    """Why nothing could be taken, and what a reply should look like: the next prompt shows this."""
    how = f"reply with the complete {file} in one fenced block"
    if not whole.strip():
        return f"the reply was empty; {how}"
    if not answer.strip():
        return f"the reply held only thoughts and ended before the answer; think less and {how}"
    if any(b.language in ("diff", "patch") or DIFF.search(b.text) for b in blocks) or DIFF.search(answer):
        return f"the reply is a diff, and diffs are not supported; {how}"
    if blocks:
        return f"no code block of the reply defines the kernel; {how}"
    return f"the reply held no code ({' '.join(answer.split())[:200]}); {how}"
