"""Calls of the libraries that JAX's exports for `cuda` and `rocm` hold: cuSOLVER, cuSPARSE and jaxlib's own kernels,
and AMD's of the same names.

Each becomes the call of LAPACK that computes the same (custom_call.py, docs/custom-calls.md), so an export for one
platform is compiled for every target. The semantics are those of jaxlib's kernels (jaxlib/gpu/solver_kernels_ffi.cc in
jax-ml/jax): matrices are column-major, pivots count from 1, flags stand where LAPACK has characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import MHLO_CONFIGURATION, SHARDING
from stablehlo_py.dialect.custom_call import configuration
from stablehlo_py.dialect.triton_calls import REMEDY
from stablehlo_py.dialect.types import element_type, is_complex, is_tensor, rank, shape, text
from stablehlo_py.legalize.rules import Unsupported
from stablehlo_py.mlir import ir

#: What answers `lu_pivots_to_permutation`, on all targets.
PIVOTS = "lu_pivots_to_permutation"
_LETTERS = {"f32": "s", "f64": "d", "complex<f32>": "c", "complex<f64>": "z"}
_ALIASES = "output_operand_aliases"

Entries = Mapping[str, "str | bool"]  # a str is a character
Chosen = Callable[[Sequence[ir.Value]], Sequence[ir.Value]]


@dataclass(frozen=True)
class _Array:
    """A result of the call of LAPACK: its type, and its dimensions from the fastest to the slowest in memory."""

    type: ir.Type
    layout: ir.Attribute


@dataclass(frozen=True)
class _Meaning:
    """What a call is in LAPACK's terms.

    Attributes:
        routine: of real numbers; `complex_routine` of complex ones, where that has another name.
        entries: of the typed configuration.
        results: of the call of LAPACK.
        chosen: the results of the library's call, from those.
        aliases: whether the first result takes the first operand's memory, where the library's does.
        operand_layouts: where they are not the library's.
    """

    routine: str
    entries: Entries
    results: Sequence[_Array]
    chosen: Chosen = list
    complex_routine: str | None = None
    aliases: bool = True
    operand_layouts: Sequence[ir.Attribute] | None = None


def _flag(op: ir.OpView, name: str) -> bool:
    entries = configuration(op)
    if name not in entries or not isinstance(entries[name], ir.BoolAttr):
        raise Unsupported(
            f"{text(op, 'call_target_name')!r} without the flag {name} in a typed configuration",
            "export the model with JAX 0.5 or newer",
        )
    return bool(ir.BoolAttr(entries[name]).value)


def _require(op: ir.OpView, operands: int, results: int) -> None:
    found = len(op.operands), len(op.results)
    if found != (operands, results):
        raise Unsupported(
            f"{text(op, 'call_target_name')!r} with {found[0]} operands and {found[1]} results, which takes {operands} "
            f"and gives {results}"
        )


def _layout(type_: ir.Type, column_major: bool = False) -> ir.Attribute:
    order = list(range(type_.rank))[::-1]
    if column_major:
        order[:2] = order[1], order[0]
    places = ", ".join(map(str, order))
    return ir.Attribute.parse(f"dense<[{places}]> : tensor<{len(order)}xindex>")


def _layouts(op: ir.OpView, key: str, values: Sequence[ir.Value]) -> list[ir.Attribute]:
    return list(op.attributes[key]) if key in op.attributes else [_layout(value.type) for value in values]


def _results(op: ir.OpView) -> list[_Array]:
    """Those of the library's call."""
    layouts = _layouts(op, "result_layouts", list(op.results))
    return [_Array(result.type, layout) for result, layout in zip(op.results, layouts, strict=True)]


def _triangle(op: ir.OpView) -> str:
    return "L" if _flag(op, "lower") else "U"


def _same(routine: str, complex_routine: str, operands: int, results: int) -> Callable[[ir.OpView], _Meaning]:
    """Nothing but the name differs."""

    def meaning(op: ir.OpView) -> _Meaning:
        _require(op, operands, results)
        return _Meaning(routine, {}, _results(op), complex_routine=complex_routine)

    return meaning


def _potrf(op: ir.OpView) -> _Meaning:
    _require(op, 1, 2)
    return _Meaning("potrf", {"uplo": _triangle(op)}, _results(op))


def _ormqr(op: ir.OpView) -> _Meaning:
    _require(op, 3, 1)
    entries = {name: _flag(op, name) for name in ("left", "transpose")}
    return _Meaning("ormqr", entries, _results(op), complex_routine="unmqr", aliases=False)


def _syevd(op: ir.OpView) -> _Meaning:
    # `algorithm` says how: QR or Jacobi's rotations. The results mean the same.
    _require(op, 1, 3)
    return _Meaning("syevd", {"mode": "V", "uplo": _triangle(op)}, _results(op), complex_routine="heevd")


