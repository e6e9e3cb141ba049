"""JAX on a platform of ours beside JAX's own of the same device: what calls, eager operations and transfers take.

    python benchmarks/bench_platform.py                      # every case, with the CPUs that this process may run on
    python benchmarks/bench_platform.py call scan --threads 1 --rounds 15
    python benchmarks/bench_platform.py --devices 8          # calls on so many devices of each platform
    python benchmarks/bench_platform.py --calls 100000       # memory and handles before and after that many calls
    python benchmarks/bench_platform.py --platform shlo_cuda # on a GPU, beside jax[cuda]; --peer "" without it

`shlo` stands beside `cpu`, `shlo_cuda` beside `cuda`, `shlo_rocm` beside `rocm`. Both platforms are in one process,
which is kept on as many CPUs as it may use threads. They take turns, round by round; a number is the median of the
rounds, and the ratio that of the medians. `eager cold` compiles, so each round of it is a process of its own, in which
the imports and the first operation are not timed. It writes Python's compiled files, which JAX has from its
installation.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

PEERS = {"shlo": "cpu", "shlo_cuda": "cuda", "shlo_opencl": "cpu", "shlo_rocm": "rocm"}
Work = Callable[[], object]
#: By name: how often a round does it, and what makes it (from jax and the device).
CASES: dict[str, tuple[int, Callable[[Any, Any], Work]]] = {}
#: The same of several devices: all of the device's platform.
ON_DEVICES: dict[str, tuple[int, Callable[[Any, Any], Work]]] = {}


def case(
    name: str, repeats: int, cases: dict[str, tuple[int, Callable[[Any, Any], Work]]] = CASES
) -> Callable[[Callable[[Any, Any], Work]], Callable[[Any, Any], Work]]:
    """Register what makes a case."""

    def register(make: Callable[[Any, Any], Work]) -> Callable[[Any, Any], Work]:
        cases[name] = repeats, make
        return make

    return register


@case("call", 5000)
def _call(jax: Any, device: Any) -> Work:
    function, x = jax.jit(lambda x: x + 1), jax.device_put(1.0, device)
    return lambda: function(x)


@case("call and block", 5000)
def _call_and_block(jax: Any, device: Any) -> Work:
    function, x = jax.jit(lambda x: x + 1), jax.device_put(1.0, device)
    return lambda: function(x).block_until_ready()


@case("call of 20 arguments", 1000)
def _many(jax: Any, device: Any) -> Work:
    function = jax.jit(lambda *x: tuple(a + 1 for a in x))
    arrays = [jax.device_put(float(number), device) for number in range(20)]
    return lambda: function(*arrays)


@case("call, donated", 5000)
def _donated(jax: Any, device: Any) -> Work:
    function = jax.jit(lambda x: x + 1, donate_argnums=0)
    state = [jax.device_put(1.0, device)]

    def step() -> None:
        state[0] = function(state[0])

    return step


def eager_operations(jax: Any) -> list[Callable[[Any], Any]]:
    """Small operations of different kinds; each takes and gives an array of 8."""
    jnp = jax.numpy
    return [
        lambda x: x + 1,
        lambda x: x * x,
        jnp.sin,
        lambda x: x[::-1],
        jnp.abs,
        lambda x: jnp.where(x > 0, x, 1.0),
        lambda x: x - x.sum(),
        jnp.tanh,
        lambda x: jnp.maximum(x, 0.5),
        lambda x: x.reshape(2, 4).T.reshape(8),
        jnp.cumsum,
        jnp.sort,
        lambda x: x / 2,
        lambda x: jnp.concatenate([x[4:], x[:4]]),
        lambda x: jnp.dot(x.reshape(2, 4), x.reshape(4, 2)).reshape(4).repeat(2),
        lambda x: jnp.clip(x, -1, 1),
        lambda x: x.at[2].set(3.0),
        lambda x: jnp.exp(-x),
        lambda x: jnp.roll(x, 1),
        lambda x: x.astype(int).astype(float),
    ]


def eager(jax: Any, device: Any) -> Work:
    """1,000 operations one after the other."""
    operations = eager_operations(jax)
    start = jax.device_put(jax.numpy.arange(8.0), device)

    def run() -> None:
        x = start
        for number in range(1000):
            x = operations[number % len(operations)](x)
        x.block_until_ready()

    return run


CASES["eager warm"] = 1, eager


def host_array(size: int, behind: int) -> Any:
    """So many f32, which begin `behind` bytes behind a multiple of 64: NumPy leaves it to chance."""
    import numpy as np

    raw = np.ones(4 * size + 128, np.uint8)
    start = -raw.ctypes.data % 64 + behind
    array = raw[start : start + 4 * size].view(np.float32)
    array[:] = 1
    return array


def transfer(size: int, repeats: int) -> None:
    """Register the cases of arrays of so many f32, there and back."""

    def there(jax: Any, device: Any) -> Work:
        array = host_array(size, 16)  # as large arrays of NumPy begin
        return lambda: jax.device_put(array, device).block_until_ready()

    def back(jax: Any, device: Any) -> Work:
        import numpy as np

        function, x = jax.jit(lambda x: x + 1), jax.device_put(np.ones(size, np.float32), device)
        return lambda: np.asarray(function(x))

    CASES[f"device_put {size}"] = repeats, there
    CASES[f"asarray of a result {size}"] = repeats, back


transfer(4, 1000)
transfer(1 << 20, 30)


def exchange(size: int) -> None:
    """Register the cases of an array of so many f32 whose memory both sides see."""

    def there(jax: Any, device: Any) -> Work:
        array = host_array(size, 0)
        return lambda: jax.device_put(array, device)

    def from_dlpack(jax: Any, device: Any) -> Work:
        array = host_array(size, 0)
        return lambda: jax.dlpack.from_dlpack(array, device=device)

    def to_dlpack(jax: Any, device: Any) -> Work:
        import numpy as np

        x = jax.device_put(host_array(size, 0), device)
        return lambda: np.from_dlpack(x)

    CASES[f"device_put, aligned {size}"] = 300, there
    CASES[f"from_dlpack {size}"] = 300, from_dlpack
    CASES[f"to_dlpack {size}"] = 300, to_dlpack


exchange(1 << 20)


@case("scan", 20)
def _scan(jax: Any, device: Any) -> Work:
    weights = jax.device_put(jax.numpy.eye(8) * 0.5, device)

    def step(carry: Any, _: Any) -> tuple[Any, Any]:
        new = jax.numpy.tanh(carry @ weights + 0.1)
        return new, new.sum()

    function = jax.jit(lambda x: jax.lax.scan(step, x, None, length=1000))
    x = jax.device_put(jax.numpy.ones((4, 8)), device)
    return lambda: jax.block_until_ready(function(x))


@case("training step", 100)
def _train(jax: Any, device: Any) -> Work:
    jnp = jax.numpy
    sizes = ((16, 64), (64, 64), (64, 4))
    keys = jax.random.split(jax.random.key(0), 5)
    weights = [jax.random.normal(key, size) * 0.1 for key, size in zip(keys, sizes, strict=False)]
    x, y = jax.random.normal(keys[3], (32, 16)), jax.random.normal(keys[4], (32, 4))

    def loss(weights: Any, x: Any, y: Any) -> Any:
        for weight in weights[:-1]:
            x = jnp.tanh(x @ weight)
        return ((x @ weights[-1] - y) ** 2).mean()

    def step(weights: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x, y)
        return [w - 0.01 * g for w, g in zip(weights, gradients, strict=True)], value

    compiled = jax.jit(step, donate_argnums=0)
    weights, x, y = jax.device_put((weights, x, y), device)
    state = [weights]

    def run() -> None:
        state[0], value = compiled(state[0], x, y)
        float(value)

    return run


def suite(name: str, repeats: int) -> None:
    """Register the loop of a training step of the model suite (docs/models.md), at full size."""

    def loop(jax: Any, device: Any) -> Work:
        from stablehlo_py.suite.registry import build

        model = build(name, "full")
        step = jax.jit(model.function, donate_argnums=0)
        state, batch = jax.device_put((model.parameters, model.inputs), device)
        carried = [state]

        def run() -> None:
            *new, loss = step(carried[0], *batch)
            carried[0] = tuple(new)
            float(loss)

        return run

    CASES[name] = repeats, loop


suite("train-mlp", 20)
suite("train-convnet", 4)
suite("train-transformer", 2)


def _mapped(jax: Any, device: Any, elements: int, body: Callable[[Any], Any], summed: bool = False) -> Work:
    """A call of `jax.shard_map`, of which each device has so many elements."""
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = device.client.devices()
    mesh, rows = Mesh(np.array(devices), ("d",)), PartitionSpec("d")
    out = PartitionSpec() if summed else rows
    function = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=rows, out_specs=out))
    x = jax.device_put(np.ones((len(devices), elements), np.float32), NamedSharding(mesh, rows))
    return lambda: jax.block_until_ready(function(x))


@case("shard_map of x + 1", 200, ON_DEVICES)
def _on_parts(jax: Any, device: Any) -> Work:
    return _mapped(jax, device, 4, lambda part: part + 1)


@case("shard_map of psum(x)", 200, ON_DEVICES)
def _sum_of_parts(jax: Any, device: Any) -> Work:
    return _mapped(jax, device, 4, lambda part: jax.lax.psum(part, "d"), summed=True)


@case("shard_map, 1 MiB a device", 20, ON_DEVICES)
def _on_large_parts(jax: Any, device: Any) -> Work:
    return _mapped(jax, device, 1 << 18, lambda part: part * 2 + 1)


@case("pmap of x + 1", 200, ON_DEVICES)
def _pmap(jax: Any, device: Any) -> Work:
    devices = device.client.devices()
    function = jax.pmap(lambda part: part + 1, devices=devices)
    x = function(jax.numpy.ones((len(devices), 4)))
    return lambda: jax.block_until_ready(function(x))


def prepare(platforms: Sequence[str], threads: int, devices: int = 1) -> Any:
    """JAX with these platforms, on so many CPUs; `devices`: how many of `shlo`, and of JAX's CPU."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a GPU's memory is for both
    if devices > 1:
        os.environ["SHLO_NUM_DEVICES"] = str(devices)
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    import stablehlo_py.pjrt

    for platform in platforms:
        if platform in PEERS:
            stablehlo_py.pjrt.initialize(platform)
    import jax

    jax.config.update("jax_platforms", ",".join(dict.fromkeys([*platforms, "cpu"])))  # arrays of NumPy are its own
    return jax


