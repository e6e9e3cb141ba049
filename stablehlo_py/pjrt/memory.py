"""Memory of arrays, and buffers that have it: native code (code.py).

A storage is memory with references to it: of buffers, and of calls that read or write it. Buffers are deleted and
donated while calls still use what they had. Large memory that is freed is kept for the next array of its size, since
fresh pages cost more than most programs.
"""

from __future__ import annotations

from stablehlo_py.codegen.builder import I32, I64, PTR, Value
from stablehlo_py.pjrt.code import OBJECT, Native, closing, drop
from stablehlo_py.pjrt.fields import (
    DIMENSIONS,
    DRIVER,
    DRIVER_POOL,
    FIELDS,
    HOST_POOL,
    LEAVING,
    NEXT,
    OWN,
    POOL,
    POOL_ENTRIES,
    REFERENCES,
    RELEASING,
    STORAGE_BYTES,
)
from stablehlo_py.pjrt.layouts import descending
from stablehlo_py.runtime.memory import HUGE_PAGE, SMALL

_LINE, _PAGE = 64, 4096
_MADV_HUGEPAGE = 14
_ENTRY = 16  # of the pool: size, start


def functions(state: int) -> list[Native]:
    """Of storages and buffers."""
    return [
        *(_pool_take(state), _pool_free(state), _pool_give(state), _pool_empty(state)),
        *(_storage_new(state), _storage_on(state), drop(state, "storage", _end_storage)),
        *(_storage_view(state), _release_view(state)),
        # From now on no owner of memory is told. When the interpreter is about to end.
        closing(state, "leave", LEAVING, RELEASING),
        *(_buffer_new(state), drop(state, "buffer", _end_buffer), _buffer_hold(state), _buffer_spend(state)),
        *(_destroy(state), _delete(state), _increase(state), _decrease(state)),
    ]


# --- pools ------------------------------------------------------------------------------------------------------------


def _part(f: Native, pool: Value, name: str) -> Value:
    """Where a part of a pool is."""
    return f.at(pool, POOL[name])


def _entry(f: Native, pool: Value, number: Value) -> Value:
    return f.at(_part(f, pool, "entries"), f.binary("shl", number, f.const(4)))


def _remove(f: Native, pool: Value, number: Value, size: Value) -> None:
    """An entry of a pool, whose later ones move down."""
    count, bytes_ = _part(f, pool, "count"), _part(f, pool, "bytes")
    left = f.binary("sub", f.load(I64, count), f.const(1))
    rest = f.binary("shl", f.binary("sub", left, number), f.const(4))
    entry = _entry(f, pool, number)
    f.call("memmove", [entry, f.at(entry, _ENTRY), rest], PTR, external=True)
    f.store(left, count)
    f.store(f.binary("sub", f.load(I64, bytes_), size), bytes_)


def _pool_take(state: int) -> Native:
    """ptr pool_take(pool, size): memory of exactly this size, that which was freed last; or null."""
    f = Native("pool_take", state, [("pool", PTR), ("size", I64)])
    lock = _part(f, f.pool, "lock")
    f.lock(lock)
    last = f.binary("sub", f.load(I64, _part(f, f.pool, "count")), f.const(1))

    def another(number: Value) -> Value:
        differs = f.cmp("ne", f.load(I64, _entry(f, f.pool, number)), f.size)  # what lies before the first is ours, too
        return f.both(f.cmp("sge", number, f.const(0)), differs)

    (number,) = f.while_([last], another, lambda number: [f.binary("sub", number, f.const(1))])

    def take() -> Value:
        start = f.get(PTR, _entry(f, f.pool, number), 8)
        _remove(f, f.pool, number, f.size)
        return start

    (start,) = f.if_(f.cmp("sge", number, f.const(0)), take, f.null)
    f.unlock(lock)
    f.ret(start)
    return f


def _pool_free(state: int) -> Native:
    """void pool_free(pool, start): free memory that is not kept; Python does where that is a GPU's."""
    f = Native("pool_free", state, [("pool", PTR), ("start", PTR)], None)
    on_device = f.is_not_zero(f.load(I64, _part(f, f.pool, "on_device")))
    f.if_(on_device, lambda: f.discard(f.start), lambda: f.free(f.start))
    f.ret()
    return f


