"""Hints of sizes decide what a program costs, never what it computes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import stablehlo_py
from stablehlo_py import Options
from stablehlo_py.dialect.symint import GuardError, symbol

ROOT = Path(__file__).parents[2]

# --- who asks ---------------------------------------------------------------------------------------------------------

#: Files that ask for hints, and what each estimates. A file that is not here decides on exact sizes.
ESTIMATES = {
    "backends/common/contraction.py": "order of axes; sizes to plan tiles by",
    "backends/cpu/kernels/cholesky.py": "cost of a phase",
    "backends/cpu/kernels/column.py": "cost of a phase; which axis is split",
    "backends/cpu/kernels/convolution.py": "whether pairs pay; order of a copy in scratch",
    "backends/cpu/kernels/cumulative.py": "cost of a phase",
    "backends/cpu/kernels/depthwise.py": "cost of a phase; which axis becomes rows",
    "backends/cpu/kernels/dot.py": "which axis is paired",
    "backends/cpu/kernels/epilogue.py": "cost of a phase; rows or flat elements",
    "backends/cpu/kernels/fft.py": "cost of a phase",
    "backends/cpu/kernels/fourier_phases.py": "cost of a phase",
    "backends/cpu/kernels/gemm.py": "cost of a phase",
    "backends/cpu/kernels/gemv.py": "cost of a phase",
    "backends/cpu/kernels/in_place_update.py": "cost of a phase",
    "backends/cpu/kernels/lapack_routines.py": "flops of a routine",
    "backends/cpu/kernels/loop.py": "cost of a phase",
    "backends/cpu/kernels/padding.py": "cost of a phase",
    "backends/cpu/kernels/pairs.py": "cost of a phase; whether pairs pay; order of a copy in scratch",
    "backends/cpu/kernels/pivots.py": "cost of a phase",
    "backends/cpu/kernels/product.py": "cost of a phase",
    "backends/cpu/kernels/reduce_general.py": "cost of a phase",
    "backends/cpu/kernels/reduce_window.py": "cost of a phase",
    "backends/cpu/kernels/row.py": "cost of a phase",
    "backends/cpu/kernels/scatter.py": "cost of a phase",
    "backends/cpu/kernels/select_and_scatter.py": "cost of a phase",
    "backends/cpu/kernels/sort.py": "cost of a phase",
    "backends/cpu/kernels/symbolic_loop.py": "cost of a phase",
    "backends/cpu/kernels/tile.py": "cost of a phase",
    "backends/cpu/kernels/tiling.py": "which axes become rows and lanes",
    "backends/cpu/kernels/triangular_solve.py": "cost of a phase",
    "backends/cpu/policy_costs.py": "whether a cache holds a table",
    "backends/cpu/program.py": "how many chunks a phase has",
    "passes/buffer_assignment.py": "order of a listing",
    "passes/buffers/slots.py": "order in which buffers are placed",
    "passes/double_buffer_loops.py": "bytes copied in a trip",
    "passes/fusing/clusters.py": "trip count of a member",
    "passes/fusing/epilogues.py": "length of a sum; bytes written",
    "passes/fusing/multi_output.py": "elements of a reduction",
    "passes/fusing/producers.py": "trip count of a member; bytes read and written",
    "passes/fusing/epilogue_split.py": "bytes written",
    "passes/licm.py": "elements computed and kept",
    "passes/fusing/scattered.py": "whether updates are many, or their rows long",
    "passes/policy.py": "rows left to share out",
    "passes/schedule.py": "live bytes",
}


def _uses(path: Path, name: str) -> bool:
    return any(
        (isinstance(node, ast.alias) and node.name == name) or (isinstance(node, ast.Attribute) and node.attr == name)
        for node in ast.walk(ast.parse(path.read_text()))
    )


def _product() -> list[Path]:
    folders = [path.resolve() for path in (ROOT / "stablehlo_py", ROOT / "passes", ROOT / "backends")]
    return sorted({path.resolve() for folder in folders for path in folder.rglob("*.py")})


def test_only_estimates_ask_for_hints() -> None:
    asking = {str(path.relative_to(ROOT)) for path in _product() if _uses(path, "size_hint")}
    assert asking == set(ESTIMATES)


def test_a_hint_is_no_float_and_no_order() -> None:
    """Arithmetic with floats and comparisons ask by `size_hint`, which says that they are estimates."""
    size = symbol("d0_0")
    for use in (lambda: size * 0.5, lambda: 0.5 * size, lambda: size + 1.5, lambda: size / 2, lambda: size < 2.5):
        with pytest.raises(TypeError):
            use()
    for ask in (lambda: size < 5, lambda: float(size), lambda: max(size, 5), lambda: abs(size - 5)):
        with pytest.raises(GuardError):
            ask()


# --- what is computed -------------------------------------------------------------------------------------------------

Array = jax.Array


@dataclass(frozen=True, eq=False)
class Program:
    """A function of arrays whose shapes hold symbols, and the sizes that it is called with: far from any hint."""

    name: str
    function: Callable[..., Array]
    shapes: Sequence[Sequence[str | int]]
    calls: Sequence[Sequence[int]]
    dtype: type = np.float32

    def symbols(self) -> list[str]:
        return list(dict.fromkeys(size for shape in self.shapes for size in shape if isinstance(size, str)))

    def text(self) -> str:
        """The module, without JAX's assertions that no dimension is 0."""
        scope = export.SymbolicScope()
        named = dict(zip(self.symbols(), export.symbolic_shape(",".join(self.symbols()), scope=scope), strict=True))
        arguments = [
            jax.ShapeDtypeStruct(tuple(named.get(size, size) for size in shape), self.dtype) for shape in self.shapes
        ]
        lines = export.export(jax.jit(self.function))(*arguments).mlir_module().splitlines()
        return "\n".join(line for line in lines if "@shape_assertion" not in line)

    def inputs(self, sizes: Mapping[str, int]) -> list[np.ndarray]:
        """Small integers: sums of them are the same in any order."""
        random = np.random.default_rng(5)
        return [
            random.integers(-2, 3, [sizes.get(size, size) for size in shape]).astype(self.dtype)
            for shape in self.shapes
        ]

    @cached_property
    def specialized(self) -> list[list[np.ndarray]]:
        executable = stablehlo_py.compile(self.text(), options=Options(threads=2, cache_dir=None, dynamic="specialize"))
        return [[np.array(one) for one in executable(*self.inputs(self.named(call)))] for call in self.calls]

    def named(self, call: Sequence[int]) -> dict[str, int]:
        return dict(zip(self.symbols(), call, strict=True))


