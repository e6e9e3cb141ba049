"""Object files of functions that programs have in common: taken out of what LLVM made of several, kept, and the same
whatever a process compiled before."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.cpu import compile, objects
from stablehlo_py.backends.cpu.code_generator import code_generator
from stablehlo_py.backends.cpu.elf import RELOCATION, RELOCATIONS, UNDEFINED, ObjectFile, Section, pack_file
from stablehlo_py.backends.cpu.known_objects import KnownObjects
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.signature import global_of
from stablehlo_py.backends.cpu.split import function_object, remaining_object, section_of
from stablehlo_py.backends.cpu.table_objects import object_of_tables
from stablehlo_py.backends.cpu.target import host_target
from stablehlo_py.codegen.builder import F32, F64, Function
from stablehlo_py.codegen.emitters.llvm_ir import ALIGNMENT, LlvmIrEmitter, LlvmIrWithoutTables, TableApart
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.codegen.target import Architecture, host_architecture
from stablehlo_py.errors import LoadError
from stablehlo_py.runtime.loading import executable

OPTIONS = shlo.Options(isolate=False, cache_dir=None)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_common", KnownObjects(1 << 20, lambda unit: len(unit.text)))


def affine(name: str, scale: float, offset: float, other: str = "") -> Unit:
    """A function f64 name(f64): scale * x + offset, or that of another file."""
    f = Function(name, [("x", F64)], host_target().emitter(), result=F64)
    y = f.fadd(f.fmul(f.x, f.const(scale, F64)), f.const(offset, F64))
    if other:
        y = f.call(other, [y], F64, external=True)
        assert y is not None
    f.ret(y)
    return Unit((name,), f.text(), tuple(f.externals.items()))


def split_of(*units: Unit) -> list[bytes]:
    file = ObjectFile(compile_units([objects._in_own_section(unit) for unit in units]))
    return [function_object(file, unit.symbols[0]) for unit in units]


def call(code: NativeCode, name: str, x: float) -> float:
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address(name))(x)


def test_functions_are_files_of_their_own() -> None:
    one, other, third = affine("one", 3.25, 0.5), affine("other", -7.125, 3.25, "third"), affine("third", 0.25, 0.75)
    files = [*split_of(one, other), *split_of(third)]
    code = NativeCode(files)
    assert call(code, "one", 2.0) == 7.0
    assert call(code, "other", 2.0) == -11.0 / 4 + 0.75
    assert split_of(other, one) == files[1::-1]
    assert split_of(one) == files[:1]  # what was compiled with it does not count


def test_calls_within_a_file_become_calls_by_name() -> None:
    one, other = affine("one", 3.25, 0.5), affine("other", -7.125, 3.25, "one")
    files = split_of(one, other)
    assert call(NativeCode(files), "other", 2.0) == 3.25 * -11.0 + 0.5
    assert files[1:] == split_of(other)  # whether it was there or not


def test_a_file_says_what_the_function_needs() -> None:
    (content,) = split_of(affine("other", -7.125, 3.25, "one"))
    file = ObjectFile(content)
    undefined = [file.symbol_names[number] for number, row in enumerate(file.symbol_rows) if row.section == UNDEFINED]
    assert undefined == ["", "one"]
    whole = ObjectFile(compile_units([objects._in_own_section(affine("other", -7.125, 3.25, "one"))]))
    number = whole.names.index(section_of("other"))
    assert bytes(file.data(file.names.index(".text"))) == bytes(whole.data(number))
    (table,) = file.numbers(RELOCATIONS)
    (before,) = (each for each in whole.numbers(RELOCATIONS) if whole.rows[each].info == number)
    for name in ("place", "type"):
        assert sorted(file.table(table, RELOCATION)[name]) == sorted(whole.table(before, RELOCATION)[name])
    constants = np.frombuffer(bytes(file.data(file.names.index(".rodata"))), np.uint8)
    assert {-7.125, 3.25} <= set(constants[: len(constants) // 8 * 8].view(np.float64)) or not len(constants)


def test_what_remains_has_its_data() -> None:
    emitter = host_target().emitter()
    numbers = np.arange(2.0, 34.0)
    texts = [constant_table("table", numbers, F64, emitter), global_of(b"signed")]
    f = Function("own", [("x", F64)], emitter, result=F64)
    y = f.call("one", [f.x], F64, external=True)
    assert y is not None
    f.ret(f.fadd(f.fmul(y, f.const(0.625, F64)), f.load(F64, f.address_of("table"), 9)))
    own = Unit(("own",), "\n".join([*texts, f.text()]), tuple(f.externals.items()))
    one, other = affine("one", 3.25, 0.5), affine("other", -7.125, 3.25)
    together = ObjectFile(compile_units([own, *map(objects._in_own_section, (one, other))]))
    content = remaining_object(together, own.symbols)
    assert call(NativeCode([content, *split_of(one)]), "own", 2.0) == 7.0 * 0.625 + 11.0
    assert content == remaining_object(ObjectFile(compile_units([own])), own.symbols)  # alone
    file = ObjectFile(content)
    assert bytes(file.data(file.names.index(".shlo.signature"))) == b"signed"


def test_tables_of_addresses_are_refused() -> None:
    at = "llvm.mlir.global internal constant @at() : !llvm.ptr {\n%0 = llvm.mlir.addressof @one : !llvm.ptr\n"
    one = affine("one", 3.25, 0.5)
    unit = Unit(one.symbols, f"{one.text}\n{at}llvm.return %0 : !llvm.ptr\n}}")
    with pytest.raises(LoadError, match="tables of addresses"):
        remaining_object(ObjectFile(compile_units([unit])), ["one"])


def test_what_is_written_is_read() -> None:
    row = Section(1, 1, 2, 0, 0, 0, 0, 0, 16, 0)
    names = b"\0.data\0.names\0"
    content = pack_file(62, 5, [(row, b"abc"), (Section(7, 3, 0, 0, 0, 0, 0, 0, 1, 0), names)], 2)
    file = ObjectFile(content)
    assert (file.machine, file.flags, file.names[1:]) == (62, 5, [".data", ".names"])
    assert bytes(file.data(1)) == b"abc" and not file.rows[1].offset % 16


def product(element: str, depth: int) -> str:
    a, b = f"tensor<64x{depth}x{element}>", f"tensor<{depth}x64x{element}>"
    result = f"tensor<64x64x{'i32' if element == 'i8' else element}>"
    return (
        f"func.func @main(%x: {a}, %y: {b}) -> {result} {{\n%0 = stablehlo.dot_general %x, %y, "
        f"contracting_dims = [1] x [0] : ({a}, {b}) -> {result}\nreturn %0 : {result}\n}}"
    )


FFT = (
    "func.func @main(%x: tensor<8x256xcomplex<f32>>) -> tensor<8x256xcomplex<f32>> {\n"
    "%0 = stablehlo.fft %x, type = FFT, length = [256] : (tensor<8x256xcomplex<f32>>) -> tensor<8x256xcomplex<f32>>\n"
    "return %0 : tensor<8x256xcomplex<f32>>\n}"
)
PROGRAMS = [product("f32", 1024), product("i8", 1024), product("f64", 768), FFT]


def test_programs_are_the_same_whatever_was_compiled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = []
    for text in PROGRAMS:
        monkeypatch.setattr(objects, "_common", KnownObjects(1 << 20, lambda unit: len(unit.text)))
        alone.append(compile_program(text, options=OPTIONS).objects)
    assert any(len(files) > 1 for files in alone)
    for _ in range(2):
        assert [compile_program(text, options=OPTIONS).objects for text in PROGRAMS] == alone


def test_what_is_known_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = objects._compiled

    def noted(api: object, context: int, units: list[Unit]) -> bytes:
        compiled.extend(symbol for unit in units for symbol in unit.symbols)
        return real(api, context, units)  # type: ignore[arg-type]

    monkeypatch.setattr(objects, "_compiled", noted)
    first = shlo.compile(product("f32", 1024), options=OPTIONS)
    tiles = {symbol for symbol in compiled if symbol.startswith("shlo_tile")}
    assert tiles and all(f"llvm.func @{symbol}(" in first.stages["kernels"] for symbol in tiles)
    compiled.clear()
    second = shlo.compile(product("f32", 2048), options=OPTIONS)
    assert compiled and not tiles & set(compiled)
    x = np.random.default_rng(1).normal(size=(64, 2048)).astype(np.float32)
    np.testing.assert_allclose(second(x, x.T.copy())[0], x @ x.T, rtol=1e-3, atol=1e-2)


def test_no_more_is_kept_than_allowed() -> None:
    known: KnownObjects[str] = KnownObjects(6, len)
    made: list[str] = []

    def make(keys: list[str]) -> list[bytes]:
        made.extend(keys)
        return [key.encode() for key in keys]

    assert known.all_of(["a", "b", "c", "a"], make) == [b"a", b"b", b"c", b"a"]
    assert known.all_of(["b", "d"], make) == [b"b", b"d"]  # c goes
    known.all_of(["a", "b", "c"], make)
    assert made == ["a", "b", "c", "d", "c"]


def test_tables_are_an_object_file() -> None:
    tables = {"odd": bytes(range(7)), "table": np.arange(100.0).tobytes()}
    code = NativeCode([object_of_tables(tables, host_architecture())])
    for name, content in tables.items():
        assert code.address(name) % ALIGNMENT == 0
        assert ctypes.string_at(code.address(name), len(content)) == content


def test_long_tables_are_declared_only() -> None:
    numbers = np.arange(2000.0, dtype=np.float32)
    short, long = (LlvmIrWithoutTables.table("t", numbers[:size], F32) for size in (1000, 2000))
    assert short == LlvmIrEmitter.table("t", numbers[:1000], F32)
    assert isinstance(long, TableApart)
    assert long.content == numbers.tobytes()
    assert long != LlvmIrWithoutTables.table("t", numbers + 1, F32)


def test_programs_with_long_tables_are_the_same_in_bits(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<4x1024xcomplex<f32>>) -> tensor<4x1024xcomplex<f32>> {
      %0 = stablehlo.fft %x, type = FFT, length = [1024] : (tensor<4x1024xcomplex<f32>>) -> tensor<4x1024xcomplex<f32>>
      return %0 : tensor<4x1024xcomplex<f32>>
    }"""
    values = np.random.default_rng(1).normal(size=(4, 1024, 2)).astype(np.float32).view(np.complex64)[..., 0]
    found = []
    for folder in (None, tmp_path):  # a cache keeps the dialect, whose modules have all tables
        made = compile_program(text, options=shlo.Options(isolate=False, cache_dir=folder))
        found.append(np.asarray(executable(made)(values)[0]).tobytes())
    assert found[0] == found[1]


