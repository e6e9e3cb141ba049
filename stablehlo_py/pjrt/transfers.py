"""Arrays from and to the host, and from device to device: native code (code.py). What is not dense and row-major is
copied by Python (`Client`), which also says what is wrong."""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.codegen.builder import I1, I32, I64, PTR, Value
from stablehlo_py.pjrt.api import structure
from stablehlo_py.pjrt.code import OBJECT, Native
from stablehlo_py.pjrt.events import is_over
from stablehlo_py.pjrt.execution import in_python, is_lost, table
from stablehlo_py.pjrt.fields import CALL, COPY, DONE, DRIVER, INPUTS, ITEM_SIZES, JOB, NEXT, OPEN, OWN, PLAN
from stablehlo_py.pjrt.layouts import is_row_major
from stablehlo_py.runtime.entry import Call


def functions(state: int) -> list[Native]:
    """Of transfers."""
    return [
        *(_from_host(state), _viewed(state), _to_host(state), _raw_to_host(state)),
        *(_to_device(state), _to_memory(state)),
        *(_copy_entry(state), _copy(state), _copy_to(state)),
    ]


# --- copies -----------------------------------------------------------------------------------------------------------


def _copy_entry(state: int) -> Native:
    """i32 copy_entry(given): a program of one input and one output, whose `constants` is how many bytes they have."""
    f = Native("copy_entry", state, [("given", PTR)], I32)
    inputs, outputs, size = (
        f.get(type_, f.given, getattr(Call, name).offset)
        for name, type_ in (("inputs", PTR), ("outputs", PTR), ("constants", I64))
    )
    f.copy_memory(f.load(PTR, outputs), f.load(PTR, inputs), size)
    f.ret(f.const(0, I32))
    return f


_COPY = [("buffer", PTR), ("held", PTR), ("offset", I64), ("target", PTR), ("owner", PTR), ("size", I64)]


def _copy(state: int) -> Native:
    """ptr copy(buffer, held, offset, target, owner, size): copy bytes of a buffer, at once, or by the queue of its
    device when they are there. Takes over references to its storage and to that of the target (null: it has none).
    Returns null, or an event with a reference besides that of the job."""
    f = Native("copy", state, _COPY)
    data = f.at(f.field(f.buffer, "buffer", "data", PTR), f.offset)
    event = f.field(f.buffer, "buffer", "event", PTR)

    def look() -> Value:
        return f.both(is_over(f, event), f.is_zero(f.field(event, "event", "error")))

    (there,) = f.if_(f.is_null(event), lambda: f.const(True, I1), look)

    def at_once() -> Value:
        f.copy_memory(f.target, data, f.size)
        f.call("storage_drop", [f.held])
        f.call("storage_drop", [f.owner])
        return f.null()

    def later() -> Value:
        plan = f.pointer(f.const(state + COPY))
        job = f.allocate(f.get(I64, plan, PLAN["job_bytes"]))
        f.put(plan, job, JOB["plan"])
        for name in ("owner", "scratch", "failure", "grid", "driver", "handle"):
            f.put(f.const(0), job, JOB[name])
        over = f.call("event_new", [f.const(2)], PTR)
        f.refer(event)
        f.put(over, job, JOB["event"])
        f.put(data, job, INPUTS)
        for name, value in (("outputs", f.target), ("holds", f.held), ("made", f.owner), ("events", event)):
            f.store(value, table(f, job, plan, name))
        f.put(f.at(job, INPUTS), job, CALL["inputs"])
        f.put(table(f, job, plan, "outputs"), job, CALL["outputs"])
        f.put(f.size, job, CALL["constants"])
        queue = f.field(f.field(f.buffer, "buffer", "device", PTR), "device", "queue", PTR)
        f.call("queue_push", [queue, job])
        return over

    (over,) = f.if_(there, at_once, later)
    f.ret(over)
    return f


