"""`evokernel memory explain`: the memory items that the prompt of an attempt showed, and why the policy chose them."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import TERMS_EPILOG, format_table, json_option, print_json, print_text


@click.command("explain", epilog=TERMS_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("attempt")
@json_option
def explain(folder: Path, attempt: str, as_json: bool) -> None:
    """Show the items in the prompt of an ATTEMPT (task/n) of the run in FOLDER, and why the policy chose each.

    \b
    Example: evokernel memory explain runs/my-run starter/softmax/3
    """
    from evokernel.core.errors import UserError
    from evokernel.core.plugins import did_you_mean
    from evokernel.core.run import Run
    from evokernel.policies.item_features import explain_choice

    attempts = {one.id: one for one in Run.open(folder).attempts()}
    if attempt not in attempts:
        example = f"; the attempts are named like {next(iter(attempts))}" if attempts else "; the run has none yet"
        raise UserError(f"run {folder} has no attempt '{attempt}'{did_you_mean(attempt, list(attempts))}{example}.")
    refs = attempts[attempt].shown_items
    if as_json:
        print_json([ref.model_dump(mode="json") for ref in refs])
    elif not refs:
        print_text("The prompt showed no memory items.")
    else:
        rows = [[ref.id, ref.role, "–" if ref.q is None else f"{ref.q:+.2f}", explain_choice(ref.reasons)] for ref in refs]
        print_text(format_table(["item", "role", "Q", "expected gain in reward"], rows, [False, False, True, False]))
        if not any(ref.reasons for ref in refs):
            print_text("Only the policy 'contextual' records why it chose an item.")
