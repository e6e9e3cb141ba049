"""Networks of gathers and scatters: a recommender with embeddings, a graph network, k-means."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stablehlo_py.suite.registry import Model, Rng, Size, normal, register


def _layers(rng: Rng, *widths: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (normal(rng, inputs, outputs) / np.float32(np.sqrt(inputs)), 0.1 * normal(rng, outputs))
        for inputs, outputs in pairwise(widths)
    ]


def _perceptron(layers: Any, x: jax.Array) -> jax.Array:
    for w, b in layers[:-1]:
        x = jax.nn.relu(x @ w + b)
    return x @ layers[-1][0] + layers[-1][1]


@register("recommender")
def recommender(size: Size, rng: Rng) -> Model:
    """Full: DLRM (Naumov et al. 2019), batch 512, 16 tables of 20,000 rows of 32, 4 rows of each summed, all pairs of
    their products."""
    batch, tables, rows, width, many = (512, 16, 20_000, 32, 4) if size == "full" else (5, 3, 20, 4, 2)
    dense = 13

    def function(p: Any, numbers: jax.Array, rows: jax.Array) -> jax.Array:
        sums = [p["tables"][t][rows[:, t]].sum(1) for t in range(tables)]
        features = jnp.stack([_perceptron(p["below"], numbers), *sums], 1)
        products = jnp.einsum("bid,bjd->bij", features, features)
        first, second = np.tril_indices(tables + 1, -1)
        pairs = products[:, first, second]
        return jax.nn.sigmoid(_perceptron(p["above"], jnp.concatenate([features[:, 0], pairs], 1)))[:, 0]

    pairs = tables * (tables + 1) // 2
    parameters = {
        "tables": 0.3 * normal(rng, tables, rows, width),
        "below": _layers(rng, dense, 256, 64, width),
        "above": _layers(rng, width + pairs, 256, 128, 1),
    }
    inputs = (normal(rng, batch, dense), rng.integers(0, rows, (batch, tables, many), np.int32))
    return Model(function, parameters, inputs)


@register("graph-network")
def graph_network(size: Size, rng: Rng) -> Model:
    """Full: 4096 nodes, 32,768 edges, 3 layers of 64: attention over the edges of a node (Velickovic et al. 2018) by
    segment maxima and sums, then the mean of all nodes of 64 graphs."""
    nodes, edges, width, layers, graphs = (4096, 32_768, 64, 3, 64) if size == "full" else (12, 40, 6, 2, 3)

    def layer(w: Any, x: jax.Array, source: jax.Array, target: jax.Array) -> jax.Array:
        sent = x @ w["weights"]
        score = jax.nn.leaky_relu((sent @ w["of_source"])[source] + (sent @ w["of_target"])[target], 0.2)
        largest = jax.ops.segment_max(score, target, nodes)
        share = jnp.exp(score - largest[target])
        total = jax.ops.segment_sum(share, target, nodes)
        summed = jax.ops.segment_sum(sent[source] * (share / total[target])[:, None], target, nodes)
        return x + jax.nn.elu(summed)

    def function(p: Any, x: jax.Array, source: jax.Array, target: jax.Array, graph: jax.Array) -> jax.Array:
        for w in p:
            x = layer(w, x, source, target)
        counts = jax.ops.segment_sum(jnp.ones(nodes), graph, graphs)
        return jax.ops.segment_sum(x, graph, graphs) / jnp.maximum(counts, 1)[:, None]

    parameters = [
        {
            "weights": normal(rng, width, width) / np.float32(np.sqrt(width)),
            "of_source": normal(rng, width) / np.float32(np.sqrt(width)),
            "of_target": normal(rng, width) / np.float32(np.sqrt(width)),
        }
        for _ in range(layers)
    ]
    source, target = (rng.integers(0, nodes, edges, np.int32) for _ in range(2))
    graph = np.sort(rng.integers(0, graphs, nodes, np.int32))
    return Model(function, parameters, (normal(rng, nodes, width), source, target, graph))


@register("k-means")
def k_means(size: Size, rng: Rng) -> Model:
    """Full: 10 of Lloyd's iterations, 20,000 points of 16 features, 64 clusters."""
    points, features, clusters, steps = (20_000, 16, 64, 10) if size == "full" else (30, 3, 4, 3)

    def nearest(x: jax.Array, centres: jax.Array) -> jax.Array:
        return jnp.argmin(jnp.square(centres).sum(1) - 2 * x @ centres.T, axis=1)

    def function(_: Any, x: jax.Array, start: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(_: int, centres: jax.Array) -> jax.Array:
            cluster = nearest(x, centres)
            counts = jnp.zeros(clusters).at[cluster].add(1)
            sums = jnp.zeros((clusters, features)).at[cluster].add(x)
            return jnp.where(counts[:, None] > 0, sums / jnp.maximum(counts, 1)[:, None], centres)

        centres = jax.lax.fori_loop(0, steps, step, start)
        return centres, jnp.square(x - centres[nearest(x, centres)]).sum()

    x = normal(rng, points, features) + 3 * normal(rng, clusters, features)[rng.integers(0, clusters, points)]
    start = x[rng.permutation(points)[:clusters]]
    notes = "a point between two clusters may go to the other one"
    return Model(function, {}, (x, start), tolerance=1e-2, notes=notes)