def _held(f: Native, fits: Value, then: Callable[[Value], Value]) -> None:
    """Return then(storage) with the storage of the buffer, or, where something is unusual, what Python says."""
    buffer = f.get(PTR, f.args, OBJECT)
    usual = f.both(fits, f.no(f.is_forked()))
    (held,) = f.if_(usual, lambda: f.call("buffer_hold", [buffer], PTR), f.null)
    device = f.field(buffer, "buffer", "device", PTR)
    (error,) = f.if_(f.is_null(held), lambda: in_python(f, device), lambda: then(held))
    f.ret(error)


def _answer(f: Native, event: Value, offset: int) -> Value:
    """Give the caller an event, or that which is over."""
    f.put(f.select(f.is_null(event), f.shared(DONE), event), f.args, offset)
    return f.null()


def _copy_bytes(f: Native, buffer: Value, held: Value, offset: Value, target: Value, size: Value) -> Value:
    """Copy bytes of a buffer, which takes over the reference to its storage, and give the caller the event. An error,
    or null."""

    def on_host() -> Value:
        return _answer(f, f.call("copy", [buffer, held, offset, target, f.null(), size], PTR), OBJECT + 32)

    def on_device() -> Value:
        return f.call("copy_back", [buffer, held, offset, target, size, f.at(f.args, OBJECT + 32)], PTR)

    def python() -> Value:
        f.call("storage_drop", [held])
        return in_python(f, f.field(buffer, "buffer", "device", PTR))

    def ask() -> Value:
        return f.if_(is_lost(f, f.field(held, "storage", "start", PTR)), python, on_device)[0]

    return f.if_(f.cmp("eq", f.get(I64, held, NEXT), f.const(OWN)), on_host, ask)[0]


# --- to the host ------------------------------------------------------------------------------------------------------

# Of a PJRT_Buffer_MemoryLayout.
_MINOR_TO_MAJOR, _RANK, _NUM_TILES, _LAYOUT_TYPE = (
    getattr(structure("Layout"), name).offset for name in ("minor_to_major", "rank", "num_tiles", "type")
)


def _to_host(state: int) -> Native:
    f = Native("Buffer_ToHostBuffer", state)
    buffer, layout, target = (f.get(PTR, f.args, OBJECT + 8 * number) for number in range(3))
    size = f.field(buffer, "buffer", "bytes")

    def asks_for_row_major() -> Value:
        rank, order = f.get(I64, layout, _RANK), f.get(PTR, layout, _MINOR_TO_MAJOR)
        tiled = f.either(f.is_not_zero(f.get(I32, layout, _LAYOUT_TYPE)), f.is_not_zero(f.get(I64, layout, _NUM_TILES)))
        own, last = f.field(buffer, "buffer", "rank"), f.binary("sub", rank, f.const(1))
        plain = f.both(f.no(tiled), f.cmp("eq", rank, own))

        def check(index: Value, good: Value) -> list[Value]:
            return [f.both(good, f.cmp("eq", f.load(I64, order, index), f.binary("sub", last, index)))]

        return f.if_(plain, lambda: f.loop(0, own, 1, check, [f.const(True, I1)])[0], lambda: f.const(False, I1))[0]

    (asks,) = f.if_(f.is_null(layout), lambda: f.const(True, I1), asks_for_row_major)
    dense = f.both(asks, is_row_major(f, buffer))
    asked = f.is_null(target)
    room = f.cmp("uge", f.get(I64, f.args, OBJECT + 24), size)

    def then(held: Value) -> Value:
        def say() -> Value:
            f.put(size, f.args, OBJECT + 24)
            f.call("storage_drop", [held])
            return f.null()

        def copy() -> Value:
            return _copy_bytes(f, buffer, held, f.const(0), target, size)

        return f.if_(asked, say, copy)[0]

    _held(f, f.either(asked, f.both(dense, room)), then)
    return f


def _raw_to_host(state: int) -> Native:
    f = Native("Buffer_CopyRawToHost", state)
    buffer, target = f.get(PTR, f.args, OBJECT), f.get(PTR, f.args, OBJECT + 8)
    offset, size = f.get(I64, f.args, OBJECT + 16), f.get(I64, f.args, OBJECT + 24)
    own = f.field(buffer, "buffer", "bytes")
    inside = f.both(f.cmp("ule", offset, own), f.cmp("ule", size, f.binary("sub", own, offset)))

    def then(held: Value) -> Value:
        return _copy_bytes(f, buffer, held, offset, target, size)

    _held(f, inside, then)
    return f


