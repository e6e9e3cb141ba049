"""Memory of a long process: different programs of one kind, each compiled, called and dropped.

    python benchmarks/bench_lifetime.py                            # all kinds, 1,000 programs of each
    python benchmarks/bench_lifetime.py static grid --programs 300 --samples

Every kind has a process of its own. A row says how much resident memory the process has after the warm-up and at the
end, what a program adds (the slope of a line through the samples after the warm-up, by least squares), and which of our
objects are alive when all programs are dropped: contexts of MLIR (without those that wait for a program), machine code,
executables. The garbage collector is off unless `--gc`: what dies, dies because nobody refers to it. JAX and its caches
are apart: kinds that trace with JAX clear them, and collect, after every 25 programs.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.dialect import context
from stablehlo_py.frontend.isolate import the_worker
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.model import CompiledModel

OPTIONS = shlo.Options(threads=2, cache_dir=None)
UNARY = ("tanh", "exponential", "sine", "cosine", "abs", "negate", "logistic", "sqrt", "floor", "sign")
BINARY = ("add", "multiply", "subtract", "maximum", "minimum", "divide", "atan2")

Program = Callable[[int], object]  # takes the number of the program
KINDS: dict[str, Program] = {}


def kind(program: Program) -> Program:
    """Register a kind under the name of its function."""
    KINDS[program.__name__] = program
    return program


def body(number: int, type_: str, constant: str) -> list[str]:
    """Some ops that differ from number to number, from %0 to the value that the last line defines, %last."""
    random_ = random.Random(number)
    ops = [f"%c = stablehlo.constant dense<{constant}> : {type_}"]
    for position in range(1, 7):
        if random_.random() < 0.5:
            ops.append(f"%{position} = stablehlo.{random_.choice(UNARY)} %{position - 1} : {type_}")
        else:
            ops.append(f"%{position} = stablehlo.{random_.choice(BINARY)} %{position - 1}, %c : {type_}")
    return [*ops, f"%last = stablehlo.add %6, %0 : {type_}"]


def text(number: int) -> tuple[str, int, int]:
    """A module with constants, a matrix product and a reduction, and the sizes of its argument."""
    rows, columns = 3 + number % 37, 5 + number // 37
    type_ = f"tensor<{rows}x{columns}xf32>"
    values = np.random.default_rng(number).standard_normal((rows, columns)).round(3).tolist()
    product = f"tensor<{columns}x{columns}xf32>"
    ops = [
        *body(number, type_, str(values)),
        f"%dot = stablehlo.dot_general %last, %0, contracting_dims = [0] x [0] : ({type_}, {type_}) -> {product}",
        "%zero = stablehlo.constant dense<0.0> : tensor<f32>",
        f"%sum = stablehlo.reduce(%dot init: %zero) applies stablehlo.add across dimensions = [1] : "
        f"({product}, tensor<f32>) -> tensor<{columns}xf32>",
    ]
    lines = "\n".join(ops)
    results = f"tensor<{columns}xf32>, {type_}"
    return (
        f"func.func @main(%0: {type_}) -> ({results}) {{\n{lines}\nreturn %sum, %last : {results}\n}}",
        rows,
        columns,
    )


@kind
def static(number: int) -> object:
    """Known shapes; read in this process."""
    source, *sizes = text(number)
    return shlo.compile(source, options=shlo.Options(threads=2, cache_dir=None, isolate=False))(
        np.ones(sizes, np.float32)
    )


@kind
def isolated(number: int) -> object:
    """The same, read by the child process."""
    source, *sizes = text(number)
    return shlo.compile(source, options=OPTIONS)(np.ones(sizes, np.float32))


@kind
def parsed(number: int) -> object:
    """Read only."""
    return shlo.load(text(number)[0], isolate=False)


@kind
def refused(number: int) -> object:
    """Texts that do not parse, and ops that are not implemented."""
    source = text(number)[0].replace("stablehlo.add %6, %0", "stablehlo.add %6, %none")
    try:
        shlo.compile(source, options=OPTIONS)
    except shlo.ShloError as error:
        return error
    raise AssertionError("it compiled")


@kind
def stages(number: int) -> object:
    """Every stage printed, the memory plan and the report read."""
    exe = shlo.compile(text(number)[0], options=OPTIONS)
    return dict(exe.stages), exe.memory_plan(), exe.report()


@kind
def large(number: int) -> object:
    """Arguments, constants and results of different sizes, up to 4 MB."""
    size = 1000 + 9973 * number % 1_000_000
    type_ = f"tensor<{size}xf32>"
    lines = "\n".join(body(number, type_, f'"0x{np.random.default_rng(number).bytes(4 * size).hex()}"'))
    source = f"func.func @main(%0: {type_}) -> {type_} {{\n{lines}\nreturn %last : {type_}\n}}"
    exe = shlo.compile(source, options=OPTIONS)
    argument = np.ones(size, np.float32)
    return exe(argument), exe.call([exe.put(argument)])


@kind
def loop(number: int) -> object:
    """A loop, and a donated argument."""
    size = 5 + number
    type_ = f"tensor<{size}xf32>"
    lines = "\n".join(body(number, type_, "0.5"))
    source = f"""func.func @main(%x: {type_} {{tf.aliasing_output = 0 : i32}}) -> {type_} {{
      %z = stablehlo.constant dense<0> : tensor<i32>
      %n = stablehlo.constant dense<{2 + number % 9}> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %i, %y = stablehlo.while(%a = %z, %b = %x) : tensor<i32>, {type_} cond {{
        %p = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %next = stablehlo.add %a, %one : tensor<i32>
        {lines.replace("%0", "%b")}
        stablehlo.return %next, %last : tensor<i32>, {type_}
      }}
      return %y : {type_}
    }}"""
    exe = shlo.compile(source, options=OPTIONS)
    return exe.call([exe.put(np.ones(size, np.float32))])


def open_text(number: int) -> tuple[str, int]:
    """A module with a dimension that calls decide, and the size of the other one."""
    columns = 3 + number % 61  # the ops differ as well: arrays that grow with the number would look like a leak
    type_ = f"tensor<?x{columns}xf32>"
    lines = "\n".join(line for line in body(number, type_, "0.5") if not line.startswith("%c ="))
    constant = f"""%k = stablehlo.constant dense<0.5> : tensor<{columns}xf32>
      %rows = stablehlo.get_dimension_size %0, dim = 0 : ({type_}) -> tensor<i32>
      %r = stablehlo.reshape %rows : (tensor<i32>) -> tensor<1xi32>
      %w = stablehlo.constant dense<{columns}> : tensor<1xi32>
      %shape = stablehlo.concatenate %r, %w, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %c = stablehlo.dynamic_broadcast_in_dim %k, %shape, dims = [1] : (tensor<{columns}xf32>, tensor<2xi32>) -> {type_}
      """
    return f"func.func @main(%0: {type_}) -> {type_} {{\n{constant}{lines}\nreturn %last : {type_}\n}}", columns


@kind
def once(number: int) -> object:
    """One program for all shapes, called with three."""
    source, columns = open_text(number)
    exe = shlo.compile(source, options=shlo.Options(threads=2, cache_dir=None, dynamic="once"))
    return [exe(np.ones((rows + number % 37, columns), np.float32)) for rows in (1, 5, 400)]


@kind
def shapes(number: int) -> object:
    """Two programs for all shapes that stay, called with ever new shapes; results of up to 3 MB."""
    if not _kept:
        for other in range(2):
            _kept.append(shlo.compile(open_text(other)[0], options=OPTIONS))
    return [exe(np.ones((1 + 7919 * number % 200_000, 3 + other), np.float32)) for other, exe in enumerate(_kept)]


_kept: list[Any] = []


@kind
def specialized(number: int) -> object:
    """A program for each of two shapes."""
    source, columns = open_text(number)
    exe = shlo.compile(source, options=shlo.Options(threads=2, cache_dir=None, dynamic="specialize"))
    return [exe(np.ones((rows, columns), np.float32)) for rows in (1, 5)]


@kind
def jit(number: int) -> object:
    """Functions traced by JAX."""
    import jax
    import jax.numpy as jnp

    if number % 25 == 24:
        jax.clear_caches()
        gc.collect()
    function = shlo.jit(lambda x, y: jnp.tanh(x @ y + number).sum(0), options=OPTIONS)
    return function(np.ones((4, 3 + number), np.float32), np.ones((3 + number, 5), np.float32))


@kind
def grid(number: int) -> object:
    """Two processes that communicate."""
    size = 4 + number
    type_ = f"tensor<{size}xf32>"
    lines = "\n".join(body(number, type_, "0.25"))
    source = f"""func.func @main(%0: {type_}) -> {type_} {{
      {lines}
      %s = "stablehlo.all_reduce"(%last) ({{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %r = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }}) {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : ({type_}) -> {type_}
      return %s : {type_}
    }}"""
    exe = shlo.compile(source, options=shlo.Options(threads=2, cache_dir=None, num_replicas=2))
    argument = np.ones(size, np.float32)
    return exe.call_grid([[[argument]], [[argument]]])


@kind
def artifact(number: int) -> object:
    """Saved, loaded from the file and from the cache."""
    source, *sizes = text(number)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.shlo"
        options = shlo.Options(threads=2, cache_dir=folder)
        shlo.compile(source, options=options).save(path)
        again = shlo.compile(source, options=options)
        argument = np.ones(sizes, np.float32)
        return shlo.load_executable(path)(argument), again(argument)


@kind
def custom(number: int) -> object:
    """A custom call of a Python function, registered anew for every program."""
    size = 3 + number
    type_ = f"tensor<{size}xf32>"
    factor = np.float32(number)
    shlo.register_custom_call("bench.lifetime", lambda x: x * factor)
    source = f"""func.func @main(%x: {type_}) -> {type_} {{
      %0 = stablehlo.custom_call @bench.lifetime(%x) {{api_version = 4 : i32}} : ({type_}) -> {type_}
      return %0 : {type_}
    }}"""
    return shlo.compile(source, options=OPTIONS)(np.ones(size, np.float32))


@kind
def failing(number: int) -> object:
    """Calls that fail: of wrong arguments, in a function of Python, in a grid that waits for itself."""
    size = 3 + number
    type_ = f"tensor<{size}xf32>"

    def fail(_: np.ndarray) -> None:
        raise ValueError(number)

    shlo.register_custom_call("bench.failing", fail)
    source = f"""func.func @main(%x: {type_}) -> {type_} {{
      %0 = stablehlo.custom_call @bench.failing(%x) {{api_version = 4 : i32}} : ({type_}) -> {type_}
      return %0 : {type_}
    }}"""
    token = "!stablehlo.token"
    waits = f"""func.func @main(%x: {type_}) -> {type_} {{
      %t = stablehlo.create_token : {token}
      %0:2 = "stablehlo.recv"(%t) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}} : ({token}) -> ({type_}, {token})
      return %0#0 : {type_}
    }}"""
    exe = shlo.compile(source, options=OPTIONS)
    circle = shlo.compile(waits, options=shlo.Options(threads=2, cache_dir=None, num_partitions=2))
    argument = np.ones(size, np.float32)
    messages = []
    for call in (
        lambda: exe(argument),
        lambda: exe(argument[1:]),
        lambda: exe.put(argument[1:]),
        lambda: circle.call_grid([[[argument], [argument]]]),
    ):
        try:
            call()
        except shlo.ShloError as error:
            messages.append(str(error))
        else:
            raise AssertionError("the call did not fail")
    return messages


@kind
def linalg(number: int) -> object:
    """LAPACK, and a sort."""
    size = 3 + number % 60
    type_ = f"tensor<{size}x{size}xf32>"
    source = f"""func.func @main(%x: {type_}) -> ({type_}, {type_}) {{
      %0 = stablehlo.cholesky %x, lower = true : {type_}
      %1 = "stablehlo.sort"(%x) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %p = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }}) {{dimension = {number % 2} : i64}} : ({type_}) -> {type_}
      return %0, %1 : {type_}, {type_}
    }}"""
    return shlo.compile(source, options=OPTIONS)(np.eye(size, dtype=np.float32))


# --- one process ------------------------------------------------------------------------------------------------------


def resident(pid: int | str = "self") -> float:
    """Megabytes of resident memory of a process; 0 where there is none."""
    try:
        words = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0.0
    return int(words[1]) * 4096 / 1e6


def alive() -> dict[str, int]:
    """How many of our objects there are."""
    counts = {"contexts": ir.Context._get_live_count() - len(context._pool._idle), "code": 0, "executables": 0}
    for each in gc.get_objects():
        if isinstance(each, weakref.ProxyTypes):
            continue
        counts["code"] += type(each) is NativeCode
        counts["executables"] += isinstance(each, CompiledModel)
    return counts


def measure(name: str, programs: int, every: int, collects: bool) -> dict[str, Any]:
    """Run one kind in this process."""
    program, samples = KINDS[name], []
    begun = time.perf_counter()
    if not collects:
        gc.disable()
    for number in range(programs):
        program(number)
        if (number + 1) % every == 0:
            samples.append((number + 1, resident(), resident(the_worker().pid or -1), alive()))
    return {"samples": samples, "seconds": time.perf_counter() - begun}


def slope(samples: list[Any], column: int) -> float:
    """What a program adds, in megabytes."""
    late = [(each[0], each[column]) for each in samples]
    numbers, values = np.array(late).T
    return float(np.polyfit(numbers, values, 1)[0])


def main() -> None:
    """Print a row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], default=[], metavar="kind", help=", ".join(KINDS))
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--warm-up", type=int, default=100, help="programs that come before the first sample")
    parser.add_argument("--every", type=int, default=50, help="programs between two samples")
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on")
    parser.add_argument("--samples", action="store_true", help="print every sample, too")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.kinds[0], options.programs, options.every, options.gc)))
        return
    print(
        f"| kind | MB after {options.warm_up} | MB after {options.programs} | KB a program | of the reader | left | s |"
    )
    print("|---|---:|---:|---:|---:|---|---:|", flush=True)
    for name in options.kinds or KINDS:
        command = [sys.executable, __file__, name, "--here", "--programs", str(options.programs)]
        command += ["--every", str(options.every), *(["--gc"] if options.gc else [])]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        samples = [each for each in found["samples"] if each[0] >= options.warm_up]
        listed = ", ".join(f"{count} {what}" for what, count in samples[-1][3].items())
        print(
            f"| {name} | {samples[0][1]:.0f} | {samples[-1][1]:.0f} | {1e3 * slope(samples, 1):.1f} | "
            f"{1e3 * slope(samples, 2):.1f} | {listed} | {found['seconds']:.0f} |",
            flush=True,
        )
        if options.samples:
            for each in found["samples"]:
                print(f"    {each[0]:5} {each[1]:8.1f} MB, reader {each[2]:6.1f} MB, {each[3]}", flush=True)


if __name__ == "__main__":
    main()
