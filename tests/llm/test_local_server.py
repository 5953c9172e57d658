"""Serving a model on this machine with real processes and a fake engine."""

import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from time_limits import HANG_S, wait_until

from evokernel.core.errors import InfraError, UserError
from evokernel.generators.llm import Llm
from evokernel.llm import local_server, models, processes
from evokernel.llm.client import ChatClient
from evokernel.llm.context_budget import query_context_length, split_context
from evokernel.llm.settings import Endpoint, parse_settings, resolve_endpoint

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with an engine and one small model, and no server."""
    shutil.copy(HERE.parent / "servers" / "fake_xllamacpp.py", tmp_path / "xllamacpp.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(SRC)]))
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVOKERNEL_TOOLS", str(tmp_path / "tools"))
    monkeypatch.delenv(local_server.PROGRAM_VARIABLE, raising=False)
    toy = models.CatalogueModel("toy", "a test model", "none", 8, "", ())
    monkeypatch.setattr(models, "load_catalogue", lambda: {"toy": toy})
    toy.path.parent.mkdir(parents=True)
    toy.path.write_bytes(b"GGUF 678")
    yield tmp_path
    local_server.stop_model()


def test_model_is_started_listed_and_stopped(machine):
    assert local_server.read_state() is None
    assert local_server.stop_model() is None
    waits = []
    server = local_server.start_model("toy", threads=2, context=4096, on_wait=waits.append)
    assert server == local_server.read_state()
    assert (server.model, server.threads, server.context, server.engine) == ("toy", 2, 4096, "xllamacpp")
    assert waits
    one = server.instances[0]
    assert one.state == "running"
    facts = local_server.get_json(f"{one.url}/v1/models")["data"][0]["meta"]
    assert facts == {"n_ctx": 4096, "threads": 2, "port": one.port}
    assert os.getsid(one.pid) == one.pid, "a new session: closing the terminal does not end the server"
    assert "toy answers at" in Path(one.log).read_text()
    with pytest.raises(UserError, match=r"already served at .*evokernel model stop"):
        local_server.start_model("toy")
    local_server.stop_model()
    assert one.state == "exited"
    assert local_server.read_state() is None


def test_killed_server_is_detected_and_can_be_started_again(machine):
    one = local_server.start_model("toy").instances[0]
    os.kill(one.pid, signal.SIGKILL)
    wait_until(lambda: one.state == "exited")
    assert local_server.read_state().running_instances == ()
    again = local_server.start_model("toy").instances[0]
    assert again.pid != one.pid
    assert again.state == "running"


def test_process_with_a_reused_id_is_not_terminated(machine):
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        one = local_server.ServerInstance(pid=stranger.pid, start_time="another time", port=1, log="")
        server = local_server.ServedModel(model="toy", file="f", threads=1, context=1, engine="e", started_at=0, instances=(one,))
        local_server.state_file().parent.mkdir(parents=True)
        local_server.state_file().write_text(server.model_dump_json())
        assert one.state == "exited"
        local_server.stop_model()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_process_that_ignores_sigterm_is_killed():
    stubborn = subprocess.Popen(
        [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    stubborn.stdout.readline()
    start_time = processes.read_start_time(stubborn.pid)
    assert processes.terminate(stubborn.pid, start_time, term_timeout_s=0.2)
    assert not processes.is_running(stubborn.pid, start_time)
    assert stubborn.wait() == -signal.SIGKILL
    assert not processes.terminate(stubborn.pid, start_time)


def test_unreadable_state_file_is_ignored(machine, caplog):
    local_server.state_file().parent.mkdir(parents=True)
    local_server.state_file().write_text("{")
    assert local_server.read_state() is None
    assert "cannot be read" in caplog.text


def test_load_error_contains_the_end_of_the_log(machine):
    bad = machine / "bad.gguf"
    bad.write_bytes(b"GGUF broken")
    with pytest.raises(InfraError, match=r"exited while loading.*it is broken.*server-\d+\.log"):
        local_server.start_model(str(bad))
    assert local_server.read_state() is None


def test_server_that_never_answers_is_terminated(machine):
    slow = machine / "slow.gguf"
    slow.write_bytes(b"GGUF slow")
    with pytest.raises(InfraError, match="did not answer in time"):
        local_server.start_model(str(slow), load_timeout_s=1.0)
    logs = list(local_server.state_file().parent.glob("server-*.log"))
    assert len(logs) == 1
    assert local_server.read_state() is None


def test_port_in_use_is_rejected(machine):
    one = local_server.start_model("toy").instances[0]
    with pytest.raises(UserError, match=rf"port {one.port} cannot be used"):
        local_server.find_free_ports(one.port, 1)
    assert len(set(local_server.find_free_ports(0, 5))) == 5


def test_missing_engine_names_the_extra(machine, monkeypatch):
    (machine / "xllamacpp.py").unlink()
    monkeypatch.setattr(local_server.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'evokernel\[local\]'"):
        local_server.start_model("toy")
    with pytest.raises(UserError, match="there is no program 'no-such-server'"):
        local_server.start_model("toy", program="no-such-server")


def test_llama_server_replaces_xllamacpp(machine):
    program = machine / "llama-server"
    serve = "import sys; from evokernel.llm import serve_main; a = sys.argv[1:]; v = lambda n: a[a.index(n) + 1]"
    arguments = "sys.argv = ['', v('-m'), v('--port'), v('-t'), v('-c'), v('-a')]; serve_main.main()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{serve}; {arguments}" "$@"\n')
    program.chmod(0o755)
    server = local_server.start_model("toy", program=str(program))
    assert server.engine == str(program)
    assert server.instances[0].state == "running"


def test_local_starts_a_downloaded_model_with_a_warning(machine, caplog):
    toy = models.load_catalogue()["toy"]
    toy.path.write_bytes(b"GGUF 678")
    client = ChatClient(parse_settings(model="local", price_in=3, price_out=3, timeout_s=HANG_S))
    assert "starting toy" in caplog.text
    completion = client.complete([{"role": "user", "content": "hello"}])
    assert (completion.usage.model, completion.usage.input_tokens, completion.usage.output_tokens, completion.usage.cost_usd) == (
        "toy",
        7,
        5,
        0.0,
    )
    assert completion.usage.seconds > 0
    pid = local_server.read_state().instances[0].pid
    ChatClient(parse_settings(model="local"))
    assert local_server.read_state().instances[0].pid == pid, "the running server is used"


def test_local_without_a_download_names_the_command(machine, monkeypatch):
    monkeypatch.setattr(
        models, "load_catalogue", lambda: {models.DEFAULT_MODEL: models.CatalogueModel(models.DEFAULT_MODEL, "", "", 10**9, "", ())}
    )
    with pytest.raises(UserError, match="evokernel model fetch"):
        ChatClient(parse_settings(model="local"))
    assert resolve_endpoint(parse_settings(model="local")).read_api_key() == "none"


def test_instances_share_the_requests(machine):
    server = local_server.start_model("toy", instances=2)
    client = ChatClient(parse_settings(model="local"))
    assert client.settings.concurrency == 2
    assert {str(client.sdk_pool.get().base_url) for _ in range(2)} == {f"{one.url}/v1/" for one in server.instances}
    os.kill(server.instances[0].pid, signal.SIGKILL)
    wait_until(lambda: len(local_server.read_state().running_instances) == 1)
    assert ChatClient(parse_settings(model="local")).settings.concurrency == 1


def test_generator_fits_prompts_to_the_server_context(machine, caplog):
    caplog.set_level(logging.ERROR)
    local_server.start_model("toy", context=4096)
    generator = Llm("cpp", model="local")
    assert generator.prompts.is_brief
    assert generator.prompts.context_tokens == split_context(4096, 0).prompt_tokens < 4096 - 1024
    assert generator.client.settings.max_tokens == 1024
    configured = Llm("cpp", model="local", max_tokens=500, context=8192, prompts="full")
    assert not configured.prompts.is_brief
    assert configured.prompts.context_tokens == split_context(8192, 500).prompt_tokens
    assert configured.client.settings.max_tokens == 500
    assert "asked for 1024" in generator.complete("hello", "k").text


def test_only_local_servers_are_queried_for_their_context_length(machine):
    one = local_server.start_model("toy", context=2048).instances[0]
    assert query_context_length(Endpoint(f"{one.url}/v1", ""), "x") == 2048
    assert query_context_length(Endpoint(f"{one.url}/v1", ""), "another") == 2048, "the only model is used"
    assert query_context_length(Endpoint("http://127.0.0.1:9/v1", ""), "x") == 0
    assert query_context_length(Endpoint("https://api.example.com/v1", ""), "x") == 0


def test_context_settings_are_validated():
    with pytest.raises(UserError, match=r"generator\.context = 100"):
        Llm("cpp", model="m", base_url="http://127.0.0.1:9/v1", context=100)
    with pytest.raises(UserError, match=r"generator\.prompts = 'short'"):
        Llm("cpp", model="m", base_url="http://127.0.0.1:9/v1", prompts="short")
    assert Llm("cpp", model="m", base_url="http://127.0.0.1:9/v1").prompts.context_tokens == 24000