def stacked(x: jax.Array) -> jax.Array:
    return jnp.concatenate([x[:, i : i + 3 + i % 5] for i in range(40)], 1)


def layers(x: jax.Array) -> jax.Array:
    """So many steps with the same kernels that their operands lie in a table."""
    for number in range(60):
        x = jnp.tanh(x @ x[:, ::-1]) + x[:1] * number
    return x


@pytest.mark.parametrize("function", [jnp.fft.fft, lambda x: jnp.sort(x, -1), stacked, layers])
def test_every_table_may_lie_apart(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has a table hands it over: kernels, and the entry of a program that calls one in many places."""
    made = []
    pack = compile.object_of_tables

    def noted(tables: Mapping[str, bytes], architecture: Architecture) -> bytes:
        made.extend(tables)
        return pack(tables, architecture)

    monkeypatch.setattr(compile, "object_of_tables", noted)
    monkeypatch.setattr(compile, "may_be_light", lambda _: False)
    monkeypatch.setattr(LlvmIrWithoutTables, "LONG", 1)
    x = np.random.default_rng(2).normal(size=(64, 64)).astype(np.float32)
    text = jax.export.export(jax.jit(function))(x).mlir_module()
    (result,) = executable(compile_program(text, options=OPTIONS))(x)
    assert made or code_generator() is None
    np.testing.assert_allclose(result, function(x), 1e-4, 1e-4)
