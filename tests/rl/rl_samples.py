"""Completions of known quality for a task of backend cpp, and a tiny model with its tokenizer, made here and downloaded from nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import evokernel.backends.cpp

SAMPLES = Path(evokernel.backends.cpp.__file__).parent / "samples"
TASK = str(SAMPLES / "task.py")
SETTINGS = {"protocol": "paper", "clock": "synthetic", "timeout_s": 30}


def completion(sample: str) -> str:
    """A reply with the kernel of a sample folder."""
    code = (SAMPLES / sample / "kernel.cpp").read_text()
    return f"<think>Which loop?</think>\nOne loop over all elements.\n\n```cpp kernel.cpp\n{code.rstrip()}\n```\n"


CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def make_tokenizer() -> Any:
    """A tokenizer of bytes with a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    vocabulary = {token: number for number, token in enumerate([*special, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>")
    fast.add_special_tokens({"additional_special_tokens": special[2:]})
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make_model(tokenizer: Any) -> Any:
    """A random Qwen2 of a few thousand parameters."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    tokens = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), max_position_embeddings=4096, **sizes, **tokens))
