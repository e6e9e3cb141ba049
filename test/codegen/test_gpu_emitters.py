"""Emitters for GPUs: what they write is machine code of each machine, and does what it says where a device runs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.gpu.machine_code import assembly, machine_code
from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
from stablehlo_py.backends.gpu.target import GFX942, OPENCL, SM_90, GpuTarget
from stablehlo_py.codegen import math as real_math
from stablehlo_py.codegen.builder import F16, F32, F64, I1, I8, I32, I64, PTR, Function, ScalarType, Value
from stablehlo_py.codegen.emitters.gpu import GpuEmitter, SpirvEmitter
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.errors import InternalError, ResourceError

TARGETS = [OPENCL, SM_90, GFX942]
THREADS = 64
Body = Callable[[Function], None]


def function(target: GpuTarget, name: str, body: Body, threads: int, *more: tuple[str, ScalarType]) -> Function:
    f = Function(name, [("x", PTR), ("y", PTR), *more], target.emitter(threads), noalias=("x", "y"))
    body(f)
    return f


def text(target: GpuTarget, body: Body, more: Sequence[str] = (), threads: int = THREADS) -> str:
    """The llvm dialect of a kernel of (x, y), with tables and functions."""

    def whole(f: Function) -> None:
        body(f)
        f.ret()

    f = function(target, "kernel", whole, threads)
    return "\n".join([*f.externals.values(), *more, f.text()])


def compiled(target: GpuTarget, body: Body, more: Sequence[str] = (), threads: int = THREADS) -> bytes:
    """SPIR-V, else text."""
    ir = llvm_ir(text(target, body, more, threads), target.architecture)
    return machine_code(ir, target) if target is OPENCL else assembly(ir, target).encode()


def instructions(spirv: bytes) -> list[tuple[int, list[int]]]:
    """Of a module: code and words of each."""
    words, found, at = np.frombuffer(spirv, np.uint32).tolist(), [], 5
    while at < len(words):
        size, code = divmod(words[at], 1 << 16)
        found.append((code, words[at + 1 : at + size]))
        at += size
    return found


def check(
    target: GpuTarget,
    body: Body,
    patterns: dict[str, Sequence[str | int]],
    more: Sequence[str] = (),
    threads: int = THREADS,
) -> None:
    """The machine code has what is listed for its machine: patterns of assembly, codes of instructions of SPIR-V."""
    made = compiled(target, body, more, threads)
    if target is OPENCL:
        codes = {code for code, _ in instructions(made)}
        assert set(patterns[target.name]) <= codes
    else:
        for pattern in patterns[target.name]:
            assert re.search(str(pattern), made.decode()), f"no {pattern} in\n{made.decode()}"


every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


@pytest.fixture(scope="module")
def device() -> OpenClDevice:
    try:
        return OpenClDevice()
    except ResourceError as error:
        pytest.skip(error.reason)


def run(device: OpenClDevice, made: bytes, x: np.ndarray, y: np.ndarray, blocks: int = 1) -> np.ndarray:
    """What a kernel of (x, y) makes of y."""
    kernel = (built := device.build(made)).kernel("kernel")
    arrays = [x, y.copy()]
    held = [device.memory.allocate(array.nbytes) for array in arrays]
    for number, (array, block) in enumerate(zip(arrays, held, strict=True)):
        device.memory.write(array, block)
        device.queue.library.call("clSetKernelArgSVMPointer", kernel, number, block.address)
    sizes, local = np.array([blocks * THREADS], np.uintp), np.array([THREADS], np.uintp)
    device.queue.call("clEnqueueNDRangeKernel", kernel, 1, None, sizes.ctypes.data, local.ctypes.data, 0, None, None)
    device.memory.read(held[1], arrays[1])
    del built
    return arrays[1]


def element(f: Function) -> Value:
    """The number of a thread among all."""
    return f.index(f.iadd(f.imul(f.block_number(0), THREADS), f.thread_number(0)))


# --- where a thread is -----------------------------------------------------------------------------------------------


def where(f: Function) -> None:
    for place, number in enumerate((f.thread_number(0), f.block_number(0), f.block_size(0), f.block_size(1))):
        f.store(number, f.y, f.iadd(f.imul(element(f), 4), place))


@every_target
def test_a_kernels_head(target) -> None:
    made = compiled(target, where)
    if target is OPENCL:
        found = instructions(made)
        assert [words[0] for code, words in found if code == 15] == [6]  # OpEntryPoint, a kernel
        assert [words[1:] for code, words in found if code == 16 and words[1] == 17] == [[17, THREADS, 1, 1]]
        return
    head = {
        "sm_90": [r"\.target sm_90", r"\.visible \.entry kernel\(", r"\.reqntid 64(, 1, 1)?\n", r"\.ptr \.global"],
        "gfx942": [r"\.amdhsa_kernel kernel", r"\.max_flat_workgroup_size: 64", "gfx942"],
    }
    for pattern in head[target.name]:
        assert re.search(pattern, made.decode()), f"no {pattern} in\n{made.decode()}"


@every_target
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_numbers_of_threads_and_blocks(target, axis) -> None:
    def body(f: Function) -> None:
        at = f.iadd(f.imul(f.block_number(axis), f.block_size(axis)), f.thread_number(axis))
        f.store(f.const(1, I32), f.y, f.index(at))

    letter = "xyz"[axis]
    amd = [rf"system_sgpr_workgroup_id_{letter} 1", rf"system_vgpr_workitem_id {axis}"]
    check(target, body, {"opencl": [81], "sm_90": [f"%tid.{letter}", f"%ctaid.{letter}"], "gfx942": amd})
    if target is OPENCL:
        found = instructions(compiled(target, body))
        builtins = {words[2] for code, words in found if code == 71 and words[1] == 11}  # OpDecorate, BuiltIn
        assert builtins == {25, 26, 27}  # WorkgroupSize, WorkgroupId, LocalInvocationId
        assert {words[3] for code, words in found if code == 81} == {axis}  # OpCompositeExtract


def test_where_a_thread_is(device) -> None:
    found = run(device, compiled(OPENCL, where), np.zeros(1), np.zeros((3 * THREADS, 4), np.int64), 3)
    number = np.arange(3 * THREADS)
    expected = [number % THREADS, number // THREADS, np.full_like(number, THREADS), np.ones_like(number)]
    np.testing.assert_array_equal(found, np.stack(expected, 1))


# --- what threads share ----------------------------------------------------------------------------------------------


@every_target
def test_f32_is_not_computed_in_f64(target) -> None:
    """Many GPUs have few units for f64."""

    def body(f: Function) -> None:
        x = f.load(F32, f.x, element(f))
        f.store(real_math.power(f, x, x), f.y, element(f))

    assert "f64" not in text(target, body)


def reversed_in_blocks(f: Function) -> None:
    """Threads of a block change places, twice: by shared memory, which is written again behind a barrier."""
    place, thread = f.shared_memory(THREADS, F32), f.thread_number(0)
    value = f.load(F32, f.x, element(f))
    for distance in (0, 5):
        f.store(value, place, thread)
        f.barrier()
        other = f.irem(f.iadd(f.isub(THREADS - 1, thread), distance), THREADS)
        value = f.load(F32, place, other)
        f.barrier()
    f.store(value, f.y, element(f))


@every_target
def test_barriers_and_shared_memory(target) -> None:
    patterns = {
        "opencl": [224],  # OpControlBarrier
        "sm_90": [r"\.shared .*kernel_?\$?.*shared0.*\[256\]", r"bar(rier)?\.(cta\.)?sync", r"(ld|st)\.shared\.[bf]32"],
        "gfx942": ["s_barrier", "ds_write_b32", "ds_read_b32", r"\.group_segment_fixed_size: 256"],
    }
    # Of more than one wavefront: threads of one need no barrier on AMD's.
    check(target, reversed_in_blocks, patterns, threads=2 * THREADS)


def test_shared_memory_of_several_blocks(device) -> None:
    x = np.arange(4 * THREADS, dtype=np.float32)
    found = run(device, compiled(OPENCL, reversed_in_blocks), x, np.zeros_like(x), 4)
    once = x.reshape(4, THREADS)[:, ::-1]
    number = (THREADS - 1 - np.arange(THREADS) + 5) % THREADS
    np.testing.assert_array_equal(found.reshape(4, THREADS), once[:, number])


def test_two_arrays_of_shared_memory_are_not_one() -> None:
    f = Function("kernel", [("x", PTR), ("y", PTR)], OPENCL.emitter(THREADS))
    assert len({f.shared_memory(8, F32).ref, f.shared_memory(8, I8).ref, f.shared_memory(3, F64).ref}) == 3
    f.ret()
    globals_ = re.findall(r"llvm\.mlir\.global internal @(\S+)\(\) .*alignment = (\d+) .*<(\d+) x (\w+)> \{", f.text())
    assert [name for name, *_ in globals_] == ["kernel.shared0", "kernel.shared1", "kernel.shared2"]
    assert [(count, of) for _, _, count, of in globals_] == [("8", "f32"), ("8", "i8"), ("3", "f64")]


def exchanged(of: ScalarType) -> Body:
    """Neighbours change places, then pairs of them."""

    def body(f: Function) -> None:
        value = f.load(of, f.x, element(f))
        for mask in (1, 2):
            value = f.subgroup_shuffle(value, f.const(mask, I32))
        f.store(value, f.y, element(f))

    return body


@every_target
@pytest.mark.parametrize("of", [F32, I32], ids=str)
def test_values_of_neighbours(target, of) -> None:
    code = {"opencl": [346], "sm_90": [r"shfl\.sync\.bfly\.b32"], "gfx942": ["ds_bpermute_b32|dpp"]}
    check(target, exchanged(of), code)  # 346: OpGroupNonUniformShuffleXor


@pytest.mark.parametrize("of", [F32, I32], ids=str)
def test_values_of_neighbours_on_a_device(device, of) -> None:
    x = np.arange(2 * THREADS).astype({"f32": np.float32, "i32": np.int32}[of.text])
    found = run(device, compiled(OPENCL, exchanged(of)), x, np.zeros_like(x), 2)
    np.testing.assert_array_equal(found, x.reshape(-1, 4)[:, ::-1].reshape(-1))


# --- atomic updates --------------------------------------------------------------------------------------------------


def tallied(f: Function) -> None:
    """x[0] grows by one a thread; y[0] too, by exchanges."""
    f.atomic_update("add", f.x, f.const(1, I32))

    def attempt(old: Value, _: Value) -> Sequence[Value]:
        return f.atomic_replace(f.y, old, f.binary("add", old, f.const(1, I32)))

    first = [f.atomic_load(I32, f.y, "monotonic"), f.const(False, I1)]
    f.while_(first, lambda _, done: f.binary("xor", done, f.const(True, I1)), attempt)


@every_target
def test_atomic_updates(target) -> None:
    patterns = {
        "opencl": [230, 234],  # OpAtomicCompareExchange, OpAtomicIAdd
        "sm_90": [r"atom\.global\.add\.u32", r"atom\.relaxed\.gpu\.global\.cas\.b32"],
        "gfx942": [r"global_atomic_add v", r"global_atomic_cmpswap v"],
    }
    check(target, tallied, patterns)


def test_atomic_updates_on_a_device(device) -> None:
    y = np.full(THREADS, 7, np.int32)
    found = run(device, compiled(OPENCL, tallied), np.zeros_like(y), y, 5)
    assert found[0] == 7 + 5 * THREADS


@pytest.mark.parametrize("name", ["add", "and", "fadd", "max", "min", "or", "umax", "umin", "xor"])
@every_target
def test_operations_of_atomic_updates(target, name) -> None:
    """Of 32 and 64 bits; SPIR-V adds floats by an extension, which no template asks for."""
    kinds = (F32, F64) if name == "fadd" else (I32, I64)

    def body(f: Function) -> None:
        for of in kinds:
            f.atomic_update(name, f.gep(f.y, f.thread_number(), of), f.load(of, f.x, f.thread_number()))

    made = compiled(target, body)
    if target is OPENCL:
        assert any(227 <= code <= 242 or code == 6035 for code, _ in instructions(made))
    else:
        assert len(re.findall(r"atom\.global|global_atomic", made.decode())) == 2


# --- memory and calls ------------------------------------------------------------------------------------------------


def counted(f: Function) -> None:
    """How many of 64 numbers have each remainder: counters of a thread, at places that are known when it runs."""
    counters = f.alloca(4, I64)
    f.loop(0, 4, 1, lambda i: f.store(f.const(0), counters, i))

    def count(i: Value) -> None:
        at = f.binary("and", f.load(I64, f.x, f.iadd(element(f), i)), f.const(3))
        f.store(f.index(f.iadd(f.load(I64, counters, at), 1)), counters, at)

    f.loop(0, THREADS, 1, count)
    f.loop(0, 4, 1, lambda i: f.store(f.load(I64, counters, i), f.y, f.iadd(f.imul(element(f), 4), i)))


@every_target
def test_memory_of_a_thread(target) -> None:
    check(target, counted, {"opencl": [59], "sm_90": [r"\.local|selp"], "gfx942": ["scratch_|private_segment"]})


def test_memory_of_a_thread_on_a_device(device) -> None:
    x = np.random.default_rng(0).integers(-1000, 1000, 2 * THREADS)
    found = run(device, compiled(OPENCL, counted), x, np.zeros((THREADS, 4), np.int64))
    expected = [np.bincount(x[start : start + THREADS] & 3, minlength=4) for start in range(THREADS)]
    np.testing.assert_array_equal(found, expected)


NUMBERS = np.array([1.5, -0.0, np.inf, 3e-42, -7.25, np.nan, 1 / 3, 2.0**100], np.float32)
ORDER = np.array([3, 1, 0, 2, 7, 5, 4, 6], np.int64)


def looked_up(f: Function) -> None:
    order, numbers = f.address_of("order"), f.address_of("numbers")
    at = f.load(I64, order, f.binary("and", element(f), f.const(7)))
    f.store(f.load(F32, numbers, at), f.y, element(f))


def tables(target: GpuTarget) -> list[str]:
    emitter = type(target.emitter())
    return [constant_table("order", ORDER, I64, emitter), constant_table("numbers", NUMBERS, F32, emitter)]


@every_target
def test_tables(target) -> None:
    patterns = {"opencl": [59, 44], "sm_90": [r"\.global .*numbers", r"ld\.global"], "gfx942": ["numbers:", "order:"]}
    check(target, looked_up, patterns, tables(target))


def test_tables_on_a_device(device) -> None:
    found = run(device, compiled(OPENCL, looked_up, tables(OPENCL)), np.zeros(1), np.zeros(THREADS, np.float32))
    assert found.tobytes() == np.tile(NUMBERS[ORDER], THREADS // 8).tobytes()


def helper(target: GpuTarget) -> str:
    """A function that kernels call: it adds what x has at a place, and writes the place to y."""

    def body(f: Function) -> None:
        f.store(f.at, f.y, f.at)
        f.ret(f.fadd(f.a, f.load(F32, f.x, f.at)))

    f = Function("helper", [("x", PTR), ("y", PTR), ("at", I64), ("a", F32)], target.emitter(), result=F32)
    body(f)
    return f.text()


def calling(f: Function) -> None:
    places = f.gep(f.y, THREADS, I64)
    f.store(f.call("helper", [f.x, places, element(f), f.const(0.5, F32)], F32), f.y, f.imul(element(f), 2))


@every_target
def test_calls(target) -> None:
    """Functions that kernels call are nobody else's: LLVM may make them part of the kernel."""
    more = [helper(target)]
    assert "llvm.func internal" in more[0]
    patterns = {"opencl": [62], "sm_90": [r"(add|fma)\.(rn\.)?f32"], "gfx942": ["v_(pk_)?add_f32"]}
    check(target, calling, patterns, more)


