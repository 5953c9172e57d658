"""The client against a service that misbehaves in every way services do."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import chat_server
import pytest
from chat_server import Behaviour, ChatServer

from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.llm.client import ChatClient, retry_after
from evokernel.llm.settings import checked, endpoint

ASK = [{"role": "user", "content": "x" * 400}]
PRICES = {"price_in": 2.0, "price_out": 8.0}


class FakeClock:
    """Time that passes only when someone waits."""

    def __init__(self):
        self.time, self.waits, self.lock = 0.0, [], threading.Lock()

    def now(self):
        with self.lock:
            return self.time

    def wait(self, seconds, stop):
        with self.lock:
            self.waits.append(seconds)
            self.time += seconds
        return stop.is_set()


@pytest.fixture(autouse=True)
def loopback_needs_no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("EVOKERNEL_API_KEY", raising=False)


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def stream(request):
    return request.param


def client(server, clock=None, **settings):
    made = {"model": "m", "base_url": server.base_url, "timeout_s": 5, "retries": 2, **settings}
    return ChatClient(checked(**made), clock or FakeClock())


def first(*behaviours):
    """A script that plays these and then the last one for ever."""
    return lambda request, n: behaviours[min(n, len(behaviours) - 1)]


def test_an_answer_and_its_cost_are_exact(stream):
    with ChatServer(first(Behaviour("grüße 🚀 {x}", usage=(1200, 34), cached=200))) as server:
        done = client(server, stream=stream, **PRICES).complete(ASK)
    assert done.text == "grüße 🚀 {x}"
    assert done.finish_reason == "stop"
    assert (done.usage.calls, done.usage.input_tokens, done.usage.output_tokens) == (1, 1200, 34)
    assert done.usage.cost_usd == pytest.approx((1200 * 2 + 34 * 8) / 1e6, rel=1e-12)


def test_usage_the_service_leaves_out_is_unknown_not_zero(stream):
    with ChatServer(first(Behaviour(usage=None))) as server:
        usage = client(server, stream=stream, **PRICES).complete(ASK).usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens, usage.cost_usd) == (1, None, None, None)


def test_a_price_nobody_knows_is_unknown(stream):
    with ChatServer(first(Behaviour())) as server:
        usage = client(server, model="gpt-4o-mini", stream=stream).complete(ASK).usage
    assert usage.input_tokens == 100
    assert usage.cost_usd is None, "a model of a known name at an unknown address has no known price"


BROKEN = {
    "half a reply": Behaviour("a long answer", cut_after=3),
    "429": Behaviour(status=429),
    "500": Behaviour(status=500),
    "503": Behaviour(status=503),
    "408": Behaviour(status=408),
    "garbage": Behaviour(body=b"\x00\xff<html>busy</html>"),
    "nothing but an end": Behaviour(body=b"data: [DONE]\n\n"),
    "half an object": Behaviour(body=b'data: {"choices": [{"delta": {"content": "a'),
    "wrong JSON": Behaviour(body=b"data: [1, 2]\n\n"),
    "empty body": Behaviour(body=b""),
    "no choices": Behaviour(body=b'{"choices": []}', stream=False),
    "message of a wrong form": Behaviour(body=b'{"choices": [{"message": "hi"}]}', stream=False),
    "deep nesting": Behaviour(body=b"[" * 200_000, stream=False),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_is_asked_for_again(broken, stream):
    clock = FakeClock()
    with ChatServer(first(broken, broken, Behaviour("whole"))) as server:
        done = client(server, clock, stream=stream).complete(ASK)
        assert len(server.requests) == 3
    assert done.text == "whole"
    assert done.usage.input_tokens == 100, "what failed told no usage, so only the answer counts"
    assert len(clock.waits) == 2
    assert all(wait > 0 for wait in clock.waits)


@pytest.mark.parametrize("keep_alive", [False, True], ids=["silent", "keeps the connection open"])
def test_a_stall_is_cut_and_asked_again(stream, keep_alive):
    class RealTime(FakeClock):
        def now(self):
            return time.monotonic()

    stalled = Behaviour("a long answer", stall_after=2, keep_alive=keep_alive)
    with ChatServer(first(stalled, Behaviour("whole"))) as server:
        done = client(server, RealTime(), stream=stream, timeout_s=0.3).complete(ASK)
        assert len(server.requests) == 2
    assert done.text == "whole"


def test_what_a_broken_stream_cost_is_counted_where_it_says_so():
    broken = Behaviour("a long answer", usage=(500, 70), usage_first=True, cut_after=3)
    with ChatServer(first(broken, Behaviour(usage=(500, 90)))) as server:
        asker = client(server, **PRICES)
        usage = asker.complete(ASK).usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (2, 1000, 160)
    assert usage.cost_usd == pytest.approx((1000 * 2 + 160 * 8) / 1e6)
    assert (asker.account.tokens, asker.account.cost_usd) == (1160, pytest.approx(usage.cost_usd))


def test_an_answer_that_had_ended_is_not_paid_for_twice():
    whole = len(chat_server.stream({"model": "m", "stream_options": {"include_usage": True}}, Behaviour("whole")))
    for lost, known in ((1, 100), (2, None)):  # [DONE] is missing, then also the usage
        with ChatServer(first(Behaviour("whole", cut_after=whole - lost))) as server:
            done = client(server).complete(ASK)
            assert len(server.requests) == 1
        assert (done.text, done.usage.input_tokens) == ("whole", known)


def test_an_error_inside_a_stream_is_asked_again():
    with ChatServer(first(Behaviour(error={"message": "upstream overloaded"}), Behaviour("whole"))) as server:
        assert client(server).complete(ASK).text == "whole"


def test_a_service_that_cannot_stream_is_read_whole():
    with ChatServer(first(Behaviour("whole", stream=False))) as server:
        assert client(server, stream=True).complete(ASK).text == "whole"


def test_retry_after_is_honoured():
    clock = FakeClock()
    with ChatServer(first(Behaviour(status=429, headers={"Retry-After": "7"}), Behaviour())) as server:
        client(server, clock).complete(ASK)
    assert clock.waits == [7.0]


def test_a_wait_that_is_too_long_is_not_waited_for():
    with ChatServer(first(Behaviour(status=429, headers={"Retry-After": "86400"}))) as server, pytest.raises(InfraError, match="86400 s"):
        client(server).complete(ASK)


def test_retry_after_may_be_a_date_or_nonsense():
    assert retry_after("12.5") == 12.5
    assert retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0
    assert retry_after("soon") is None
    assert retry_after("") is None


def test_after_the_last_retry_it_is_nobodys_fault():
    clock = FakeClock()
    with ChatServer(first(Behaviour(status=500))) as server, pytest.raises(InfraError) as raised:
        client(server, clock, retries=3).complete(ASK)
    assert len(server.requests) == 4
    assert "after 4 requests" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert clock.waits[0] < clock.waits[2], "each wait is longer than the one before the last"


def test_nobody_there_is_nobodys_fault():
    with ChatServer(first(Behaviour())) as server:
        gone = server.base_url
    with pytest.raises(InfraError, match="APIConnectionError"):
        ChatClient(checked(model="m", base_url=gone, retries=1), FakeClock()).complete(ASK)


def test_back_off_depends_on_the_attempt_and_the_seed_only():
    def waits(key, seed=1):
        clock = FakeClock()
        with ChatServer(first(Behaviour(status=500), Behaviour(status=500), Behaviour())) as server:
            client(server, clock, seed=seed).complete(ASK, key)
        return clock.waits

    assert waits("t/0") == waits("t/0") != waits("t/1")
    assert waits("t/0") != waits("t/0", seed=2)


MENDABLE = {
    401: "check the key in MY_KEY",
    403: "check the key in MY_KEY",
    404: "generator.model",
    400: "generator setting",
    402: "top it up",
    422: "generator setting",
}


@pytest.mark.parametrize("status", MENDABLE)
def test_what_the_user_must_mend_is_said_at_once(status, monkeypatch):
    monkeypatch.setenv("MY_KEY", "k")
    with ChatServer(first(Behaviour(status=status))) as server, pytest.raises(UserError, match=MENDABLE[status]) as raised:
        client(server, api_key_env="MY_KEY").complete(ASK)
    assert len(server.requests) == 1
    assert "\n" not in str(raised.value)
    assert server.headers[0]["authorization"] == "Bearer k"


def test_an_empty_account_is_not_asked_again():
    spent = Behaviour(status=429, error={"message": "quota", "code": "insufficient_quota"})
    with ChatServer(first(spent)) as server, pytest.raises(UserError, match="no credit"):
        client(server).complete(ASK)
    assert len(server.requests) == 1


def test_a_prompt_that_is_too_long_names_the_setting():
    long = Behaviour(status=400, error={"message": "maximum context", "code": "context_length_exceeded"})
    with ChatServer(first(long)) as server, pytest.raises(UserError, match=r"generator\.context"):
        client(server).complete(ASK)


def test_a_refusal_is_an_answer(stream):
    with ChatServer(first(Behaviour(refusal="I cannot help with that."))) as server:
        assert client(server, stream=stream).complete(ASK).text == "I cannot help with that."


def test_a_filtered_prompt_is_an_empty_answer():
    with ChatServer(first(Behaviour(status=400, error={"message": "no", "code": "content_filter"}))) as server:
        done = client(server).complete(ASK)
    assert (done.text, done.finish_reason) == ("", "content_filter")


def test_missing_keys_and_wrong_settings_are_one_line(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for settings, fix in (
        ({"model": "m"}, "OPENAI_API_KEY"),
        ({"model": ""}, "generator.model"),
        ({"model": "m", "provider": "olama"}, "did you mean 'ollama'"),
        ({"model": "m", "retries": -1}, "generator.retries"),
        ({"model": "m", "retries": "many"}, "generator.retries"),
        ({"model": "m", "extra": "{"}, "JSON object"),
        ({"model": "m", "extra": "[1]"}, "JSON object"),
        ({"model": "m", "price_in": 1.0}, "together"),
    ):
        with pytest.raises(UserError, match=fix) as raised:
            ChatClient(checked(**settings))
        assert "\n" not in str(raised.value)


def test_a_key_is_never_sent_to_an_address_it_does_not_belong_to(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with ChatServer(first(Behaviour())) as server:
        client(server).complete(ASK)
    assert "secret" not in json.dumps(server.headers)


def test_what_a_request_says(stream):
    with ChatServer(first(Behaviour())) as server:
        asker = client(server, stream=stream, temperature=0.5, max_tokens=77, send_seed=True, extra='{"top_p": 0.9}')
        asker.complete(ASK, "t/0")
        asker.complete(ASK, "t/1")
        asker.complete(ASK, "t/1")
    one, two, again = server.requests
    assert (one["temperature"], one["max_tokens"], one["top_p"], one["stream"]) == (0.5, 77, 0.9, stream)
    assert ("stream_options" in one) == stream
    assert one["seed"] != two["seed"] == again["seed"]


def test_named_providers_and_published_prices(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    made = ChatClient(checked(model="gpt-4o-mini", provider="openai"))
    assert made.endpoint.base_url == "https://api.openai.com/v1"
    from evokernel.llm.cost_tracker import Tokens

    assert made.account.cost(Tokens(1_000_000, 1_000_000, 0)) == pytest.approx(0.75)
    assert made.account.cost(Tokens(1_000_000, None, 0)) is None
    unknown = ChatClient(checked(model="a-model-nobody-sells", provider="openai"))
    assert unknown.account.cost(Tokens(10, 10, 0)) is None
    assert endpoint(checked(model="m", provider="ollama")).secret() == "none"


def test_the_ledger_has_a_row_per_request_and_outlives_the_process(tmp_path):
    ledger = tmp_path / "deep" / "calls.jsonl"
    with ChatServer(first(Behaviour(status=500), Behaviour(usage=(100, 10), cached=40))) as server:
        asker = client(server, **PRICES)
        asker.account.open(ledger)
        asker.complete(ASK)
        rows = [json.loads(line) for line in ledger.read_text().splitlines()]
        assert [(row["ok"], row["retries"], row["tokens_in"], row["tokens_cached"]) for row in rows] == [
            (False, 0, None, None),
            (True, 1, 100, 40),
        ]
        assert rows[1]["cost_usd"] == pytest.approx((100 * 2 + 10 * 8) / 1e6)
        ledger.write_text(ledger.read_text() + '{"time": 1')  # a crash in the middle of a row
        later = client(server, budget_tokens=110, **PRICES)
        later.account.open(ledger)
        assert later.account.tokens == 110
        with pytest.raises(StopRun, match="110 of 110 tokens"):
            later.complete(ASK)
    ledger.write_text("what?\n")
    with pytest.raises(UserError, match="damaged"):
        later.account.open(ledger)


def test_budgets_stop_before_the_next_request():
    with ChatServer(first(Behaviour(usage=(1000, 0)))) as server:
        asker = client(server, budget_usd=0.0035, **PRICES)
        asker.complete(ASK)
        asker.complete(ASK)
        with pytest.raises(StopRun, match="budget_usd"):
            asker.complete(ASK)
        assert len(server.requests) == 2


def test_a_budget_that_cannot_be_kept_is_said_once(caplog):
    with ChatServer(first(Behaviour(usage=None))) as server:
        asker = client(server, budget_usd=1.0)
        asker.complete(ASK)
        asker.complete(ASK)
    assert len([r for r in caplog.records if "cannot limit" in r.message]) == 1


def test_rate_limits_space_out_requests():
    clock = FakeClock()
    with ChatServer(first(Behaviour(usage=(100, 0)))) as server:
        asker = client(server, clock, rpm=60)
        for _ in range(13):
            asker.complete(ASK)
    assert clock.time == pytest.approx(13 - 6), "six requests at once, then one a second"


def test_token_limits_follow_what_was_really_used():
    clock = FakeClock()
    with ChatServer(first(Behaviour(usage=(100, 900)))) as server:
        asker = client(server, clock, tpm=6000)  # 100 tokens a second, 600 at once
        for _ in range(4):
            asker.complete(ASK)
    assert clock.time == pytest.approx((3 * 1000 + 100 - 600) / 100)


def test_no_more_requests_at_once_than_allowed():
    with ChatServer(first(Behaviour())) as server:
        go = threading.Event()
        server.script = lambda request, n: Behaviour(wait_for=go)
        asker = client(server, concurrency=3)
        with ThreadPoolExecutor(8) as pool:
            replies = [pool.submit(asker.complete, ASK, str(n)) for n in range(8)]
            while server.most_under_way < 3:
                time.sleep(0.01)
            go.set()
            assert sum(reply.result().usage.calls for reply in replies) == 8
        assert server.most_under_way == 3
    assert asker.account.tokens == 8 * 110


def test_a_stopped_run_waits_for_nothing():
    stop = threading.Event()
    with ChatServer(first(Behaviour(status=429, headers={"Retry-After": "300"}))) as server:
        asker = ChatClient(checked(model="m", base_url=server.base_url, retries=2))
        asker.stop = stop
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(StopRun, match="stopped"):
            asker.complete(ASK)
    assert len(server.requests) == 1
