"""Training loops as users write them, on the platform and on XLA's CPU, in one process: flax, optax, equinox."""

from __future__ import annotations

import pytest

from test.helpers.platform_scripts import script

BOTH = """
jax.config.update("jax_platforms", "shlo,cpu")
import optax

def compare(train, tolerance):
    found = {}
    for name in ("shlo", "cpu"):
        with jax.default_device(jax.devices(name)[0]):
            losses, weights = train()
        assert all(leaf.devices() == {jax.devices(name)[0]} for leaf in jax.tree.leaves(weights))
        found[name] = [np.asarray(losses), *map(np.asarray, jax.tree.leaves(weights))]
    losses = found["cpu"][0]
    assert losses[-1] < 0.8 * losses[0], losses  # it learns
    for ours, expected in zip(*found.values(), strict=True):
        np.testing.assert_allclose(ours, expected, tolerance, tolerance)

rng = np.random.default_rng(0)
images = rng.standard_normal((16, 12, 12, 1)).astype(np.float32)
labels = rng.integers(0, 10, 16).astype(np.int32)
"""

FLAX = """
import flax.linen as nn
from flax.training.train_state import TrainState

class ConvNet(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.max_pool(nn.relu(nn.Conv(6, (3, 3))(x)), (2, 2), (2, 2))
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.relu(nn.Dense(16)(x.reshape(x.shape[0], -1)))
        return nn.Dense(10)(nn.Dropout(0.25, deterministic=not train)(x))

class State(TrainState):
    averages: dict

def train():
    network = ConvNet()
    first = network.init(jax.random.key(0), images, False)
    state = State.create(apply_fn=network.apply, params=first["params"], averages=first["batch_stats"],
                         tx=optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3, eps=1e-4)))

    @partial(jax.jit, donate_argnums=0)
    def step(state, key):
        def loss(params):
            logits, new = state.apply_fn({"params": params, "batch_stats": state.averages}, images, True,
                                         rngs={"dropout": key}, mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), new["batch_stats"]
        (value, averages), gradients = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=gradients, averages=averages), value

    losses = []
    for key in jax.random.split(jax.random.key(1), 12):
        state, value = step(state, key)
        losses.append(float(value))
    return losses, (state.params, state.averages, state.opt_state)
"""

EQUINOX = """
import equinox as eqx

def train():
    network = eqx.nn.MLP(144, 10, 32, 2, key=jax.random.key(0))
    optimizer = optax.sgd(optax.cosine_decay_schedule(0.05, 20), momentum=0.9)
    state = optimizer.init(eqx.filter(network, eqx.is_array))

    @eqx.filter_jit(donate="all")
    def step(network, state):
        def loss(network):
            logits = jax.vmap(network)(images.reshape(16, -1))
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        value, gradients = eqx.filter_value_and_grad(loss)(network)
        updates, state = optimizer.update(gradients, state, network)
        return eqx.apply_updates(network, updates), state, value

    losses = []
    for _ in range(12):
        network, state, value = step(network, state)
        losses.append(float(value))
    return losses, eqx.filter(network, eqx.is_array)
"""

OPTAX = """
def train():
    # The whole loop is one program, and the data is indexed in it.
    data, target = images.reshape(16, -1), jnp.eye(10)[labels]
    params = {"w": 0.01 * jax.random.normal(jax.random.key(3), (144, 10)), "b": jnp.zeros(10)}
    optimizer = optax.adam(1e-2, eps=1e-4)

    def step(carry, rows):
        params, state = carry
        def loss(p):
            return optax.softmax_cross_entropy(jnp.asarray(data)[rows] @ p["w"] + p["b"], target[rows]).mean()
        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradients, state)
        return (optax.apply_updates(params, updates), state), value

    order = jax.vmap(lambda key: jax.random.permutation(key, 16))(jax.random.split(jax.random.key(4), 20))
    (params, _), losses = jax.jit(jax.lax.scan, static_argnums=0)(step, (params, optimizer.init(params)), order)
    return losses, params
"""

SUITE = """
from stablehlo_py.suite.registry import build

model = build({name!r}, "small")

def train():
    state, batch = jax.device_put((model.parameters, model.inputs))
    step, losses = jax.jit(model.function, donate_argnums=0), []
    for _ in range({steps}):
        *state, loss = step(tuple(state), *batch)
        losses.append(float(loss))
    return losses, state
"""


@pytest.mark.parametrize("loop", [FLAX, EQUINOX, OPTAX], ids=["flax", "equinox", "optax"])
def test_a_training_loop_learns_as_on_xlas_cpu(loop: str) -> None:
    script("from functools import partial\n" + BOTH + loop + "\ncompare(train, 2e-4)\n")


@pytest.mark.parametrize("name", ["train-mlp", "train-convnet", "train-transformer"])
def test_the_loop_of_a_model_of_the_suite_learns_as_on_xlas_cpu(name: str) -> None:
    script(BOTH + SUITE.format(name=name, steps=8) + "\ncompare(train, 1e-3)\n")