def test_calls_on_a_device(device) -> None:
    x = np.arange(THREADS, dtype=np.float32)
    found = run(device, compiled(OPENCL, calling, [helper(OPENCL)]), x, np.zeros(2 * THREADS, np.int64))
    np.testing.assert_array_equal(found[:THREADS].view(np.float32)[::2], x + 0.5)
    np.testing.assert_array_equal(found[THREADS:], np.arange(THREADS))


# --- arithmetic ------------------------------------------------------------------------------------------------------

DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 6e-8, -6e-8, 2.5]


def extrema(of: ScalarType, count: int) -> Body:
    """Of all pairs of the first `count` numbers: maximum and minimum, which are also computed of two lanes."""

    def body(f: Function) -> None:
        def pair(i: Value) -> None:
            a, b = f.load(of, f.x, f.idiv(i, count)), f.load(of, f.x, f.irem(i, count))
            for place, name in enumerate(("maximum", "minimum")):
                f.store(f.intrinsic(name, a, b), f.y, f.iadd(f.imul(i, 4), place))
                lanes = (f.splat(each, 2) for each in (a, b))
                f.store(f.extract(f.intrinsic(name, *lanes), 1), f.y, f.iadd(f.imul(i, 4), place + 2))

        f.loop(element(f), count * count, THREADS, pair)

    return body