def _sytrd(op: ir.OpView) -> _Meaning:
    _require(op, 1, 5)
    return _Meaning("sytrd", {"uplo": _triangle(op)}, _results(op), complex_routine="hetrd")


def _mode(op: ir.OpView) -> str:
    full = _flag(op, "full_matrices")
    return "N" if not _flag(op, "compute_uv") else "A" if full else "S"


def _svd(op: ir.OpView) -> _Meaning:
    """By QR or divide and conquer. cuSOLVER's gesvd takes no wide matrices: JAX hands it row-major ones and
    `transposed`, so it finds the transposed matrix A^T = conj(V) S U^T in memory. What it calls u and vt, row-major
    again, are V^H and U."""
    _require(op, 1, 5)
    transposed = _flag(op, "transposed")
    a, s, *vectors, info = _results(op)
    mode, places = _mode(op), ([3, 2] if transposed else [2, 3])
    if mode == "N":  # they are scalars, LAPACK's are matrices
        vectors, places = [_edge(op.operands[0], left=left) for left in (not transposed, transposed)], []
    results = [a, s, *(vectors[::-1] if transposed else vectors), info]
    operands = None
    if transposed:
        operands = [_layout(op.operands[0].type, column_major=True)]
        results = [
            _Array(each.type, _layout(each.type, column_major=number in (0, 2, 3)))
            for number, each in enumerate(results)
        ]

    def chosen(results: Sequence[ir.Value]) -> list[ir.Value]:
        found = [results[place] for place in places] or [build.splat(0, value.type) for value in list(op.results)[2:4]]
        return [results[0], results[1], *found, results[4]]

    return _Meaning("gesdd", {"mode": mode}, results, chosen, operand_layouts=operands)


def _edge(a: ir.Value, left: bool) -> _Array:
    """Matrices for singular vectors that nobody asks for: one of them each."""
    *batch, rows, columns = shape(a)
    type_ = build.tensor([*batch, *((rows, 1) if left else (1, columns))], element_type(a))
    return _Array(type_, _layout(type_, column_major=True))


def _jacobi_svd(op: ir.OpView) -> _Meaning:
    """By Jacobi's rotations or a polar decomposition: V stands where LAPACK has its adjoint."""
    _require(op, 1, 5)
    a, s, u, v, info = _results(op)
    if not is_tensor(op.results[3]) or v.type.rank < 2:
        raise Unsupported(f"{text(op, 'call_target_name')!r} without a matrix of right singular vectors")
    *batch, rows, columns = shape(v.type)
    adjoint = build.tensor([*batch, columns, rows], v.type.element_type)

    def chosen(results: Sequence[ir.Value]) -> list[ir.Value]:
        a, s, u, vh, info = results
        order = [*range(rank(vh) - 2), rank(vh) - 1, rank(vh) - 2]
        v = build.transpose(vh, order)
        if is_complex(element_type(v)):
            v = _conjugate(v)
        return [a, s, u, v, info]

    return _Meaning("gesdd", {"mode": _mode(op)}, [a, s, u, _Array(adjoint, v.layout), info], chosen)


def _conjugate(x: ir.Value) -> ir.Value:
    part = build.tensor(shape(x), element_type(x).element_type)
    real, imaginary = build.value("real", part, x), build.value("imag", part, x)
    return build.value("complex", x.type, real, build.like("negate", imaginary))


def _gtsv(op: ir.OpView) -> _Meaning:
    """LAPACK overwrites the diagonals, and says in `info` whether the system is singular."""
    _require(op, 4, 1)
    layouts = _layouts(op, "operand_layouts", list(op.operands))
    diagonals = [_Array(value.type, layout) for value, layout in zip(op.operands, layouts, strict=True)][:3]
    info = build.tensor(shape(op.operands[0])[:-1], ir.IntegerType.get_signless(32))
    results = [*diagonals, *_results(op), _Array(info, _layout(info))]
    return _Meaning("gtsv", {}, results, lambda results: [results[3]], aliases=False)


def _sides(op: ir.OpView) -> dict[str, str]:
    """Which eigenvectors are asked for."""
    return {f"compute_{side}": "V" if _flag(op, side) else "N" for side in ("left", "right")}


def _hybrid_eig(results: int) -> Callable[[ir.OpView], _Meaning]:
    """Eigenvalues by LAPACK on the host, or by MAGMA where `magma` says so: the results mean the same."""

    def meaning(op: ir.OpView) -> _Meaning:
        _require(op, 1, results)
        if is_tensor(op.operands[0]) and is_complex(element_type(op.operands[0])) != (results == 4):
            raise Unsupported(f"{text(op, 'call_target_name')!r} does not take {op.operands[0].type}")
        return _Meaning("geev", _sides(op), _results(op), aliases=False)

    return meaning