def seconds(work: Work, repeats: int) -> float:
    """How long it takes, for one of them."""
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - start) / repeats


def measure(jax: Any, platforms: Sequence[str], name: str, rounds: int) -> dict[str, float]:
    """The medians of a case, by platform."""
    repeats, make = {**CASES, **ON_DEVICES}[name]
    works: dict[str, tuple[Any, Work]] = {}
    found: dict[str, list[float]] = {platform: [] for platform in platforms}
    for platform in platforms:
        device = jax.devices(platform)[0]
        with jax.default_device(device):
            works[platform] = device, make(jax, device)
            seconds(works[platform][1], 3 + repeats // 10)  # the first calls of a program on a GPU are others
    for _ in range(rounds):
        for platform, (device, work) in works.items():
            with jax.default_device(device):
                found[platform].append(seconds(work, repeats))
    return {platform: statistics.median(times) for platform, times in found.items()}


def measure_cold(platforms: Sequence[str], threads: int, rounds: int) -> dict[str, float]:
    """The medians of `eager cold`."""
    found: dict[str, list[float]] = {platform: [] for platform in platforms}
    for _ in range(rounds):
        for platform in platforms:
            command = [sys.executable, "-W", "ignore", __file__, "--cold", platform, "--threads", str(threads)]
            environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            found[platform].append(float(done.stdout))
    return {platform: statistics.median(times) for platform, times in found.items()}


def cold(platform: str, threads: int) -> float:
    """Seconds of the first 1,000 eager operations of this process."""
    jax = prepare([platform], threads)
    (jax.numpy.ones(3) - 1).block_until_ready()
    return seconds(eager(jax, jax.devices()[0]), 1)


def memory(jax: Any, platform: str, calls: int) -> str:
    """Resident memory and handles before and after calls of `x + 1`, whose results are dropped."""
    from stablehlo_py.pjrt import handles

    def resident() -> float:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    lines = []
    for size in (1, 100_000):
        function, x = jax.jit(lambda x: x + 1), jax.numpy.ones(size, device=jax.devices(platform)[0])
        for _ in range(1000):
            function(x).block_until_ready()
        before, handles_before = resident(), handles()
        for _ in range(calls):
            function(x)
        function(x).block_until_ready()
        after = f"{resident():.1f} MiB, {handles_before} -> {handles()} handles"
        lines.append(f"{calls} calls of {size} elements: {before:.1f} -> {after}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join([*CASES, 'eager cold'])}; none: all")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cold-rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--devices", type=int, default=1, help=f"more than one: of {', '.join(ON_DEVICES)}")
    parser.add_argument("--calls", type=int, help="only memory and handles, before and after so many calls")
    parser.add_argument("--platform", choices=PEERS, default="shlo", help="ours (default: %(default)s)")
    parser.add_argument("--peer", help="JAX's own; empty: none (default: that of the same device)")
    parser.add_argument("--cold", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cold:
        print(cold(given.cold, given.threads))
        return
    peer = PEERS[given.platform] if given.peer is None else given.peer
    platforms = [given.platform, *([peer] if peer else [])]
    jax = prepare(platforms, given.threads, given.devices)
    if given.calls:
        print(memory(jax, given.platform, given.calls))
        return
    names = given.cases or (list(ON_DEVICES) if given.devices > 1 else [*CASES, "eager cold"])
    if given.platform != "shlo" and not given.cases:  # NumPy does not see the memory of a GPU
        names = [name for name in names if not name.startswith("to_dlpack")]
    heads = " ".join(f"{platform:>11}" for platform in platforms)
    print(f"{'us':>30} {heads}  ratio   ({given.threads} threads, jax {jax.__version__})")
    for name in names:
        if name == "eager cold":
            found = measure_cold(platforms, given.threads, given.cold_rounds)
        else:
            found = measure(jax, platforms, name, given.rounds)
        times = [1e6 * found[platform] for platform in platforms]
        ratio = f"{times[0] / times[1]:6.2f}" if peer else ""
        print(f"{name:>30} {' '.join(f'{each:11.2f}' for each in times)} {ratio}", flush=True)


if __name__ == "__main__":
    main()
