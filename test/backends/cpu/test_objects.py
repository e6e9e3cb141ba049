"""Machine code: compiled in shards, loaded, called; and what happens when it cannot be."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.cpu import compile, features, light_objects, objects, program
from stablehlo_py.backends.cpu.code_generator import WHEELS, CodeGenerator, code_generator
from stablehlo_py.backends.cpu.elf import ObjectFile
from stablehlo_py.backends.cpu.features import missing_features
from stablehlo_py.backends.cpu.known_objects import KnownObjects
from stablehlo_py.backends.cpu.listing import disassembly
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import (
    FIRST_LINES,
    LEAST_LINES,
    SHARD_LINES,
    ObjectCompiler,
    Unit,
    compile_units,
    render,
    shares,
)
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import AVX2, AVX512, NAMED, host_target, required_features
from stablehlo_py.codegen.builder import F32, I64, Function
from stablehlo_py.codegen.target import X86_64
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import capi, quiet_context
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.loading import executable
from stablehlo_py.runtime.program import CompiledProgram
from stablehlo_py.runtime.stages import stage_texts


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one, programs of these sizes are one shard."""
    monkeypatch.setattr(objects, "available_threads", lambda: 2)


def adder(number: int) -> Unit:
    """A function i64 add<number>(i64)."""
    f = Function(f"add{number}", [("x", I64)], host_target().emitter(), result=I64)
    f.ret(f.binary("add", f.x, f.const(number)))
    return Unit((f.name,), f.text())


def caller(number: int, padding: int = 0) -> Unit:
    """A function i64 twice<number>(i64) that calls add<number> of another unit twice; `padding` makes its text
    longer."""
    f = Function(f"twice{number}", [("x", I64)], host_target().emitter(), result=I64)
    for _ in range(padding):
        f.comment(".")
    once = f.call(f"add{number}", [f.x], I64, external=True)
    assert once is not None
    f.ret(f.call(f"add{number}", [once], I64, external=True))
    return Unit((f.name,), f.text(), tuple(f.externals.items()))


def padded(unit: Unit, lines: int) -> Unit:
    """With so many lines more."""
    return replace(unit, text=unit.text + "\n//" * lines)


def integer_function(code: NativeCode, name: str) -> ctypes._CFuncPtr:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address(name))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_units_call_each_other_across_shards(threads: int) -> None:
    compiler = ObjectCompiler(threads, quiet_context())
    for number in range(12):
        compiler.add(caller(number, padding=FIRST_LINES))
        compiler.add(adder(number))
    files = compiler.finish()
    assert len(files) > 1
    code = NativeCode(files)
    for number in range(12):
        assert integer_function(code, f"twice{number}")(100) == 100 + 2 * number