def _hybrid_geqp3(op: ir.OpView) -> _Meaning:
    _require(op, 2, 3)
    return _Meaning("geqp3", {}, _results(op))


def _geev(op: ir.OpView) -> _Meaning:
    """cuSOLVER's: eigenvalues of real matrices are complex, and their vectors real columns: two of them, the real and
    the imaginary part, where two eigenvalues are conjugates of each other, the first one above the real axis."""
    _require(op, 1, 5)
    a = op.operands[0]
    if not is_tensor(a):
        raise Unsupported(f"{text(op, 'call_target_name')!r} does not take {a.type}")
    _, w, *vectors, info = _results(op)
    if is_complex(element_type(a)):
        return _Meaning("geev", _sides(op), [w, *vectors, info], lambda results: [a, *results], aliases=False)
    parts = _Array(build.tensor(shape(w.type), element_type(a)), w.layout)
    columns = [_Array(build.tensor(shape(each.type), element_type(w.type)), each.layout) for each in vectors]

    def chosen(results: Sequence[ir.Value]) -> list[ir.Value]:
        real, imaginary, left, right, info = results
        values = build.value("complex", w.type, real, imaginary)
        return [a, values, *(_packed(imaginary, each) for each in (left, right)), info]

    return _Meaning("geev", _sides(op), [parts, parts, *columns, info], chosen, aliases=False)


def _packed(imaginary: ir.Value, vectors: ir.Value) -> ir.Value:
    """Real columns for complex ones, by the imaginary parts of their eigenvalues."""
    sizes = shape(vectors)
    part = build.tensor(sizes, element_type(vectors).element_type)
    batch = list(range(len(sizes) - 2))
    of_columns = build.value("broadcast", part, imaginary, dimensions=[*batch, len(sizes) - 1])
    is_second = build.compare(of_columns, build.splat(0, part), "LT")
    second = build.like("negate", build.value("imag", part, vectors))
    return build.value("select", part, is_second, second, build.value("real", part, vectors))


# The routine, after the library's name.
_ROUTINES: dict[str, Callable[[ir.OpView], _Meaning]] = {
    "solver_potrf": _potrf,
    "solver_getrf": _same("getrf", "getrf", 1, 3),
    "solver_geqrf": _same("geqrf", "geqrf", 1, 2),
    "solver_orgqr": _same("orgqr", "ungqr", 2, 1),
    "solver_ormqr": _ormqr,
    "solver_syevd": _syevd,
    "solver_sytrd": _sytrd,
    "solver_geev": _geev,
    "solver_gesvd": _svd,
    "solver_gesdd": _svd,
    "solver_gesvdj": _jacobi_svd,
    "solver_gesvdp": _jacobi_svd,
    "sparse_gtsv2": _gtsv,
}
# jaxlib's own, which compute on the host or by MAGMA.
_HYBRID = {"hybrid_eig_real": _hybrid_eig(5), "hybrid_eig_comp": _hybrid_eig(4), "hybrid_geqp3": _hybrid_geqp3}
_VENDORS = ("cu", "hip")
_CALLS = {
    **{f"{vendor}{name}_ffi": meaning for vendor in _VENDORS for name, meaning in _ROUTINES.items()},
    **{f"{vendor}{name}": meaning for vendor in _VENDORS for name, meaning in _HYBRID.items()},
}
# Kernels of jaxlib's own that have another name here, with the same operands and results.
_RENAMED = {
    **{f"{vendor}_{PIVOTS}": PIVOTS for vendor in _VENDORS},
    **{f"{vendor}_tridiagonal_solve_perturbed": "tridiagonal_solve_perturbed_ffi" for vendor in _VENDORS},
}
# Before typed configurations, calls held descriptors of the library's own.
_OLD = re.compile(r"(cusolver|cublas|cusparse|hipsolver|hipblas|hipsparse|rocsolver)_(?!\w+_ffi$)\w+")
_PROGRAMS = re.compile(r"mosaic_gpu\w*|tpu_custom_call")
# What JAX calls besides, whose meaning nothing here knows: sparse matrices, updates of factors, cuDNN.
_UNKNOWN = re.compile(
    r"(cu|hip)(_cholesky_update|solver_syrk|solver_csrlsvqr|sparse_(coo|csr)_\w+)_ffi|(cu|mi)dnn_rnn\w*|__cudnn\$\w+"
)


_FOR_PROCESSORS = "export the model for the platform 'cpu'"


def targets() -> frozenset[str]:
    """Those that are known here."""
    return frozenset({*_CALLS, *_RENAMED, *_THREEFRY})


