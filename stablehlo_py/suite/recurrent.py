"""Recurrent networks: flax cells under lax.scan."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax

from stablehlo_py.suite.registry import Model, Rng, Size, flax_model, normal, register


class Recurrent(nn.Module):
    """A flax cell scanned over the time axis of (batch, time, features); returns the last carry and all outputs."""

    cell: Any
    hidden: int

    @nn.compact
    def __call__(self, x: jax.Array) -> Any:
        scan = nn.scan(
            lambda cell, carry, step: cell(carry, step),
            variable_broadcast="params",
            split_rngs={"params": False},
            in_axes=1,
            out_axes=1,
        )
        cell = self.cell(self.hidden)
        carry = cell.initialize_carry(jax.random.key(0), x[:, 0].shape)
        return scan(cell, carry, x)


def _recurrent(size: Size, rng: Rng, cell: Any) -> Model:
    batch, steps, features, hidden = (1, 100, 256, 256) if size == "full" else (3, 7, 6, 8)
    network = Recurrent(cell, hidden)
    x = normal(rng, batch, steps, features)
    return flax_model(network, rng, x, tolerance=2e-5, notes="errors add up over the steps")


@register("lstm")
def lstm(size: Size, rng: Rng) -> Model:
    """Full: LSTM, batch 1, 100 steps, 256 features, hidden 256."""
    return _recurrent(size, rng, nn.OptimizedLSTMCell)


@register("gru")
def gru(size: Size, rng: Rng) -> Model:
    """Full: GRU, batch 1, 100 steps, 256 features, hidden 256."""
    return _recurrent(size, rng, nn.GRUCell)