def test_the_last_kernels_are_shared_before_the_entry_is_there() -> None:
    compiler = ObjectCompiler(2, quiet_context())
    for number in range(4):
        compiler.add(padded(adder(number), FIRST_LINES if number == 0 else LEAST_LINES // 2))
    compiler.pause()
    compiler.add(adder(4))
    assert len(compiler.finish()) == 1 + 1 + 1


def test_threads_end_at_the_same_time() -> None:
    units = [padded(adder(number), lines) for number, lines in enumerate((100, 300, 50, 250, 800))]
    sizes = [[unit.size for unit in shard] for shard in shares(units, 2)]
    assert [len(shard) for shard in sizes] == [1, 4]
    assert sizes[1] == [units[number].size for number in (0, 1, 2, 3)]  # in order
    of_busy = shares(units, 2, busy=[1e6])
    assert of_busy == [units]
    assert shares(units[:1], 2) == [units[:1]]
    assert shares([], 2) == []


def test_the_calling_thread_does_its_part_of_what_waits() -> None:
    """Two shards are handed over, of which the other thread has begun one: the rest is shared by what is left then."""
    compiler = ObjectCompiler(2, quiet_context())
    for number, lines in enumerate((700, 400, *(LEAST_LINES // 4,) * 8)):
        compiler.add(padded(adder(number), lines))
    assert len(compiler.finish()) == 2 + 2


def test_a_small_rest_is_not_worth_a_shard() -> None:
    units = [padded(adder(number), lines) for number, lines in enumerate((400, SHARD_LINES // 2))]
    assert shares(units, 2, busy=[500]) == [units]
    assert len(shares([units[0], units[0]], 2)) == 2


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere all code is optimized")
def test_code_that_runs_for_nanoseconds_is_not_optimized(monkeypatch: pytest.MonkeyPatch) -> None:
    optimized = []

    def noted(text: str) -> bytes:
        optimized.append("optnone" not in text)
        return object_of(text)

    object_of = light_objects.object_of
    monkeypatch.setattr(light_objects, "object_of", noted)
    for text in ("%0 = stablehlo.sine %x : tensor<8xf32>", sorted_ascending(8), sorted_ascending(200)):
        monkeypatch.setattr(light_objects, "_known", KnownObjects(1 << 20, len))
        compile_program(program_of(text), options=shlo.Options(isolate=False, cache_dir=None))
    assert optimized == [False, True, False, True, True, True]  # kernels and entry of each


def program_of(body: str) -> str:
    """A function of as many numbers as its body says."""
    type_ = body.rpartition(" : ")[2].rpartition("-> ")[2]
    return f"func.func @main(%x: {type_}) -> {type_} {{\n{body}\nreturn %0 : {type_}\n}}"


def sorted_ascending(count: int) -> str:
    return f"""%0 = "stablehlo.sort"(%x) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
    }}) : (tensor<{count}xf32>) -> tensor<{count}xf32>"""


@pytest.mark.parametrize(
    "body",
    [
        "%0 = stablehlo.power %x, %x : tensor<9xf32>",
        "%0 = stablehlo.tanh %x : tensor<70xf32>",
        "%0 = stablehlo.exponential %x : tensor<5xbf16>",
        "%0 = stablehlo.log_plus_one %x : tensor<5xf16>",
        "%0 = stablehlo.multiply %x, %x : tensor<4xcomplex<f32>>",
        "%0 = stablehlo.remainder %x, %x : tensor<3xf64>",
        sorted_ascending(6),
    ],
)
def test_results_without_optimization_are_the_same_in_bits(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    text, options = program_of(body), shlo.Options(isolate=False, cache_dir=None)
    quick = compile_program(text, options=options)
    monkeypatch.setattr(program, "COSTS", replace(COSTS, quick_ns=0.0))
    best = compile_program(text, options=options)
    if platform.machine() == "x86_64":
        assert _text(quick.objects[-1]) != _text(best.objects[-1])
    (spec,) = quick.inputs
    values = np.random.default_rng(1).normal(size=spec.shape)
    values[:3] = np.nan, np.inf, -0.0
    (one,), (other,) = (executable(made)(values.astype(spec.dtype)) for made in (quick, best))
    assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_long_light_programs_are_compiled_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    text, options = program_of("%0 = stablehlo.tanh %x : tensor<70xf32>"), shlo.Options(isolate=False, cache_dir=None)
    light = compile_program(text, options=options)
    monkeypatch.setattr(compile, "LIGHT_CHARACTERS", 100)
    monkeypatch.setattr(compile, "known_objects_of", None)
    heavy = compile_program(text, options=options)
    assert [len(light.objects), len(heavy.objects)] == [2, 1]
    x = np.linspace(-3, 3, 70, dtype=np.float32)
    (one,), (other,) = (executable(made)(x) for made in (light, heavy))
    np.testing.assert_array_equal(one, other)


def test_a_light_program_has_the_stages_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own are made when they are read, or written."""
    text, options = program_of("%0 = stablehlo.tanh %x : tensor<70xf32>"), shlo.Options(isolate=False, cache_dir=None)
    light = compile_program(text, options=options)
    written = artifact.deserialize(artifact.serialize(compile_program(text, options=options)))
    monkeypatch.setattr(compile, "may_be_light", lambda _: False)
    heavy = compile_program(text, options=options, keep_stages=True)
    assert list(stage_texts(light)) == list(stage_texts(written)) == list(stage_texts(heavy))
    for name in ("llvm", "kernels", *heavy.stages):
        assert stage_texts(light)[name] == stage_texts(written)[name] == stage_texts(heavy)[name], name


def large_adders(processors: int, monkeypatch: pytest.MonkeyPatch, functions: int = 8) -> list[bytes]:
    """The object files of functions, two of which fill the first shard, compiled with so many processors."""
    monkeypatch.setattr(objects, "available_threads", lambda: processors)
    compiler = ObjectCompiler(2, quiet_context())
    for number in range(functions):
        compiler.add(padded(adder(number), FIRST_LINES // 2))
    return compiler.finish()


def test_with_one_processor_nothing_begins_early(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = large_adders(1, monkeypatch)
    assert len(objects) == 1
    assert integer_function(NativeCode(objects), "add7")(100) == 107


def test_the_first_shard_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = large_adders(2, monkeypatch)
    assert len(objects) == 3  # of 2, 4 and 2 functions
    code = NativeCode(objects)
    assert [integer_function(code, f"add{number}")(100) for number in (0, 2, 7)] == [100, 102, 107]


def test_threads_share_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = large_adders(2, monkeypatch, functions=12)
    assert len(objects) == 4  # of 2 and 4 functions, and one for each thread
    assert integer_function(NativeCode(objects), "add11")(100) == 111


def test_turns_of_the_interpreter_are_short_while_threads_compile() -> None:
    before = sys.getswitchinterval()
    compilers = [ObjectCompiler(2, quiet_context()) for _ in range(2)]
    for number, compiler in enumerate(compilers):
        compiler.add(padded(adder(number), FIRST_LINES))
        assert sys.getswitchinterval() < before
    compilers[0].finish()
    assert sys.getswitchinterval() < before
    compilers[1].abandon()
    assert sys.getswitchinterval() == before


def test_equal_texts_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light_objects, "_known", KnownObjects(1 << 20, len))

    def made(number: int) -> bytes:
        return light_objects.known_objects_of([f"define i64 @f() {{\nret i64 {number}\n}}"])[0]

    first = made(1)
    assert made(2) is not first
    assert made(1) is first
    light_objects.forget_objects()
    assert made(1) is not first


def test_large_code_of_a_light_program_is_several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light_objects, "_known", KnownObjects(1 << 20, len))
    text = """func.func @main(%x: tensor<40x40xf32>) -> tensor<40x40xf32> {
      %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<40x40xf32>) -> tensor<40x40xf32>
      %1 = stablehlo.add %0, %x : tensor<40x40xf32>
      %2 = "stablehlo.cholesky"(%1) {lower = true} : (tensor<40x40xf32>) -> tensor<40x40xf32>
      return %2 : tensor<40x40xf32>
    }"""
    x = np.eye(40, dtype=np.float32) + 1 / 64
    found = []
    for threads in (1, 2):
        made = compile_program(text, options=shlo.Options(isolate=False, cache_dir=None, threads=threads))
        assert len(made.objects) == 1 + light_objects.parts_of(threads)  # that of the entry, too
        (result,) = executable(made)(x)
        found.append(result)
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0] @ found[0].T, x + x.T, 1e-4, 1e-4)


def test_equal_kernels_of_different_programs_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(type_: str) -> CompiledProgram:
        text = f"""func.func @main(%x: tensor<4xf32>) -> {type_} {{
          %0 = stablehlo.sine %x : tensor<4xf32>
          %1 = stablehlo.reshape %0 : (tensor<4xf32>) -> {type_}
          return %1 : {type_}
        }}"""
        return compile_program(text, options=shlo.Options(isolate=False, cache_dir=None))

    first = program("tensor<2x2xf32>")
    compiled = []
    monkeypatch.setattr(light_objects, "object_of", compiled.append)
    second = program("tensor<4x1xf32>")
    assert compiled == []
    assert first.digest != second.digest
    assert _text(first.objects[-1]) == _text(second.objects[-1])
    for made, shape in ((first, (2, 2)), (second, (4, 1))):
        (result,) = executable(made)(np.ones(4, np.float32))
        assert result.shape == shape
        np.testing.assert_allclose(result, np.sin(1), 1e-6)
    first.objects[-1] = second.objects[-1]
    with pytest.raises(shlo.LoadError, match="another description"):
        executable(first)


def test_what_fits_into_a_shard_takes_no_thread() -> None:
    before = threading.active_count()
    compiler = ObjectCompiler(2, quiet_context())
    for unit in (caller(1), adder(1)):
        compiler.add(unit)
    assert threading.active_count() == before
    (content,) = compiler.finish()
    assert integer_function(NativeCode([content]), "twice1")(100) == 102


def _text(content: bytes) -> bytes:
    file = ObjectFile(content)
    return b"".join(bytes(file.data(number)) for number, is_code in file.placed() if is_code)


def test_a_compiler_without_units_has_no_files() -> None:
    assert ObjectCompiler(2, quiet_context()).finish() == []


def test_small_code_that_does_not_parse_says_where() -> None:
    compiler = ObjectCompiler(2, quiet_context())
    compiler.add(Unit(("f",), "llvm.func @f() { llvm.no_such_op }"))
    with pytest.raises(InternalError, match=r"does not parse(.|\n)*no_such_op"):
        compiler.finish()
    with pytest.raises(InternalError, match=r"refused(.|\n)*no_such_op"):
        light_objects.object_of("define void @f() {\nno_such_op\n}")


def test_the_order_of_objects_is_that_of_units() -> None:
    first, second = ([adder(number) for number in order] for order in ((1, 2), (1, 2)))
    assert compile_units(first) == compile_units(second)


needs_code_generator = pytest.mark.skipif(not code_generator(), reason="MLIR's library has none that is known")

# Kernels that call common functions.
SEVERAL = """func.func @main(%x: tensor<96x256xf32>, %y: tensor<256x256xf32>) -> tensor<96x256xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<96x256xf32>, tensor<256x256xf32>)
    -> tensor<96x256xf32>
  %1 = stablehlo.sine %0 : tensor<96x256xf32>
  return %1 : tensor<96x256xf32>
}"""


@needs_code_generator
def test_the_engine_makes_the_same_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = shlo.Options(isolate=False, cache_dir=tmp_path, threads=1)  # a cache keeps the dialect
    made = compile_program(SEVERAL, options=options).objects
    monkeypatch.setattr(objects, "code_generator", lambda: None)
    objects.forget_functions()
    assert compile_program(SEVERAL, options=options).objects == made


@needs_code_generator
@pytest.mark.parametrize("threads", [1, 2])
def test_llvm_ir_is_the_same_code_as_the_dialect(threads: int, tmp_path: Path) -> None:
    made = []
    for folder in (None, tmp_path):
        objects.forget_functions()
        options = shlo.Options(isolate=False, cache_dir=folder, threads=threads)
        made.append(compile_program(SEVERAL, options=options))
    ir, dialect = (sorted(map(_text, program.objects)) for program in made)  # shards begin at numbers of lines
    assert ir == dialect
    assert made[0].stages["kernels"] == made[1].stages["kernels"]


@needs_code_generator
@pytest.mark.parametrize("body", ["no_such_op", "%a = add i32 %b, 1\n%b = add i32 %a, 1\nret void"])
def test_llvm_ir_that_is_not_valid_is_an_error(body: str) -> None:
    with pytest.raises(InternalError, match="LLVM refused the generated code"):
        compile_units([Unit(("f",), f"define void @f() {{\n{body}\n}}", is_ir=True)])


@needs_code_generator
def test_passes_that_were_used_write_the_same_files() -> None:
    """What a module leaves in LLVM's passes must not show in the next one."""
    texts = [
        "define i64 @f(i64 %x) {\n%y = add i64 %x, 7\nret i64 %y\n}",
        "define double @g(double %x) {\n%y = fmul double %x, 3.0\nret double %y\n}",
        "@t = private constant [2 x i64] [i64 5, i64 6]\ndefine i64 @f(i64 %x) {\n"
        "%p = getelementptr i64, ptr @t, i64 %x\n%y = load i64, ptr %p\nret i64 %y\n}",
        'declare i64 @h(i64)\ndefine i64 @f(i64 %x) section ".text.f" {\n%y = call i64 @h(i64 %x)\nret i64 %y\n}',
    ]
    kept = CodeGenerator(capi())
    for text in [*texts, *reversed(texts), *texts]:
        assert kept.object_of_ir(text.encode()) == CodeGenerator(capi()).object_of_ir(text.encode())


@needs_code_generator
def test_a_forked_child_has_files_of_its_own() -> None:
    text = b"define i64 @f(i64 %x) {\nret i64 %x\n}"
    generator = CodeGenerator(capi())
    made = generator.object_of_ir(text)
    child = os.fork()
    if child == 0:
        os._exit(0 if all(generator.object_of_ir(text) == made for _ in range(20)) else 1)
    mine = [generator.object_of_ir(text) for _ in range(20)]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert set(mine) == {made}


def test_the_wheel_that_is_tested_is_listed() -> None:
    constraints = (Path(__file__).parents[3] / "constraints.txt").read_text()
    assert re.findall(r"^torch-mlir==(\S+)$", constraints, re.MULTILINE)[0] in WHEELS


def test_threads_generate_code_at_once() -> None:
    alone = [compile_units([adder(number)]) for number in range(8)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda number: compile_units([adder(number)]), range(8))) == alone


def test_functions_of_libm_are_found() -> None:
    f = Function("cosine", [("x", F32)], host_target().emitter(), result=F32)
    f.ret(f.call("cosf", [f.x], F32, external=True))
    code = NativeCode([compile_units([Unit(("cosine",), f.text(), tuple(f.externals.items()))])])
    assert ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(code.address("cosine"))(0.0) == 1.0


def test_code_that_does_not_parse_says_where() -> None:
    with pytest.raises(InternalError, match="does not parse") as caught:
        compile_units([Unit(("f",), "llvm.func @f() { llvm.no_such_op }")])
    assert "no_such_op" in str(caught.value)


def test_a_failing_unit_ends_the_compiler_and_its_threads() -> None:
    before = threading.active_count()
    compiler = ObjectCompiler(2, quiet_context())
    compiler.add(Unit(("f",), "llvm.func @f() { nonsense }"))
    for number in range(3):
        compiler.add(caller(number, padding=FIRST_LINES))
    with pytest.raises(InternalError):
        compiler.finish()
    assert threading.active_count() == before


def test_an_abandoned_compiler_leaves_no_thread() -> None:
    before = threading.active_count()
    compiler = ObjectCompiler(3, quiet_context())
    for number in range(6):
        compiler.add(caller(number, padding=FIRST_LINES))
    compiler.abandon()
    assert threading.active_count() == before


def test_an_interrupted_compiler_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    compiled: list[int] = []
    waits = threading.Event()

    def slow(_api: object, _context: int, units: list[Unit]) -> list[bytes]:
        compiled.append(len(units))
        if len(compiled) == 1:
            assert waits.wait(10)  # outside of `deferred`, the signal would raise wherever the test is
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        return [b""]

    monkeypatch.setattr(objects, "_compiled_apart", slow)
    compiler = ObjectCompiler(1, quiet_context())
    for number in range(12):
        compiler.add(caller(number, padding=FIRST_LINES))
    with pytest.raises(KeyboardInterrupt):
        waits.set()
        compiler.finish()
        time.sleep(5)
    assert threading.active_count() == before
    assert len(compiled) < 6, "what neither thread had begun is left"


def test_a_missing_symbol_is_an_error() -> None:
    with pytest.raises(InternalError, match="no_such_symbol"):
        NativeCode([compile_units([adder(3)])]).address("no_such_symbol")


def test_rendered_modules_declare_nothing_twice() -> None:
    text = render([caller(1), caller(1), adder(1), caller(2)])
    assert text.count("llvm.func @add1(") == 1
    assert text.count("llvm.func @add2(") == 1


def test_listings() -> None:
    assert "define i64 @add3" in llvm_ir(render([adder(3)]), X86_64)
    listing = disassembly([compile_units([adder(3)])])
    assert "add3" in listing or "bytes" in listing


def test_targets_name_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    assert required_features(AVX2) == ("avx2", "fma")
    assert {"avx512f", "avx512vl", "fma"} <= set(required_features(AVX512))
    assert not any(name.startswith("prefer") for target in NAMED.values() for name in required_features(target))
    assert missing_features(required_features(host_target())) == []
    assert missing_features(("no-such-feature",)) == ["no-such-feature"]
    host_target.cache_clear()
    monkeypatch.setattr(features, "present", lambda: frozenset(("avx2", "fma")))
    try:
        assert host_target() == AVX2
    finally:
        host_target.cache_clear()
