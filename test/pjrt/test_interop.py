"""Arrays of the platform and of others in the same memory: DLPack, and arrays of NumPy that are taken as they are."""

from __future__ import annotations

import pytest

from test.helpers.platform_scripts import script

# `aligned(size)`: an array of f32 that begins on a cache line, full of ones, and how to see when it is freed.
ALIGNED = """
import gc, weakref
class Owner(np.ndarray):
    pass
def aligned(size):
    raw = np.empty(size * 4 + 64, np.uint8).view(Owner)
    start = -raw.ctypes.data % 64
    array = raw[start : start + size * 4].view(np.float32)
    array[:] = 1
    return array, weakref.ref(raw)
def dead(reference):
    jax.device_put(0)  # JAX gives references back when it is called next
    gc.collect()
    return reference() is None
"""


def interop(text: str) -> None:
    script(ALIGNED + text)


def test_numpy_sees_the_memory_by_dlpack() -> None:
    interop("""
x = jnp.arange(6.0).reshape(2, 3)
assert x.__dlpack_device__() == (1, 0)
y = np.from_dlpack(x)
assert y.ctypes.data == x.unsafe_buffer_pointer() and not y.flags.writeable and y.tolist() == [[0, 1, 2], [3, 4, 5]]
del x
gc.collect()
jnp.ones((2, 3)) + 1
assert y.tolist() == [[0, 1, 2], [3, 4, 5]]
z = jnp.zeros(3)
copied = np.from_dlpack(z, copy=True)
assert copied.ctypes.data != z.unsafe_buffer_pointer()
""")


@pytest.mark.parametrize("dtype", ["bool", "i1", "u4", "f2", "f4", "c8", "bfloat16", "float8_e4m3fn"])
def test_element_types_by_dlpack(dtype: str) -> None:
    interop(f"""
import ml_dtypes
x = jnp.ones((2, 3), np.dtype(getattr(ml_dtypes, {dtype!r}, {dtype!r})))
y = jax.dlpack.from_dlpack(x)
assert y.dtype == x.dtype and y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
assert np.asarray(y).tobytes() == np.asarray(x).tobytes()
import stablehlo_py as shlo
import stablehlo_py.runtime.dlpack as dlpack
assert (dlpack.imported(x) == np.asarray(x)).all()
assert jax.dlpack.from_dlpack(jnp.zeros((0, 3), x.dtype)).shape == (0, 3)
""")


def test_memory_seen_by_dlpack_is_not_donated() -> None:
    interop("""
step = jax.jit(lambda a: a + 1, donate_argnums=0)
x = jnp.zeros(10_000)
seen = np.from_dlpack(x)
y = step(x)
assert x.is_deleted() and y.unsafe_buffer_pointer() != seen.ctypes.data
assert (seen == 0).all() and (np.asarray(y) == 1).all()
""")


def test_memory_of_numpy_by_dlpack() -> None:
    interop("""
a, owner = aligned(8)
x = jnp.from_dlpack(a)
assert x.unsafe_buffer_pointer() == a.ctypes.data and x.devices() == {jax.devices()[0]}
del a
assert not dead(owner) and (x + 1).tolist() == [2.0] * 8
y = jnp.from_dlpack(x)
del x
assert not dead(owner) and y.tolist() == [1.0] * 8
del y
assert dead(owner)
a, owner = aligned(8)
x = jnp.from_dlpack(a)
del a
x.delete()
assert dead(owner)
""")


def test_what_cannot_be_shared_is_copied_or_refused() -> None:
    interop("""
a, _ = aligned(64)
a[:] = np.arange(64)
for other in (a[1:], a.reshape(8, 8).T, a[::2], a[::-1], np.broadcast_to(a, (2, 64))):
    for copy in (None, True):
        x = jnp.from_dlpack(other, copy=copy)
        assert (np.asarray(x) == other).all() and x.unsafe_buffer_pointer() != other.ctypes.data
    try:
        jnp.from_dlpack(other, copy=False)
    except ValueError as error:
        assert "aligned to 64 bytes" in str(error), error
    else:
        raise AssertionError
from jaxlib import _jax
for other, said in ((a[1:], "is not aligned to 64 bytes"), (a.reshape(8, 8).T, "not dense and row-major")):
    try:
        _jax.dlpack_managed_tensor_to_buffer(other.__dlpack__(), jax.devices()[0], None, False)
    except jax.errors.JaxRuntimeError as error:
        assert said in str(error), error
    else:
        raise AssertionError
""")


