"""Guides keep their promises: paths exist, links resolve, commands and options are real, code in them runs."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import SearchHit
from evokernel.core.records import (
    Attempt,
    Candidate,
    Context,
    ContextItem,
    ContextRef,
    MemoryItem,
    Outcome,
    Signature,
    Stage,
    State,
    Task,
    Tensor,
    Work,
)

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))])
PATHS = re.compile(r"(?<![\w./-])((?:src|docs|tests|benchmarks|examples|experiments)/[\w./-]*\w|verify/child\.py)")
LINKS = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCES = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ALONE = {"verify/candidate_main.py": "src/evokernel/verify/candidate_main.py"}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def missing_paths(text: str) -> list[str]:
    """Paths a text names that are not there; patterns such as `<name>` end a path."""
    return [path for path in PATHS.findall(text) if not (ROOT / ALONE.get(path, path)).exists()]


def broken_links(page: Path, text: str) -> list[str]:
    """Relative links that lead nowhere."""
    targets = [link.partition("#")[0] for link in LINKS.findall(FENCES.sub("", text)) if not re.match(r"\w+:", link)]
    return [target for target in targets if target and not (page.parent / target).exists()]


def commands(text: str) -> list[list[str]]:
    """Every `evokernel …` line of a text's unnamed or shell blocks."""
    lines = [line for language, block in FENCES.findall(text) if language in ("", "sh", "bash", "console") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("evokernel ")]


def unknown_options(words: list[str]) -> list[str]:
    """What a command line asks for that the program does not have."""
    from evokernel.cli.main import COMMANDS

    command = words[1]
    if command.startswith("-"):
        return [] if command in ("--help", "--version") else [command]
    if command not in COMMANDS:
        return [command]
    found: click.Command = importlib.import_module(f"evokernel.cli.{command}").command
    rest = words[2:]
    rest = rest[: rest.index("--")] if "--" in rest else rest  # what follows is passed on
    if isinstance(found, click.Group) and rest:
        if rest[0] not in found.commands:
            return [rest[0]]
        found, rest = found.commands[rest[0]], rest[1:]
    known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return [word for word in rest if word.startswith("--") and word.partition("=")[0] not in known | {"--help"}]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_exist(page: Path) -> None:
    assert missing_paths(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_options_exist(page: Path) -> None:
    assert [found for words in commands(page.read_text()) for found in unknown_options(words)] == []


def test_these_tests_can_fail() -> None:
    assert missing_paths("see `src/evokernel/core/nowhere.py`") == ["src/evokernel/core/nowhere.py"]
    assert broken_links(ROOT / "README.md", "[a](docs/nowhere.md)") == ["docs/nowhere.md"]
    assert unknown_options(["evokernel", "fly"]) == ["fly"]
    assert unknown_options(["evokernel", "run", "--flie", "x"]) == ["--flie"]


def test_decisions_have_their_three_parts() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        assert all(f"**{part}.**" in text for part in ("Context", "Choice", "What we gave up")), page.name


def python_in(page: str) -> str:
    (block,) = [code for language, code in FENCES.findall((ROOT / "docs" / page).read_text()) if language == "python"]
    return block


def make_task() -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(4, 8))
    signature = Signature(inputs=(tensor,), outputs=(tensor.model_copy(update={"name": "out"}),))
    return Task(id="t/t", family="elementwise", source="def forward", signature=signature, work=Work(flops=1, bytes=1), sizes={"bench": {}})


def make_attempt(code: str) -> Attempt:
    candidate = Candidate(backend="cpp", files={"kernel.cpp": code})
    return Attempt(id="t/t/0", run="r", task="t/t", round=0, stage=Stage.DRAFT, candidate=candidate, outcome=Outcome(gates=()), reward=1.0)


class OneItem:
    """A memory that finds one item and remembers what it was taught."""

    def __init__(self) -> None:
        self.item = MemoryItem(id="i", kind="trace", backend="cpp", title="a kernel", text="", code="…")
        self.taught: dict[str, float] = {}

    def search(self, query: str, k: int, kinds: tuple[str, ...] = (), **filters: object) -> list[SearchHit]:
        return [SearchHit(self.item, 1.0)]

    def update(self, attempt: str, stage: Stage, rewards: dict[str, float], alpha: float, scope: str = "") -> None:
        self.taught |= rewards


def test_the_policy_in_the_guide_works() -> None:
    space: dict[str, object] = {}
    exec(python_in("add-a-policy.md"), space)
    policy, memory = space["plugin"](), OneItem()  # type: ignore[operator]
    context = policy.choose(State(task=make_task()), memory)
    assert [shown.item.id for shown in context.items] == ["i"]
    assert context.stage is Stage.DRAFT
    attempt = make_attempt("").model_copy(update={"shown": (ContextRef(id="i", role="trace"),)})
    policy.learn(State(task=make_task()), attempt, memory)
    assert memory.taught == {"i": 1.0}


def test_the_generator_in_the_guide_works() -> None:
    space: dict[str, object] = {}
    exec(python_in("add-a-generator.md"), space)
    generator = space["plugin"]("cpp", sizes=(48,))  # type: ignore[operator]
    state = State(task=make_task())
    assert not generator.write(state, Context(stage=Stage.DRAFT)).candidate.files
    start = make_attempt("constexpr int64_t T = 16;")
    shown = ContextItem(role="trace", item=OneItem().item.model_copy(update={"code": "constexpr int64_t T = 8;", "feasible": True}))
    drafted = generator.write(state, Context(stage=Stage.DRAFT, items=(shown,)))
    assert drafted.candidate.files == {"kernel.cpp": "constexpr int64_t T = 48;"}
    reply = generator.write(state, Context(stage=Stage.REFINE, start_point=start))
    assert reply.candidate.files == {"kernel.cpp": "constexpr int64_t T = 48;"}


def test_the_task_in_the_guide_works() -> None:
    describe = pytest.importorskip("evokernel.reference.describe").describe
    task = describe(python_in("add-a-task.md"), "row_norm.py")
    assert [tensor.shape for tensor in task.signature.inputs] == [(256, 1000)]
    assert [number.name for number in task.signature.scalars] == ["eps"]
    assert task.sizes["small"] != task.sizes["held_out"]
    sweep = make_plugin("generator", "template_search", backend="cpp")  # which the guide's `evokernel run` asks
    assert sweep.write(State(task=task.model_copy(update={"id": "my_tasks/row_norm"})), Context(stage=Stage.DRAFT)).candidate.files


def test_the_settings_in_the_guide_are_ones(tmp_path: Path) -> None:
    from evokernel.app.factory import make_part
    from evokernel.core.config import resolve_config

    (block,) = [text for language, text in FENCES.findall((ROOT / "docs" / "concepts.md").read_text()) if language == "toml"]
    (tmp_path / "settings.toml").write_text(block)
    config = resolve_config(tmp_path / "settings.toml")
    assert make_part(config, "policy").epsilon == 0.1
    assert make_part(config, "backend").threads == 2


def test_the_card_in_the_guide_is_one(tmp_path: Path) -> None:
    from evokernel.memory.seed_cards import card

    (block,) = [text for language, text in FENCES.findall((ROOT / "docs" / "add-knowledge.md").read_text()) if language == "markdown"]
    (tmp_path / "hoist-divisions.md").write_text(block)
    item = card(tmp_path / "hoist-divisions.md", "cpp")
    assert (item.kind, item.bottleneck) == ("practice", "latency")
