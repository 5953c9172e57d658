"""The triton backend's cards and rules: what they show passes for Python, and whole kernels compute what they say."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sampling import one_in

import evokernel
from evokernel.memory.seed_cards import load_card
from evokernel.suites.family import FAMILIES
from evokernel.verifier.reasons import REASONS

triton_card_cases = pytest.importorskip("triton_card_cases", reason="torch is not installed", exc_type=ImportError)

HERE = Path(evokernel.__file__).parent / "backends" / "triton"
CARDS = {path.stem: load_card(path, "triton") for path in sorted((HERE / "knowledge").glob("*.md"))}
BLOCKS = {name: re.findall(r"^```python\n(.*?)^```", item.text, re.DOTALL | re.MULTILINE) for name, item in CARDS.items()}
SHOWN = sorted(name for name, blocks in BLOCKS.items() if blocks)
KERNELS = [name for name in SHOWN if re.search(r"^def kernel\(", BLOCKS[name][0], re.MULTILINE)]
RUNNER = Path(__file__).with_name("triton_card_runner.py")
IMPORTS = {"torch", "triton", "triton.language", "math"}
BOTTLENECKS = {"memory", "compute", "latency", "overhead"}


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], list[str]]]:
    """Asks a process with Triton's interpreter what is wrong with a card's kernel."""
    if find_spec("triton") is None:
        pytest.skip("triton is not installed")
    place = tmp_path_factory.mktemp("cards")
    environment = {**os.environ, "PYTHONPATH": str(RUNNER.parent), "TRITON_INTERPRET": "1", "TRITON_HOME": str(place)}
    command = [sys.executable, "-W", "ignore", str(RUNNER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:

        def ask(name: str) -> list[str]:
            (place / f"{name}.py").write_text(BLOCKS[name][0])
            process.stdin.write(f"{place / name}.py\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


WITHOUT_GPU = {"architecture": "sm_90a", "triton": "3.7.1"}
WITH_GPU = {"architecture": "sm_100a", "gpu": "NVIDIA B200", "driver": "580.1", "triton": "3.7.1"}


def rendered(versions: Mapping[str, str] = WITHOUT_GPU, **sizes: int) -> str:
    """The rules for a task with so many inputs, parameters, scalars and outputs."""
    signature = SimpleNamespace(**{name: list(range(count)) for name, count in sizes.items()})
    environment = Environment(loader=FileSystemLoader(str(HERE / "prompts")), undefined=StrictUndefined)
    template = environment.get_template("rules.md")
    text = template.render(task=SimpleNamespace(signature=signature), entry="", find_versions=lambda: versions)
    return " ".join(text.split())  # wherever lines are broken


def test_there_are_enough_api_and_practice_cards() -> None:
    kinds = Counter(item.kind for item in CARDS.values())
    assert set(kinds) == {"api", "practice"}
    assert kinds.total() >= 44
    assert min(kinds.values()) >= 20


def test_every_bottleneck_and_family_has_a_practice_card() -> None:
    practice = [item for item in CARDS.values() if item.kind == "practice"]
    assert {item.bottleneck for item in practice} == BOTTLENECKS
    assert {item.family for item in practice} >= {*FAMILIES} - {"sorting"}
    assert all(not item.bottleneck for item in CARDS.values() if item.kind == "api")


@pytest.mark.parametrize("name", SHOWN)
def test_card_code_uses_allowed_imports(name: str) -> None:
    tree = ast.parse(BLOCKS[name][0])
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert found <= IMPORTS
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_common_names_retrieve_no_card() -> None:
    named = {name for item in CARDS.values() for name in item.apis}
    everywhere = {name for name in named if sum(name in BLOCKS[card][0] for card in SHOWN) > 0.5 * len(SHOWN)}
    assert not everywhere


def test_every_complete_kernel_has_an_expected_result() -> None:
    assert sorted(triton_card_cases.CASES) == KERNELS
    assert len(KERNELS) >= 40


@pytest.mark.parametrize("name", one_in(8, KERNELS))
def test_card_kernel_computes_its_operator_at_ragged_sizes(interpreted: Callable[[str], list[str]], name: str) -> None:
    assert interpreted(name) == []


def test_explained_failures_are_reasons_of_the_verifier() -> None:
    explained = re.findall(r"^\| `(\w+)`", CARDS["what-is-checked"].text, re.MULTILINE)
    assert len(explained) >= 10
    assert set(explained) <= set(REASONS)


@pytest.mark.slow(one_in=5)
def test_rules_fit_the_task() -> None:
    text = rendered(inputs=1, params=1, scalars=1, outputs=1)
    assert "kernel.py" in text
    assert "parameters and buffers" in text
    assert "scalars as Python numbers" in text
    assert "the output," in text
    assert len(text) <= 4000
    bare = rendered(inputs=1, params=0, scalars=0, outputs=2)
    assert "parameters and buffers" not in bare
    assert "scalars as" not in bare
    assert "the outputs," in bare


def test_rules_name_the_gpu_and_what_becomes_of_autotuning_and_cleared_scratch() -> None:
    sizes = {"inputs": 1, "params": 1, "scalars": 1, "outputs": 1}
    text, text_without = rendered(WITH_GPU, **sizes), rendered(WITHOUT_GPU, **sizes)
    assert "NVIDIA B200 (`sm_100a`). Triton 3.7.1." in text
    assert "`sm_90a`; the verifier has no GPU. Triton 3.7.1." in text_without
    assert "uses the fastest at every size" in text
    assert "the first configuration is checked and none is timed" in text_without
    assert all("recorded as fills: they run again in each call, and their time counts" in one for one in (text, text_without))
    assert "interpreter" not in text
    assert "Nothing is timed here" in text_without
    assert len(text) <= 4000
