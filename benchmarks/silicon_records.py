"""Reads records of Ascend C kernels that ran on a real NPU: the texts of the kernels, and what silicon said about each.

A record is a `*_summary.json` of a checkout of LLM4AscendC. It names a six-part text and says `compiled`, `correctness` and
`correctness_info`; the log is in `*_repair_context.txt` next to the text.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

NOT_COMPILED, STOPPED, WRONG, RIGHT, UNDECIDED = "does not compile", "stops", "wrong", "right", "undecided"
INCOMPLETE_TEXT = re.compile(r"missing blocks: \[|cannot infer op_snake")
NOT_INSTALLED = re.compile(r"aclnn(\w+) or aclnn\w+ not in libopapi")
"""An operator that compiled and is not in the installed package: another evaluation in the same folder replaced the package."""
MISMATCH = re.compile(r"\[FAIL\] Output (?:shape )?mismatch[^\n]*")
RUN_ERROR = re.compile(r"error code is (\d{6})|runtime result = (\d{6})")
FAIL_LINE = re.compile(r"^\[FAIL\] (?!runtime error when)([^\n]*)", re.MULTILINE)
CALL_ERROR = re.compile(r"^(?:kwargs: |Invoked with: )[^\n]*", re.MULTILINE)
COMPILE_ERROR = re.compile(r"(?:fatal error|(?<!lib )error|undefined reference): [^\n]*")
NO_TILING_HEADER = re.compile(r"error: use of undeclared identifier '(\w+)'\s+GET_TILING_DATA\(\1,")
"""The header that the toolchain generates from a registered tiling class was missing: its files were damaged, as JSON errors show."""
CONSTANT = re.compile(r"^ *(batch_size|batch|B|M|N|x)(\s*=\s*(?:torch\.rand\w*\(\s*)?)(\d+(?:\s*\*\s*\d+)*)", re.MULTILINE)
"""A size of a reference that may be made smaller; `x` for an input whose batch has no name."""
BATCH_NAMES = ("batch_size", "batch", "B", "x")
LARGEST_BYTES = 7e8
"""The limit for references whose tensors cannot be made smaller; verification uses up to four times as much memory."""
LARGEST_FREE_BATCH = 128
TOO_LARGE = "its tensors do not fit at any batch"
LOCATION = re.compile(r"/\S*/")


class SiliconRecord(NamedTuple):
    """A kernel and the verdict of silicon."""

    operator: str
    path: str
    """Path of the text in the checkout."""
    digest: str
    """Hash of the text."""
    verdict: str
    """One of the five words above."""
    reason: str
    """The first error in the log, or why the record decides nothing."""


def read_records(checkout: Path) -> list[SiliconRecord]:
    """Return one record for each different text of an operator. Equal texts with different verdicts decide nothing."""
    by_text: defaultdict[tuple[str, str], list[SiliconRecord]] = defaultdict(list)
    for operator, attempt in iterate_attempts(checkout):
        path = checkout / attempt["txt_path"]
        if not (attempt.get("eval_ran") and attempt["txt_path"] and path.is_file()):
            continue
        text = path.read_text(errors="replace")
        verdict, reason = judge_attempt(attempt, text, read_log(path))
        digest = hashlib.sha256(text.strip().encode()).hexdigest()[:12]
        by_text[operator, digest].append(SiliconRecord(operator, attempt["txt_path"], digest, verdict, reason))
    return [merge_records(records) for _, records in sorted(by_text.items())]


def iterate_attempts(checkout: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the operator and the fields of every attempt in the summaries."""
    for path in sorted(checkout.glob("output/**/*_summary*.json")):
        summary = json.loads(path.read_text())
        parts = [summary] if "attempts" in summary else [*summary.get("ops", {}).values()]
        for part in parts:
            for attempt in part.get("attempts", {}).values():
                yield part.get("op") or part.get("op_key", ""), attempt


def read_log(path: Path) -> str:
    """Return the log of an evaluation; empty if it was not kept."""
    log = path.with_name(f"{path.stem}_repair_context.txt")
    return log.read_text(errors="replace") if log.is_file() else ""


def merge_records(records: Sequence[SiliconRecord]) -> SiliconRecord:
    """Return the record that all evaluations of one text agree on."""
    decided = [record for record in records if record.verdict != UNDECIDED]
    if len({record.verdict == RIGHT for record in decided}) > 1:
        return records[0]._replace(verdict=UNDECIDED, reason="equal texts were right once and not right another time")
    return (decided or records)[0]


