"""The program as a whole: what it loads, how it ends, what every command promises."""

import os
import subprocess
import sys
from importlib import import_module

import click
import pytest
from cli_calls import Call

from evokernel.cli import main as program
from evokernel.cli.output import draw, pairs, printable
from evokernel.core.errors import InfraError, UserError

HEAVY = ("torch", "pydantic", "numpy", "rich", "matplotlib", "openai", "jinja2", "sqlite3")


def test_help_loads_nothing_heavy() -> None:
    look = f"finally: print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    code = f"import sys; from evokernel.cli.main import main\ntry: main(['--help'])\n{look}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"
    assert all(name in done.stdout for name in program.COMMANDS)


def leaves(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        return [leaf for name, sub in command.commands.items() for leaf in leaves(sub, f"{path} {name}")]
    return [(path, command)]


@pytest.mark.parametrize("name", program.COMMANDS)
def test_every_command_takes_json_and_has_an_example(name: str) -> None:
    for path, command in leaves(import_module(f"evokernel.cli.{name}").command, name):
        assert "--json" in [option for parameter in command.params for option in parameter.opts], path
        assert f"evokernel {path}" in (command.help or ""), f"{path} shows no example"


def test_without_a_command_the_help_is_shown(call: Call) -> None:
    assert call().code == 0
    assert "Commands" in call().out


@pytest.mark.parametrize(
    ("error", "code"), [(UserError("fix\nthis"), 2), (InfraError("the device is gone"), 3), (KeyboardInterrupt(), 130)]
)
def test_trouble_becomes_one_line_and_an_exit_code(error: BaseException, code: int, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[dict[str, object]]:
        raise error

    monkeypatch.setattr("evokernel.cli.backends.found", fail)
    said = call("backends", "--json")
    assert said.code == code
    assert said.out == ""
    assert said.err.strip() == ("" if code == 130 else f"error: {' '.join(str(error).split())}")
    assert said.err.count("\n") == 1


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.cli.backends.found", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        program.main(["backends"])


@pytest.mark.parametrize("arguments", [["rnu"], ["run", "--budget", "0"], ["run", "--nonsense"], ["verify", "x.cpp"], ["memory", "lst"]])
def test_wrong_usage_is_one_line_that_points_to_help(arguments: list[str], call: Call) -> None:
    said = call(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert "--help" in said.err


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "evokernel.cli.main", "--help"], stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == b""


def test_kernels_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2Jb\tc\nd\x9bm\u202e") == "a\ufffd[2Jb\tc\nd\ufffdm\ufffd"


def test_a_drawn_table_lines_up() -> None:
    assert draw(["a", "bb"], [["xyz", "1"]], [False, True]) == "a    bb\n───  ──\nxyz   1"


def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    header, right = ["task", "first correct", "speed-up", "first→best", "failures"], [False, True, True, True]
    rows = [["attention_head", "3.65 ms", "0.30×", "37.5×", "compile_error 12, mismatch 3"]]
    monkeypatch.setattr("evokernel.cli.output.room", lambda: 80)
    assert draw(header, rows, right).splitlines()[0].split()[:3] == ["task", "first", "correct"]
    monkeypatch.setattr("evokernel.cli.output.room", lambda: 56)
    lines = draw(header, rows, right).splitlines()
    assert [line.split() for line in lines[:2]] == [["first", "speed-", "first→"], ["task", "correct", "up", "best", "failures"]]
    assert lines[-1].endswith("compile_error…")
    assert max(map(len, lines)) <= 56


def test_sentences_break_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.cli.output.room", lambda: 24)
    assert pairs([("memory", "evokernel-memory.db (53 items)"), ("x", "y")]) == "memory  evokernel-memory.db\n        (53 items)\nx       y"


def test_help_names_the_defaults_that_hold(call: Call) -> None:
    from evokernel.core.config import RunConfig

    said, config = " ".join(call("run", "--help").out.split()), RunConfig()
    assert f"Attempts per task. [{config.budget}]" in said
    assert f"[{config.tasks}]" in said
    assert f"[{config.seed}]" in said
    assert all(f"[{config.plugin_name(part)}" in said for part in ("backend", "generator", "policy"))


def test_json_has_no_bare_nan() -> None:
    from evokernel.cli.output import emit

    with pytest.raises(ValueError):
        emit(float("nan"))
