"""The chat client against a service that fails in many ways."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import chat_server
import pytest
from chat_server import Behaviour, ChatServer

from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.llm.client import ChatClient, parse_retry_after
from evokernel.llm.settings import parse_settings, resolve_endpoint

ASK = [{"role": "user", "content": "x" * 400}]
PRICES = {"price_in": 2.0, "price_out": 8.0}


class FakeClock:
    """A clock that advances only in `wait`."""

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
def disable_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("EVOKERNEL_API_KEY", raising=False)


@pytest.fixture(params=[True, False], ids=["streamed", "complete"])
def stream(request):
    return request.param


def client(server, clock=None, **settings):
    fields = {"model": "m", "base_url": server.base_url, "timeout_s": 5, "retries": 2, **settings}
    return ChatClient(parse_settings(**fields), clock or FakeClock())


def play_in_order(*behaviours):
    """A script that returns these behaviours in order, and then always the last one."""
    return lambda request, n: behaviours[min(n, len(behaviours) - 1)]


def test_text_and_cost_are_exact(stream):
    with ChatServer(play_in_order(Behaviour("grüße 🚀 {x}", usage=(1200, 34), cached=200))) as server:
        completion = client(server, stream=stream, **PRICES).complete(ASK)
    assert completion.text == "grüße 🚀 {x}"
    assert completion.finish_reason == "stop"
    assert (completion.usage.calls, completion.usage.input_tokens, completion.usage.output_tokens) == (1, 1200, 34)
    assert completion.usage.cost_usd == pytest.approx((1200 * 2 + 34 * 8) / 1e6, rel=1e-12)


def test_unreported_usage_is_unknown_not_zero(stream):
    with ChatServer(play_in_order(Behaviour(usage=None))) as server:
        usage = client(server, stream=stream, **PRICES).complete(ASK).usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens, usage.cost_usd) == (1, None, None, None)


def test_price_at_an_unknown_address_is_unknown(stream):
    with ChatServer(play_in_order(Behaviour())) as server:
        usage = client(server, model="gpt-4o-mini", stream=stream).complete(ASK).usage
    assert usage.input_tokens == 100
    assert usage.cost_usd is None, "a known model name at an unknown address has no known price"


MALFORMED = {
    "half a reply": Behaviour("a long answer", cut_after=3),
    "429": Behaviour(status=429),
    "500": Behaviour(status=500),
    "503": Behaviour(status=503),
    "408": Behaviour(status=408),
    "garbage": Behaviour(body=b"\x00\xff<html>busy</html>"),
    "only an end marker": Behaviour(body=b"data: [DONE]\n\n"),
    "half an object": Behaviour(body=b'data: {"choices": [{"delta": {"content": "a'),
    "wrong JSON": Behaviour(body=b"data: [1, 2]\n\n"),
    "empty body": Behaviour(body=b""),
    "no choices": Behaviour(body=b'{"choices": []}', stream=False),
    "message of a wrong form": Behaviour(body=b'{"choices": [{"message": "hi"}]}', stream=False),
    "deep nesting": Behaviour(body=b"[" * 200_000, stream=False),
}


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED)
def test_malformed_response_is_retried(malformed, stream):
    clock = FakeClock()
    with ChatServer(play_in_order(malformed, malformed, Behaviour("complete"))) as server:
        completion = client(server, clock, stream=stream).complete(ASK)
        assert len(server.requests) == 3
    assert completion.text == "complete"
    assert completion.usage.input_tokens == 100, "failed requests reported no usage, so only the response counts"
    assert len(clock.waits) == 2
    assert all(wait > 0 for wait in clock.waits)


@pytest.mark.parametrize("keep_alive", [False, True], ids=["silent", "keeps the connection open"])
def test_stalled_response_is_retried(stream, keep_alive):
    class RealTime(FakeClock):
        def now(self):
            return time.monotonic()

    stalled = Behaviour("a long answer", stall_after=2, keep_alive=keep_alive)
    with ChatServer(play_in_order(stalled, Behaviour("complete"))) as server:
        completion = client(server, RealTime(), stream=stream, timeout_s=0.5).complete(ASK)
        assert len(server.requests) >= 2
    assert completion.text == "complete"


def test_reported_cost_of_a_broken_stream_is_counted():
    malformed = Behaviour("a long answer", usage=(500, 70), usage_first=True, cut_after=3)
    with ChatServer(play_in_order(malformed, Behaviour(usage=(500, 90)))) as server:
        chat = client(server, **PRICES)
        usage = chat.complete(ASK).usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (2, 1000, 160)
    assert usage.cost_usd == pytest.approx((1000 * 2 + 160 * 8) / 1e6)
    assert (chat.cost_tracker.total_tokens, chat.cost_tracker.cost_usd) == (1160, pytest.approx(usage.cost_usd))


def test_complete_text_without_stream_end_is_not_requested_again():
    event_count = len(chat_server.stream({"model": "m", "stream_options": {"include_usage": True}}, Behaviour("complete")))
    for lost, input_tokens in ((1, 100), (2, None)):  # [DONE] is missing, then also the usage
        with ChatServer(play_in_order(Behaviour("complete", cut_after=event_count - lost))) as server:
            completion = client(server).complete(ASK)
            assert len(server.requests) == 1
        assert (completion.text, completion.usage.input_tokens) == ("complete", input_tokens)


def test_error_inside_a_stream_is_retried():
    with ChatServer(play_in_order(Behaviour(error={"message": "upstream overloaded"}), Behaviour("complete"))) as server:
        assert client(server).complete(ASK).text == "complete"


def test_service_without_streaming_is_read_as_one_body():
    with ChatServer(play_in_order(Behaviour("complete", stream=False))) as server:
        assert client(server, stream=True).complete(ASK).text == "complete"


def test_retry_after_is_honoured():
    clock = FakeClock()
    with ChatServer(play_in_order(Behaviour(status=429, headers={"Retry-After": "7"}), Behaviour())) as server:
        client(server, clock).complete(ASK)
    assert clock.waits == [7.0]


def test_excessive_retry_after_is_an_infrastructure_error():
    with (
        ChatServer(play_in_order(Behaviour(status=429, headers={"Retry-After": "86400"}))) as server,
        pytest.raises(InfraError, match="86400 s"),
    ):
        client(server).complete(ASK)


def test_retry_after_may_be_a_date_or_nonsense():
    assert parse_retry_after("12.5") == 12.5
    assert parse_retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0
    assert parse_retry_after("soon") is None
    assert parse_retry_after("") is None


def test_last_retry_raises_an_infrastructure_error():
    clock = FakeClock()
    with ChatServer(play_in_order(Behaviour(status=500))) as server, pytest.raises(InfraError) as raised:
        client(server, clock, retries=3).complete(ASK)
    assert len(server.requests) == 4
    assert "after 4 requests" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert clock.waits[0] < clock.waits[2], "waits grow"


def test_unreachable_service_is_an_infrastructure_error():
    with ChatServer(play_in_order(Behaviour())) as server:
        old_url = server.base_url
    with pytest.raises(InfraError, match="APIConnectionError"):
        ChatClient(parse_settings(model="m", base_url=old_url, retries=1), FakeClock()).complete(ASK)


def test_back_off_depends_on_the_attempt_and_the_seed_only():
    def waits(key, seed=1):
        clock = FakeClock()
        with ChatServer(play_in_order(Behaviour(status=500), Behaviour(status=500), Behaviour())) as server:
            client(server, clock, seed=seed).complete(ASK, key)
        return clock.waits

    assert waits("t/0") == waits("t/0") != waits("t/1")
    assert waits("t/0") != waits("t/0", seed=2)


USER_ERRORS = {
    401: "check the key in MY_KEY",
    403: "check the key in MY_KEY",
    404: "generator.model",
    400: "generator setting",
    402: "top it up",
    422: "generator setting",
}


@pytest.mark.parametrize("status", USER_ERRORS)
def test_user_errors_are_raised_without_retry(status, monkeypatch):
    monkeypatch.setenv("MY_KEY", "k")
    with ChatServer(play_in_order(Behaviour(status=status))) as server, pytest.raises(UserError, match=USER_ERRORS[status]) as raised:
        client(server, api_key_env="MY_KEY").complete(ASK)
    assert len(server.requests) == 1
    assert "\n" not in str(raised.value)
    assert server.headers[0]["authorization"] == "Bearer k"


def test_account_without_credit_is_not_retried():
    no_credit = Behaviour(status=429, error={"message": "quota", "code": "insufficient_quota"})
    with ChatServer(play_in_order(no_credit)) as server, pytest.raises(UserError, match="no credit"):
        client(server).complete(ASK)
    assert len(server.requests) == 1


def test_too_long_prompt_names_the_setting():
    long = Behaviour(status=400, error={"message": "maximum context", "code": "context_length_exceeded"})
    with ChatServer(play_in_order(long)) as server, pytest.raises(UserError, match=r"generator\.context"):
        client(server).complete(ASK)


def test_refusal_is_a_response(stream):
    with ChatServer(play_in_order(Behaviour(refusal="I cannot help with that."))) as server:
        assert client(server, stream=stream).complete(ASK).text == "I cannot help with that."


def test_filtered_prompt_gives_an_empty_response():
    with ChatServer(play_in_order(Behaviour(status=400, error={"message": "no", "code": "content_filter"}))) as server:
        completion = client(server).complete(ASK)
    assert (completion.text, completion.finish_reason) == ("", "content_filter")


def test_missing_keys_and_wrong_settings_are_reported_in_one_line(monkeypatch):
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
            ChatClient(parse_settings(**settings))
        assert "\n" not in str(raised.value)


def test_api_key_is_sent_only_to_its_own_service(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with ChatServer(play_in_order(Behaviour())) as server:
        client(server).complete(ASK)
    assert "secret" not in json.dumps(server.headers)


def test_request_contains_the_settings(stream):
    with ChatServer(play_in_order(Behaviour())) as server:
        chat = client(server, stream=stream, temperature=0.5, max_tokens=77, send_seed=True, extra='{"top_p": 0.9}')
        chat.complete(ASK, "t/0")
        chat.complete(ASK, "t/1")
        chat.complete(ASK, "t/1")
    one, two, again = server.requests
    assert (one["temperature"], one["max_tokens"], one["top_p"], one["stream"]) == (0.5, 77, 0.9, stream)
    assert ("stream_options" in one) == stream
    assert one["seed"] != two["seed"] == again["seed"]


def test_named_providers_and_published_prices(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    chat = ChatClient(parse_settings(model="gpt-4o-mini", provider="openai"))
    assert chat.endpoint.base_url == "https://api.openai.com/v1"
    from evokernel.llm.cost_tracker import TokenCounts

    assert chat.cost_tracker.request_cost(TokenCounts(1_000_000, 1_000_000, 0)) == pytest.approx(0.75)
    assert chat.cost_tracker.request_cost(TokenCounts(1_000_000, None, 0)) is None
    unpriced = ChatClient(parse_settings(model="an-unknown-model", provider="openai"))
    assert unpriced.cost_tracker.request_cost(TokenCounts(10, 10, 0)) is None
    assert resolve_endpoint(parse_settings(model="m", provider="ollama")).read_api_key() == "none"


def test_ledger_has_a_row_per_request_and_is_read_again(tmp_path):
    ledger = tmp_path / "deep" / "calls.jsonl"
    with ChatServer(play_in_order(Behaviour(status=500), Behaviour(usage=(100, 10), cached=40))) as server:
        chat = client(server, **PRICES)
        chat.cost_tracker.open_ledger(ledger)
        chat.complete(ASK)
        rows = [json.loads(line) for line in ledger.read_text().splitlines()]
        assert [(row["ok"], row["retries"], row["input_tokens"], row["cached_tokens"]) for row in rows] == [
            (False, 0, None, None),
            (True, 1, 100, 40),
        ]
        assert rows[1]["cost_usd"] == pytest.approx((100 * 2 + 10 * 8) / 1e6)
        ledger.write_text(ledger.read_text() + '{"time": 1')  # the process crashed in the middle of a row
        later = client(server, budget_tokens=110, **PRICES)
        later.cost_tracker.open_ledger(ledger)
        assert later.cost_tracker.total_tokens == 110
        with pytest.raises(StopRun, match="110 of 110 tokens"):
            later.complete(ASK)
    ledger.write_text("not JSON\n")
    with pytest.raises(UserError, match="damaged"):
        later.cost_tracker.open_ledger(ledger)


def test_budgets_stop_before_the_next_request():
    with ChatServer(play_in_order(Behaviour(usage=(1000, 0)))) as server:
        chat = client(server, budget_usd=0.0035, **PRICES)
        chat.complete(ASK)
        chat.complete(ASK)
        with pytest.raises(StopRun, match="budget_usd"):
            chat.complete(ASK)
        assert len(server.requests) == 2


def test_budget_without_a_price_is_refused():
    with ChatServer(play_in_order(Behaviour())) as server:
        with pytest.raises(UserError, match=r"price of '.*' is not known. Set generator.price_in"):
            client(server, budget_usd=1.0)
        client(server, budget_usd=1.0, **PRICES)
        client(server, budget_tokens=1000)


@pytest.mark.parametrize("budget", [{"budget_usd": 1.0, **PRICES}, {"budget_tokens": 1000}])
def test_budget_stops_the_run_if_the_service_reports_no_usage(budget):
    with ChatServer(play_in_order(Behaviour(usage=None))) as server:
        chat = client(server, **budget)
        chat.complete(ASK)
        with pytest.raises(StopRun, match="does not report its usage"):
            chat.complete(ASK)
        assert len(server.requests) == 1


def test_rate_limits_space_out_requests():
    clock = FakeClock()
    with ChatServer(play_in_order(Behaviour(usage=(100, 0)))) as server:
        chat = client(server, clock, rpm=60)
        for _ in range(13):
            chat.complete(ASK)
    assert clock.time == pytest.approx(13 - 6), "a burst of six requests, then one a second"


def test_token_limit_uses_actual_counts():
    clock = FakeClock()
    with ChatServer(play_in_order(Behaviour(usage=(100, 900)))) as server:
        chat = client(server, clock, tpm=6000)  # 100 tokens a second, 600 at once
        for _ in range(4):
            chat.complete(ASK)
    assert clock.time == pytest.approx((3 * 1000 + 100 - 600) / 100)


def test_concurrency_is_limited():
    with ChatServer(play_in_order(Behaviour())) as server:
        go = threading.Event()
        server.script = lambda request, n: Behaviour(wait_for=go)
        chat = client(server, concurrency=3)
        with ThreadPoolExecutor(8) as pool:
            replies = [pool.submit(chat.complete, ASK, str(n)) for n in range(8)]
            while server.most_under_way < 3:
                time.sleep(0.01)
            go.set()
            assert sum(reply.result().usage.calls for reply in replies) == 8
        assert server.most_under_way == 3
    assert chat.cost_tracker.total_tokens == 8 * 110


def test_stopped_run_does_not_wait():
    stop = threading.Event()
    with ChatServer(play_in_order(Behaviour(status=429, headers={"Retry-After": "300"}))) as server:
        chat = ChatClient(parse_settings(model="m", base_url=server.base_url, retries=2))
        chat.stop_event = stop
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(StopRun, match="stopped"):
            chat.complete(ASK)
    assert len(server.requests) == 1
