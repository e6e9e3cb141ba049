"""JAX programs on shards, exported and run on four devices: `python sharded.py shardy` writes a pickle of the results.

It runs in a process of its own: how many devices JAX has on a CPU is decided when it starts.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Model:
    """An export, arguments, and what JAX computes from them."""

    exported: bytes
    arguments: list[np.ndarray]
    results: list[np.ndarray]


def models(partitioner: str) -> dict[str, Model]:
    """All models, by name, as exported for a partitioner: shardy or gspmd."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, __file__, partitioner], capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return {name: Model(*parts) for name, parts in pickle.loads(done.stdout).items()}


def _functions() -> dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]]:
    """Name -> function of whole arrays, their shapes."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    line = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    square = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def on(mesh: Any, inputs: Any, outputs: Any, **options: Any) -> Callable[..., Any]:
        return lambda body: jax.shard_map(body, mesh=mesh, in_specs=inputs, out_specs=outputs, **options)

    @on(square, (P("x", "y"), P("y", None)), P("x", None))
    def product(a: Any, b: Any) -> Any:
        return lax.psum(a @ b, "y")

    @on(line, P("d"), (P("d"), P(None, "d"), P("d"), P("d")))
    def moves(a: Any) -> Any:
        i = lax.axis_index("d")
        turned = lax.ppermute(a, "d", [(0, 1), (1, 2), (2, 3), (3, 0)])
        exchanged = lax.all_to_all(a, "d", split_axis=1, concat_axis=0, tiled=True)
        scattered = lax.psum_scatter(exchanged * (1.0 + i), "d", scatter_dimension=0, tiled=True)
        return turned, exchanged, scattered, lax.pmax(a, "d") + lax.all_gather(a, "d", tiled=True)[:2]

    @on(line, P("d"), P("d"))
    def ring(a: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            total, passing = carry
            passing = lax.ppermute(passing, "d", [(j, (j + 1) % 4) for j in range(4)])
            return (total + 0.5 * passing, passing), None

        return lax.scan(step, (a, a), None, length=7)[0][0]

    @on(square, (P(("y", "x")), P()), P(("y", "x")), axis_names={"x", "y"})
    def two_axes(a: Any, b: Any) -> Any:
        return a * lax.psum(b, ("x", "y")) + lax.axis_index(("y", "x"))

    @on(square, (P("x"),), P("x"), axis_names={"x"})
    def partly(a: Any) -> Any:
        return lax.pmean(a, "x") - a

    def loss(w: Any, x: Any, y: Any) -> Any:
        @on(line, (P(), P("d"), P("d")), P())
        def mean(w: Any, x: Any, y: Any) -> Any:
            return lax.pmean(jnp.mean((jnp.tanh(x @ w) - y) ** 2), "d")

        return mean(w, x, y)

    def train(w: Any, x: Any, y: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(w, x, y)
        return w - 0.1 * gradient, value

    def annotated(a: Any) -> Any:
        a = lax.with_sharding_constraint(a, NamedSharding(line, P("d")))
        return jnp.sum(a @ a.T, axis=0)

    def sharded_product(a: Any, b: Any) -> Any:
        c = lax.with_sharding_constraint(a @ b * 1.0, NamedSharding(square, P("x", "y")))
        return jnp.tanh(c), jnp.sum(c)

    columns = NamedSharding(square, P(None, "y"))
    sharded = jax.jit(sharded_product, in_shardings=(NamedSharding(square, P("x")), columns))

    return {
        "product": (product, [(4, 8), (8, 6)]),
        "moves": (moves, [(8, 4)]),
        "ring": (ring, [(8, 3)]),
        "two axes": (two_axes, [(8, 2), (2,)]),
        "partly manual": (partly, [(4, 4)]),
        "training step": (train, [(5, 3), (8, 5), (8, 3)]),
        "pmap": (jax.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i"), [(4, 3)]),
        "annotated only": (annotated, [(8, 3)]),
        "sharded product": (sharded, [(8, 6), (6, 4)]),
    }


def main() -> None:
    """Export and run every model."""
    import jax
    from jax import export

    jax.config.update("jax_use_shardy_partitioner", sys.argv[1] == "shardy")
    random = np.random.default_rng(0)
    found = {}
    for name, (function, shapes) in _functions().items():
        arguments = [random.random(shape, np.float32) for shape in shapes]
        jitted = function if name.startswith("sharded") else jax.jit(function)
        exported = export.export(jitted)(*(jax.ShapeDtypeStruct(shape, "float32") for shape in shapes))
        results = [np.asarray(result) for result in jax.tree.leaves(jitted(*arguments))]
        found[name] = (bytes(exported.serialize()), arguments, results)
    sys.stdout.buffer.write(pickle.dumps(found))


if __name__ == "__main__":
    main()
