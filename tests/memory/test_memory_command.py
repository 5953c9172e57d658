"""`evokernel memory` where it takes things back, and shows what is kept from sight."""

import json

import pytest
from bank_parts import open_bank
from click.testing import CliRunner
from engine_parts import attempt, task

from evokernel.cli.memory import command
from evokernel.core.errors import UserError
from evokernel.core.records import GateResult, Outcome
from evokernel.memory.distill import distill


def said(path, *arguments):
    done = CliRunner().invoke(command, [*arguments, "--memory", str(path)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_what_would_go_is_told_before_it_goes(path):
    text = said(path, "revoke", "t/relu/0", "--dry-run")
    assert text.startswith("would revoke 3 attempts of 1 runs: 6 items, 5 updates of values; 3 values recomputed\n")
    assert "shown to 1 other attempts, 1 of them correct" in text
    assert "a:t/gelu/1" in text
    assert "folder of run a is not where it was" in text
    done = json.loads(said(path, "revoke", "--candidate", attempt(0, "relu").candidate.id, "--json"))
    assert (len(done["items"]), done["updates"], done["dry_run"]) == (6, 5, False)
    assert done["attempts"] == ["a:t/relu/0", "a:t/relu/1", "a:t/relu/2"]


def test_something_must_be_named(path):
    with pytest.raises(UserError, match="--candidate"):
        said(path, "revoke")


def test_what_is_quarantined_can_be_listed(path):
    gates = (GateResult(gate="time", passed=False, reason="impossible", detail="too fast"),)
    with open_bank(path, "b") as bank:
        bank.add(distill(task("relu"), attempt(9, "relu", run="b").model_copy(update={"outcome": Outcome(gates=gates)})))
    said(path, "revoke", "a:t/relu/0")
    listed = json.loads(said(path, "list", "--quarantined", "--json"))
    assert {one["id"] for one in listed} == {"b:t/relu/9/note", *(f"a:t/relu/{n}/note" for n in (0, 1, 2))}
    assert "4 kernels, which are not shown" in said(path, "stats")
    assert "b:t/relu/9/note" in said(path, "list")
