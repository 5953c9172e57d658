"""Reads the replies of the steps before writing: chooses the most promising of several plans, and extracts the critic's change."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from evokernel.core.causes import CAUSES
from evokernel.core.records import Attempt, Step
from evokernel.generators.prompting import clean_text
from evokernel.llm.replies import strip_thoughts

MAX_PLAN_CHARS = 1200
PLAN_HEADING = re.compile(r"^[ \t#*_>-]*plan[ \t]*\d+\b.*$", re.I | re.M)
CAUSE_LINE = re.compile(r"^[ \t*_-]*cause[*_ \t]*:[*_`\s]*(\w+)", re.I | re.M)
GAIN_LINE = re.compile(r"^[ \t*_-]*gain[*_ \t]*:[^\d\n-]*(-?\d+(?:\.\d+)?)[ \t]*(ms|us|µs|μs)?", re.I | re.M)
CHANGE_HEADING = re.compile(r"^[ \t*_#-]*change[*_ \t]*\d*[*_ \t]*:", re.I | re.M)


class Plan(NamedTuple):
    """One plan of a reply. `gain_us` is bounded by what the profile allows; None if the plan states no gain."""

    text: str
    cause: str
    gain_us: float | None


def parse_plans(reply: str, start_point: Attempt | None) -> Step:
    """The plan with the largest bounded gain, the first of several; a reply without plans is taken as one plan."""
    text = strip_thoughts(reply)
    starts = [match.start() for match in PLAN_HEADING.finditer(text)]
    sections = [text[start:end] for start, end in pairwise([*starts, len(text)])] or [text]
    plans = [parse_plan(section, start_point) for section in sections]
    chosen = max(plans, key=lambda plan: -1.0 if plan.gain_us is None else plan.gain_us)
    alternatives = tuple(plan.text for plan in plans if plan is not chosen)
    return Step(name="plan", text=chosen.text, cause=chosen.cause, gain_us=chosen.gain_us, alternatives=alternatives)


def parse_plan(section: str, start_point: Attempt | None) -> Plan:
    """A plan from its section of the reply; a cause that is not in `CAUSES` is dropped."""
    cause_match, gain_match = CAUSE_LINE.search(section), GAIN_LINE.search(section)
    cause = cause_match[1].lower() if cause_match and cause_match[1].lower() in CAUSES else ""
    if gain_match is None:
        return Plan(clean_text(section, MAX_PLAN_CHARS), cause, None)
    gain_us = float(gain_match[1]) * (1000.0 if (gain_match[2] or "").lower() == "ms" else 1.0)
    bound_us = largest_gain_us(cause, start_point)
    return Plan(clean_text(section, MAX_PLAN_CHARS), cause, max(0.0, gain_us if bound_us is None else min(gain_us, bound_us)))


def largest_gain_us(cause: str, start_point: Attempt | None) -> float | None:
    """The most that a plan can gain: what the opportunity of its cause is worth; for a cause that the profile does not list, as little as
    the smallest one; without opportunities, the latency of the start point. None if that is unknown too.
    """
    if start_point is None:
        return None
    profile = start_point.outcome.profile
    opportunities = profile.opportunities if profile else ()
    matching = [opportunity.gain_us for opportunity in opportunities if opportunity.cause == cause]
    if opportunities:
        return max(matching) if matching else min(opportunity.gain_us for opportunity in opportunities)
    return start_point.outcome.latency_us


def parse_change(reply: str) -> Step:
    """The critic's change: the first one, if the reply has several, without its heading."""
    text = strip_thoughts(reply)
    headings = list(CHANGE_HEADING.finditer(text))
    if headings:
        text = text[headings[0].end() : headings[1].start() if len(headings) > 1 else len(text)].lstrip(" *_\t")
    return Step(name="critic", text=clean_text(text))
