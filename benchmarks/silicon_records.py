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
from collections.abc import Iterator, Sequence
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
COMPILE_ERROR = re.compile(r"(?:fatal error|(?<!lib )error|undefined reference): [^\n]*|Error: OpType[^\n]*")
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
        return judge_build(log)
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


def judge_build(log: str) -> tuple[str, str]:
    """Return the verdict on a text that was not built."""
    if INCOMPLETE_TEXT.search(log):
        return UNDECIDED, "the text is not complete"
    if error := COMPILE_ERROR.search(log):
        return NOT_COMPILED, LOCATION.sub("", error[0])[:200]
    return UNDECIDED, "the record has no compiler error"


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
