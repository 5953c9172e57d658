"""Many tasks looked at in processes that may hang, run out of memory or die."""

from __future__ import annotations

import time

import pytest

from evokernel.experiments import task_lint as module
from evokernel.experiments.task_lint import Wish, look, survey
from evokernel.tasks.loader import files

HEAD = "import os, time\nimport torch\nN = 64\nclass Model(torch.nn.Module):\n"
TAIL = "def get_inputs(): return [torch.randn(N, 32)]\n"
TEXTS = {
    "dies": HEAD + "    def forward(self, x): os._exit(3)\n" + TAIL,
    "hangs": HEAD + "    def forward(self, x): time.sleep(600)\n" + TAIL,
    "huge": HEAD + "    def forward(self, x): return x + torch.zeros(1 << 33, 1 << 10, device='cpu').sum()\n" + TAIL,
    "raises": HEAD + "    def forward(self, x): raise ValueError('planted')\n" + TAIL,
    "sound": HEAD + "    def forward(self, x): return torch.sin(x)\n" + TAIL,
    "vacuous": HEAD + "    def forward(self, x): return x * 0\n" + TAIL,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    for name, text in TEXTS.items():
        (tmp_path / "odd").mkdir(exist_ok=True)
        (tmp_path / "odd" / f"{name}.py").write_text(text)
    return tmp_path / "odd"


def test_every_task_gets_an_answer(folder):
    found = {look.id.removeprefix("odd/"): look for look in survey(files(str(folder)), audit=True, workers=2, timeout_s=12)}
    assert set(found) == set(TEXTS)
    assert "ended with code 3" in found["dies"].error
    assert "took more than 12 s" in found["hangs"].error
    assert "planted" in found["raises"].error
    assert "memory is out" in found["huge"].error
    assert found["sound"].task is not None
    assert found["sound"].flaws == ()
    assert {(flaw.kind, flaw.what) for flaw in found["vacuous"].wrong("paper")} == {("vacuous", "zeros")}
    assert {flaw.size for flaw in found["vacuous"].flaws} == {"bench", "small", "held_out"}


def test_who_stops_listening_does_not_wait_for_what_hangs(folder):
    looks = survey(files(f"{folder}/hangs.py,{folder}/sound.py"), audit=False, workers=2, timeout_s=300)
    assert next(looks).id == "odd/sound"
    started = time.monotonic()
    looks.close()
    assert time.monotonic() - started < 60


def test_a_look_that_breaks_off_is_no_reason_not_to_load(folder, monkeypatch):
    def broken(task):
        yield module.Flaw(kind="random", what="first")
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes.")

    monkeypatch.setattr(module, "flaws_of", broken)
    found = look(Wish(files(f"{folder}/sound.py")[0], audit=True))
    assert found.task is not None
    assert [flaw.kind for flaw in found.flaws] == ["random", "unlooked"]
    assert "--workers 1" in found.flaws[1].what