@every_target
@pytest.mark.parametrize("of", [F16, F32, F64], ids=str)
def test_extrema(target, of) -> None:
    code = {"f16": r"max\.NaN\.f16", "f32": r"max\.NaN\.f32", "f64": r"setp\.\w+\.f64"}
    # 62 OpStore; OpExtInst (12) would be fmax of OpenCL, which loses NaN.
    check(target, extrema(of, 2), {"opencl": [62], "sm_90": [code[of.text]], "gfx942": [f"v_(pk_)?max(imum)?_{of}"]})
    if target is OPENCL:
        assert 12 not in {code for code, _ in instructions(compiled(target, extrema(of, 2)))}


@pytest.mark.parametrize("of", [F16, F32, F64], ids=str)
def test_extrema_of_nan_and_signed_zeros(device, of) -> None:
    if (of is F16 and not device.description.has_f16) or (of is F64 and not device.description.has_f64):
        pytest.skip(f"{device.description.name} has no {of}")
    x = np.array(SPECIAL, DTYPES[of.text])
    a, b = np.repeat(x, x.size), np.tile(x, x.size)
    found = run(device, compiled(OPENCL, extrema(of, x.size)), x, np.zeros((a.size, 4), x.dtype))
    zeros = (a == 0) & (b == 0)
    maximum = np.where(zeros, np.where(np.signbit(a) & np.signbit(b), -0.0, 0.0), np.maximum(a, b)).astype(x.dtype)
    minimum = np.where(zeros, np.where(np.signbit(a) | np.signbit(b), -0.0, 0.0), np.minimum(a, b)).astype(x.dtype)
    for place, expected in enumerate((maximum, minimum) * 2):
        np.testing.assert_array_equal(found[:, place], expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[numbers, place]), np.signbit(expected[numbers]))


