"""Finds the command, runs it, and turns trouble into one line and an exit code. Loads click and nothing else of weight."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from evokernel import __version__
from evokernel.core.errors import InfraError, UserError

COMMANDS = {
    "run": "Write, verify and improve kernels for a suite of tasks.",
    "resume": "Go on with a run that was stopped or killed.",
    "verify": "Judge one kernel against one task, through all gates.",
    "report": "Tables, plots and one self-contained page of a run.",
    "export": "Best kernels of a run, with tests, provenance and a PyTorch wrapper.",
    "extract": "Rank the operators of a whole model, make tasks of them, put kernels back.",
    "tasks": "List and count tasks, show what a kernel for one must do, look for what is wrong with them.",
    "backends": "List backends, and whether they work here.",
    "doctor": "Check that everything a run needs is here.",
    "worker": "Judge for a run on another machine; with --check, say what this one can judge.",
    "selftest": "Judge shipped cheats and honest oddities: is each found out, or let pass?",
    "experiment": "The paper's tables and figures on any backend and generator: arms, seeds, intervals.",
    "trajectories": "Runs as training data: prompts, replies, verdicts, rewards, as JSON lines or Parquet.",
    "bundle": "Pack a run for a machine without a network, and bring back what it found.",
    "memory": "Look into the memory bank, move it, revoke parts of it.",
    "model": "A language model on this machine: fetch one, serve it, no network and no key.",
    "web": "A page to watch and understand runs, live: read-only, on this machine unless told otherwise.",
}


class LazyGroup(click.Group):
    """A command's module is imported when the command is called; the list of commands imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from evokernel.core.plugins import did_you_mean

            ctx.fail(f"no command '{cmd_name}'{did_you_mean(cmd_name, list(COMMANDS))}; there are: {', '.join(COMMANDS)}")
        module = importlib.import_module(f"evokernel.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="evokernel")
@click.option("-v", "--verbose", is_flag=True, help="Say more about what happens (on stderr).")
@click.pass_context
def cli(ctx: click.Context, verbose: bool) -> None:
    """Kernels for PyTorch operators: written, compiled, checked, timed, and learned from.

    \b
    evokernel run                 the starter suite, no key and no accelerator needed
    evokernel COMMAND --help      what a command takes, with examples
    """
    from evokernel.cli.output import log_to_stderr

    log_to_stderr(verbose)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """The program. Exit codes: 0 done, 1 no, 2 something to fix, 3 infrastructure, 130 interrupted."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for module:Class; last, so that a file here never hides a library
    try:
        code = cli.main(args=list(arguments) if arguments is not None else None, prog_name="evokernel", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.UsageError as error:
        complain(f"{error.format_message().rstrip('.')}; see '{error.ctx.command_path if error.ctx else 'evokernel'} --help'")
        sys.exit(2)
    except click.ClickException as error:
        complain(error.format_message())
        sys.exit(error.exit_code)
    except UserError as error:
        complain(error)
        sys.exit(2)
    except InfraError as error:
        complain(error)
        sys.exit(3)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)


def complain(error: Exception | str) -> None:
    """One line on stderr, whatever the message holds."""
    from evokernel.cli.output import tell

    tell(f"error: {' '.join(str(error).split())}", err=True)


if __name__ == "__main__":
    main()