def refused(target: str) -> tuple[str, str] | None:
    """Why a call of this target is not to be had, and what to do, where that is known."""
    if _OLD.fullmatch(target):
        return f"calls {target!r}, as JAX did before version 0.5", "export the model with JAX 0.5 or newer"
    if _PROGRAMS.fullmatch(target):
        return (
            f"calls {target!r}, a kernel that another compiler (Mosaic) made for one kind of machine",
            REMEDY,
        )
    if _UNKNOWN.fullmatch(target):
        return f"calls {target!r}, a function of a GPU's library that has no counterpart here", _FOR_PROCESSORS
    return None


def in_lapack(op: ir.OpView) -> tuple[ir.OpView, Chosen]:
    """The call that answers one of `targets`, before `op`, and what makes the results of `op` of that call's.

    Raises:
        Unsupported: the call is not as its target takes it.
    """
    target = text(op, "call_target_name")
    if target in _RENAMED:
        return _call(op, _RENAMED[target], {}, _Meaning("", {}, _results(op))), list
    meaning = _CALLS[target](op)
    if not is_tensor(op.operands[0]) or str(element_type(op.operands[0])) not in _LETTERS:
        raise Unsupported(f"{target!r} takes tensors of {', '.join(_LETTERS)}, not {op.operands[0].type}")
    of = element_type(op.operands[0])
    name = meaning.complex_routine if is_complex(of) and meaning.complex_routine else meaning.routine
    return _call(op, f"lapack_{_LETTERS[str(of)]}{name}_ffi", meaning.entries, meaning), meaning.chosen


def _call(op: ir.OpView, target: str, entries: Entries, meaning: _Meaning) -> ir.OpView:
    """A call with the operands of `op`."""
    byte = ir.IntegerType.get_unsigned(8)
    typed = {
        name: ir.BoolAttr.get(entry) if isinstance(entry, bool) else ir.IntegerAttr.get(byte, ord(entry))
        for name, entry in entries.items()
    }
    left_out = {SHARDING, "backend_config", "mhlo.frontend_attributes"} | (set() if meaning.aliases else {_ALIASES})
    attributes = {name: op.attributes[name] for name in op.attributes if name not in left_out}
    attributes["call_target_name"] = ir.StringAttr.get(target)
    attributes[MHLO_CONFIGURATION] = ir.DictAttr.get(typed)
    layouts = meaning.operand_layouts or _layouts(op, "operand_layouts", list(op.operands))
    attributes["operand_layouts"] = ir.ArrayAttr.get(layouts)
    attributes["result_layouts"] = ir.ArrayAttr.get([result.layout for result in meaning.results])
    types = [result.type for result in meaning.results]
    call = ir.Operation.create("stablehlo.custom_call", types, list(op.operands), attributes)
    return call.opview


# --- threefry ---------------------------------------------------------------------------------------------------------

_THREEFRY = frozenset(f"{vendor}_threefry2x32_ffi" for vendor in _VENDORS)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def is_threefry(target: str) -> bool:
    """Whether a target is the hash of two keys and two counters, which exports of 2024 hold."""
    return target in _THREEFRY


def threefry(op: ir.OpView) -> list[ir.Value]:
    """Two keys and two counters, tensors of ui32, one shape -> two hashed words: Salmon et al., "Parallel random
    numbers: as easy as 1, 2, 3", with 20 rounds.

    Raises:
        Unsupported: the operands are not so.
    """
    operands, type_ = list(op.operands), op.operands[0].type if len(op.operands) else None
    types = [value.type for value in (*operands, *op.results)]
    if len(operands) != 4 or len(types) != 6 or any(each != type_ for each in types):
        raise Unsupported(f"{text(op, 'call_target_name')!r} takes four tensors of one type, and gives two of it")
    if not is_tensor(operands[0]) or str(element_type(operands[0])) != "ui32":
        raise Unsupported(f"{text(op, 'call_target_name')!r} takes tensors of ui32, not {type_}")

    def constant(number: int) -> ir.Value:
        return build.splat(number, type_)

    def rotated(x: ir.Value, by: int) -> ir.Value:
        left = build.like("shift_left", x, constant(by))
        return build.like("or", left, build.like("shift_right_logical", x, constant(32 - by)))

    first, second, x, y = operands
    keys = [first, second, build.like("xor", build.like("xor", first, second), constant(_PARITY))]
    x, y = build.like("add", x, keys[0]), build.like("add", y, keys[1])
    for group in range(5):
        for by in _ROTATIONS[group % 2]:
            x = build.like("add", x, y)
            y = build.like("xor", rotated(y, by), x)
        x = build.like("add", x, keys[(group + 1) % 3])
        y = build.like("add", build.like("add", y, keys[(group + 2) % 3]), constant(group + 1))
    return [x, y]
