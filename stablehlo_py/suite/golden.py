"""Golden cases (StableHLO's self-checking testdata) as modules with real arguments and outside checks.

A testdata file calls `@inputs` and `@expected`, computes, and compares by custom calls. Compiled as it is, constant
folding could pass it. `split` turns its inputs into arguments of `@main` and its compared values into results; the
comparison is done here, in NumPy, by the rules of the checks (stablehlo/tests/CheckOps.cpp).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stablehlo_py.debug.compare import gaps, is_exact
from stablehlo_py.debug.engines import main_of, set_signature
from stablehlo_py.dialect.calls import functions_of
from stablehlo_py.dialect.constants import attribute_value, constant_value
from stablehlo_py.dialect.context import make_context
from stablehlo_py.errors import LoadError
from stablehlo_py.frontend.load import read_module
from stablehlo_py.frontend.source import identify
from stablehlo_py.mlir import ir

# The tolerances of StableHLO's interpreter for the checks (stablehlo/tools/StablehloTranslateMain.cpp).
CLOSE_ULPS, ALMOST, EQ_FLOATS = 3, 1e-3, 1e-4
_CHECKS = {
    "check.expect_close": "close",
    "check.expect_almost_eq": "almost_eq",
    "check.expect_eq": "eq",
    "check.eq": "eq_or_almost",
    "check.expect_almost_eq_const": "almost_eq",
    "check.expect_eq_const": "eq",
}


@dataclass(frozen=True)
class Check:
    """Result number `i` of the split module is compared with the i-th check's `expected` by the rule `kind`."""

    kind: str
    expected: np.ndarray


@dataclass(frozen=True)
class Case:
    """A module (text) whose `@main` takes `arguments` and returns one value for each of `checks`."""

    module: str
    arguments: tuple[np.ndarray, ...]
    checks: tuple[Check, ...]


def pieces(text: str) -> list[str]:
    """The modules of a file: its parts between `// -----` lines that hold more than comments."""
    parts: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.strip() == "// -----":
            parts.append([])
        elif not line.startswith("//"):
            parts[-1].append(line)
    return [joined for part in parts if (joined := "\n".join(part)).strip()]


def split(text: str, name: str = "<text>", isolate: bool = False) -> Case:
    """Split one self-checking module, `name` in messages. Raises LoadError when it does not have the form of
    StableHLO's testdata. `isolate`: as of `load`."""
    context = make_context()
    context.allow_unregistered_dialects = True  # the `check` dialect lives in StableHLO's own tools
    with context, ir.Location.unknown():
        module = read_module(identify(text.encode(), name), context, isolate)
        functions, main = functions_of(module), main_of(module)
        arguments = _inputs_to_arguments(main, functions)
        checks, values = _take_checks(main, functions)
        ir.Operation.create("func.return", operands=values, ip=ir.InsertionPoint(main.regions[0].blocks[0]))
        set_signature(main)
        for name in ("inputs", "expected"):
            if name in functions:
                functions[name].erase()
        main.attributes["sym_name"] = ir.StringAttr.get("main")
        if not module.operation.verify():
            raise LoadError("the module does not verify after its checks are taken out")
        return Case(str(module), tuple(arguments), tuple(checks))


def _operations(function: ir.Operation) -> list[ir.Operation]:
    return [op.operation for op in function.regions[0].blocks[0].operations]


def _calls(function: ir.Operation, callee: str) -> Iterator[ir.Operation]:
    for op in _operations(function):
        if op.name == "func.call" and op.attributes["callee"].value == callee:
            yield op


def _constants_returned(function: ir.Operation) -> list[np.ndarray]:
    """What a function of constants returns. Raises LoadError when it computes something."""
    arrays = []
    for operand in _operations(function)[-1].operands:
        owner = operand.owner
        if isinstance(owner, ir.Block) or owner.name != "stablehlo.constant":
            raise LoadError("@inputs and @expected must return constants")
        arrays.append(constant_value(owner).copy())
    return arrays


