"""Every table that has an entry per op, against the records: an op that is missing in one, or an entry for an op that
does not exist, fails."""

import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
import pytest

from stablehlo_py.accuracy.functions import FUNCTIONS
from stablehlo_py.backends.cpu.kernels import template
from stablehlo_py.codegen import complex as complex_math
from stablehlo_py.codegen.arith import ARITH
from stablehlo_py.codegen.elemental.core import RULES as ELEMENTAL
from stablehlo_py.codegen.math import narrow
from stablehlo_py.debug.generate import elementwise as generated
from stablehlo_py.dialect.call_signatures import CALLS
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.ops import REDUCTION_KINDS, Effects, Work, combiner, record_of, records
from stablehlo_py.dialect.ops.record import add, kept
from stablehlo_py.legalize import driver  # noqa: F401 - reads all rules
from stablehlo_py.legalize.quantized import driver as quantized  # noqa: F401
from stablehlo_py.legalize.quantized.rules import RULES as QUANTIZED
from stablehlo_py.legalize.rules import RENAMED
from stablehlo_py.legalize.rules import RULES as LEGALIZE
from stablehlo_py.passes.decompose_collectives import RULES as DECOMPOSED
from stablehlo_py.passes.fold import FOLDABLE
from stablehlo_py.passes.fusing.graph import ALONE_KINDS
from stablehlo_py.passes.symbolic.shapes import RULES as SHAPES
from stablehlo_py.passes.symbolic.values import RULES as VALUES

ALL = list(records())
ELEMENTWISE = {record.mnemonic for record in ALL if record.elementwise}
COLLECTIVES = {*DECOMPOSED, "hlo.sharding_constraint"}
BY_SOURCE = {name.partition(".")[2] for name in (*LEGALIZE, *RENAMED)}


def agree(
    found: Iterable[str], expected: Iterable[str], missing: Collection[str] = (), more: Collection[str] = ()
) -> None:
    """Two sets of names are the same, but for exceptions, which are needed."""
    found, expected = set(found), set(expected)
    assert expected - found == set(missing), "ops without an entry (or with one, and listed as an exception)"
    assert found - expected == set(more), "entries without an op (or with one, and listed as an exception)"


def test_every_record_says_what_the_op_does() -> None:
    for record in ALL:
        assert record.doc, record.name
        if record.operation is not None:
            assert record.operation._op_name == record.mnemonic
            assert (record.effects is Effects.PURE) == bool(record.operation._traits), record.name
        if record.elementwise:
            assert record.work is Work.ELEMENTS
            assert (record.function is None) != (record.value is None), record.name
        if record.exact is not None:
            assert record.function or record.value, f"{record.name} folds, and has no value"
        assert record.commutative <= (len(record.operands) == 2)


def test_a_name_has_one_record() -> None:
    with pytest.raises(ValueError, match="has a record"):
        kept("sort", "again")
    with pytest.raises(ValueError, match="has a record"):
        add(record_of("hlo.add"))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", REDUCTION_KINDS)
@pytest.mark.parametrize("dtype", ["i1", "i8", "u8", "f4", "c8"])
def test_identities_leave_elements_unchanged(kind: str, dtype: str) -> None:
    record = combiner(kind)
    identity = record.identity
    assert identity is not None and record.commutative and record.associative
    is_logic = record.elements == "integer or i1"
    if (dtype == "i1" and not is_logic) or (dtype in ("f4", "c8") and is_logic):
        return
    if dtype == "i1":
        elements, neutral = np.array([False, True]), np.array(bool(identity.integer(0, 1)))
    elif dtype in ("i8", "u8"):
        limits = np.iinfo(dtype)
        elements = np.array([limits.min, 0, 1, 3, limits.max], dtype)
        neutral = np.array(identity.integer(int(limits.min), int(limits.max))).astype(dtype)
    elif dtype == "f4":
        elements, neutral = np.array([-np.inf, -1, -0.0, 0.0, 2, np.inf], dtype), np.array(identity.real, dtype)
    else:
        elements, neutral = np.array([-1 + 2j, 0, 3 - 1j], dtype), np.array(identity.complex, dtype)
    if dtype == "c8" and kind in ("maximum", "minimum"):
        return  # NumPy's function of complex extrema is not lexicographic with infinities
    for operands in ((elements, neutral), (neutral, elements)):
        with np.errstate(all="ignore"):
            result = record.function(*np.broadcast_arrays(*operands))  # type: ignore[misc]
        assert result.tobytes() == elements.tobytes() or (dtype == "c8" and (result == elements).all())
    if record.idempotent:
        assert record.function(elements, elements).tobytes() == elements.tobytes()  # type: ignore[misc]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8"])
