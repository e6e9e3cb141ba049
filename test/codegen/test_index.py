"""Affine indices: exact splits and merges, bounds, comparisons; and what the builder hoists."""

from __future__ import annotations

from stablehlo_py.codegen.builder import F32, I1, I64, PTR, Function, Value
from stablehlo_py.codegen.index import (
    ZERO,
    Affine,
    Variable,
    add,
    affine_of,
    below,
    delinearize,
    divmod_,
    divmod_exact,
    inside,
    known_places,
    lane_index,
    linear_index,
    linearize,
    same,
    scalar,
    scale,
    vector_of,
)
from stablehlo_py.dialect.index_map import row_major_strides


def function() -> Function:
    return Function("f", [("x", PTR), ("i", I64), ("j", I64)])


def variable(f: Function, name: str, size: int, multiple: int = 1) -> Variable:
    return Variable(f.parameters[name], 0, size - 1, multiple)


def index(of: Variable, factor: int = 1, constant: int = 0, lane: int = 0) -> Affine:
    return Affine(constant, ((of, factor),), lane)


def test_merge_and_split_are_inverse() -> None:
    f = function()
    i, j = variable(f, "i", 64), variable(f, "j", 48)
    flat = linearize(f, [index(i), index(j)], row_major_strides((64, 48)))
    assert divmod_exact(flat, 48, 1) == (index(i), index(j))
    assert delinearize(f, ((64 * 48, flat),), (64, 48), 1) == [index(i), index(j)]
    divided = delinearize(f, ((64, index(i)), (48, index(j))), (32, 2 * 48), 1)  # 64 into 32 x 2: needs a division
    assert divided[0].bounds(1) == (0, 31)
    assert divided[1].bounds(1) == (0, 95)
    assert same(f, linear_index(f, ((64, index(i)), (48, index(j)))), flat)


def test_a_split_that_divides_stays_exact() -> None:
    f = function()
    i = variable(f, "i", 64)
    flat = index(i, 96)
    assert divmod_exact(flat, 48, 1) == (index(i, 2), ZERO)
    assert divmod_exact(index(i, 96, constant=50), 48, 1) == (index(i, 2, constant=1), Affine(2))
    assert divmod_exact(index(i), 48, 1) is None


def test_aligned_lanes_share_a_quotient() -> None:
    f = function()
    start = lane_index(f.parameters["i"], 480, 16, 16)
    quotient, remainder = divmod_(f, start, 48, 16)
    assert quotient.uniform
    assert remainder.contiguous
    assert remainder.bounds(16) == (0, 47)
    unaligned, _ = divmod_(f, lane_index(f.parameters["j"], 480, 16), 48, 16)
    assert unaligned.vector is not None


def test_lanes_behind_the_beginning_of_their_group_share_its_quotient() -> None:
    """The last vectors of rows of 31, of which 1,024 are an array that is read again and again."""
    f = function()
    row = variable(f, "i", 3072)
    (quotient, remainder), (other, behind) = (divmod_(f, index(row, 31, at, 1), 1024 * 31, 4) for at in (8, 27))
    assert scalar(f, quotient) is scalar(f, other)
    assert scalar(f, add(f, remainder, 19)) is scalar(f, behind)
    assert remainder.contiguous
    assert behind.bounds(4) == (27, 1024 * 31 - 1)
    crossing, _ = divmod_(f, index(row, 31, 28, 1), 1024 * 31, 4)  # its last lane is in the next row
    assert crossing.vector is not None
    for place in (0, 1, 1023, 1024, 3071):
        here = Affine(0, ((Variable(f.const(place), 0, 3071), 31),), 1)
        parts = [scalar(f, part) for part in divmod_(f, add(f, here, 27), 1024 * 31, 4)]
        assert parts == [*divmod(place * 31 + 27, 1024 * 31)]
    assert below(f, index(row, 31, 27, 1), 1024 * 31, 4).type == I1


def test_bounds_with_negative_factors_and_lanes() -> None:
    f = function()
    i = variable(f, "i", 10)
    assert add(f, scale(f, index(i), -2), 5).bounds(1) == (-13, 5)
    assert Affine(0, ((i, 1),), -1).bounds(4) == (-3, 9)


