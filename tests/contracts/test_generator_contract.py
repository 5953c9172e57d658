"""Every generator found, and every backend's prompts: whoever adds one is tested without being listed."""

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
    State,
    Task,
    Tensor,
    Work,
)
from evokernel.generators.prompting import Prompts

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
def made(server, tmp_path, monkeypatch):
    """Makes a generator by name, with what it cannot do without: someone to ask, or something to play."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    journal = Journal(tmp_path / "attempts.jsonl")
    for n in range(2):
        journal.append(DONE.model_copy(update={"id": f"toy/relu/{n}"}))
    script = tmp_path / "script" / "relu"
    script.mkdir(parents=True)
    (script / "1.cpp").write_text(CODE)
    needs = {
        "llm": {"model": "m", "base_url": server.base_url},
        "command": {"command": [sys.executable, "-c", f"print({REPLY!r})"]},
        "mailbox": {"folder": str(tmp_path / "mailbox"), "poll_s": 0.02},
        "replay": {"journal": str(journal.path)},
        "script": {"folder": str(script.parent)},
    }

    def make_one(name):
        if name == "mailbox":
            (tmp_path / "mailbox").mkdir(exist_ok=True)
            for number, (state, context) in enumerate(TURNS):
                base = tmp_path / "mailbox" / f"toy--relu--{number}"
                base.with_suffix(".prompt.md").write_text(Prompts("cpp").write(state, context))
                base.with_suffix(".reply.md").write_text(REPLY)
        return make_plugin("generator", name, backend="cpp", **needs.get(name, {}))

    return make_one


@pytest.mark.parametrize("name", plugin_names("generator"))
def test_a_generator_writes_replies_and_never_changes_its_mind(made, name):
    generator = made(name)
    once = [generator.write(*turn) for turn in TURNS]
    for reply in once:
        assert isinstance(reply, Reply)
        assert reply.candidate.backend == "cpp"
        assert reply.candidate.files or reply.candidate.notes, "a reply without code says why"
        assert Reply.model_validate_json(reply.model_dump_json()) == reply
        (reply.prompt + reply.text).encode()
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda turn: made(name).write(*turn), (*TURNS, *TURNS)))
    assert [r.candidate.id for r in again] == [r.candidate.id for r in once] * 2, "chance must depend on the seed and the attempt alone"


@pytest.mark.parametrize("name", plugin_names("generator"))
def test_a_lesson_is_a_reply_without_code_or_nothing(made, name):
    lesson = made(name).lesson(FIRST, DONE.candidate, PASSED)
    assert lesson is None or (isinstance(lesson, Reply) and not lesson.candidate.files)


@pytest.mark.parametrize("name", plugin_names("generator"))
def test_a_generator_takes_the_backend_and_refuses_what_it_does_not_know(name):
    cls = find_plugin("generator", name)
    assert "backend" in signature(cls).parameters
    assert cls.__doc__
    with pytest.raises(UserError, match="has no setting 'nonsense'"):
        make_plugin("generator", name, backend="cpp", nonsense=1)


def test_finding_generators_loads_nothing_heavy():
    code = (
        "import sys; from evokernel.core.plugins import find, names\n"
        "for name in names('generator'): find('generator', name)\n"
        "print([m for m in ('torch', 'openai', 'matplotlib', 'genai_prices') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("backend", plugin_names("backend"))
@pytest.mark.parametrize("turn", TURNS, ids=["draft", "refine"])
def test_every_backend_can_be_prompted_for(backend, turn):
    prompts = Prompts(backend)
    text = prompts.write(*turn)
    assert prompts.plugin.entry_point(TASK) in text
    assert prompts.rules.exists(), f"{backend} needs prompts/rules.md"
    assert prompts.file in text
    assert SOURCE.strip() in text
    assert "{{" not in text
    assert "N = 61" not in text