def test_algebra_of_integers(dtype: str) -> None:
    """An op is associative, or idempotent, where its record says so, and nowhere else."""
    low, high = (0, 1) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    x, y, z = np.random.default_rng(0).integers(low, high + 1, (3, 999)).astype(dtype)
    classes = ("integer or i1",) if dtype == "bool" else ("integer", "integer or i1", "number", "real number")
    for record in ALL:
        if record.elements not in classes or record.function is None or len(record.operands) != 2:
            continue
        f = record.function
        assert np.array_equal(f(f(x, y), z), f(x, f(y, z))) == record.associative, record.name
        assert np.array_equal(f(x, x), x) == record.idempotent, record.name
        if record.absorbing is not None:
            element = np.full_like(x, record.absorbing(low, high))
            assert np.array_equal(f(x, element), element) and np.array_equal(f(element, x), element), record.name


def test_numbered_dimensions_are_those_of_operands() -> None:
    numbered = [record for record in ALL if record.numbers]
    assert {record.name for record in numbered} == {"hlo.dot", "hlo.reduce"}
    for record in numbered:
        assert record.numbers.keys() <= {*record.attributes}
        assert set(record.numbers.values()) <= set(range(len(record.operands)))


def test_commutative_ops_are_those_that_commute() -> None:
    rng = np.random.default_rng(0)
    for record in ALL:
        if not record.elementwise or record.function is None or len(record.operands) != 2:
            continue
        whole = record.elements.startswith("integer")
        x, y = (rng.integers(-9, 9, 99).astype("i4") if whole else rng.normal(size=99).astype("f4") for _ in range(2))
        with np.errstate(all="ignore"):
            same = np.array_equal(record.function(x, y), record.function(y, x), equal_nan=not whole)
        assert same == record.commutative, record.name


# --- legalization ----------------------------------------------------------------------------------------------------


def test_legalization_makes_every_op() -> None:
    made_here = {
        "copy": "buffer assignment makes it",
        "const_size": "sizes of dynamic dimensions",
        "random_state": "the rule of stablehlo.rng makes it",
        "exchange": "a pass makes it of collectives",
        "sharding_constraint": "what carries a sharding on makes it (stablehlo_py/dialect/sharding.py)",
    }
    agree(
        {record.mnemonic for record in ALL if record.mnemonic in BY_SOURCE},
        {record.mnemonic for record in ALL},
        missing=made_here,
    )
    for target in RENAMED.values():
        assert record_of(target) is not None, target


def test_rules_are_for_ops_that_exist() -> None:
    with make_context() as context:
        for table in (LEGALIZE, RENAMED, QUANTIZED, SHAPES, VALUES):
            unknown = {name for name in table if not context.is_registered_operation(name)}
            assert unknown <= set(CALLS)


def test_quantized_ops_of_floats_are_defined() -> None:
    of_stablehlo = {name.partition(".")[2] for name in (*LEGALIZE, *RENAMED) if name.startswith("stablehlo.")}
    floats = {record.mnemonic for record in ALL if "float" in record.elements or "number" in record.elements}
    missing = {"complex"}  # the specification has no quantized complex numbers
    agree({name.partition(".")[2] for name in QUANTIZED} & floats, floats & of_stablehlo, missing=missing)


