"""Runs the claims of the ascendc cards on the simulator: cases in `cards/*.cpp`, wrapped into operators."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evokernel.core.records import Candidate, ScalarArgument, Signature, Task, Tensor, Work
from evokernel.memory.seed_cards import load_seed_cards

FOLDER = Path(__file__).parent / "cards"
CARDS = {item.id.removeprefix("ascendc/"): item for item in load_seed_cards("ascendc")}
FRAGMENTS = {
    name: found[0] for name, item in CARDS.items() if (found := re.findall(r"^```cpp\n(.*?)^```", item.text, re.DOTALL | re.MULTILINE))
}
HEADING = re.compile(r"^//! (\S+) (works|breaks|timed|refused) (.*)$", re.MULTILINE)
TENSORS = {"x": "float32", "w": "float32", "h": "float16", "i": "int32", "b": "uint8", "l": "int64"}
RESULTS = {"y": "float32", "yh": "float16", "yi": "int32"}
ATTRIBUTES = ("which", "blocks", "key")
GROUPS = 3
Job = tuple[dict[str, np.ndarray], dict[str, float], dict[str, np.ndarray]]
"""Inputs, scalars, outputs."""
SEED = 7


@dataclass(frozen=True)
class Case:
    """One claim of a card: it gives an answer, breaks a rule, has a price, or does not compile."""

    card: str
    kind: str
    what: str
    """The answer's name, the rule's code, the price's name, or words of the compiler."""
    body: str
    number: int = 0
    n: int = 100
    blocks: int = 1
    key: int = 0

    @property
    def name(self) -> str:
        return f"{self.card}-{self.what}-{self.number}"


@dataclass(frozen=True)
class Ran:
    """What became of a case: the code of the rule it broke, if any, what was said about it, what it computed and what it would take."""

    code: str
    text: str
    outputs: dict[str, np.ndarray]
    cycles: float


def cases(file: str) -> list[Case]:
    """Those of one file, numbered from 0."""
    text = (FOLDER / file).read_text()
    parts = HEADING.split(text)[1:]
    found = []
    for number, (card, kind, words, body) in enumerate(zip(*[iter(parts)] * 4, strict=True)):
        plain = [word for word in words.split() if kind == "refused" or "=" not in word]
        given = {key: int(value) for key, value in (word.split("=") for word in words.split() if "=" in word and kind != "refused")}
        found.append(replace(Case(card, kind, " ".join(plain), body.strip(), number), **given))
    return found


def is_host(fragment: str) -> bool:
    return "gert::" in fragment


def is_complete(fragment: str) -> bool:
    return "// file: tiling.h" in fragment


def identifier(card: str) -> str:
    return "card_" + card.replace("-", "_")


def group_of(card: str) -> int:
    """Cards are dealt out, so that each group has some of every kind."""
    return sorted(CARDS).index(card) % GROUPS


def operator(chosen: Iterable[Case]) -> str:
    """A candidate that holds all these cases and runs the one that its attribute `which` names."""
    chosen = list(chosen)
    parts, calls = [(FOLDER / "prelude.h").read_text()], []
    for card in dict.fromkeys(case.card for case in chosen):
        fragment = FRAGMENTS.get(card, "")
        parts.append(f"namespace {identifier(card)} {{")
        parts.append("" if is_host(fragment) or is_complete(fragment) else fragment)
        for case in (case for case in chosen if case.card == card):
            parts.append(f"__aicore__ inline void Case{case.number}(Given& g) {{\n{case.body}\n}}")
            calls.append(f"        case {case.number}: return {identifier(card)}::Case{case.number}(g);")
        parts.append("}")
    kernel = (FOLDER / "entry.cpp").read_text().replace("// calls", "\n".join(calls))
    return "\n".join(
        [
            "// file: tiling.h",
            (FOLDER / "tiling.h").read_text(),
            "// file: op_host.cpp",
            (FOLDER / "host.cpp").read_text(),
            "// file: op_kernel.cpp",
            *parts,
            kernel,
        ]
    )


def filled(file: str) -> str:
    """A whole project in which `//! fragment CARD` stands for a card's fragment."""
    return re.sub(r"^//! fragment (\S+)$", lambda found: FRAGMENTS[found[1]], (FOLDER / file).read_text(), flags=re.MULTILINE)


def six_parts(bind: str, model: str) -> str:
    """The skeleton's operator as a text of six parts, with a binding and a model of its own."""
    parts = re.split(r"^// file: .*\n", FRAGMENTS["project-skeleton"], flags=re.MULTILINE)[1:]
    tiling, host, kernel = (part.replace('"tiling.h"', '"kernel_custom_tiling.h"') for part in parts)
    tensor = {"param_type": "required", "format": ["ND"], "type": ["float"]}
    described = [{"op": "KernelCustom", "input_desc": [{"name": "x", **tensor}], "output_desc": [{"name": "out", **tensor}]}]
    found = {"project_json_src": json.dumps(described), "host_tiling_src": tiling, "host_operator_src": host, "kernel_src": kernel}
    found |= {"python_bind_src": bind, "model_src": model}
    return "\n".join(["```python", *(f"{name} = {text!r}" for name, text in found.items()), "```", ""])


