"""The benchmarks' model server: batched decoding equals transformers' own, and the server speaks the OpenAI protocol."""

import sys
import threading
import time

import pytest
from repository import ROOT

pytest.importorskip("transformers", reason="needs evokernel[rl]")
pytest.importorskip("starlette", reason="needs evokernel[web]")
sys.path.insert(0, str(ROOT / "benchmarks" / "model_server"))
sys.path.insert(0, str(ROOT / "tests" / "rl"))
import rl_samples
import torch
import uvicorn
from batched_decoder import BatchedDecoder, draw_uniform
from openai import BadRequestError, OpenAI
from request_scheduler import Scheduler
from serve_model import ModelServer, find_end_tokens

PROMPTS = ["add", "a longer prompt than the first one, with more words", "x" * 700, "softmax"]


@pytest.fixture(scope="module")
def model():
    """A random model with several layers and grouped heads, whose answers differ by prompt."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = rl_samples.make_tokenizer()
    torch.manual_seed(1)
    heads = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = Qwen2Config(vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96, initializer_range=0.12, pad_token_id=0, **heads)
    return Qwen2ForCausalLM(config).eval(), tokenizer


@pytest.fixture(scope="module")
def scheduler(model):
    scheduler = Scheduler(BatchedDecoder(model[0], slots=3, context=2000), find_end_tokens(*model))
    yield scheduler
    scheduler.close()


def test_answers_of_a_batch_are_those_of_transformers(model, scheduler):
    prompts = [model[1](text)["input_ids"] for text in PROMPTS]
    answers = [one.result(60) for one in [scheduler.submit(prompt, 20, 0.0, 1) for prompt in prompts]]
    for prompt, answer in zip(prompts, answers):
        expected = (
            model[0].generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False, eos_token_id=None)[0, len(prompt) :].tolist()
        )
        end = next((place for place, token in enumerate(expected) if token in scheduler.end_tokens), 20)
        assert answer.tokens == expected[:end]
        assert answer.finish_reason == ("length" if end == 20 else "stop")
    assert len({tuple(answer.tokens) for answer in answers}) > 1, "the answers of this model depend on the prompt"


def test_random_numbers_are_uniform_and_below_one():
    seeds, lengths = torch.arange(300)[:, None], torch.arange(1000)[None]
    numbers = draw_uniform(seeds, lengths)
    assert 0 <= numbers.min() < 1e-4
    assert 1 - 1e-4 < numbers.max() < 1
    histogram = torch.histc(numbers, bins=20, min=0, max=1) / numbers.numel()
    assert torch.allclose(histogram, torch.full_like(histogram, 0.05), rtol=0.03)
    assert numbers.unique().numel() > 0.999 * numbers.numel()
    neighbours = torch.corrcoef(torch.stack([numbers[:, 1:].flatten(), numbers[:, :-1].flatten()]))[0, 1]
    assert abs(neighbours) < 0.01


def test_prompt_with_a_known_beginning_gets_the_same_answer(model):
    beginning = "x" * 300
    prompts = [model[1](beginning + text)["input_ids"] for text in ("add", "multiply and add", "add", "")]
    cold = [answer_alone(model, prompt) for prompt in prompts]
    scheduler = Scheduler(BatchedDecoder(model[0], slots=2, context=1000), frozenset())
    warm = [scheduler.submit(prompt, 12, 0.7, 3).result(60).tokens for prompt in prompts]
    beside = [one.result(60).tokens for one in [scheduler.submit(prompt, 12, 0.7, 3) for prompt in prompts]]
    assert warm == beside == cold
    assert scheduler.decoder.copied_tokens > 7 * 250
    scheduler.close()


def answer_alone(model, prompt):
    scheduler = Scheduler(BatchedDecoder(model[0], slots=1, context=1000), frozenset())
    answer = scheduler.submit(prompt, 12, 0.7, 3).result(60).tokens
    assert scheduler.decoder.copied_tokens == 0
    scheduler.close()
    return answer


def test_unlikely_tokens_are_not_sampled(scheduler):
    decoder = scheduler.decoder
    logits = torch.zeros(1, 151_936)
    logits[0, 5] = 40.0
    chosen = []
    for length in range(400):
        decoder.inputs.lengths[0], decoder.inputs.seeds[0], decoder.inputs.temperatures[0] = length, 11, 0.4
        chosen.append(int(decoder.sample(logits, slice(0, 1))))
    assert set(chosen) == {5}


def test_probabilities_of_a_large_vocabulary_are_summed_precisely(scheduler):
    """With nearly equal logits, the drawn tokens follow the random numbers to the last place."""
    decoder, count = scheduler.decoder, 150_000
    logits = torch.full((1, count), 0.5) + torch.arange(count)[None] * 1e-9
    for length in range(200):
        decoder.inputs.lengths[0], decoder.inputs.seeds[0], decoder.inputs.temperatures[0] = length, 5, 1.0
        expected = float(draw_uniform(decoder.inputs.seeds[:1], decoder.inputs.lengths[:1])) * count
        assert abs(int(decoder.sample(logits, slice(0, 1))) - expected) < 0.02 * count**0.5


def test_logits_that_are_no_numbers_give_a_valid_token(scheduler):
    scheduler.decoder.inputs.temperatures[0] = 0.7
    token = int(scheduler.decoder.sample(torch.full((1, 50), float("nan")), slice(0, 1)))
    assert 0 <= token < 50


def test_answers_do_not_depend_on_the_number_of_slots(model):
    prompt = model[1](PROMPTS[1])["input_ids"]
    answers = []
    for slots in (1, 70):
        scheduler = Scheduler(BatchedDecoder(model[0], slots=slots, context=1000), frozenset())
        futures = [scheduler.submit(prompt, 12, 0.7, seed) for seed in range(slots)]
        answers.append(futures[0].result(60).tokens)
        scheduler.close()
    assert answers[0] == answers[1]


def test_sampled_answers_depend_on_the_seed_alone(model, scheduler):
    prompt = model[1](PROMPTS[0])["input_ids"]
    alone = scheduler.submit(prompt, 30, 1.0, 7).result(60).tokens
    others = [scheduler.submit(model[1](text)["input_ids"], 30, 1.0, 3) for text in PROMPTS]
    beside = scheduler.submit(prompt, 30, 1.0, 7).result(60).tokens
    assert [one.result(60) for one in others]
    assert alone == beside
    assert scheduler.submit(prompt, 30, 1.0, 8).result(60).tokens != alone


def test_first_tokens_are_drawn_from_the_distribution_of_the_model(model, scheduler):
    prompt = model[1](PROMPTS[1])["input_ids"]
    with torch.no_grad():
        expected = torch.softmax(model[0](torch.tensor([prompt])).logits[0, -1] / 0.8, -1)
    draws = [scheduler.submit(prompt, 1, 0.8, seed).result(60) for seed in range(400)]
    tokens = [answer.tokens[0] for answer in draws if answer.tokens]
    likeliest = int(expected.argmax())
    assert abs(tokens.count(likeliest) / 400 - float(expected[likeliest])) < 0.1
    assert sum(float(expected[token]) > 1e-3 for token in tokens) > 0.8 * len(tokens)


def test_error_of_the_decoder_fails_requests(model):
    class Broken(BatchedDecoder):
        def step(self, width, count):
            raise RuntimeError("out of memory")

    scheduler = Scheduler(Broken(model[0], slots=1, context=100), ())
    with pytest.raises(RuntimeError, match="out of memory"):
        scheduler.submit([1, 2], 5, 0.0, 1).result(60)
    scheduler.thread.join()
    with pytest.raises(RuntimeError, match="has stopped: out of memory"):
        scheduler.submit([1, 2], 5, 0.0, 1)


@pytest.fixture(scope="module")
def client(model, scheduler):
    application = ModelServer(model[1], scheduler, "tiny").build_application()
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
    server.should_exit = True
    thread.join()


def ask(client, text="add", **options):
    return client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": text}], seed=5, **options)


def test_client_of_openai_gets_answers_plain_and_streamed(client):
    plain = ask(client, temperature=0.7, max_tokens=12, n=3)
    texts = [choice.message.content for choice in plain.choices]
    assert len(texts) == 3
    assert len(set(texts)) > 1
    assert plain.usage.completion_tokens <= 36
    pieces = list(ask(client, temperature=0.7, max_tokens=12, stream=True, stream_options={"include_usage": True}))
    assert "".join(piece.choices[0].delta.content for piece in pieces if piece.choices) == texts[0]
    assert pieces[-1].usage.prompt_tokens == plain.usage.prompt_tokens
    assert [one.id for one in client.models.list()] == ["tiny"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"text": "x" * 3000}, "context_length_exceeded", "the context length is 2048"),
        ({"temperature": 9}, "invalid_request_error", "temperature must be from 0 to 2"),
        ({"top_p": 0.5}, "invalid_request_error", "not supported by this server: top_p"),
        ({"max_tokens": 0, "n": 500}, "invalid_request_error", "n must be from 1 to 256"),
    ],
)
def test_bad_requests_are_explained(client, options, code, message):
    with pytest.raises(BadRequestError, match=message) as caught:
        ask(client, **options)
    assert caught.value.code == code