# --- evaluation ------------------------------------------------------------------------------------------------------


def test_numpy_has_a_value_of_every_op() -> None:
    without = {
        "hlo.const_size": "sizes come with a call",
        "hlo.cholesky": "checked against LAPACK",
        "hlo.triangular_solve": "checked against LAPACK",
        "hlo.fft": "checked against NumPy's, whose sums are in another order",
        "hlo.rng_bit_generator": "checked against the algorithms' own references",
        "stablehlo.custom_call": "has a target",
        "stablehlo.optimization_barrier": "control flow of the compiler's own",
        "hlo.replica_id": "differs from process to process",
        "hlo.partition_id": "differs from process to process",
    }
    evaluated = {
        record.name
        for record in ALL
        if record.function or record.value or record.region_value or record.effects is Effects.IMPURE
    }
    agree(evaluated, {record.name for record in ALL}, missing=without)
    assert set(FOLDABLE) <= evaluated


# --- code generation -------------------------------------------------------------------------------------------------


def test_every_elementwise_op_has_code() -> None:
    agree(ARITH, ELEMENTWISE, more={"bitcast_convert"})  # between types of one width


def test_every_op_of_loops_has_code() -> None:
    at_an_index = {name.removeprefix("stablehlo.") for name in (*ELEMENTAL, *ARITH)}
    loops = {
        record.mnemonic for record in ALL if record.work in (Work.ELEMENTS, Work.INDICES, Work.MOVES, Work.UPDATES)
    }
    agree(at_an_index & loops, loops)
    agree(at_an_index, loops, more={"reduce", "dot", "convolution", "optimization_barrier"})


def test_everything_else_has_a_kernel() -> None:
    without = {
        "hlo.reduce": "a loop, row or column",
        "stablehlo.optimization_barrier": "emitted at an index",
        **dict.fromkeys(COLLECTIVES, "a pass takes it apart"),
    }
    others = [record for record in ALL if record.work in (Work.WHOLE, Work.OPAQUE)]
    have = {record.name for record in others if template(ALONE_KINDS.get(record.name, record.mnemonic)) is not None}
    agree(have, {record.name for record in others}, missing=without)


def test_functions_of_complex_numbers_have_code() -> None:
    taken = {record.mnemonic for record in ALL if "complex" in record.elements or record.elements.startswith("number")}
    by_parts = {
        "real", "imag", "negate",  # the rules of arith take parts
        "abs", "maximum", "minimum",  # functions of complex.py of their own
    }  # fmt: skip
    agree(complex_math.FUNCTIONS, taken, missing=by_parts)


def test_narrow_functions_are_of_ops() -> None:
    assert set(narrow.FUNCTIONS) <= {record.mnemonic for record in ALL if record.ulps}


# --- tools -----------------------------------------------------------------------------------------------------------


def test_accuracy_is_measured_of_every_function() -> None:
    inexact = {record.mnemonic for record in ALL if record.elementwise and record.ulps}
    expanded = {"atan", "polygamma"}  # ops of CHLO that become others
    correctly_rounded = {"sqrt", "remainder"}
    agree(FUNCTIONS, inexact, more=expanded | correctly_rounded)


def test_programs_are_generated_of_every_elementwise_op() -> None:
    of_their_own = {
        "compare", "complex", "convert", "reduce_precision", "select",  # families that draw attributes or types
        "copy",  # is made by buffer assignment
    }  # fmt: skip
    of_chlo = {name.partition(".")[2] for name in (*LEGALIZE, *RENAMED) if name.startswith("chlo.")}
    of_chlo -= {name.partition(".")[2] for name in (*LEGALIZE, *RENAMED) if name.startswith("stablehlo.")}
    agree({*generated.UNARY, *generated.BINARY}, ELEMENTWISE, missing=of_their_own | (of_chlo & ELEMENTWISE))


# --- the guide -------------------------------------------------------------------------------------------------------


def test_new_ops_work_as_the_guide_says() -> None:
    script = Path(__file__).with_name("new_ops.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