def judge_attempt(attempt: dict[str, Any], text: str, log: str) -> tuple[str, str]:
    """Return the verdict of silicon on an attempt, and its reason."""
    log = f"{attempt['correctness_info']}\n{log}"
    if attempt["compiled"] is None or (attempt["compiled"] and attempt["correctness"] is None):
        return UNDECIDED, "the record has no verdict"
    if attempt["correctness"]:
        return RIGHT, ""
    if not attempt["compiled"]:
        return judge_build(log, text)
    missing = NOT_INSTALLED.search(log)
    if missing and f'"{missing[1]}"' in text and f"OP_ADD({missing[1]}" in text:
        return UNDECIDED, "the compiled operator was not in the installed package"
    if mismatch := MISMATCH.search(log):
        return WRONG, mismatch[0]
    if code := RUN_ERROR.search(log):
        return STOPPED, f"NPU error {code[1] or code[2]}"
    if fails := FAIL_LINE.findall(log):
        return STOPPED, fails[-1][:200]
    if CALL_ERROR.search(log):
        return STOPPED, "the bound function does not take these arguments"
    return UNDECIDED, "the record says only that the result is not correct"


def judge_build(log: str, text: str) -> tuple[str, str]:
    """Return the verdict on a text that was not built."""
    if INCOMPLETE_TEXT.search(log):
        return UNDECIDED, "the text is not complete"
    if NO_TILING_HEADER.search(log) and "REGISTER_TILING_DATA_CLASS(" in text:
        return UNDECIDED, "the toolchain lost the header that it generates"
    if error := COMPILE_ERROR.search(log):
        return NOT_COMPILED, LOCATION.sub("", error[0])[:200]
    return UNDECIDED, "the record has no compiler error"


def shrink_reference(text: str, max_bytes: float, measure_bytes: Callable[[str], float]) -> tuple[str, str]:
    """Halve the batch of a reference, or the longest axis of one without a batch, while its tensors exceed `max_bytes`.

    A constant that does not decide the size, such as the batch of a product with large weights, is only halved down to 128, because the
    reference takes long with more. Returns the text and the change.
    """
    first_text, changes = text, dict[str, tuple[int, int]]()
    needed_bytes = measure_bytes(text)
    while needed_bytes > max_bytes:
        constants = [(prod(map(int, match[3].split("*"))), match) for match in CONSTANT.finditer(text)]
        batches = [one for one in constants if one[1][1] in BATCH_NAMES and one[0] > 1]
        value, match = max(batches or constants, key=lambda one: one[0], default=(1, None))
        if match is None or value < 2:
            break
        halved_text = f"{text[: match.start(3)]}{value // 2}{text[match.end(3) :]}"
        halved_bytes = measure_bytes(halved_text)
        if halved_bytes > 0.75 * needed_bytes and value <= LARGEST_FREE_BATCH:
            break
        changes[match[1]] = (changes.get(match[1], (value, 0))[0], value // 2)
        text, needed_bytes = halved_text, halved_bytes
    if needed_bytes > LARGEST_BYTES:
        return first_text, TOO_LARGE
    return text, ", ".join(f"{name} {full} -> {value}" for name, (full, value) in changes.items())


def sample_records(records: Sequence[SiliconRecord], per_operator: int, builds_per_operator: int, seed: int) -> list[SiliconRecord]:
    """Draw decided records, at most `per_operator` with one verdict for each operator; of texts that do not compile `builds_per_operator`.

    The first records of the sample are spread over all operators and verdicts.
    """
    groups: defaultdict[tuple[str, str], list[SiliconRecord]] = defaultdict(list)
    for record in records:
        if record.verdict != UNDECIDED:
            groups[record.verdict, record.operator].append(record)
    for key in sorted(groups):
        random.Random(f"{seed}/{'/'.join(key)}").shuffle(groups[key])
        del groups[key][builds_per_operator if key[0] == NOT_COMPILED else per_operator :]
    verdicts = (RIGHT, WRONG, STOPPED, NOT_COMPILED)
    keys = sorted(groups, key=lambda key: (verdicts.index(key[0]), key[1]))
    turns = max(map(len, groups.values()), default=0)
    return [groups[key][turn] for turn in range(turns) for key in keys if turn < len(groups[key])]
