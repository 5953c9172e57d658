"""`evokernel doctor`: checks that this machine has everything a run needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evokernel.cli.bank_options import BankType
from evokernel.cli.output import json_option, print_json, print_text

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation


@click.command()
@click.option(
    "--memory",
    type=BankType(),
    default="evokernel-memory.db",
    metavar="PATH|URL",
    help="Memory bank to check: a file, or postgresql://… [evokernel-memory.db]",
)
@json_option
def command(memory: BankLocation, as_json: bool) -> int:
    """Check the installation and suggest fixes. Exit code 1 if 'evokernel run' cannot work.

    \b
    Examples:
      evokernel doctor
      evokernel doctor --json
    """
    from evokernel.app.machine_checks import check_machine, default_backends, list_backends, run_backend
    from evokernel.core.commands import program_name

    backends = list_backends()
    checks = check_machine(memory, backends)
    missing = [check for check in checks if check.state == "missing"]
    if as_json:
        print_json({"ready": not missing, "checks": [check._asdict() for check in checks]})
    else:
        marks = {"ok": "✓", "optional": "·", "missing": "✗"}
        width = max(len(check.name) for check in checks)
        for check in checks:
            print_text(f"{marks[check.state]} {check.name.ljust(width)}  {check.detail}")
        backend = run_backend(backends)
        fallback_note = "" if backend == default_backends()[0] else f", with backend {backend}"
        conclusion = f"cannot work yet: fix {missing[0].name}" if missing else f"can work on this machine{fallback_note}"
        print_text(f"\n'evokernel run' {conclusion}.")
        if program_name() != "evokernel" and any("pip install" in check.detail for check in checks):
            print_text("'./dev setup' installs the packages of all backends and executors named above.")
    return 1 if missing else 0
