"""`evokernel memory revoke` and the lists of quarantined items."""

import json

import pytest
from bank_parts import open_bank
from click.testing import CliRunner
from engine_parts import make_attempt, make_task

from evokernel.cli.memory import command
from evokernel.core.errors import UserError
from evokernel.core.records import GateResult, Outcome
from evokernel.memory.distill import distill


def run_command(path, *arguments):
    result = CliRunner().invoke(command, [*arguments, "--memory", str(path)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_revoke_dry_run_lists_the_effects(path):
    text = run_command(path, "revoke", "t/relu/0", "--dry-run")
    assert text.startswith("Would revoke 3 attempts of 1 run: 6 items, 5 value updates; 3 values recomputed\n")
    assert "Shown to 1 other attempt, 1 of them correct" in text
    assert "a:t/gelu/1" in text
    assert "The folder of run a was moved" in text
    result = json.loads(run_command(path, "revoke", "--candidate", make_attempt(0, "relu").candidate.id, "--json"))
    assert (len(result["items"]), result["updates"], result["dry_run"]) == (6, 5, False)
    assert result["attempts"] == ["a:t/relu/0", "a:t/relu/1", "a:t/relu/2"]


def test_revoke_requires_a_target(path):
    with pytest.raises(UserError, match="--candidate"):
        run_command(path, "revoke")


def test_quarantined_items_can_be_listed(path):
    gates = (GateResult(gate="time", passed=False, reason="impossible", detail="too fast"),)
    with open_bank(path, "b") as bank:
        bank.add(distill(make_task("relu"), make_attempt(9, "relu", run="b").model_copy(update={"outcome": Outcome(gates=gates)})))
    run_command(path, "revoke", "a:t/relu/0")
    items = json.loads(run_command(path, "list", "--quarantined", "--json"))
    assert {one["id"] for one in items} == {"b:t/relu/9/note", *(f"a:t/relu/{n}/note" for n in (0, 1, 2))}
    assert "4 kernels, never shown as examples" in run_command(path, "stats")
    assert "b:t/relu/9/note" in run_command(path, "list")