def _inputs_to_arguments(main: ir.Operation, functions: dict[str, ir.Operation]) -> list[np.ndarray]:
    """Make the values that `@inputs` gives arguments; in a module without `@inputs`, `@main`'s own constants."""
    block = main.regions[0].blocks[0]
    arrays: list[np.ndarray] = []
    if "inputs" in functions:
        sources = list(_calls(main, "inputs"))
        arrays += _constants_returned(functions["inputs"]) * len(sources)
    else:
        compared = {value for op in _operations(main) if _check_kind(op) for value in op.operands}
        constants = [op for op in _operations(main) if op.name == "stablehlo.constant"]
        sources = [op for op in constants if op.result not in compared]
        arrays = [constant_value(op).copy() for op in sources]
    for source in sources:
        for result in source.results:
            result.replace_all_uses_with(block.add_argument(result.type, ir.Location.unknown()))
        source.erase()
    return arrays


def _check_kind(op: ir.Operation) -> str | None:
    name = op.attributes["call_target_name"].value if op.name == "stablehlo.custom_call" else op.name
    return _CHECKS.get(name)


def _take_checks(main: ir.Operation, functions: dict[str, ir.Operation]) -> tuple[list[Check], list[ir.Value]]:
    """Remove the checks from `@main`; returns them and the computed values that they compared."""
    known: dict[ir.Value, np.ndarray] = {}
    expected_calls = list(_calls(main, "expected"))
    for call in expected_calls:
        known |= dict(zip(call.results, _constants_returned(functions["expected"]), strict=True))
    for op in _operations(main):
        if op.name == "stablehlo.constant":
            known[op.result] = constant_value(op).copy()
    checks, values, removed = [], [], []
    for op in _operations(main):
        kind = _check_kind(op)
        if kind is None:
            continue
        if "value" in op.attributes:  # check.expect_*_const
            computed = op.operands[0]
            expected = attribute_value(op, "value", computed.type).copy()
        else:
            found = [operand for operand in op.operands if operand in known]
            if len(found) != 1:
                raise LoadError("a check must compare a computed value with a constant")
            expected = known[found[0]]
            computed = next(operand for operand in op.operands if operand != found[0])
        checks.append(Check(kind, expected))
        values.append(computed)
        removed.append(op)
    if not checks:
        raise LoadError("the module holds no check")
    _operations(main)[-1].erase()  # the return may use what a check gave; `split` makes a new one
    for op in [*removed, *expected_calls]:
        op.erase()
    return checks, values


def compare(check: Check, actual: np.ndarray) -> str | None:
    """None when `actual` satisfies the check, else a sentence that says how far it is off."""
    expected = check.expected
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{actual.dtype}{list(actual.shape)} where {expected.dtype}{list(expected.shape)} is expected"
    floats = not is_exact(expected.dtype)
    if check.kind == "close" and floats:
        distance = ulps(actual, expected)
        bad = distance > CLOSE_ULPS
        measure = f"{int(distance.max(initial=0))} ULP"
    elif check.kind in ("almost_eq", "eq_or_almost") and floats:
        tolerance = ALMOST if check.kind == "almost_eq" else EQ_FLOATS
        difference = gaps(actual, expected)
        bad = ~(difference <= tolerance)
        measure = f"{float(np.max(difference, initial=0)):.3g}"
    else:
        bad = gaps(actual, expected) != 0
        measure = "not equal"
    if not bad.any():
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return (
        f"{check.kind}: {int(bad.sum())} of {bad.size} elements off, worst {measure}; "
        f"at {list(where)} {actual[where]} where {expected[where]} is expected"
    )


def _parts(array: np.ndarray) -> list[np.ndarray]:
    return [array.real, array.imag] if array.dtype.kind == "c" else [array]


def ulps(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distance in units in the last place, by element (the larger of the parts of a complex number).

    NaN and NaN are 0 apart; a value that is not finite is 2^64 - 1 away from every other one.
    """
    result = np.zeros(expected.shape, np.uint64)
    for a, b in zip(_parts(actual), _parts(expected), strict=True):
        bits = np.dtype(f"u{a.dtype.itemsize}")
        sign = bits.type(1 << (8 * bits.itemsize - 1))
        x, y = np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits)
        p, q = (x & ~sign).astype(np.uint64), (y & ~sign).astype(np.uint64)
        same_sign = (x & sign) == (y & sign)
        distance = np.where(same_sign, np.where(p > q, p - q, q - p), p + q)
        finite = np.isfinite(a) & np.isfinite(b)
        equal = (x == y) | (np.isnan(a) & np.isnan(b))
        distance = np.where(equal, 0, np.where(finite, distance, np.uint64(2**64 - 1)))
        result = np.maximum(result, distance.astype(np.uint64))
    return result
