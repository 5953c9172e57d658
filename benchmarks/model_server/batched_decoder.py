"""Decodes many requests at once: a Qwen2 or Llama model with one cache of fixed size, in which every request has a slot.

The weights come from transformers; the forward pass is written here, because a step for all slots can then be one CUDA graph. A prompt is
processed alone when its slot becomes free, so no request waits for a batch; what it has in common with a prompt in the cache is copied from
there. The random number for a token is a function of a request's seed and the token's position, so what a request gets depends on the
requests beside it only through rounding. In bfloat16 that changes some answers: of 120 equal requests with equal seeds, 21 were answered
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

CACHE_STEP = 1024
"""Tokens by which the part of the cache that a step reads grows; there is a CUDA graph for each length and number of slots."""
SLOT_STEP = 64
"""Slots by which the number that a step computes grows: those above it cost nothing."""
MIN_SHARED = 32
"""Tokens that two prompts must have in common for the second one to copy them."""
HASH_FACTORS = (-7046029254386353131, -4658895280553007687, -7723592293110705685)
"""Odd 64-bit constants of the generators splitmix64 and xxHash."""


@dataclass
class Layer:
    """The weights of one layer; projections that read the same input are one matrix."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    output: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass
class StepInputs:
    """What one step reads and changes, by slot; the tensors stay in place, because CUDA graphs hold their addresses."""

    tokens: torch.Tensor
    lengths: torch.Tensor
    seeds: torch.Tensor
    temperatures: torch.Tensor
    graphs: dict[tuple[int, int], Any] = field(default_factory=dict)


