"""Language models from Hugging Face's Flax classes (transformers before 5), built from a configuration alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from stablehlo_py.suite.registry import Model, Rng, Size, initialize, normal, register

_NOTES = "12 layers of sums in another order"
_BFLOAT16 = "bfloat16 keeps 8 bits; intermediate results are rounded at other places"


def hugging_face(kind: Any, config: Any, rng: np.random.Generator, dtype: Any = np.float32) -> tuple[Any, Any]:
    """A Flax model of a transformers class that computes in a type, and seeded weights of that type for it; its own
    initialization is not run."""
    from transformers.utils import logging

    logging.set_verbosity_error()  # every Flax class warns that version 5 drops it; pyproject.toml holds us below 5
    network = kind(config, dtype=jnp.dtype(dtype), _do_init=False)
    weights = initialize(rng, network.params_shape_tree)
    return network, jax.tree.map(lambda array: array.astype(dtype), weights)


@register("bert")
def bert(size: Size, rng: Rng) -> Model:
    """Full: BERT-base, 12 layers, batch 1, 128 tokens, the last ones masked."""
    return _bert(size, rng, np.float32, tolerance=1e-4, notes=_NOTES)


@register("bert-bfloat16")
def bert_bfloat16(size: Size, rng: Rng) -> Model:
    """The same in bfloat16, as its weights are."""
    return _bert(size, rng, ml_dtypes.bfloat16, tolerance=6e-2, notes=_BFLOAT16)


def _bert(size: Size, rng: Rng, dtype: Any, **facts: Any) -> Model:
    from transformers import BertConfig, FlaxBertModel

    config, tokens = (BertConfig(), 128) if size == "full" else (BertConfig(50, 32, 2, 2, 64), 10)
    network, parameters = hugging_face(FlaxBertModel, config, rng, dtype)

    def function(p: Any, ids: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        result = network(ids, attention_mask=mask, params=p)
        return result.last_hidden_state, result.pooler_output

    ids = rng.integers(0, config.vocab_size, (1, tokens), np.int32)
    mask = (np.arange(tokens) < tokens - tokens // 5).astype(np.int32)[None]
    return Model(function, parameters, (ids, mask), **facts)


def _gpt2(size: Size, rng: Rng, dtype: Any = np.float32) -> tuple[Any, Any, Any]:
    from transformers import FlaxGPT2LMHeadModel, GPT2Config

    small = {"vocab_size": 50, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
    config = GPT2Config(**({} if size == "full" else small))
    network, parameters = hugging_face(FlaxGPT2LMHeadModel, config, rng, dtype)
    return config, network, parameters


@register("gpt2-prefill")
def gpt2_prefill(size: Size, rng: Rng) -> Model:
    """Full: GPT-2 small, batch 1, 128 tokens, logits of every position."""
    return _prefill(size, rng, np.float32, tolerance=1e-4, notes=_NOTES)


@register("gpt2-prefill-bfloat16")
def gpt2_prefill_bfloat16(size: Size, rng: Rng) -> Model:
    """The same in bfloat16, as its weights are."""
    return _prefill(size, rng, ml_dtypes.bfloat16, tolerance=6e-2, notes=_BFLOAT16)


def _prefill(size: Size, rng: Rng, dtype: Any, **facts: Any) -> Model:
    config, network, parameters = _gpt2(size, rng, dtype)
    tokens = 128 if size == "full" else 10

    def function(p: Any, ids: jax.Array) -> jax.Array:
        return network(ids, params=p).logits

    ids = rng.integers(0, config.vocab_size, (1, tokens), np.int32)
    return Model(function, parameters, (ids,), **facts)


@register("gpt2-decode")
def gpt2_decode(size: Size, rng: Rng) -> Model:
    """Full: GPT-2 small, the token after 128 others, key-value cache of 256 places: logits and the new cache."""
    config, network, parameters = _gpt2(size, rng)
    places, past = (256, 128) if size == "full" else (16, 5)

    def function(p: Any, cache: Any, ids: jax.Array, mask: jax.Array, position: jax.Array) -> Any:
        result = network(ids, params=p, past_key_values=cache, attention_mask=mask, position_ids=position)
        return result.logits, result.past_key_values

    def fill(struct: jax.ShapeDtypeStruct) -> np.ndarray:
        if not struct.shape:  # cache_index: how many places are taken
            return np.array(past, struct.dtype)
        values = normal(rng, *struct.shape)
        values[:, past:] = 0
        return values

    cache = jax.tree.map(fill, jax.eval_shape(lambda: network.init_cache(1, places)))
    ids = rng.integers(0, config.vocab_size, (1, 1), np.int32)
    inputs = (cache, ids, np.ones((1, places), np.int32), np.full((1, 1), past, np.int32))
    return Model(function, parameters, inputs, tolerance=1e-4, notes=_NOTES)