# --- from device to device --------------------------------------------------------------------------------------------


def _copy_to(state: int) -> Native:
    """ptr copy_to(buffer, held, device): a copy of a buffer on a device; null where there is no memory for it. Takes
    over the reference to its storage."""
    f = Native("copy_to", state, [("buffer", PTR), ("held", PTR), ("device", PTR)])
    size = f.field(f.buffer, "buffer", "bytes")
    storage = f.call("storage_new", [size], PTR)

    def give_up() -> Value:
        f.call("storage_drop", [f.held])
        return f.null()

    def make() -> Value:
        f.refer(storage)
        target = f.field(storage, "storage", "address", PTR)
        event = f.call("copy", [f.buffer, f.held, f.const(0), target, storage, size], PTR)
        values = [f.field(f.buffer, "buffer", "type"), f.field(f.buffer, "buffer", "rank")]
        dims = f.field(f.buffer, "buffer", "dims", PTR)
        made = f.call("buffer_new", [*values, dims, size, f.device, storage, event], PTR)
        f.set_field(f.field(f.buffer, "buffer", "minor_to_major"), made, "buffer", "minor_to_major")
        return made

    f.ret(f.if_(f.is_null(storage), give_up, make)[0])
    return f


def _copied(f: Native, device: Value, memory: Value | None = None) -> Native:
    def then(held: Value) -> Value:
        made = f.call("copy_to", [f.get(PTR, f.args, OBJECT), held, device], PTR)

        def give() -> Value:
            if memory is not None:
                f.set_field(f.number(memory), made, "buffer", "memory")
            f.put(made, f.args, OBJECT + 16)
            return f.null()

        own = f.field(f.get(PTR, f.args, OBJECT), "buffer", "device", PTR)
        return f.if_(f.is_null(made), lambda: in_python(f, own), give)[0]

    _held(f, f.const(True, I1), then)
    return f


def _to_device(state: int) -> Native:
    f = Native("Buffer_CopyToDevice", state)
    return _copied(f, f.get(PTR, f.args, OBJECT + 8))


def _to_memory(state: int) -> Native:
    f = Native("Buffer_CopyToMemory", state)
    memory = f.get(PTR, f.args, OBJECT + 8)
    return _copied(f, _device_of(f, memory), memory)


def _device_of(f: Native, memory: Value) -> Value:
    """The device that has a memory."""
    return f.load(PTR, f.field(memory, "memory", "devices", PTR))


# --- from the host ----------------------------------------------------------------------------------------------------

_DATA, _TYPE, _DIMS, _NUM_DIMS, _STRIDES, _NUM_STRIDES, _SEMANTICS = 24, 32, 40, 48, 56, 64, 72
_DEVICE, _MEMORY, _LAYOUT, _DONE, _BUFFER = 80, 88, 96, 104, 112


_IMMUTABLE_ZERO_COPY = 2  # PJRT_HostBufferSemantics: nobody writes the array as long as the buffer is there
VIEW_ALIGNMENT = 64  # of memory that is taken as it is, as by XLA's CPU
_VIEWED_BYTES = 64 << 10  # to copy fewer takes a microsecond


def _viewed(state: int) -> Native:
    """void viewed(address, event): the owner of memory learns that nobody reads it any more."""
    f = Native("viewed", state, [("address", PTR), ("event", PTR)], None)
    f.call("event_complete", [f.event, f.null()])
    f.call("event_drop", [f.event])
    f.ret()
    return f


