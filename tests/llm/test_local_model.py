"""A model served on this machine: started, found again, used, and ended for sure. The processes are real, the engine stands in."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evokernel.core.errors import InfraError, UserError
from evokernel.generators.llm import Llm
from evokernel.llm import local_server, models, processes
from evokernel.llm.client import ChatClient
from evokernel.llm.context_budget import asked, room
from evokernel.llm.settings import Endpoint, checked, endpoint

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with the engine and one small model, and nothing served."""
    shutil.copy(HERE.parent / "servers" / "xllamacpp_stand_in.py", tmp_path / "xllamacpp.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(SRC)]))
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVOKERNEL_TOOLS", str(tmp_path / "tools"))
    monkeypatch.delenv(local_server.PROGRAM, raising=False)
    toy = models.Model("toy", "a toy", "none", 8, "", ())
    monkeypatch.setattr(models, "catalogue", lambda: {"toy": toy})
    toy.path.parent.mkdir(parents=True)
    toy.path.write_bytes(b"GGUF 678")
    yield tmp_path
    local_server.stop()


def until(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    assert what()


def test_started_seen_and_stopped(machine):
    assert local_server.served() is None
    assert local_server.stop() is None
    waited = []
    found = local_server.start("toy", threads=2, context=4096, waiting=waited.append)
    assert found == local_server.served()
    assert (found.model, found.threads, found.context, found.engine) == ("toy", 2, 4096, "xllamacpp")
    assert waited
    one = found.instances[0]
    assert one.state == "running"
    facts = local_server.get(f"{one.url}/v1/models")["data"][0]["meta"]
    assert facts == {"n_ctx": 4096, "threads": 2, "port": one.port}
    assert os.getsid(one.pid) == one.pid, "a session of its own: a closed terminal does not end it"
    assert "toy answers at" in Path(one.log).read_text()
    with pytest.raises(UserError, match=r"already served at .*evokernel model stop"):
        local_server.start("toy")
    local_server.stop()
    assert one.state == "gone"
    assert local_server.served() is None


def test_what_was_killed_is_noticed_and_started_anew(machine):
    one = local_server.start("toy").instances[0]
    os.kill(one.pid, signal.SIGKILL)
    until(lambda: one.state == "gone")
    assert local_server.served().alive == ()
    again = local_server.start("toy").instances[0]
    assert again.pid != one.pid
    assert again.state == "running"


def test_a_process_that_got_an_old_number_is_left_alone(machine):
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        one = local_server.Instance(pid=stranger.pid, born="long ago", port=1, log="")
        made = local_server.Served(model="toy", file="f", threads=1, context=1, engine="e", since=0, instances=(one,))
        local_server.state_file().parent.mkdir(parents=True)
        local_server.state_file().write_text(made.model_dump_json())
        assert one.state == "gone"
        local_server.stop()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_process_that_does_not_want_to_end_is_ended():
    stubborn = subprocess.Popen(
        [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    stubborn.stdout.readline()
    birth = processes.born(stubborn.pid)
    assert processes.end(stubborn.pid, birth, polite_s=0.2)
    assert not processes.is_running(stubborn.pid, birth)
    assert stubborn.wait() == -signal.SIGKILL
    assert not processes.end(stubborn.pid, birth)


def test_a_state_file_that_cannot_be_read_counts_as_nothing(machine, caplog):
    local_server.state_file().parent.mkdir(parents=True)
    local_server.state_file().write_text("{")
    assert local_server.served() is None
    assert "cannot be read" in caplog.text


def test_a_model_that_does_not_load_is_told_in_its_own_words(machine):
    bad = machine / "bad.gguf"
    bad.write_bytes(b"GGUF broken")
    with pytest.raises(InfraError, match=r"ended while it loaded.*it is broken.*server-\d+\.log"):
        local_server.start(str(bad))
    assert local_server.served() is None


def test_one_that_never_answers_is_ended(machine):
    slow = machine / "slow.gguf"
    slow.write_bytes(b"GGUF slow")
    with pytest.raises(InfraError, match="did not answer in time"):
        local_server.start(str(slow), loading_s=1.0)
    logs = list(local_server.state_file().parent.glob("server-*.log"))
    assert len(logs) == 1
    assert local_server.served() is None


def test_a_port_in_use_is_refused(machine):
    one = local_server.start("toy").instances[0]
    with pytest.raises(UserError, match=rf"port {one.port} cannot be used"):
        local_server.free_ports(one.port, 1)
    assert len(set(local_server.free_ports(0, 5))) == 5


def test_without_an_engine_the_extra_is_named(machine, monkeypatch):
    (machine / "xllamacpp.py").unlink()
    monkeypatch.setattr(local_server.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'evokernel\[local\]'"):
        local_server.start("toy")
    with pytest.raises(UserError, match="there is no program 'no-such-server'"):
        local_server.start("toy", program="no-such-server")


def test_a_llama_server_can_take_its_place(machine):
    program = machine / "llama-server"
    serve = "import sys; from evokernel.llm import serve; a = sys.argv[1:]; v = lambda n: a[a.index(n) + 1]"
    arguments = "sys.argv = ['', v('-m'), v('--port'), v('-t'), v('-c'), v('-a')]; serve.main()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{serve}; {arguments}" "$@"\n')
    program.chmod(0o755)
    found = local_server.start("toy", program=str(program))
    assert found.engine == str(program)
    assert found.instances[0].state == "running"


def test_local_starts_what_is_fetched_and_says_so(machine, caplog):
    toy = models.catalogue()["toy"]
    toy.path.write_bytes(b"GGUF 678")
    client = ChatClient(checked(model="local", price_in=3, price_out=3, timeout_s=5))
    assert "starting toy" in caplog.text
    done = client.complete([{"role": "user", "content": "hello"}])
    assert (done.usage.model, done.usage.input_tokens, done.usage.output_tokens, done.usage.cost_usd) == ("toy", 7, 5, 0.0)
    assert done.usage.seconds > 0
    pid = local_server.served().instances[0].pid
    ChatClient(checked(model="local"))
    assert local_server.served().instances[0].pid == pid, "what runs is used"


def test_local_without_a_model_names_the_command(machine, monkeypatch):
    monkeypatch.setattr(models, "catalogue", lambda: {models.DEFAULT: models.Model(models.DEFAULT, "", "", 10**9, "", ())})
    with pytest.raises(UserError, match="evokernel model fetch"):
        ChatClient(checked(model="local"))
    assert endpoint(checked(model="local")).secret() == "none"


def test_instances_share_the_work(machine):
    found = local_server.start("toy", instances=2)
    client = ChatClient(checked(model="local"))
    assert client.settings.concurrency == 2
    assert {str(client.sdks.get().base_url) for _ in range(2)} == {f"{one.url}/v1/" for one in found.instances}
    os.kill(found.instances[0].pid, signal.SIGKILL)
    until(lambda: len(local_server.served().alive) == 1)
    assert ChatClient(checked(model="local")).settings.concurrency == 1


def test_the_generator_fits_its_prompts_to_the_server(machine, caplog):
    caplog.set_level(logging.ERROR)
    local_server.start("toy", context=4096)
    made = Llm("cpp", model="local")
    assert made.prompts.is_brief
    assert made.prompts.context_tokens == room(4096, 0).prompt < 4096 - 1024
    assert made.client.settings.max_tokens == 1024
    told = Llm("cpp", model="local", max_tokens=500, context=8192, prompts="full")
    assert not told.prompts.is_brief
    assert told.prompts.context_tokens == room(8192, 500).prompt
    assert told.client.settings.max_tokens == 500
    assert "asked for 1024" in made.ask("hello", "k").text


def test_only_servers_on_this_machine_are_asked_for_their_context(machine):
    one = local_server.start("toy", context=2048).instances[0]
    assert asked(Endpoint(f"{one.url}/v1", ""), "x") == 2048
    assert asked(Endpoint(f"{one.url}/v1", ""), "another") == 2048, "there is only one"
    assert asked(Endpoint("http://127.0.0.1:9/v1", ""), "x") == 0
    assert asked(Endpoint("https://api.example.com/v1", ""), "x") == 0


def test_settings_of_the_context_are_checked():
    with pytest.raises(UserError, match=r"generator\.context = 100"):
        Llm("cpp", model="m", base_url="http://127.0.0.1:9/v1", context=100)
    with pytest.raises(UserError, match=r"generator\.prompts = 'short'"):
        Llm("cpp", model="m", base_url="http://127.0.0.1:9/v1", prompts="short")
    assert Llm("cpp", model="m", base_url="http://127.0.0.1:9/v1").prompts.context_tokens == 24000
