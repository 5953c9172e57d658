"""The program: imports, exit codes, and the rules that every command follows."""

import os
import subprocess
import sys
from importlib import import_module

import click
import pytest
from cli_helpers import Call

from evokernel.cli import main as program
from evokernel.cli.output import format_pairs, format_table, replace_control_characters
from evokernel.core.errors import InfraError, UserError

HEAVY = ("torch", "pydantic", "numpy", "rich", "matplotlib", "openai", "jinja2", "sqlite3")


@pytest.mark.toolchain
def test_help_imports_nothing_heavy() -> None:
    print_modules = f"finally: print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    code = f"import sys; from evokernel.cli.main import main\ntry: main(['--help'])\n{print_modules}"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert process.returncode == 0
    assert process.stderr.strip() == "[]"
    assert all(name in process.stdout for name in program.COMMANDS)


def list_leaf_commands(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        return [leaf for name, sub in command.commands.items() for leaf in list_leaf_commands(sub, f"{path} {name}")]
    return [(path, command)]


@pytest.mark.parametrize("name", program.COMMANDS)
def test_every_command_has_json_option_and_example(name: str) -> None:
    for path, command in list_leaf_commands(import_module(f"evokernel.cli.{name}").command, name):
        assert "--json" in [option for parameter in command.params for option in parameter.opts], path
        assert f"evokernel {path}" in (command.help or ""), f"{path} has no example"


def test_no_command_prints_help(call: Call) -> None:
    assert call().code == 0
    assert "Commands" in call().out


@pytest.mark.parametrize(
    ("error", "code"), [(UserError("fix\nthis"), 2), (InfraError("the device is gone"), 3), (KeyboardInterrupt(), 130)]
)
def test_errors_become_one_line_and_an_exit_code(error: BaseException, code: int, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[dict[str, object]]:
        raise error

    monkeypatch.setattr("evokernel.app.machine_checks.list_backends", fail)
    result = call("backends", "--json")
    assert result.code == code
    assert result.out == ""
    assert result.err.strip() == ("" if code == 130 else f"error: {' '.join(str(error).split())}")
    assert result.err.count("\n") == 1


def test_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.app.machine_checks.list_backends", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        program.main(["backends"])


@pytest.mark.parametrize("arguments", [["rnu"], ["run", "--budget", "0"], ["run", "--nonsense"], ["verify", "x.cpp"], ["memory", "lst"]])
def test_wrong_usage_is_one_line_that_names_help(arguments: list[str], call: Call) -> None:
    result = call(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert "--help" in result.err


@pytest.mark.parametrize("group", ["bench", "bundle", "model"])
def test_group_without_a_subcommand_prints_its_help(group: str, call: Call) -> None:
    result = call(group)
    assert result.code == 2
    assert f"Usage: evokernel {group}" in result.err
    assert "\nCommands:\n" in result.err


@pytest.mark.toolchain
def test_closed_output_pipe_prints_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run([sys.executable, "-m", "evokernel.cli.main", "--help"], stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert process.returncode == 1
    assert process.stderr == b""


def test_control_characters_are_replaced() -> None:
    assert replace_control_characters("a\x1b[2Jb\tc\nd\x9bm\u202e") == "a\ufffd[2Jb\tc\nd\ufffdm\ufffd"


def test_table_columns_are_aligned() -> None:
    assert format_table(["a", "bb"], [["xyz", "1"]], [False, True]) == "a    bb\n───  ──\nxyz   1"


def test_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    header, right = ["task", "first correct", "speed-up", "first→best", "failures"], [False, True, True, True]
    rows = [["attention_head", "3.65 ms", "0.30×", "37.5×", "compile_error 12, mismatch 3"]]
    monkeypatch.setattr("evokernel.reports.text_tables.terminal_width", lambda: 80)
    assert format_table(header, rows, right).splitlines()[0].split()[:3] == ["task", "first", "correct"]
    monkeypatch.setattr("evokernel.reports.text_tables.terminal_width", lambda: 56)
    lines = format_table(header, rows, right).splitlines()
    assert [line.split() for line in lines[:2]] == [["first", "speed-", "first→"], ["task", "correct", "up", "best", "failures"]]
    assert lines[-1].endswith("compile_error…")
    assert max(map(len, lines)) <= 56


def test_text_wraps_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.reports.text_tables.terminal_width", lambda: 24)
    assert (
        format_pairs([("memory", "evokernel-memory.db (53 items)"), ("x", "y")])
        == "memory  evokernel-memory.db\n        (53 items)\nx       y"
    )


def test_help_names_the_actual_defaults(call: Call) -> None:
    from evokernel.core.config import RunConfig
    from evokernel.generators.template_search import TemplateSearch

    result, config = " ".join(call("run", "--help").out.split()), RunConfig()
    assert f"Attempts per task. [{config.budget}; template_search: {TemplateSearch.run_defaults['budget']}" in result
    assert f"[{config.tasks}]" in result
    assert f"[{config.seed}]" in result
    assert all(f"[{config.plugin_name(part)}" in result for part in ("backend", "generator", "policy"))


def test_json_rejects_nan() -> None:
    from evokernel.cli.output import print_json

    with pytest.raises(ValueError):
        print_json(float("nan"))
