"""Checks the documentation: paths exist, links resolve, commands and options exist, code runs."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path
from random import Random

import click
import pytest

from evokernel.core.backend import Backend, Capabilities
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import SearchHit
from evokernel.core.records import (
    Attempt,
    Candidate,
    Context,
    ContextItem,
    ContextRef,
    GateResult,
    MemoryItem,
    Outcome,
    Signature,
    Stage,
    Task,
    Tensor,
    Work,
)
from evokernel.core.state import State

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))])
PATHS = re.compile(r"(?<![\w./-])((?:src|docs|tests|benchmarks|examples|experiments)/[\w./-]*\w|verifier/candidate_main\.py)")
LINKS = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCES = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHORT_PATHS = {"verifier/candidate_main.py": "src/evokernel/verifier/candidate_main.py"}


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def find_missing_paths(text: str) -> list[str]:
    """Paths in a text that do not exist; patterns such as `<name>` end a path."""
    return [path for path in PATHS.findall(text) if not (ROOT / SHORT_PATHS.get(path, path)).exists()]


def find_broken_links(page: Path, text: str) -> list[str]:
    """Relative links whose target does not exist."""
    targets = [link.partition("#")[0] for link in LINKS.findall(FENCES.sub("", text)) if not re.match(r"\w+:", link)]
    return [target for target in targets if target and not (page.parent / target).exists()]


def list_commands(text: str) -> list[list[str]]:
    """Every `evokernel …` line of the unnamed or shell blocks of a text; a backslash continues a line."""
    blocks = [block.replace("\\\n", " ") for language, block in FENCES.findall(text) if language in ("", "sh", "bash", "console")]
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("evokernel ")]


def find_unknown_options(words: list[str]) -> list[str]:
    """Commands and options of a command line that the program does not have."""
    from evokernel.cli.main import COMMANDS

    command = words[1]
    if command.startswith("-"):
        return [] if command in ("--help", "--version") else [command]
    if command not in COMMANDS:
        return [command]
    cli_command: click.Command = importlib.import_module(f"evokernel.cli.{command}").command
    rest = words[2:]
    rest = rest[: rest.index("--")] if "--" in rest else rest  # the rest is passed on
    if isinstance(cli_command, click.Group) and rest and not (rest[0].startswith("-") and cli_command.invoke_without_command):
        if rest[0] not in cli_command.commands:
            return [rest[0]]
        cli_command, rest = cli_command.commands[rest[0]], rest[1:]
    options = {option for parameter in cli_command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return [word for word in rest if word.startswith("--") and word.partition("=")[0] not in options | {"--help"}]


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_paths_exist(page: Path) -> None:
    assert find_missing_paths(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_resolve(page: Path) -> None:
    assert find_broken_links(page, page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_and_options_exist(page: Path) -> None:
    assert [option for words in list_commands(page.read_text()) for option in find_unknown_options(words)] == []


def test_checks_find_mistakes() -> None:
    assert find_missing_paths("see `src/evokernel/core/nowhere.py`") == ["src/evokernel/core/nowhere.py"]
    assert find_broken_links(ROOT / "README.md", "[a](docs/nowhere.md)") == ["docs/nowhere.md"]
    assert find_unknown_options(["evokernel", "fly"]) == ["fly"]
    assert find_unknown_options(["evokernel", "run", "--flie", "x"]) == ["--flie"]


def test_adrs_have_three_parts() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        assert all(f"**{part}.**" in text for part in ("Context", "Choice", "What we gave up")), page.name


def test_navigation_of_the_site_names_every_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert {page for page in pages if f": {page}\n" not in navigation} == set(), "name the page under nav in mkdocs.yml"


def python_block(page: str, number: int = 0) -> str:
    return [code for language, code in FENCES.findall((ROOT / "docs" / page).read_text()) if language == "python"][number]


def make_task() -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(4, 8))
    signature = Signature(inputs=(tensor,), outputs=(tensor.model_copy(update={"name": "out"}),))
    return Task(id="t/t", family="elementwise", source="def forward", signature=signature, work=Work(flops=1, bytes=1), sizes={"bench": {}})


def make_attempt(code: str) -> Attempt:
    candidate = Candidate(backend="cpp", files={"kernel.cpp": code})
    return Attempt(id="t/t/0", run="r", task="t/t", round=0, stage=Stage.DRAFT, candidate=candidate, outcome=Outcome(gates=()), reward=1.0)


class OneItemBank:
    """A memory bank that finds one item and records its updates."""

    def __init__(self) -> None:
        self.item = MemoryItem(id="i", kind="trace", backend="cpp", title="a kernel", text="", code="…")
        self.rewards: dict[str, float] = {}

    def search(self, query: str, k: int, kinds: tuple[str, ...] = (), **filters: object) -> list[SearchHit]:
        return [SearchHit(self.item, 1.0)]

    def update(self, attempt: str, stage: Stage, rewards: dict[str, float], alpha: float, scope: str = "") -> None:
        self.rewards |= rewards


def test_policy_of_the_guide_works() -> None:
    space: dict[str, object] = {}
    exec(python_block("add-a-policy.md"), space)
    policy, memory = space["plugin"](), OneItemBank()  # type: ignore[operator]
    context = policy.choose(State(task=make_task()), memory)
    assert [entry.item.id for entry in context.items] == ["i"]
    assert context.stage is Stage.DRAFT
    attempt = make_attempt("").model_copy(update={"shown_items": (ContextRef(id="i", role="trace"),)})
    policy.learn(State(task=make_task()), attempt, memory)
    assert memory.rewards == {"i": 1.0}


def test_strategy_of_the_guide_works() -> None:
    space: dict[str, object] = {}
    exec(python_block("add-a-policy.md", 1), space)
    strategy = space["plugin"](memory="none")  # type: ignore[operator]
    outcome = Outcome(gates=(GateResult(gate="build", passed=True),), samples_us=(10.0,))
    attempts = tuple(make_attempt(f"// {n}").model_copy(update={"id": f"t/t/{n}", "outcome": outcome}) for n in range(5))
    state = State(task=make_task(), attempts=attempts)
    starts = [strategy.choose_start_point(state, Random(seed)) for seed in range(20)]
    assert {start.id for start in starts} == {"t/t/0", "t/t/1", "t/t/2"}


def test_generator_of_the_guide_works() -> None:
    space: dict[str, object] = {}
    exec(python_block("add-a-generator.md"), space)
    generator = space["plugin"]("cpp", sizes=(48,))  # type: ignore[operator]
    state = State(task=make_task())
    assert not generator.write(state, Context(stage=Stage.DRAFT)).candidate.files
    start_point = make_attempt("constexpr int64_t T = 16;")
    entry = ContextItem(role="trace", item=OneItemBank().item.model_copy(update={"code": "constexpr int64_t T = 8;", "feasible": True}))
    draft = generator.write(state, Context(stage=Stage.DRAFT, items=(entry,)))
    assert draft.candidate.files == {"kernel.cpp": "constexpr int64_t T = 48;"}
    reply = generator.write(state, Context(stage=Stage.REFINE, start_point=start_point))
    assert reply.candidate.files == {"kernel.cpp": "constexpr int64_t T = 48;"}


@pytest.mark.toolchain
def test_task_of_the_guide_works() -> None:
    describe = pytest.importorskip("evokernel.reference.describe").describe_task
    task = describe(python_block("add-a-task.md"), "row_norm.py")
    assert [tensor.shape for tensor in task.signature.inputs] == [(256, 1000)]
    assert [number.name for number in task.signature.scalars] == ["eps"]
    assert task.sizes["small"] != task.sizes["held_out"]
    generator = make_plugin("generator", "template_search", backend="cpp")  # the generator of the guide's `evokernel run`
    assert generator.write(State(task=task.model_copy(update={"id": "my_tasks/row_norm"})), Context(stage=Stage.DRAFT)).candidate.files


def test_code_of_the_backend_guide_is_the_code_of_the_zig_backend() -> None:
    folder = ROOT / "src" / "evokernel" / "backends" / "zig"
    files = [path.read_text() for path in folder.iterdir() if path.is_file()]
    text = (ROOT / "docs" / "add-a-backend.md").read_text()
    blocks = [code for language, code in FENCES.findall(text) if language]
    assert len(blocks) > 8
    assert [code for code in blocks if not any(code in file for file in files)] == []
    lines = sum(len(path.read_text().splitlines()) for path in folder.glob("*.py"))
    assert f"{lines} lines of Python" in " ".join(text.split())
    assert lines < 120


def test_tables_of_the_backend_guide_name_every_method() -> None:
    names = {name for name in vars(Backend) if not name.startswith("_")} | set(Capabilities.__dataclass_fields__)
    text = (ROOT / "docs" / "add-a-backend.md").read_text()
    assert {name for name in names if not re.search(rf"`{name}[`(]", text)} == set()
    listed_names = set(re.findall(r"^\| `(\w+)", text, re.MULTILINE))
    assert listed_names - names - {"requirements", "roofline_us", "writing_us", "moving_us"} == set()


def test_settings_of_the_guide_are_valid(tmp_path: Path) -> None:
    from evokernel.app.factory import make_part
    from evokernel.core.config import resolve_config

    (block,) = [text for language, text in FENCES.findall((ROOT / "docs" / "concepts.md").read_text()) if language == "toml"]
    (tmp_path / "settings.toml").write_text(block)
    config = resolve_config(tmp_path / "settings.toml")
    assert make_part(config, "policy").epsilon == 0.1
    assert make_part(config, "backend").threads == 2


def test_card_of_the_guide_is_valid(tmp_path: Path) -> None:
    from evokernel.memory.seed_cards import load_card

    (block,) = [text for language, text in FENCES.findall((ROOT / "docs" / "add-knowledge.md").read_text()) if language == "markdown"]
    (tmp_path / "hoist-divisions.md").write_text(block)
    item = load_card(tmp_path / "hoist-divisions.md", "cpp")
    assert (item.kind, item.bottleneck) == ("practice", "latency")


def test_glossary_page_lists_the_terms_of_the_program() -> None:
    from evokernel.core.glossary import load_glossary

    rows = re.findall(r"^\| (.+?) \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    terms = load_glossary()
    assert [row for row in rows if row != ("term", "meaning")] == [tuple(term) for term in terms]
    assert len(terms) <= 60
    assert all(term.meaning.endswith(".") and term.meaning.count(". ") == 0 for term in terms)
