"""Entry point: finds the command, runs it, and turns errors into one line and an exit code. Imports nothing heavy but click."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from evokernel import __version__
from evokernel.cli.output import TERMS_EPILOG
from evokernel.core.errors import InfraError, UserError

COMMANDS = {
    "run": "Write, verify and improve kernels for a suite of tasks.",
    "resume": "Continue a run that was stopped or killed.",
    "verify": "Verify one kernel for one task through all gates.",
    "check": "Verify kernels again and fail if one is wrong or slower than a run recorded: a gate for CI.",
    "report": "Print the tables of a run and write its plots and HTML report.",
    "compare": "Compare runs side by side, paired by task, with confidence intervals.",
    "surrogate": "Evaluate forecasts of kernels: ranking, calibration, verifications saved.",
    "export": "Export the best kernels of a run with tests, provenance and a PyTorch wrapper.",
    "extract": "Make tasks from the operators of a model, and substitute kernels into the model.",
    "tasks": "List, show, count and lint tasks.",
    "backends": "List backends and whether they work on this machine.",
    "doctor": "Check the installation and suggest fixes.",
    "worker": "Verify candidates for a run on another machine.",
    "selftest": "Test the verifier with shipped cheating and honest candidates.",
    "experiment": "Run the paper's experiments, or your own, on any backend and generator.",
    "offline": "Estimate from recorded runs what reward other policies would have earned.",
    "bench": "Evaluate the solutions of published benchmarks, such as KernelBench.",
    "trajectories": "Export runs as training data: prompts, replies, outcomes and rewards.",
    "bundle": "Pack a run for a machine without a network, and import its results.",
    "memory": "Inspect a memory bank, move its content, or revoke parts of it.",
    "glossary": "Explain the terms that help texts, reports and the dashboard use.",
    "model": "Fetch and serve a language model on this machine, without an API key.",
    "mcp": "Let an agent verify kernels and search memory, over the Model Context Protocol.",
    "web": "Serve a read-only dashboard of runs and memory banks.",
    "serve": "Serve verification over HTTP, with tokens, a durable queue and metrics.",
}


class LazyGroup(click.Group):
    """Imports the module of a command only when that command is called; listing the commands imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from evokernel.core.plugins import did_you_mean

            ctx.fail(f"Unknown command '{cmd_name}'{did_you_mean(cmd_name, list(COMMANDS))}; commands: {', '.join(COMMANDS)}")
        module = importlib.import_module(f"evokernel.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    epilog=TERMS_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="evokernel")
@click.option("-v", "--verbose", is_flag=True, help="Print more messages on stderr.")
@click.pass_context
def cli(ctx: click.Context, verbose: bool) -> None:
    """Write, compile, verify, time and improve kernels for PyTorch operators, and learn from every attempt.

    \b
    evokernel run                 run the starter suite; needs no API key and no accelerator
    evokernel COMMAND --help      show the options and examples of a command
    """
    from evokernel.cli.output import log_to_stderr

    log_to_stderr(verbose)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program. Exit codes: 0 success, 1 negative result, 2 error to fix, 3 infrastructure failure, 130 interrupted."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for plug-ins given as module:Class; last, so that a local file never hides a library
    try:
        code = cli.main(args=list(arguments) if arguments is not None else None, prog_name="evokernel", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.NoArgsIsHelpError as error:  # a group without a subcommand: its help, not an error in one line
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.UsageError as error:
        print_error(f"{error.format_message().rstrip('.')}; see '{error.ctx.command_path if error.ctx else 'evokernel'} --help'")
        sys.exit(2)
    except click.ClickException as error:
        print_error(error.format_message())
        sys.exit(error.exit_code)
    except UserError as error:
        print_error(error)
        sys.exit(2)
    except InfraError as error:
        print_error(error)
        sys.exit(3)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)


def print_error(error: Exception | str) -> None:
    """Print the error as one line on stderr."""
    from evokernel.cli.output import print_text

    print_text(f"error: {' '.join(str(error).split())}", err=True)


if __name__ == "__main__":
    main()