def _from_host(state: int) -> Native:
    """A dense array that nobody writes is the buffer's memory, where that is the host's, and the array is large and
    aligned. Else it is copied before this returns, whatever the caller would allow."""
    f = Native("Client_BufferFromHostBuffer", state)
    data, dims, strides = (f.get(PTR, f.args, offset) for offset in (_DATA, _DIMS, _STRIDES))
    type_, rank = f.get(I32, f.args, _TYPE), f.get(I64, f.args, _NUM_DIMS)
    item = f.load(I64, f.shared(ITEM_SIZES), f.cast("zext", type_, I64))
    strided = f.is_not_zero(f.get(I64, f.args, _NUM_STRIDES))
    last = f.binary("sub", rank, f.const(1))

    def measure(index: Value, size: Value, dense: Value) -> list[Value]:
        number = f.binary("sub", last, index)
        length = f.load(I64, dims, number)
        (stride,) = f.if_(strided, lambda: f.load(I64, strides, number), lambda: size)
        fits = f.either(f.cmp("eq", stride, size), f.cmp("ule", length, f.const(1)))
        return [f.binary("mul", size, length), f.both(dense, fits)]

    size, dense = f.loop(0, rank, 1, measure, [item, f.const(True, I1)])
    own, memory = f.get(PTR, f.args, _DEVICE), f.get(PTR, f.args, _MEMORY)
    (device,) = f.if_(f.is_null(memory), lambda: own, lambda: _device_of(f, memory))
    driver = f.get(PTR, f.field(device, "device", "queue", PTR), OPEN)
    on_host = f.is_null(driver)

    # The driver copies what it is to send, and the array is there until that is done.
    needs_copy = f.either(on_host, f.is_zero(f.get(I32, f.args, _SEMANTICS)))
    (stays,) = f.if_(needs_copy, lambda: f.const(False, I1), lambda: f.is_zero(f.get(I64, driver, DRIVER["staged"])))

    def is_usual() -> Value:
        few = f.cmp("sle", size, f.get(I64, driver, DRIVER["staged"]))
        return f.both(f.is_not_zero(size), f.either(few, stays), f.no(is_lost(f, driver)))

    (fits,) = f.if_(on_host, lambda: f.const(True, I1), is_usual)
    usual = f.both(f.is_null(f.get(PTR, f.args, _LAYOUT)), dense, f.is_not_zero(item), f.no(f.is_forked()), fits)
    unchanged = f.cmp("eq", f.get(I32, f.args, _SEMANTICS), f.const(_IMMUTABLE_ZERO_COPY, I32))
    aligned = f.is_zero(f.binary("and", f.number(data), f.const(VIEW_ALIGNMENT - 1)))
    shared = f.both(unchanged, aligned, f.cmp("sge", size, f.const(_VIEWED_BYTES)))

    def view() -> list[Value]:
        event = f.call("event_new", [f.const(2)], PTR)
        return [f.call("storage_view", [f.number(data), f.address_of("viewed"), event], PTR), event]

    def copy() -> list[Value]:
        storage = f.call("storage_new", [size], PTR)

        def fill() -> None:
            f.copy_memory(f.field(storage, "storage", "address", PTR), data, size)

        f.if_(f.no(f.is_null(storage)), fill)
        return [storage, f.shared(DONE)]

    def here() -> list[Value]:
        return [*f.if_(shared, view, copy), f.null()]

    def there() -> list[Value]:
        place = f.alloca(1, PTR)
        f.store(f.null(), place)
        storage = f.call("copy_there", [device, driver, data, stays, size, place], PTR)
        event = f.load(PTR, place)

        def sent() -> Value:
            f.refer(event)
            return event

        (done,) = f.if_(f.both(stays, f.no(f.is_null(storage))), sent, lambda: f.shared(DONE))
        return [storage, done, event]

    def make() -> Value:
        storage, done, event = f.if_(on_host, here, there)

        def enter() -> Value:
            buffer = f.call("buffer_new", [type_, rank, dims, size, device, storage, event], PTR)
            asked = f.no(f.is_null(memory))
            f.if_(asked, lambda: f.set_field(f.number(memory), buffer, "buffer", "memory"))
            f.put(buffer, f.args, _BUFFER)
            f.put(done, f.args, _DONE)
            return f.null()

        return f.if_(f.is_null(storage), lambda: in_python(f, device), enter)[0]

    f.ret(f.if_(usual, make, lambda: in_python(f, device))[0])
    return f
