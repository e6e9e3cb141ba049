"""What test_versions.py runs with each version of JAX, one part after the other. Its arguments: the library of
ffi_handlers.cc, and where to write how many bytes jaxlib has passed to each function of the PJRT C API, as JSON."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import stablehlo_py.pjrt
from stablehlo_py.pjrt import plugin
from stablehlo_py.pjrt.api import FUNCTIONS, structure
from stablehlo_py.pjrt.platforms import HOST

library, report = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2])
passed: dict[str, int] = {}
kept, usual = [], {}


def measured(name: str, address: int):
    """A function of the API that first notes the size of its arguments."""
    function = plugin._CALLBACK(address)

    def call(arguments: int) -> int:
        passed[name] = min(passed.get(name, 1 << 20), ctypes.c_size_t.from_address(arguments).value)
        return function(arguments)

    return plugin._CALLBACK(call)


api = plugin._platform(HOST)
for name in FUNCTIONS:
    # jaxlib destroys objects while exceptions are pending, and events when Python is not to be asked.
    if not name.endswith("_Destroy") and not name.startswith("Event_"):
        usual[name] = getattr(api, name)
        kept.append(measured(name, usual[name]))
        setattr(api, name, ctypes.cast(kept[-1], ctypes.c_void_p).value)
stablehlo_py.pjrt.initialize()
jax.config.update("jax_platforms", "shlo")
assert [each.platform for each in jax.devices()] == ["shlo"] * 4


def part_call() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    assert jax.jit(lambda a: a @ a.T)(x).tolist() == [[5, 14], [14, 50]]
    assert np.allclose(jax.grad(lambda a: jnp.sin(a).sum())(x), np.cos(np.arange(6.0).reshape(2, 3)), atol=1e-6)
    total, steps = jax.lax.scan(lambda sum_, each: (sum_ + each, sum_), 0.0, jnp.arange(5.0))
    assert total == 10 and steps.tolist() == [0, 0, 1, 3, 6]
    assert 0 <= jax.random.uniform(jax.random.key(0)) < 1


def part_donation() -> None:
    x = jnp.arange(1000.0) + 1
    address = x.unsafe_buffer_pointer()
    y = jax.jit(lambda a: a + 1, donate_argnums=0)(x)
    assert x.is_deleted() and y.unsafe_buffer_pointer() == address and y[3] == 5


def part_compilation() -> None:
    compiled = jax.jit(lambda a: jnp.sin(a) * 2).lower(jnp.arange(8.0)).compile()
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes == 32
    assert "sine" in compiled.as_text()
    x = jax.device_put(np.arange(3.0, dtype=np.float32), jax.devices()[1])
    assert jax.device_put(x, jax.devices()[2]).tolist() == [0, 1, 2]
    assert np.from_dlpack(x).tolist() == jax.dlpack.from_dlpack(np.arange(3.0)).tolist() == [0, 1, 2]


def part_callbacks(said: list[str]) -> None:
    wanted = jax.ShapeDtypeStruct((3,), jnp.float32)
    doubled = jax.jit(lambda a: jax.pure_callback(lambda v: np.asarray(v) * 2, wanted, a) + 1)
    assert doubled(jnp.arange(3.0)).tolist() == [1, 3, 5]

    @jax.jit
    def ordered(a):
        jax.debug.callback(lambda v: said.append(f"first {v}"), a, ordered=True)
        jax.debug.callback(lambda v: said.append(f"second {v}"), a + 1, ordered=True)
        return jax.experimental.io_callback(lambda v: np.float32(v + 1), jax.ShapeDtypeStruct((), np.float32), a)

    assert ordered(1.0) == 2
    jax.effects_barrier()
    assert said == ["first 1.0", "second 2.0"], said


def part_custom_calls() -> None:
    for name in ("scale", "attributes", "square"):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="shlo")
    types = {}
    for name in ("id", "info"):
        function = getattr(library, f"counter_type_{name}")
        function.restype = ctypes.c_void_p
        types[f"type_{name}"] = jax.ffi.pycapsule(function())
    jax.ffi.register_ffi_type("counter", types, platform="shlo")
    stages = {"instantiate": jax.ffi.pycapsule(library.make_counter), "execute": jax.ffi.pycapsule(library.count)}
    jax.ffi.register_ffi_target("count", stages, platform="shlo")
    wanted = jax.ShapeDtypeStruct((3,), np.float32)
    added = np.array([1, -4], np.int64)

    def scale(a, mode):
        return jax.ffi.ffi_call("scale", wanted)(a, factor=np.float32(2), mode=mode, added=added)

    x = jnp.arange(3.0)
    assert jax.jit(lambda a: scale(a, "scale"))(x).tolist() == [-3, -1, 1]
    assert jax.jit(jax.ffi.ffi_call("square", wanted))(x).tolist() == [0, 1, 4]
    with jax.enable_x64(True):
        number = jax.ShapeDtypeStruct((), np.int64)
        count = jax.jit(lambda: jax.ffi.ffi_call("count", number, has_side_effect=True)(first=7))
        assert [int(count()) for _ in range(3)] == [7, 8, 9]
    assert "there is no mode odd" in failure(jax.jit(lambda a: scale(a, "odd")), x)
    assert "negative" in failure(jax.jit(jax.ffi.ffi_call("square", wanted)), -x - 1)


def part_linear_algebra() -> None:
    a = jnp.array([[2.0, 1.0], [1.0, 2.0]])
    assert np.allclose(jnp.linalg.eigh(a)[0], [1, 3], atol=1e-5)
    assert np.allclose(jnp.linalg.svd(a)[1], [3, 1], atol=1e-5)
    assert np.allclose(jnp.linalg.solve(a, jnp.ones(2)), [1 / 3, 1 / 3], atol=1e-5)
    q, r = jnp.linalg.qr(a)
    assert np.allclose(q @ r, a, atol=1e-5)


def part_devices() -> None:
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, P("d")))
    mean = jax.jit(jax.shard_map(lambda part: jax.lax.pmean(part, "d"), mesh=mesh, in_specs=P("d"), out_specs=P()))
    assert [each.data.tolist() for each in x.addressable_shards] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert mean(x).tolist() == [3, 4]
    assert jax.jit(lambda a: (a * 2).sum())(x) == 56
    wide = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    y = jax.device_put(jnp.arange(8.0), jax.NamedSharding(wide, P(("a", "b"))))
    for axes, expected in (("a", [4, 6, 8, 10]), ("b", [2, 4, 10, 12])):
        specs = {"in_specs": P(("a", "b")), "out_specs": P("b" if axes == "a" else "a")}
        summed = jax.jit(jax.shard_map(lambda part, axes=axes: jax.lax.psum(part, axes), mesh=wide, **specs))
        assert summed(y).tolist() == expected


def part_errors() -> None:
    x = jnp.arange(3.0)
    x.delete()
    assert "deleted" in failure(lambda: x + 1)
    wanted = jax.ShapeDtypeStruct((2,), jnp.float32)

    def wrong(_):
        raise ArithmeticError("no such number")

    assert "no such number" in failure(jax.jit(lambda a: jax.pure_callback(wrong, wanted, a)), jnp.ones(2))
    assert "No such compile option" in failure(jax.jit(lambda a: a + 1, compiler_options={"fast": True}), jnp.ones(2))


def part_other_apis() -> None:
    """Functions that a later API has, and arguments of an earlier one, which lack fields."""
    arguments = structure("Client_LookupDevice")(struct_size=16)
    blocks = plugin._blocks()
    for function in (api.later[0], usual["Client_LookupDevice"]):
        error = plugin._CALLBACK(function)(ctypes.addressof(arguments))
        assert blocks.field("error", error, "code") == 12  # unimplemented


def failure(function, *arguments) -> str:
    """The text of the error that a call ends in."""
    try:
        jax.block_until_ready(function(*arguments))
    except (RuntimeError, ValueError) as error:
        return str(error)
    raise AssertionError("it went well")


part_call()
part_donation()
part_compilation()
part_callbacks([])
part_custom_calls()
part_linear_algebra()
part_devices()
part_errors()
part_other_apis()
for name, address in usual.items():
    setattr(api, name, address)
report.write_text(json.dumps(passed))
# Arrays are alive, and a program runs, when the interpreter ends.
alive = [jnp.ones(1000), jax.jit(lambda a: jax.lax.fori_loop(0, 10**6, lambda i, v: v + 1, a))(jnp.ones(100))]
print(f"done with {jax.__version__}")