class BatchedDecoder:
    """A causal language model with `slots` requests in flight, each with at most `context` tokens."""

    def __init__(self, model: Any, slots: int, context: int) -> None:
        config = model.config
        unsupported = [name for name in ("sliding_window", "attn_logit_softcapping") if getattr(config, name, None)]
        if config.model_type not in ("qwen2", "llama") or (unsupported and getattr(config, "use_sliding_window", True)):
            raise ValueError(f"models of type '{config.model_type}' are not supported here; use a Qwen2 or Llama model")
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.epsilon, self.slots = config.rms_norm_eps, slots
        self.context = -(-context // CACHE_STEP) * CACHE_STEP
        self.embedding, self.final_norm = model.model.embed_tokens.weight.data, model.model.norm.weight.data
        self.vocabulary = model.lm_head.weight.data
        self.device, self.dtype = self.embedding.device, self.embedding.dtype
        self.layers = [take_weights(layer) for layer in model.model.layers]
        positions = torch.arange(self.context, device=self.device)
        self.cosines, self.sines = (one[0] for one in model.model.rotary_emb(self.embedding, positions[None]))
        self.prompts: dict[int, np.ndarray] = {}
        """The tokens of the prompt in each slot; the cache holds them until the slot gets another request."""
        self.copied_tokens = 0
        shape = (len(self.layers), slots, self.kv_heads, self.context, self.head_size)
        self.keys, self.values = (torch.zeros(shape, device=self.device, dtype=self.dtype) for _ in range(2))
        self.inputs = StepInputs(
            torch.zeros(slots, dtype=torch.long, device=self.device),
            torch.zeros(slots, dtype=torch.long, device=self.device),
            torch.zeros(slots, dtype=torch.long, device=self.device),
            torch.zeros(slots, dtype=torch.float32, device=self.device),
        )

    @torch.inference_mode()
    def start(self, slot: int, tokens: list[int], seed: int, temperature: float) -> int:
        """Process a prompt in a free slot and return the first token of the answer."""
        count, known = len(tokens), self.copy_shared_tokens(slot, tokens)
        self.prompts[slot] = np.array(tokens)
        hidden = F.embedding(torch.tensor(tokens[known:], device=self.device), self.embedding)
        cosines, sines = self.cosines[known:count], self.sines[known:count]
        positions = torch.arange(count, device=self.device)
        visible = positions[None] <= positions[known:, None] if known else None
        for number, layer in enumerate(self.layers):
            queries, keys, values = self.project(layer, hidden, cosines, sines)
            cached = self.keys[number, slot, :, :count], self.values[number, slot, :, :count]
            cached[0][:, known:], cached[1][:, known:] = keys.transpose(0, 1), values.transpose(0, 1)
            repeated = (one.repeat_interleave(self.heads // self.kv_heads, 0)[None] for one in cached)
            attended = F.scaled_dot_product_attention(queries.transpose(0, 1)[None], *repeated, attn_mask=visible, is_causal=not known)[0]
            hidden = self.finish_layer(layer, hidden, attended.transpose(0, 1).reshape(count - known, -1))
        self.inputs.lengths[slot], self.inputs.seeds[slot], self.inputs.temperatures[slot] = count, seed, temperature
        logits = normalize(hidden[-1:], self.final_norm, self.epsilon) @ self.vocabulary.T
        token = self.sample(logits, slice(slot, slot + 1))
        self.inputs.tokens[slot] = token[0]
        return int(token)

    def copy_shared_tokens(self, slot: int, tokens: list[int]) -> int:
        """Copy what the cache holds of the beginning of a prompt into its slot; return how many tokens. The last token is never copied."""
        prompt = np.array(tokens[:-1])
        shared = {other: count_shared(prompt, earlier) for other, earlier in self.prompts.items()}
        donor = max(shared, key=lambda other: (shared[other], other == slot), default=slot)
        known = shared.get(donor, 0)
        if known < MIN_SHARED:
            return 0
        if donor != slot:
            for cache in (self.keys, self.values):
                cache[:, slot, :, :known] = cache[:, donor, :, :known]
        self.copied_tokens += known
        return known

    @torch.inference_mode()
    def decode(self, steps: int, longest: int, used: int) -> torch.Tensor:
        """Append `steps` tokens to the first `used` slots, of which the longest has `longest` tokens. Return tokens by step and slot."""
        width = min(self.context, -(-(longest + steps + 1) // CACHE_STEP) * CACHE_STEP)
        count = min(self.slots, -(-used // SLOT_STEP) * SLOT_STEP)
        chosen = torch.empty(steps, count, dtype=torch.long, device=self.device)
        for step in range(steps):
            self.run_step(width, count)
            chosen[step] = self.inputs.tokens[:count]
        return chosen.cpu()

    def run_step(self, width: int, count: int) -> None:
        """Run one step, as a CUDA graph on a GPU."""
        if self.device.type != "cuda":
            return self.step(width, count)
        if (width, count) not in self.inputs.graphs:
            self.inputs.graphs[width, count] = self.record_step(width, count)
        self.inputs.graphs[width, count].replay()

    def record_step(self, width: int, count: int) -> Any:
        """Record a step as a CUDA graph. The steps that this takes are undone: they change nothing but the next position of the cache.

        All graphs share their temporary memory: they run one after the other, and what a step returns is in tensors of the decoder.
        """
        before = [one.clone() for one in (self.inputs.tokens, self.inputs.lengths)]
        pool = next(iter(self.inputs.graphs.values())).pool() if self.inputs.graphs else None
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            self.step(width, count)  # libraries allocate their workspaces at the first call
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=stream):
                self.step(width, count)
        torch.cuda.synchronize()
        self.inputs.tokens.copy_(before[0])
        self.inputs.lengths.copy_(before[1])
        return graph

    def step(self, width: int, count: int) -> None:
        """Choose the next tokens of the first `count` slots; attention reads the first `width` tokens of the cache."""
        rows, positions = torch.arange(count, device=self.device), self.inputs.lengths[:count].clamp(max=self.context - 1)
        hidden = F.embedding(self.inputs.tokens[:count], self.embedding)
        cosines, sines = self.cosines[positions], self.sines[positions]
        hidden_places = torch.arange(width, device=self.device)[None] > positions[:, None]
        for number, layer in enumerate(self.layers):
            queries, keys, values = self.project(layer, hidden, cosines, sines)
            self.keys[number, rows, :, positions], self.values[number, rows, :, positions] = keys, values
            grouped = queries.view(count, self.kv_heads, -1, self.head_size)
            scores = grouped @ self.keys[number, :count, :, :width].transpose(2, 3) * self.head_size**-0.5
            weights = scores.float().masked_fill(hidden_places[:, None, None], -torch.inf).softmax(-1).to(self.dtype)
            attended = weights @ self.values[number, :count, :, :width]
            hidden = self.finish_layer(layer, hidden, attended.reshape(count, -1))
        logits = normalize(hidden, self.final_norm, self.epsilon) @ self.vocabulary.T
        self.inputs.lengths[:count] += 1
        self.inputs.tokens[:count] = self.sample(logits, slice(count))

    def project(
        self, layer: Layer, hidden: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return queries, keys and values by token and head, with rotary positions."""
        mixed = F.linear(normalize(hidden, layer.input_norm, self.epsilon), layer.qkv, layer.qkv_bias).view(len(hidden), -1, self.head_size)
        queries, keys, values = mixed.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        return rotate(queries, cosines, sines), rotate(keys, cosines, sines), values

    def finish_layer(self, layer: Layer, hidden: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the hidden states after the output projection and the feed-forward part of a layer."""
        hidden = hidden + attended @ layer.output.T
        gate, up = (normalize(hidden, layer.post_norm, self.epsilon) @ layer.gate_up.T).chunk(2, dim=-1)
        return hidden + (F.silu(gate) * up) @ layer.down.T

    def sample(self, logits: torch.Tensor, slots: slice) -> torch.Tensor:
        """Choose a token for each row: the likeliest at temperature 0, otherwise at random, by the cumulative probabilities.

        They are summed in float64, so that tokens beyond the end of float32's precision keep their probability and no other gains any.
        """
        temperatures, seeds, lengths = (one[slots, None] for one in (self.inputs.temperatures, self.inputs.seeds, self.inputs.lengths))
        wide = logits.float()
        cumulative = torch.softmax(wide / temperatures.clamp(min=1e-3), -1).cumsum(-1, dtype=torch.float64)
        drawn = torch.searchsorted(cumulative, draw_uniform(seeds, lengths) * cumulative[:, -1:], right=True)
        drawn = drawn.clamp(max=wide.shape[1] - 1)  # logits that are no numbers must not end the server
        return torch.where(temperatures > 0, drawn, wide.argmax(-1, keepdim=True))[:, 0]


def draw_uniform(seeds: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return a number from 0 to below 1 for each row, with 40 random bits, as a function of the row's seed and length."""
    bits = scramble(scramble(seeds * HASH_FACTORS[0]) + lengths * HASH_FACTORS[1])
    return shift_right(bits, 24).double() / 2.0**40


def count_shared(prompt: np.ndarray, other: np.ndarray) -> int:
    """Return how many tokens two prompts have in common at their beginning."""
    length = min(len(prompt), len(other))
    differences = prompt[:length] != other[:length]
    return int(differences.argmax()) if differences.any() else length


def take_weights(layer: Any) -> Layer:
    """Return the weights of a layer of transformers' model."""
    attention, feed_forward = layer.self_attn, layer.mlp
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    return Layer(
        layer.input_layernorm.weight.data,
        torch.cat([part.weight.data for part in parts]),
        torch.cat([part.bias.data for part in parts]) if parts[0].bias is not None else None,
        attention.o_proj.weight.data,
        layer.post_attention_layernorm.weight.data,
        torch.cat([feed_forward.gate_proj.weight.data, feed_forward.up_proj.weight.data]),
        feed_forward.down_proj.weight.data,
    )


def normalize(values: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Return values divided by their root mean square, as the model was trained: in float32."""
    wide = values.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(values.dtype)


def rotate(values: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Apply rotary positions to values by token and head."""
    first, second = values.chunk(2, dim=-1)
    return values * cosines[:, None] + torch.cat([-second, first], dim=-1) * sines[:, None]


def scramble(bits: torch.Tensor) -> torch.Tensor:
    """Mix 64-bit integers, so that neighbouring ones have unrelated bits (the finaliser of splitmix64)."""
    bits = (bits ^ shift_right(bits, 30)) * HASH_FACTORS[1]
    bits = (bits ^ shift_right(bits, 27)) * HASH_FACTORS[2]
    return bits ^ shift_right(bits, 31)


def shift_right(bits: torch.Tensor, count: int) -> torch.Tensor:
    """Shift 64-bit integers to the right, with zeros for the upper bits."""
    return (bits >> count) & ((1 << 64 - count) - 1)