def _layer(x: Array, w: Array, b: Array) -> Array:
    return jnp.maximum(x @ w + b, 0) @ w.T


def _convolution(x: Array, w: Array, stride: int = 2) -> Array:
    return jax.lax.conv_general_dilated(x, w, (1, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _weights_gradient(x: Array, w: Array) -> Array:
    return jax.grad(lambda w: _convolution(x, w, 1).sum())(w)


def _statistics(x: Array) -> tuple[Array, ...]:
    return x.sum(0), x.sum(1), (x * x).max(1), x - x.max(1, keepdims=True), x + x.sum(0)


def _moves(x: Array, y: Array) -> tuple[Array, ...]:
    both = jnp.concatenate([x * 2, y, x[:1]], 0)
    return both, jnp.pad(x, ((1, 2), (0, 1))) + 1, jnp.flip(both.T.reshape(-1)), jnp.cumsum(x, 1)


PROGRAMS = [
    Program("layer", _layer, [("b", 20), (20, 33), (33,)], [(0,), (1,), (3,), (29,), (3001,)]),
    Program(
        "product",
        lambda x, y: x @ y.T + 1,
        [("m", "k"), ("n", "k")],
        [(0, 3, 1), (1, 1, 1), (3, 3001, 2), (2, 7, 2000), (1200, 5, 3)],
    ),
    Program(
        "batched",
        lambda x, y: jnp.einsum("bik,bkj->bji", x, y),
        [("b", "i", "k"), ("b", "k", "j")],
        [(0, 2, 2, 2), (1, 1, 1, 1), (3, 2, 5, 700), (1100, 3, 1, 2), (2, 300, 4, 3)],
    ),
    Program(
        "bytes",
        lambda x, y: jax.lax.dot(x, y, preferred_element_type=jnp.int32),
        [("m", "k"), ("k", "n")],
        [(0, 1, 1), (1, 1, 1), (3, 1, 2000), (1500, 7, 2), (9, 2001, 9)],
        np.int8,
    ),
    Program(
        "images",
        _convolution,
        [("b", "h", "w", 3), (3, 3, 3, 17)],
        [(0, 4, 4), (1, 1, 1), (3, 3, 3), (1, 2, 1500), (300, 3, 2)],
    ),
    Program(
        "weights",
        _weights_gradient,
        [("b", "h", "w", 3), (3, 3, 3, 17)],
        [(0, 4, 4), (1, 1, 1), (3, 3, 3), (1, 2, 900), (300, 3, 2)],
    ),
    Program("statistics", _statistics, [("m", "n")], [(0, 3), (1, 1), (3, 3), (3000, 2), (2, 3000)]),
    Program(
        "moves", _moves, [("m", "n"), ("k", "n")], [(3, 2, 0), (1, 1, 1), (3, 3, 3), (2000, 3, 1), (2, 2500, 1200)]
    ),
    Program(
        "one over",
        lambda x, y: (x[:, None, :] * y[None]).sum(-1),
        [("m", "k"), ("n", "k")],
        [(0, 1, 1), (1, 1, 1), (2, 1500, 3), (300, 1, 11)],
    ),
]


@pytest.mark.every(3)
@pytest.mark.parametrize("hint", [None, 1, 5000])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_results_do_not_depend_on_hints(program: Program, hint: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One compilation for all sizes, whatever the hint, gives what specialized ones give."""
    if hint is not None:
        for module in ("dialect.symint", "backends.cpu.kernels.product", "backends.cpu.kernels.depthwise"):
            monkeypatch.setattr(f"stablehlo_py.{module}.HINT", hint)
    executable = stablehlo_py.compile(program.text(), options=Options(threads=2, cache_dir=None, dynamic="once"))
    for call, wanted in zip(program.calls, program.specialized, strict=True):
        for got, want in zip(executable(*program.inputs(program.named(call))), wanted, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=str(program.named(call)))
    assert executable.compilations <= 1 + any(0 in call for call in program.calls)