def task_of(inputs: dict[str, np.ndarray], numbers: dict[str, float], outputs: dict[str, np.ndarray]) -> Task:
    """A task with such a signature; nothing else of it is used."""
    described = [Tensor(name=name, dtype=str(array.dtype), shape=array.shape) for name, array in (inputs | outputs).items()]
    scalars = [ScalarArgument(name=name, kind="int" if isinstance(value, int) else "float", value=value) for name, value in numbers.items()]
    signature = Signature(inputs=tuple(described[: len(inputs)]), scalars=tuple(scalars), outputs=tuple(described[len(inputs) :]))
    return Task(id="cards/claims", family="elementwise", source="", signature=signature, work=Work(flops=1, bytes=1), sizes={})


def given(n: int) -> dict[str, np.ndarray]:
    """The inputs of every case with n elements."""
    random = np.random.default_rng(SEED)
    return {
        "x": random.standard_normal(n).astype("float32"),
        "w": random.standard_normal(n).astype("float32"),
        "h": random.standard_normal(n).astype("float16"),
        "i": random.integers(0, 5, n).astype("int32"),
        "b": random.integers(0, 2, n).astype("uint8"),
        "l": random.integers(-(2**31), 2**31, n).astype("int64"),
    }


def poisoned(n: int) -> dict[str, np.ndarray]:
    """Outputs before a run."""
    return {"y": np.full(n, 1e30, "float32"), "yh": np.full(n, 3e4, "float16"), "yi": np.full(n, -99, "int32")}


def build(text: str, task: Task, workdir: Path, file: str = "kernel.asc") -> None:
    """As a candidate is built."""
    from quick_builds import quick_builds

    from evokernel.backends.ascendc.backend import AscendcBackend

    candidate = Candidate(backend="ascendc", files={file: text})
    with quick_builds():
        AscendcBackend().build(task, candidate, workdir)


def run(workdir: Path, jobs: list[Job]) -> list[Ran]:
    """Every job in one child process, since a kernel might take it down."""
    (workdir / "jobs.pickle").write_bytes(pickle.dumps(jobs))
    done = subprocess.run([sys.executable, __file__, str(workdir)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Ran] = pickle.loads((workdir / "ran.pickle").read_bytes())
    return found


def outcome(text: str, job: Job, workdir: Path, file: str = "kernel.asc") -> Ran:
    """Of one job; a text that is not even built says so in place of a rule's code."""
    from evokernel.core.errors import CandidateError

    try:
        build(text, task_of(*job), workdir, file)
    except CandidateError as error:
        return Ran(error.detail, "", {}, 0.0)
    return run(workdir, [job])[0]


def ran_cases(chosen: list[Case], workdir: Path) -> dict[int, Ran]:
    """Builds the operator of these cases and runs each."""
    numbers: dict[str, float] = dict.fromkeys(ATTRIBUTES, 0)
    build(operator(chosen), task_of(given(8), numbers, poisoned(8)), workdir)
    jobs = [(given(case.n), {"which": case.number, "blocks": case.blocks, "key": case.key}, poisoned(case.n)) for case in chosen]
    return dict(zip((case.number for case in chosen), run(workdir, jobs), strict=True))


def refusals() -> str:
    """One source with every body that should not compile; the compiler calls each by its number."""
    parts = [(FOLDER / "prelude.h").read_text(), "namespace optiling { struct SomeTilingData { uint32_t length; }; }"]
    for case in cases("refused.cpp"):
        parts.append(f"static void Refused{case.number}(LocalTensor<float>& t, LocalTensor<float>& u, GlobalTensor<float>& gm) {{")
        parts.append(f'#line 1 "case{case.number}"\n{case.body}\n}}')
    return "\n".join(parts) + "\n"


def child(workdir: Path) -> None:
    """Runs the jobs that `run` left."""
    from evokernel.backends.ascendc.backend import AscendcBackend
    from evokernel.core.backend import Arguments, Array
    from evokernel.core.errors import CandidateError

    backend = AscendcBackend()
    backend.preload(workdir)
    kernel: Any = backend.load(workdir)
    found = []
    for inputs, numbers, outputs in pickle.loads((workdir / "jobs.pickle").read_bytes()):
        arrays = [[Array(name, str(array.dtype), array) for name, array in group.items()] for group in (inputs, outputs)]
        scalars = [(name, "int" if isinstance(value, int) else "float", value) for name, value in numbers.items()]
        code = text = ""
        try:
            kernel.bind(Arguments(tuple(arrays[0]), tuple(scalars), tuple(arrays[1])))()
        except CandidateError as error:
            _, code, _, text = error.detail.split("\t")
        cycles = 0.0 if code else json.loads(kernel.simulator.simulator_report())["cycles"]
        found.append(Ran(code, text, outputs, cycles))
    (workdir / "ran.pickle").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    import ascendc_cards  # so that what is pickled has the name the tests know

    ascendc_cards.child(Path(sys.argv[1]))
