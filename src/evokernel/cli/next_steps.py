"""What to do after a run, one command per line."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.commands import program_name

MODEL_FREE_GENERATOR = "template_search"


def list_next_steps(folder: Path, generator: str, has_kernels: bool) -> list[tuple[str, str]]:
    """The next commands for a run folder, each with a label; a run without a model is told how to use one."""
    program = program_name()
    dashboard = ("look at it", f"{program} web {folder} --open")
    export = ("use the kernels", f"{program} export {folder} --out kernels") if has_kernels else None
    model = (
        ("do better with a model", f"{program} run --generator llm --set generator.model=NAME (an API key, ollama or 'model fetch')")
        if generator == MODEL_FREE_GENERATOR
        else ("give it more attempts", f"{program} resume {folder} --budget N")
    )
    return [step for step in (dashboard, export, model) if step]