def test_comparisons_are_decided_where_bounds_allow() -> None:
    f = function()
    i = variable(f, "i", 10)
    assert below(f, index(i), 10, 1) is True
    assert below(f, index(i, constant=20), 20, 1) is False
    assert inside(f, index(i, constant=-3), 7, 1) is not True
    aligned = lane_index(f.parameters["j"], 64, 16, 16)
    condition = below(f, aligned, 32, 16)
    assert isinstance(condition, Value)
    assert condition.type.lanes == 1
    crossing = below(f, aligned, 40, 16)
    assert isinstance(crossing, Value)
    assert crossing.type.lanes == 16


def test_constants_fold() -> None:
    f = function()
    assert scalar(f, Affine(7)) == 7
    assert affine_of(5, 9) == Affine(5)
    assert linearize(f, [Affine(2), Affine(3)], (10, 1)) == Affine(23)


def test_index_arithmetic_is_hoisted_out_of_loops() -> None:
    f = function()

    def body(k: Value) -> None:
        invariant = f.imul(f.parameters["i"], 768)
        f.store(f.load(F32, f.x, f.iadd(invariant, k)), f.x, k)

    f.loop(0, 100, 1, body)
    f.ret()
    lines = f.text().splitlines()
    multiply = next(number for number, line in enumerate(lines) if "llvm.mul" in line)
    head = next(number for number, line in enumerate(lines) if line.startswith("^b1"))
    assert multiply < head


def test_remembered_values_end_with_their_region() -> None:
    f = function()

    def body(k: Value) -> None:
        f.remember("key", k)
        assert f.recall("key") is k
        with f.at_level(0):
            assert f.recall("key") is None

    f.loop(0, f.parameters["i"], 1, body)
    assert f.recall("key") is None


def test_the_quotient_of_one_lane_is_a_number() -> None:
    """A vector of one would be gathered, and not known again as the same index."""
    f = function()
    over, under = divmod_(f, index(variable(f, "i", 81, multiple=16)), 16, 1)
    assert over.uniform and under.uniform
    assert (over.bounds(1), under.bounds(1)) == ((0, 5), (0, 0))


def test_what_lanes_add_to_a_multiple_is_known() -> None:
    """LLVM would find the constants out too, and spoils masks that it makes of parts of them."""
    f = function()
    i = variable(f, "i", 81, multiple=16)
    over, under = divmod_(f, index(i, lane=1), 16, 64)
    assert under.vector is not None
    assert under.terms == ()
    assert (over.bounds(64), under.bounds(64)) == ((0, 8), (0, 15))
    text = f.text()
    assert f"dense<[{', '.join(str(lane % 16) for lane in range(64))}]>" in text
    assert f"dense<[{', '.join(str(lane // 16) for lane in range(64))}]>" in text
    assert "vector<64xi32>" not in text


def test_products_of_lanes_are_one_product() -> None:
    """However a multiple came about, its lanes are computed once; what is the same for all of them is added apart."""
    f = function()
    quotient, _ = divmod_(f, index(variable(f, "i", 81), lane=1), 5, 16)
    twice = add(f, scale(f, scale(f, quotient, 2), 3), 7)
    once = add(f, scale(f, quotient, 6), 7)
    assert same(f, twice, once)
    assert not same(f, twice, scale(f, quotient, 3))
    assert twice.bounds(16) == (7, 7 + 6 * quotient.bounds(16)[1])
    assert vector_of(f, twice, 16) is vector_of(f, once, 16)
    assert scale(f, ZERO, 3) == ZERO
    text = f.text()
    assert (text.count("dense<6>"), text.count("dense<2>"), text.count("dense<3>")) == (1, 0, 0)


def test_known_lanes_are_divided_again() -> None:
    """The quotient of a quotient, too, is known: what reads there is shuffled."""
    f = function()
    over, _ = divmod_(f, index(variable(f, "i", 81, multiple=16), lane=1), 4, 16)
    again, under = divmod_(f, over, 2, 16)
    assert known_places(f, again, 16) == [lane // 8 for lane in range(16)]
    assert known_places(f, under, 16) == [lane // 4 % 2 for lane in range(16)]