def test_devices_that_take_over_memory() -> None:
    script(
        ALIGNED
        + """
jax.config.update("jax_platforms", "cpu,shlo")
a, _ = aligned(16)
ours, cpu = jax.devices("shlo")[1], jax.devices("cpu")[0]
assert jnp.from_dlpack(a).devices() == {cpu}
x = jnp.from_dlpack(a, device=ours, copy=False)
assert x.devices() == {ours} and x.unsafe_buffer_pointer() == a.ctypes.data
y = jnp.from_dlpack(x)
assert y.devices() == {ours} and y.unsafe_buffer_pointer() == a.ctypes.data
with jax.default_device(ours):
    assert jnp.from_dlpack(a).devices() == {ours}
z = jnp.from_dlpack(x, device=cpu, copy=False)
assert z.devices() == {cpu} and z.unsafe_buffer_pointer() == a.ctypes.data
assert jnp.from_dlpack(z).devices() == {cpu} and jnp.from_dlpack(z, device=ours).devices() == {ours}
""",
        SHLO_NUM_DEVICES="2",
    )


def test_large_aligned_arrays_of_numpy_are_taken_as_they_are() -> None:
    interop("""
a, owner = aligned(1 << 16)
x = jax.device_put(a)
assert x.unsafe_buffer_pointer() == a.ctypes.data
assert jnp.array(a).unsafe_buffer_pointer() != a.ctypes.data
y = jax.jit(lambda x: x * 2, donate_argnums=0)(x)
assert x.is_deleted() and (a == 1).all() and (np.asarray(y) == 2).all()
del x
seen = np.asarray(jax.device_put(a))
del a, y
assert not dead(owner) and (seen == 1).all()
del seen
assert dead(owner)
""")


def test_a_program_that_waits_keeps_the_memory() -> None:
    interop("""
slow = jax.jit(lambda n: jax.lax.fori_loop(0, n, lambda i, v: jnp.sin(v) + i, 0.0))
late = jax.jit(lambda n, x: (x + n).sum())
late(slow(1), jnp.ones(1 << 16)).block_until_ready()
a, owner = aligned(1 << 16)
result = late(slow(2_000_000) * 0, jax.device_put(a))
del a
gc.collect()
noise = [np.zeros(1 << 16, np.float32) for _ in range(50)]
assert float(result) == 1 << 16
del noise
assert dead(owner)
""")


def test_an_ending_process_leaves_foreign_memory_alone() -> None:
    interop("""
a, _ = aligned(1 << 16)
slow = jax.jit(lambda n, x: jax.lax.fori_loop(0, n, lambda i, v: jnp.sin(v) + x[0], 0.0))
x, y = jax.device_put(a), jnp.from_dlpack(a)
seen = np.from_dlpack(x)
results = [slow(30_000_000, x), slow(30_000_000, y)]
del x, y
""")


def test_parts_on_several_devices_are_taken_as_they_are() -> None:
    script(
        ALIGNED
        + """
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2,), ("d",))
a, owner = aligned(1 << 16)
x = jax.device_put(a, NamedSharding(mesh, P("d")))
double = jax.jit(lambda x: x * 2, donate_argnums=0, out_shardings=NamedSharding(mesh, P("d")))
y = double(x)
assert (a == 1).all() and (np.asarray(y) == 2).all()
try:
    y.__dlpack__()
except BufferError as error:
    assert "singular" in str(error)
else:
    raise AssertionError
del a, x, y
assert dead(owner)
""",
        SHLO_NUM_DEVICES="2",
    )
