"""Contract of every generator, and of the prompts of every backend; new plug-ins are discovered."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from inspect import signature

import pytest
from chat_server import Behaviour, ChatServer

from evokernel.core.errors import UserError
from evokernel.core.journal import Journal
from evokernel.core.plugins import find_plugin, make_plugin, plugin_names
from evokernel.core.records import (
    Attempt,
    Candidate,
    Context,
    GateResult,
    Outcome,
    Reply,
    Signature,
    Stage,
    Task,
    Tensor,
    Work,
)
from evokernel.core.state import State
from evokernel.generators.prompting import PromptBuilder

SOURCE = """import torch

N = 4096


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
"""
VECTOR = Tensor(name="x", dtype="float32", shape=(4096,))
TASK = Task(
    id="toy/relu",
    family="activation",
    source=SOURCE,
    signature=Signature(inputs=(VECTOR,), outputs=(VECTOR.model_copy(update={"name": "out"}),)),
    work=Work(flops=4096, bytes=32768),
    sizes={"bench": {}, "small": {"N": 64}, "held_out": {"N": 61}},
)
CODE = 'extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {}\n'
REPLY = f"```cpp kernel.cpp\n{CODE}```\n"
PASSED = Outcome(gates=(GateResult(gate="time", passed=True),), samples_us=(9.0, 10.0, 11.0), baseline_us={"eager": (20.0, 20.0, 20.0)})
DONE = Attempt(
    id="toy/relu/0",
    run="r",
    task=TASK.id,
    round=0,
    stage=Stage.DRAFT,
    candidate=Candidate(backend="cpp", files={"kernel.cpp": CODE}),
    outcome=PASSED,
    reward=1,
)
FIRST, SECOND = State(task=TASK), State(task=TASK, attempts=(DONE,), round=1)
TURNS = ((FIRST, Context(stage=Stage.DRAFT)), (SECOND, Context(stage=Stage.REFINE, start_point=DONE)))


@pytest.fixture
def server():
    with ChatServer(lambda request, n: Behaviour(REPLY)) as running:
        yield running


@pytest.fixture
def make_generator(server, tmp_path, monkeypatch):
    """Return a function that constructs a generator by name, with a server or files that it needs."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    journal = Journal(tmp_path / "attempts.jsonl")
    for n in range(2):
        journal.append(DONE.model_copy(update={"id": f"toy/relu/{n}"}))
    script = tmp_path / "script" / "relu"
    script.mkdir(parents=True)
    (script / "1.cpp").write_text(CODE)
    required_settings = {
        "llm": {"model": "m", "base_url": server.base_url},
        "command": {"command": [sys.executable, "-c", f"print({REPLY!r})"]},
        "agent": {"command": [sys.executable, "-c", "pass"]},
        "file_exchange": {"folder": str(tmp_path / "file-exchange"), "poll_s": 0.02, "timeout_s": 60},
        "replay": {"journal": str(journal.path)},
        "from_files": {"folder": str(script.parent)},
    }

    exchange = tmp_path / "file-exchange"
    exchange.mkdir()
    for number, (state, context) in enumerate(TURNS):
        (exchange / f"toy--relu--{number}.prompt.md").write_text(PromptBuilder("cpp").build_text(state, context))
        (exchange / f"toy--relu--{number}.reply.md").write_text(REPLY)

    def make_one(name):
        return make_plugin("generator", name, backend="cpp", **required_settings.get(name, {}))

    return make_one


@pytest.mark.parametrize("name", plugin_names("generator"))
def test_generator_is_deterministic(make_generator, name):
    generator = make_generator(name)
    replies = [generator.write(*turn) for turn in TURNS]
    for reply in replies:
        assert isinstance(reply, Reply)
        assert reply.candidate.backend == "cpp"
        assert reply.candidate.files or reply.candidate.notes, "a reply without code has a note"
        assert Reply.model_validate_json(reply.model_dump_json()) == reply
        (reply.prompt + reply.text).encode()
    with ThreadPoolExecutor(4) as pool:
        repeated = list(pool.map(lambda turn: make_generator(name).write(*turn), (*TURNS, *TURNS)))
    assert [r.candidate.id for r in repeated] == [r.candidate.id for r in replies] * 2, (
        "random numbers must depend on the seed and the attempt only"
    )


@pytest.mark.parametrize("name", plugin_names("generator"))
def test_lesson_is_a_reply_without_code_or_none(make_generator, name):
    lesson = make_generator(name).lesson(FIRST, DONE.candidate, PASSED)
    assert lesson is None or (isinstance(lesson, Reply) and not lesson.candidate.files)


@pytest.mark.parametrize("name", plugin_names("generator"))
def test_generator_accepts_backend_and_refuses_unknown_settings(name):
    cls = find_plugin("generator", name)
    assert "backend" in signature(cls).parameters
    assert cls.__doc__
    with pytest.raises(UserError, match="has no setting 'nonsense'"):
        make_plugin("generator", name, backend="cpp", nonsense=1)


def test_discovering_generators_imports_no_heavy_modules():
    code = (
        "import sys; from evokernel.core.plugins import find_plugin, plugin_names\n"
        "for name in plugin_names('generator'): find_plugin('generator', name)\n"
        "print([m for m in ('torch', 'openai', 'matplotlib', 'genai_prices') if m in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


@pytest.mark.parametrize("backend", plugin_names("backend"))
@pytest.mark.parametrize("turn", TURNS, ids=["draft", "refine"])
def test_prompt_for_every_backend_is_complete(backend, turn):
    prompts = PromptBuilder(backend)
    text = prompts.build_text(*turn)
    assert prompts.plugin.entry_point(TASK) in text
    assert prompts.rules.exists(), f"{backend} needs prompts/rules.md"
    assert prompts.file in text
    assert SOURCE.strip() in text
    assert "{{" not in text
    assert "N = 61" not in text