def _pool_give(state: int) -> Native:
    """void pool_give(pool, size, start): keep memory for `pool_take`, and free the oldest where that is too much."""
    f = Native("pool_give", state, [("pool", PTR), ("size", I64), ("start", PTR)], None)
    lock, count, bytes_, limit = (_part(f, f.pool, name) for name in ("lock", "count", "bytes", "limit"))
    f.lock(lock)

    def too_much() -> Value:
        entries = f.load(I64, count)
        full = f.cmp("eq", entries, f.const(POOL_ENTRIES))
        large = f.cmp("sgt", f.binary("add", f.load(I64, bytes_), f.size), f.load(I64, limit))
        return f.both(f.is_not_zero(entries), f.either(full, large))

    def free_oldest() -> list[Value]:
        first = _entry(f, f.pool, f.const(0))
        f.call("pool_free", [f.pool, f.get(PTR, first, 8)])
        _remove(f, f.pool, f.const(0), f.load(I64, first))
        return []

    f.while_([], too_much, free_oldest)

    def keep() -> None:
        entries = f.load(I64, count)
        entry = _entry(f, f.pool, entries)
        f.store(f.size, entry)
        f.put(f.start, entry, 8)
        f.store(f.binary("add", entries, f.const(1)), count)
        f.store(f.binary("add", f.load(I64, bytes_), f.size), bytes_)

    fits = f.cmp("sle", f.size, f.load(I64, limit))
    f.if_(fits, keep, lambda: f.call("pool_free", [f.pool, f.start]))
    f.unlock(lock)
    f.ret()
    return f


def _pool_empty(state: int) -> Native:
    """void pool_empty(pool): free all that it keeps."""
    f = Native("pool_empty", state, [("pool", PTR)], None)
    lock, count = _part(f, f.pool, "lock"), _part(f, f.pool, "count")
    f.lock(lock)

    def free(number: Value) -> None:
        f.call("pool_free", [f.pool, f.get(PTR, _entry(f, f.pool, number), 8)])

    f.loop(0, f.load(I64, count), 1, free)
    f.store(f.const(0), count)
    f.store(f.const(0), _part(f, f.pool, "bytes"))
    f.unlock(lock)
    f.ret()
    return f


# --- storages ---------------------------------------------------------------------------------------------------------


def _rounded(f: Native, size: Value, to: int) -> Value:
    return f.binary("and", f.binary("add", size, f.const(to - 1)), f.const(-to))


