"""Emitters: the same function as llvm dialect, as LLVM IR and as C computes the same bits; what an emitter lacks it
says."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stablehlo_py.backends.cpu.kernels.transposing import load_rows, store_rows, transposed, transposed_in_memory
from stablehlo_py.backends.cpu.light_objects import object_of
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import host_target
from stablehlo_py.codegen import conversions, types
from stablehlo_py.codegen import math as real_math
from stablehlo_py.codegen.builder import F32, F64, I1, I8, I16, I32, I64, PTR, Function, ScalarType, Value, VectorType
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.emitters.c import CEmitter
from stablehlo_py.codegen.emitters.c_helpers import helpers_of
from stablehlo_py.codegen.emitters.llvm import LlvmEmitter
from stablehlo_py.codegen.emitters.llvm_ir import LlvmIrEmitter, unoptimized
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.codegen.values import Space, pointer
from stablehlo_py.errors import InternalError

COMPILER = shutil.which("gcc") or shutil.which("clang")
HEADERS = ["#include <math.h>", "#include <stdint.h>", "#include <string.h>"]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (Debian: gcc)")
NUMPY = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}

Body = Callable[[Function], None]


def function(body: Body, emitter: Emitter) -> Function:
    f = Function("kernel", [("x", PTR), ("y", PTR), ("n", I64)], noalias=["y"], emitter=emitter)
    body(f)
    f.ret()
    return f


def same(body: Body, x: np.ndarray, y: np.ndarray, tmp_path: Path, table: np.ndarray | None = None) -> np.ndarray:
    """What a function of (x, y, number of elements of x) writes to y, as all emitters write the function."""
    llvm, c = function(body, host_target().emitter()), function(body, CEmitter())
    text = llvm.text()
    written = c.text().replace("static void kernel(", "void kernel(")
    source = "\n".join([*HEADERS, *helpers_of(written), *c.externals.values(), written])
    if table is not None:
        text = "\n".join([text, constant_table("table", table, I64)])
        source = source.replace("void kernel(", f"{constant_table('table', table, I64, CEmitter)}\nvoid kernel(")
    code = NativeCode([compile_units([Unit(("kernel",), text, tuple(llvm.externals.items()))])])
    at_once = function(body, LlvmIrEmitter(host_target()))
    ir = [*at_once.externals.values(), at_once.text()]
    if table is not None:
        ir.append(constant_table("table", table, I64, LlvmIrEmitter))
    text = "\n".join(ir)
    codes = [code, *(NativeCode([object_of(each)]) for each in (text, unoptimized(text)))]
    assert COMPILER is not None
    (tmp_path / "kernel.c").write_text(source)
    library = tmp_path / "kernel.so"
    # The host's own processor: `fmuladd` is one instruction where it has that.
    flags = ["-std=c99", "-pedantic", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-prototypes", "-march=native"]
    flags += ["-ffp-contract=off", "-shared", "-fPIC"]
    made = subprocess.run(
        [COMPILER, *flags, "-o", str(library), str(tmp_path / "kernel.c"), "-lm"], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr + source
    results = []
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    runs = [signature(code.address("kernel")) for code in codes]
    for run in (*runs, signature(("kernel", ctypes.CDLL(str(library))))):
        results.append(y.copy())
        run(x.ctypes.data, results[-1].ctypes.data, x.size)
        np.testing.assert_array_equal(results[-1], results[0])
    return results[0]


def elementwise(f: Function, to: ScalarType, of: ScalarType, compute: Callable[[Value], Value]) -> None:
    f.loop(0, f.n, 1, lambda i: f.store(compute(f.load(of, f.x, i)), f.y, i))


@needs_compiler
@pytest.mark.parametrize("count", [2, 5])
def test_branches_are_hoisted_out_of_loops(tmp_path: Path, count: int) -> None:
    """What a loop begins with comes from the block where the hoisted branch ends."""

    def body(f: Function) -> None:
        def trip(i: Value) -> None:
            with f.at_level(0):
                first, second = (lambda at=at: f.load(I64, f.x, at) for at in (0, 1))
                (picked,) = f.if_(f.cmp("sgt", f.n, f.const(3)), first, second)
            f.store(f.binary("add", picked, i), f.y, i)

        f.loop(0, f.n, 1, trip)

    x = np.arange(count, dtype=np.int64) + 100
    expected = np.arange(count) + (100 if count > 3 else 101)
    np.testing.assert_array_equal(same(body, x, np.zeros(count, np.int64), tmp_path), expected)


@needs_compiler
@pytest.mark.parametrize("count", [0, 1, 7])
def test_loops_carry_values(tmp_path: Path, count: int) -> None:
    """Pairs of Fibonacci numbers change places; the sum's loop stands in another one, its index product outside."""

    def body(f: Function) -> None:
        first, second = f.loop(0, f.n, 1, lambda i, a, b: [b, f.binary("add", a, b)], [f.const(0), f.const(1)])
        f.store(first, f.y)
        f.store(second, f.y, 1)

        def row(i: Value, total: Value) -> list[Value]:
            def column(j: Value, inner: Value) -> Value:
                return f.binary("add", inner, f.index(f.iadd(f.imul(i, f.n), f.irem(j, 3))))

            return f.loop(0, 5, 2, column, [total])

        f.store(f.loop(0, f.n, 1, row, [f.const(0)])[0], f.y, 2)
        f.store(f.loop(0, f.imax(f.n, 1), 4, lambda i, last: i, [f.const(-1)], nonempty=True)[0], f.y, 3)

    result = same(body, np.zeros(count, np.int64), np.zeros(4, np.int64), tmp_path)
    rows = sum(i * count + j % 3 for i in range(count) for j in (0, 2, 4))
    fibonacci = {0: [0, 1], 1: [1, 1], 7: [13, 21]}
    np.testing.assert_array_equal(result, [*fibonacci[count], rows, max(count - 1, 0) // 4 * 4])


@needs_compiler
def test_while_and_branches(tmp_path: Path) -> None:
    """Steps of Collatz' sequences, by a while, an if with results, one without, and a switch."""

    def body(f: Function) -> None:
        def steps(i: Value) -> None:
            def step(a: Value, count: Value) -> list[Value]:
                odd = f.cmp("ne", f.binary("and", a, f.const(1)), f.const(0))
                (a,) = f.if_(
                    odd,
                    lambda: f.index(f.iadd(f.imul(a, 3), 1)),
                    lambda: f.index(f.idiv(a, 2)),
                )
                return [a, f.binary("add", count, f.const(1))]

            start = f.load(I64, f.x, i)
            last, count = f.while_([start, f.const(0)], lambda a, _: f.cmp("sgt", a, f.const(1)), step)
            f.if_(f.cmp("sgt", count, f.const(100)), lambda: f.store(last, f.y, f.iadd(i, f.n)), unlikely=True)
            cases = [
                lambda number=number: f.store(f.index(f.iadd(count, 1000 * number)), f.y, i) for number in range(3)
            ]
            f.switch(f.cast("trunc", f.index(f.irem(i, 4)), I32), cases)

        f.loop(0, f.n, 1, steps)

    x = np.array([1, 2, 3, 7, 27, 97, 871, 6171], np.int64)
    result = same(body, x, np.zeros(2 * x.size, np.int64), tmp_path)
    counts = np.array([0, 1, 7, 16, 111, 118, 178, 261])
    np.testing.assert_array_equal(result[: x.size], counts + 1000 * np.array([0, 1, 2, 2] * 2))
    np.testing.assert_array_equal(result[x.size :], counts > 100)


@needs_compiler
def test_memory(tmp_path: Path) -> None:
    """The stack, tables, copies, a return in the middle."""

    def body(f: Function) -> None:
        stack = f.alloca(4, I64)
        f.set_memory(stack, 0, 32)
        f.copy_memory(stack, f.x, 16)
        f.store(f.binary("add", f.load(I64, stack), f.const(5)), stack)
        f.store(f.load(I64, stack), stack, 3)
        f.loop(0, 4, 1, lambda i: f.store(f.load(I64, stack, i), f.y, i))
        f.store(f.load(I64, f.address_of("table"), f.index(f.irem(f.n, 3))), f.y, 4)
        value, overflows = f.checked("smul", f.load(I64, f.x), f.const(1 << 62))
        f.store(value, f.y, 5)
        f.store(f.cast("zext", overflows, I64), f.y, 6)
        f.ret_if(f.cmp("eq", f.n, f.const(2)))
        f.store(f.const(1), f.y, 7)

    table = np.array([3, -(1 << 40), 9])
    result = same(body, np.array([2, -7]), np.zeros(8, np.int64), tmp_path, table)
    np.testing.assert_array_equal(result, [7, -7, 0, 7, 9, -(1 << 63), 1, 0])


INTEGERS = ["add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "sdiv", "udiv", "srem", "urem"]


@needs_compiler
@pytest.mark.parametrize("of", [I8, I16, I32, I64], ids=str)
def test_integers(tmp_path: Path, of: ScalarType) -> None:
    """All operations and comparisons of pairs of neighbours; what one of them leaves undefined is kept out."""
    least, three = -(1 << (of.bits - 1)), of.bits // 2
    x = np.array([0, 1, -1, least, least + 1, -least - 1, 3, -5, 100, 17, -128, 64, least], NUMPY[of.text])
    predicates = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
    functions = ["smax", "smin", "umax", "umin"]

    def body(f: Function) -> None:
        def pair(i: Value) -> None:
            a, b = f.load(of, f.x, i), f.load(of, f.x, f.iadd(i, 1))
            some = f.binary("or", f.binary("and", b, f.const(three, of)), f.const(1, of))
            results = [f.binary(name, a, some if name in INTEGERS[6:] else b) for name in INTEGERS]
            results += [f.cast("zext", f.cmp(predicate, a, b), of) for predicate in predicates]
            results += [f.intrinsic(name, a, b) for name in functions]
            results += [f.intrinsic(name, a) for name in ("ctpop", "ctlz", "cttz")] + [f.intrinsic("fshl", a, b, some)]
            for number, result in enumerate(results):
                f.store(result, f.y, f.iadd(f.imul(i, len(results)), number))

        f.loop(0, f.isub(f.n, 1), 1, pair)

    count = len(INTEGERS) + len(predicates) + len(functions) + 4
    assert same(body, x, np.zeros((x.size - 1) * count, x.dtype), tmp_path).any()


@needs_compiler
@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_bits_of_a_mask(tmp_path: Path, lanes: int) -> None:
    """The first lane's is the lowest."""

    def body(f: Function) -> None:
        mask = f.cmp("sgt", f.load(VectorType(lanes, I32), f.x), f.splat(f.const(0, I32), lanes))
        f.store(f.cast("zext", f.bitcast(mask, ScalarType(f"i{lanes}", lanes)), I32), f.y)

    x = np.array([1, -1, 0, 5, 7, 7, -3, 0, 1, 0, 0, 2, -2, 9, 0, 1], np.int32)
    (result,) = same(body, x, np.zeros(1, np.int32), tmp_path)
    assert result == sum(1 << lane for lane in range(lanes) if x[lane] > 0)


@needs_compiler
def test_casts(tmp_path: Path) -> None:
    """Between all element types that scalars of C have, by `conversions.convert`."""
    names = ["i8", "ui8", "i16", "i32", "ui32", "i64", "ui64", "f32", "f64", "i1", "bf16", "f8E4M3FN"]
    x = np.array([0.0, -0.0, 1.5, -1.5, 255.5, -129.0, 3e9, -3e9, 1e19, 1e-3, np.inf, -np.inf, np.nan, 65520.0])

    def body(f: Function) -> None:
        def convert(i: Value) -> None:
            number, wide = f.load(F64, f.x, i), types.element("f64")
            position = 0
            for source in map(types.element, names):
                a = conversions.convert(f, wide, source, number)
                a = source.round(f, a) if source.round else a
                for target in map(types.element, names):
                    b = conversions.convert(f, source, target, a)
                    b = target.round(f, b) if target.round else b
                    assert isinstance(b, Value)
                    result = conversions.convert(f, target, wide, b)
                    f.store(result, f.y, f.iadd(f.imul(i, len(names) ** 2), position))
                    position += 1

        f.loop(0, f.n, 1, convert)

    assert same(body, x, np.zeros(x.size * len(names) ** 2), tmp_path).any()


FUNCTIONS = ["exp", "expm1", "log", "log1p", "tanh", "logistic", "sin", "cos", "tan", "erf", "erfc", "erf_inv", "cbrt"]
FUNCTIONS += ["sqrt", "rsqrt", "lgamma", "digamma", "asin", "acosh", "atanh", "sinh", "cosh", "bessel_i1e"]


@needs_compiler
@pytest.mark.parametrize("of", [F32, F64], ids=str)
def test_elementary_functions(tmp_path: Path, of: ScalarType) -> None:
    """Bits of scalars; the functions have loops and branches of their own."""
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 3e4, -7e8, 1e20, 0.5, 88.7, -103.0]
    x = np.concatenate([special, rng.standard_normal(40) * 4, rng.random(20)]).astype(NUMPY[of.text])
    count = len(FUNCTIONS) + 5

    def body(f: Function) -> None:
        def element(i: Value) -> None:
            a, b = f.load(of, f.x, i), f.load(of, f.x, f.isub(f.isub(f.n, 1), i))
            results = [getattr(real_math, name)(f, a) for name in FUNCTIONS]
            results += [real_math.power(f, a, b), real_math.atan2(f, a, b), real_math.remainder(f, a, b)]
            results.append(real_math.atan2(f, a, f.const(1.0, of)))
            results.append(f.intrinsic("maximum", a, f.intrinsic("minimum", b, f.const(1.0, of))))
            for number, result in enumerate(results):
                f.store(result, f.y, f.iadd(f.imul(i, count), number))

        f.loop(0, f.n, 1, element)

    result = same(body, x, np.zeros(count * x.size, x.dtype), tmp_path).reshape(x.size, count)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result[:, 0], np.exp(x), rtol=1e-6)


FLOAT_PREDICATES = ["oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"]


@needs_compiler
def test_vectors(tmp_path: Path) -> None:
    """Four lanes at a time, turned around and scaled by a splat."""

    def body(f: Function) -> None:
        def four(i: Value) -> None:
            a = f.load(VectorType(4, F32), f.x, i)
            turned = f.fmul(f.shuffle(a, a, [3, 2, 1, 0]), f.splat(f.load(F32, f.x), 4))
            f.store(f.fadd(f.insert(turned, f.extract(a, 1), 2), f.const_lanes([1, 2, 3, 4], F32)), f.y, i)

        f.loop(0, f.n, 4, four)

    result = same(body, np.arange(8, dtype=np.float32) + 2, np.zeros(8, np.float32), tmp_path)
    np.testing.assert_array_equal(result, [11, 10, 6, 8, 19, 18, 10, 16])


@needs_compiler
@pytest.mark.parametrize(("of", "lanes"), [(F32, 4), (F32, 16), (F64, 8), (I32, 8), (I16, 32), (I8, 16)])
def test_transposes(of: ScalarType, lanes: int, tmp_path: Path) -> None:
    def body(f: Function) -> None:
        rows = [f.load(VectorType(lanes, of), f.x, lane * lanes) for lane in range(lanes)]
        for lane, column in enumerate(transposed(f, rows)):
            f.store(column, f.y, lane * lanes)

    numbers = np.random.default_rng(1).integers(0, 256, lanes * lanes * of.bits // 8).astype(np.uint8)
    x = numbers.view(f"u{of.bits // 8}")  # among them floats that are NaNs
    result = same(body, x, np.zeros_like(x), tmp_path)
    np.testing.assert_array_equal(result.reshape(lanes, lanes), x.reshape(lanes, lanes).T)
    combined = lanes * of.bits <= 128  # LLVM sees all shuffles at once
    assert ("llvm.arithmetic.fence" in function(body, host_target().emitter()).text()) is not combined


@needs_compiler
@pytest.mark.parametrize(
    ("of", "lanes", "n"), [("complex<f32>", 2, 3), ("complex<f32>", 16, 17), ("complex<f64>", 8, 9)]
)
@pytest.mark.parametrize("loads", [True, False])
def test_transposes_of_complex_numbers(of: str, lanes: int, n: int, loads: bool, tmp_path: Path) -> None:
    element = types.ELEMENTS[of]

    def body(f: Function) -> None:
        if loads:
            put = lambda j, number, value: types.store(  # noqa: E731
                f, element, value, f.y, f.imul(f.iadd(j, number), lanes)
            )
            load_rows(f, element, f.x, n, lanes, put)
        else:
            get = lambda j, number: types.load(  # noqa: E731
                f, element, f.x, f.imul(f.iadd(j, number), lanes), lanes
            )
            store_rows(f, element, f.y, n, lanes, get)

    parts = np.random.default_rng(1).standard_normal((lanes, n, 2))
    x = parts.astype(NUMPY[element.storage.text])
    y = np.ascontiguousarray(x.transpose(1, 0, 2))
    source, wanted = (x, y) if loads else (y, x)
    np.testing.assert_array_equal(same(body, source.ravel(), np.zeros(x.size, x.dtype), tmp_path), wanted.ravel())


@needs_compiler
@pytest.mark.parametrize(("of", "lanes"), [(I8, 64), (I8, 32), (I16, 32)])
def test_transposes_of_more_vectors_than_registers(of: ScalarType, lanes: int, tmp_path: Path) -> None:
    def body(f: Function) -> None:
        tile = transposed_in_memory(f, lambda row: f.load(VectorType(lanes, of), f.x, f.imul(row, lanes)), lanes, of)
        f.copy_memory(f.y, tile, lanes * lanes * of.bits // 8)

    square = np.random.default_rng(1).integers(-99, 99, (lanes, lanes)).astype(NUMPY[of.text])
    result = same(body, square.ravel(), np.zeros(square.size, square.dtype), tmp_path)
    np.testing.assert_array_equal(result.reshape(lanes, lanes), square.T)


def test_comparisons_of_floats(tmp_path: Path) -> None:
    def body(f: Function) -> None:
        def pair(i: Value) -> None:
            a, b = f.load(F32, f.x, f.idiv(i, 4)), f.load(F32, f.x, f.irem(i, 4))
            for number, predicate in enumerate(FLOAT_PREDICATES):
                f.store(f.cast("zext", f.cmp(predicate, a, b), I64), f.y, f.iadd(f.imul(i, 14), number))

        f.loop(0, f.imul(f.n, f.n), 1, pair)

    assert same(body, np.array([0.0, 1.0, -2.0, np.nan], np.float32), np.zeros(16 * 14, np.int64), tmp_path).any()


def test_what_an_emitter_lacks_it_says() -> None:
    f = Function("kernel", [("x", PTR)])
    for use in (
        lambda: f.thread_number(0),
        lambda: f.block_number(1),
        lambda: f.block_size(2),
        f.barrier,
        lambda: f.subgroup_shuffle(f.const(1.0, F32), f.const(1, I32)),
    ):
        with pytest.raises(InternalError, match=r"LlvmEmitter has no (thread_number|block_|barrier|subgroup_shuffle)"):
            use()
    g = Function("kernel", [("x", PTR)], emitter=CEmitter())
    with pytest.raises(InternalError, match="CEmitter has no atomic_add"):
        g.atomic_add(g.x, g.const(1))
    with pytest.raises(InternalError, match="no address space for ptr<shared>"):
        Function("kernel", [("x", pointer(Space.SHARED))]).text()


class BlocksEmitter(LlvmEmitter):
    """The llvm dialect with what a GPU adds to it, as NVIDIA's spells it."""

    types = type(LlvmEmitter.types)(
        {PTR.text: "!llvm.ptr", "ptr<global>": "!llvm.ptr<1>", "ptr<shared>": "!llvm.ptr<3>"}
    )

    def _register(self, register: str) -> str:
        narrow = self._define(f"nvvm.read.ptx.sreg.{register} : i32")
        return self._define(f"llvm.zext {narrow} : i32 to i64")

    def thread_number(self, axis: int) -> str:
        return self._register(f"tid.{'xyz'[axis]}")

    def block_number(self, axis: int) -> str:
        return self._register(f"ctaid.{'xyz'[axis]}")

    def block_size(self, axis: int) -> str:
        return self._register(f"ntid.{'xyz'[axis]}")

    def barrier(self) -> None:
        self.lines.append("nvvm.barrier")

    def subgroup_shuffle(self, a: Value, mask: Value) -> str:
        everyone = self.constant(-1, I32)
        last = self.constant(31, I32)
        return self._define(
            f"nvvm.shfl.sync bfly {everyone}, {a.ref}, {mask.ref}, {last} : {a.type.text} -> {a.type.text}"
        )


def test_an_emitter_for_blocks_of_threads() -> None:
    """Pointers keep their address spaces through sums, and a reduction over a block is a module that MLIR takes."""
    from stablehlo_py.mlir import ir, quiet_context

    shared = pointer(Space.SHARED)
    f = Function("reduce", [("x", pointer(Space.GLOBAL)), ("part", shared)], emitter=BlocksEmitter())
    thread = f.thread_number()
    element = f.iadd(f.imul(f.block_number(), f.block_size()), thread)
    total = f.load(F32, f.x, element)
    for distance in (16, 8, 4, 2, 1):
        total = f.fadd(total, f.subgroup_shuffle(total, f.const(distance, I32)))
    f.if_(f.cmp("eq", f.index(f.irem(thread, 32)), f.const(0)), lambda: f.store(total, f.part, f.idiv(thread, 32)))
    f.barrier()
    f.store(f.load(F32, f.part), f.x, element)
    assert f.gep(f.part, thread, F32).type == shared
    f.ret()
    with quiet_context() as context:
        context.allow_unregistered_dialects = False
        text = str(ir.Module.parse(f.text()))
    assert "llvm.store" in text
    assert "!llvm.ptr<3>, f32" in text
    assert "nvvm.barrier" in text


@pytest.mark.parametrize("lanes", [2, 8, 16, 32])
@pytest.mark.parametrize(("wide", "narrow"), [(I32, I16), (I32, I8), (I64, I32), (I64, I16), (I16, I8), (I32, I32)])
def test_masked_stores_touch_the_lanes_of_their_masks_alone(wide: ScalarType, narrow: ScalarType, lanes: int) -> None:
    """LLVM stores the one lane of a constant mask as a number, which of truncated vectors was as wide as before."""
    tails = [[int(lane < count) for lane in range(lanes)] for count in range(lanes + 1)]
    masks = [*tails, *([int(lane == one) for lane in range(lanes)] for one in range(lanes))]

    def body(f: Function) -> None:
        for number, mask in enumerate(masks):
            value = f.load(VectorType(lanes, wide), f.x, number * lanes)
            value = value if wide is narrow else f.cast("trunc", value, narrow)
            constant = f.tail_mask(number, lanes) if number < len(tails) else f.const_lanes(mask, I1)
            f.store(value, f.y, number * lanes, constant)

    dialect, ir = function(body, host_target().emitter()), function(body, LlvmIrEmitter(host_target()))
    objects = [compile_units([Unit.of(dialect)])]
    text = "\n".join([*ir.externals.values(), ir.text()])
    objects += [object_of(each) for each in (text, unoptimized(text))]
    x = np.arange(len(masks) * lanes).reshape(-1, lanes).astype(NUMPY[wide.text]) + 1
    for code in map(NativeCode, ([each] for each in objects)):
        y = np.zeros((len(masks) + 1, lanes), NUMPY[narrow.text])
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, ctypes.c_int64)(code.address("kernel"))(
            x.ctypes.data, y.ctypes.data, 0
        )
        np.testing.assert_array_equal(y[:-1], np.array(masks) * x.astype(y.dtype))
        assert not y[-1].any()


@pytest.mark.parametrize("first", [1, 3])
def test_what_a_known_comparison_excludes_is_not_written(first: int) -> None:
    f = Function("kernel", [("x", PTR)], emitter=LlvmIrEmitter(host_target()))
    is_less = f.cmp("slt", f.const(first), f.const(2))
    chosen = f.select(is_less, f.const(10), f.const(20))
    f.if_(is_less, lambda: f.store(chosen, f.x), lambda: f.store(f.index(f.iadd(chosen, 1)), f.x))
    assert [line for line in f.emit.lines if isinstance(line, str)] == [
        f"store i64 {10 if first < 2 else 21}, ptr %x, align 8"
    ]
