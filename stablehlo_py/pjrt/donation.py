"""Arguments that a call of a program takes: native code (code.py)."""

from __future__ import annotations

from stablehlo_py.codegen.builder import I1, I32, I64, PTR, Value
from stablehlo_py.pjrt.code import Native
from stablehlo_py.pjrt.execution import ARGUMENTS, COUNT, OPTIONS, each, planned, result_of, row_of, table
from stablehlo_py.pjrt.fields import JOB, RESULT

_KEPT, _NUM_KEPT = 56, 64  # in the options of LoadedExecutable_Execute: arguments that are not donated
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # spreads addresses over a hash table


def functions(state: int) -> list[Native]:
    """Of donated arguments."""
    return [_is_donated(state), _donate(state), _donates_twice(state)]


def _is_kept(f: Native, number: Value) -> Value:
    """Whether the caller says that it keeps an argument."""
    options = f.get(PTR, f.args, OPTIONS)
    kept = f.get(PTR, options, _KEPT)

    def same(index: Value, found: Value) -> list[Value]:
        return [f.either(found, f.cmp("eq", f.load(I64, kept, index), number))]

    (listed,) = f.loop(0, f.get(I64, options, _NUM_KEPT), 1, same, [f.const(False, I1)])
    return listed


def _donates_twice(state: int) -> Native:
    """i32 donates_twice(args, job): whether an argument that the caller gives away is another argument, too. Those that
    are given away are entered in a hash table, in which all are looked up."""
    f = Native("donates_twice", state, [("args", PTR), ("job", PTR)], I32)
    plan, row = f.get(PTR, f.job, JOB["plan"]), row_of(f, ARGUMENTS)
    places, empty = planned(f, plan, "sources"), f.const(-1)
    table_ = f.allocate(f.binary("shl", places, f.const(3)))
    f.set_memory(table_, -1, f.binary("shl", places, f.const(3)))
    mask = f.binary("sub", places, f.const(1))

    def place(argument: Value) -> Value:
        """Where an argument is in the table, or would be."""
        buffer = f.load(I64, row, argument)
        start = f.binary("lshr", f.binary("mul", buffer, f.const(_GOLDEN)), f.const(32))

        def differs(at: Value) -> Value:
            found = f.load(I64, table_, at)
            used = f.cmp("ne", found, empty)

            def compare() -> Value:
                return f.cmp("ne", f.load(I64, row, found), buffer)

            return f.if_(used, compare, lambda: f.const(False, I1))[0]

        def following(at: Value) -> list[Value]:
            return [f.binary("and", f.binary("add", at, f.const(1)), mask)]

        return f.while_([f.binary("and", start, mask)], differs, following)[0]

    def enter(index: Value) -> None:
        source = f.get(I64, result_of(f, plan, index), RESULT["donated"])

        def given() -> None:
            at = place(source)
            first = f.cmp("eq", f.load(I64, table_, at), empty)
            f.if_(f.both(first, f.no(_is_kept(f, source))), lambda: f.store(source, table_, at))

        f.if_(f.cmp("sge", source, f.const(0)), given)

    each(f, planned(f, plan, "num_outputs"), enter)

    def look(argument: Value, found: Value) -> list[Value]:
        there = f.load(I64, table_, place(argument))
        another = f.both(f.cmp("ne", there, empty), f.cmp("ne", there, argument))
        return [f.either(found, another)]

    (found,) = f.loop(0, f.get(I64, f.args, COUNT), 1, look, [f.const(False, I1)])
    f.free(table_)
    f.ret(f.cast("zext", found, I32))
    return f


def _is_donated(state: int) -> Native:
    """i32 is_donated(args, job, source): whether a result may have the memory of this argument: the caller gives it
    away, and nobody else uses it without the API."""
    f = Native("is_donated", state, [("args", PTR), ("job", PTR), ("source", I64)], I32)
    plan = f.get(PTR, f.job, JOB["plan"])
    storage = f.load(PTR, table(f, f.job, plan, "holds"), f.source)
    buffer = f.load(PTR, row_of(f, ARGUMENTS), f.source)
    used = f.either(
        f.is_not_zero(f.field(buffer, "buffer", "external")), f.is_not_zero(f.field(storage, "storage", "read_only"))
    )
    free = f.no(f.either(used, _is_kept(f, f.source)))
    f.ret(f.cast("zext", free, I32))
    return f


def _donate(state: int) -> Native:
    """void donate(args, job): delete arguments that are donated. Their memory is that of their results, where these
    have none yet."""
    f = Native("donate", state, [("args", PTR), ("job", PTR)], None)
    plan = f.get(PTR, f.job, JOB["plan"])
    f.ret_if(f.is_zero(planned(f, plan, "donates")))
    made, outputs = table(f, f.job, plan, "made"), table(f, f.job, plan, "outputs")
    holds, row = table(f, f.job, plan, "holds"), row_of(f, ARGUMENTS)

    def give(index: Value) -> None:
        source = f.get(I64, result_of(f, plan, index), RESULT["donated"])

        def spend() -> None:
            storage = f.call("buffer_spend", [f.load(PTR, row, source)], PTR)

            def take_over() -> None:
                held = f.load(PTR, holds, source)
                f.refer(held)
                f.store(held, made, index)
                f.store(f.field(held, "storage", "address"), outputs, index)

            f.if_(f.is_null(f.load(PTR, made, index)), take_over)
            f.call("storage_drop", [storage])

        def decide() -> None:
            f.if_(f.no(_is_kept(f, source)), spend)

        f.if_(f.cmp("sge", source, f.const(0)), decide)

    each(f, planned(f, plan, "num_outputs"), give)
    f.ret()
    return f