def _storage_new(state: int) -> Native:
    """ptr storage_new(size): memory of so many bytes, aligned to a cache line, with one reference; or null."""
    f = Native("storage_new", state, [("size", I64)])
    needed = f.binary("add", f.size, f.const(STORAGE_BYTES))

    def small() -> list[Value]:
        start = f.call("malloc", [f.binary("add", needed, f.const(_LINE))], PTR, external=True)
        return [start, f.pointer(_rounded(f, f.number(start), _LINE)), needed]

    def large() -> list[Value]:
        size = _rounded(f, needed, _PAGE)
        kept = f.call("pool_take", [f.cell(HOST_POOL), size], PTR)

        def fresh() -> Value:
            huge = f.cmp("sge", size, f.const(HUGE_PAGE // 2))
            alignment = f.select(huge, f.const(HUGE_PAGE), f.const(_PAGE))
            made = f.call("aligned_alloc", [alignment, size], PTR, external=True)

            def advise() -> None:  # where it is refused, ordinary pages serve as well
                f.call("madvise", [made, size, f.const(_MADV_HUGEPAGE, I32)], I32, external=True)

            f.if_(f.both(huge, f.no(f.is_null(made))), advise)
            return made

        (start,) = f.if_(f.is_null(kept), fresh, lambda: kept)
        return [start, start, size]

    start, block, size = f.if_(f.cmp("slt", needed, f.const(SMALL)), small, large)
    f.ret_if(f.is_null(start), f.null())
    f.count(1)
    f.put(f.const(OWN), block, NEXT)
    f.put(f.const(1), block, REFERENCES)
    f.set_field(f.number(f.at(block, STORAGE_BYTES)), block, "storage", "address")
    f.set_field(size, block, "storage", "size")
    f.set_field(f.number(start), block, "storage", "start")
    for name in ("read_only", "callback", "argument"):
        f.set_field(f.const(0), block, "storage", name)
    f.ret(block)
    return f


def _storage_on(state: int) -> Native:
    """ptr storage_on(driver, size): memory of a GPU that was kept, of at least so many bytes, with one reference; or
    null."""
    f = Native("storage_on", state, [("driver", PTR), ("size", I64)])
    granule = f.get(I64, f.driver, DRIVER["granule"])
    least = f.select(f.is_zero(f.size), f.const(1), f.size)
    more = f.binary("sub", f.binary("add", least, granule), f.const(1))
    size = f.binary("and", more, f.binary("sub", f.const(0), granule))  # which is a power of two
    storage = f.call("pool_take", [f.at(f.driver, DRIVER_POOL), size], PTR)
    f.if_(f.no(f.is_null(storage)), lambda: f.put(f.const(1), storage, REFERENCES))
    f.ret(storage)
    return f


def _storage_view(state: int) -> Native:
    """ptr storage_view(address, callback, argument): somebody else's memory, which is only read, with one reference.
    After the last one callback(address, argument) is called, if there is one."""
    f = Native("storage_view", state, [("address", I64), ("callback", PTR), ("argument", PTR)])
    block = f.allocate(STORAGE_BYTES)
    f.count(1)
    f.put(f.const(OWN), block, NEXT)
    f.put(f.const(1), block, REFERENCES)
    values = {"address": f.address, "read_only": f.const(1), "callback": f.callback, "argument": f.argument}
    for name in FIELDS["storage"]:
        f.set_field(values.get(name) or f.const(0), block, "storage", name)
    f.ret(block)
    return f


def _end_storage(f: Native, storage: Value) -> None:
    """Memory that Python made, Python frees; a GPU's is kept for the next array: what is done with that happens behind
    what was done with this one."""
    size, start = f.field(storage, "storage", "size"), f.field(storage, "storage", "start", PTR)

    def own() -> None:
        large = f.cmp("sge", size, f.const(SMALL))
        f.if_(large, lambda: f.call("pool_give", [f.cell(HOST_POOL), size, start]), lambda: f.free(start))

    def foreign() -> None:
        f.call("release_view", [storage])
        f.free(storage)

    def end() -> None:
        f.count(-1)
        f.if_(f.is_null(start), foreign, own)

    def of_python() -> None:
        kept = f.no(f.is_null(start))
        f.if_(kept, lambda: f.call("pool_give", [f.at(start, DRIVER_POOL), size, storage]), lambda: f.discard(storage))

    is_native = f.cmp("eq", f.get(I64, storage, NEXT), f.const(OWN))
    f.if_(is_native, end, of_python)


def _release_view(state: int) -> Native:
    """void release_view(storage): tell the owner of its memory that nobody reads it any more. Not when the interpreter
    ends, nor in a forked child: the callback may be Python's."""
    f = Native("release_view", state, [("storage", PTR)], None)
    callback = f.field(f.storage, "storage", "callback", PTR)
    f.ret_if(f.is_null(callback))
    f.atomic_add(f.cell(RELEASING), f.const(1))
    over = f.either(f.is_not_zero(f.atomic_load(I32, f.cell(LEAVING))), f.is_forked())

    def tell() -> None:
        f.call_pointer(callback, [f.field(f.storage, "storage", name, PTR) for name in ("address", "argument")])

    f.if_(f.no(over), tell)
    f.atomic_add(f.cell(RELEASING), f.const(-1))
    f.ret()
    return f


# --- buffers ----------------------------------------------------------------------------------------------------------

_NEW = [("type", I32), ("rank", I64), ("dims", PTR), ("size", I64), ("device", PTR), ("storage", PTR), ("event", PTR)]


def _buffer_new(state: int) -> Native:
    """ptr buffer_new(...): a buffer, which takes over a reference to its storage and to the event after which its
    elements are there (null: they are)."""
    f = Native("buffer_new", state, _NEW)
    bytes_ = f.binary("shl", f.rank, f.const(3))
    block = f.allocate(f.binary("add", bytes_, f.const(DIMENSIONS)))
    f.count(1)
    f.put(f.const(OWN), block, NEXT)
    f.put(f.const(1), block, REFERENCES)
    dims = f.at(block, DIMENSIONS)
    f.call("memcpy", [dims, f.dims, bytes_], PTR, external=True)
    values = {
        "type": f.type,
        "dims": f.number(dims),
        "rank": f.rank,
        "bytes": f.size,
        "device": f.number(f.device),
        "memory": f.field(f.device, "device", "memory"),
        "data": f.field(f.storage, "storage", "address"),
        "minor_to_major": f.number(descending(f, f.rank)),
        "storage": f.number(f.storage),
        "event": f.number(f.event),
    }
    for name in FIELDS["buffer"]:
        type_ = I32 if name in ("deleted", "lock") else I64
        f.set_field(values.get(name) or f.const(0, type_), block, "buffer", name)
    f.ret(block)
    return f


def _end_buffer(f: Native, buffer: Value) -> None:
    f.count(-1)
    f.call("storage_drop", [f.field(buffer, "buffer", "storage", PTR)])
    f.call("event_drop", [f.field(buffer, "buffer", "event", PTR)])
    f.free(buffer)


def _buffer_hold(state: int) -> Native:
    """ptr buffer_hold(buffer): its storage, with one reference more; null where the buffer is deleted."""
    f = Native("buffer_hold", state, [("buffer", PTR)])
    lock = f.place(f.buffer, "buffer", "lock")
    f.lock(lock)

    def hold() -> Value:
        storage = f.field(f.buffer, "buffer", "storage", PTR)
        f.refer(storage)
        return storage

    (held,) = f.if_(f.is_zero(f.field(f.buffer, "buffer", "deleted")), hold, f.null)
    f.unlock(lock)
    f.ret(held)
    return f


def _detached(f: Native, buffer: Value) -> Value:
    """The storage of a buffer, which has none then."""
    storage = f.field(buffer, "buffer", "storage", PTR)
    f.set_field(f.const(0), buffer, "buffer", "storage")
    return storage


def _buffer_spend(state: int) -> Native:
    """ptr buffer_spend(buffer): delete a buffer; the storage that it had, with its reference. Null where that is used
    without the API, or the buffer was deleted before."""
    f = Native("buffer_spend", state, [("buffer", PTR)])
    lock = f.place(f.buffer, "buffer", "lock")
    f.lock(lock)
    unused = f.is_zero(f.field(f.buffer, "buffer", "external"))
    alive = f.is_zero(f.field(f.buffer, "buffer", "deleted"))
    f.set_field(f.const(1, I32), f.buffer, "buffer", "deleted")
    (storage,) = f.if_(f.both(unused, alive), lambda: _detached(f, f.buffer), f.null)
    f.unlock(lock)
    f.ret(storage)
    return f


def _destroy(state: int) -> Native:
    f = Native("Buffer_Destroy", state)
    f.call("buffer_drop", [f.get(PTR, f.args, OBJECT)])
    f.ret(f.null())
    return f


def _delete(state: int) -> Native:
    f = Native("Buffer_Delete", state)
    f.call("storage_drop", [f.call("buffer_spend", [f.get(PTR, f.args, OBJECT)], PTR)])
    f.ret(f.null())
    return f


def _increase(state: int) -> Native:
    f = Native("Buffer_IncreaseExternalReferenceCount", state)
    buffer = f.get(PTR, f.args, OBJECT)
    f.refer(buffer)
    _change_external(f, buffer, 1)
    f.ret(f.null())
    return f


def _decrease(state: int) -> Native:
    f = Native("Buffer_DecreaseExternalReferenceCount", state)
    buffer = f.get(PTR, f.args, OBJECT)
    _change_external(f, buffer, -1)
    f.call("buffer_drop", [buffer])
    f.ret(f.null())
    return f


def _change_external(f: Native, buffer: Value, by: int) -> None:
    """Count who uses the memory without the API; with the last of them goes that of a deleted buffer."""
    lock = f.place(buffer, "buffer", "lock")
    f.lock(lock)
    users = f.binary("add", f.field(buffer, "buffer", "external"), f.const(by))
    f.set_field(users, buffer, "buffer", "external")
    over = f.both(f.is_zero(users), f.is_not_zero(f.field(buffer, "buffer", "deleted")))
    (storage,) = f.if_(over, lambda: _detached(f, buffer), f.null)
    f.unlock(lock)
    f.call("storage_drop", [storage])