def multiplied_and_added(f: Function) -> None:
    a = f.load(F32, f.x, element(f))
    f.store(f.intrinsic("fmuladd", a, a, f.const(-1.0, F32)), f.y, element(f))


@every_target
def test_products_with_sums_have_one_rounding(target) -> None:
    check(target, multiplied_and_added, {"opencl": [12], "sm_90": [r"fma\.rn\.f32"], "gfx942": ["v_fma(c|_)"]})


def test_products_with_sums_on_a_device(device) -> None:
    x = 1 + np.arange(THREADS, dtype=np.float32) * np.float32(2**-20)
    found = run(device, compiled(OPENCL, multiplied_and_added), x, np.zeros_like(x))
    np.testing.assert_array_equal(found, (x.astype(np.float64) ** 2 - 1).astype(np.float32))


# --- what is not there -----------------------------------------------------------------------------------------------


def test_what_emitters_of_gpus_lack() -> None:
    assert issubclass(SpirvEmitter, GpuEmitter)
    for use in ("thread_number", "block_number", "block_size"):
        with pytest.raises(InternalError, match=f"GpuEmitter has no {use}"):
            getattr(Function("f", [("x", PTR)], GpuEmitter()), use)(0)
    with pytest.raises(InternalError, match="GpuEmitter has no kernel_attributes"):
        Function("f", [("x", PTR)], GpuEmitter(threads=32)).text()
