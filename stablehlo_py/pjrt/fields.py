"""What lies where in the memory that native code of the platform and Python share, in bytes.

An object of the PJRT API is a block of memory. The first two words of a block are the same in all of them: a link, for
lists that the block may be on (or OWN: native code made it, and frees it), and the references to it. Blocks of "event"
and "job" are native code's alone, those of "storage" where memory is the host's.
"""

from __future__ import annotations

import ctypes

from stablehlo_py.runtime.entry import Call

NEXT, REFERENCES = 0, 8
OWN = -1
BLOCK_BYTES = 256  # of what Python makes


def _words(start: int, names: str) -> dict[str, int]:
    """Names of 64-bit fields, one after the other."""
    return {name: start + 8 * number for number, name in enumerate(names.split())}


FIELDS: dict[str, dict[str, int]] = {
    "error": _words(16, "message size code"),
    "client": _words(16, "name name_size version version_size devices num_devices memories num_memories"),
    "device": _words(
        16, "id kind kind_size text text_size memories num_memories memory queue num_attributes attributes python"
    ),
    "memory": _words(16, "id kind kind_size kind_id text text_size devices"),
    "executable": _words(
        16,
        "name name_size devices num_outputs code_bytes types dims ranks kinds kind_sizes fingerprint fingerprint_size "
        "deleted assignment assignment_size plan replicas partitions num_devices num_parameters parameter_shardings "
        "parameter_sharding_sizes output_shardings output_sharding_sizes parameter_layouts output_layouts",
    ),
    # `external`: references of who uses the memory without the API; then it stays although the buffer is deleted.
    "buffer": _words(16, "type dims rank bytes device memory data deleted minor_to_major storage event external lock"),
    # Memory of arrays. `start`: where `size` bytes were allocated, 0 for somebody else's memory: then
    # callback(address, argument) says that it is not needed any more; of a GPU's memory, whose block is Python's, the
    # DRIVER that keeps it. `read_only`: nobody writes it.
    "storage": _words(16, "address size start read_only callback argument"),
    # `waiters`: who is to be called, CLOSED when the event is over. `over` is slept on.
    "event": _words(16, "waiters over error"),
    # A row of the table of layouts. Nobody counts references to it.
    "layout": _words(16, "text text_size"),
}
CLOSED = 1
DIMENSIONS = FIELDS["buffer"]["lock"] + 8  # of a buffer, behind it
STORAGE_BYTES = 64  # the elements follow
EVENT_BYTES = ERROR_BYTES = 40
MOST_DIMENSIONS = 64
_I32 = ("id", "kind_id", "code", "type", "deleted", "lock", "over")  # fields of 32 bits; the others have 64


def is_short(field: str) -> bool:
    """Whether a field has 32 bits."""
    return field in _I32


# --- programs ---------------------------------------------------------------------------------------------------------

# What calls of a program have in common. `holds`, `made`, `events`, `workspace` and `outputs` are places in a job;
# `inline`: whether the calling thread runs it where nothing has to be waited for; `donates`: whether a result lies
# where an argument did; `orders`: where the order of each argument's dimensions is, 0: they are row-major; `results`: a
# RESULT for each; `devices`: on how many it runs; `grid`: a GRID where these
# communicate, else 0; `sources`: places for the arguments that a call donates, a power of two of them; `driver`: the
# DRIVER of a program that runs on a GPU, else 0, and then `stream` (include/shlo_call.h) and `arena`, the memory of its
# intermediate values, are the program's, and `replay` says how a graph of it is started, 0: there is none.
PLAN = _words(
    0,
    "entry constants workspace_bytes workspace job_bytes num_inputs num_outputs sizes orders results outputs holds "
    "made events parallel_for parallel_context interrupt inline donates devices grid sources driver stream arena "
    "replay",
)
PLAN_BYTES = 8 * len(PLAN)
# `order`: where that of the dimensions is; `donated`: the number of the argument, or -1; `memory`: the kind of memory,
# as a number.
RESULT = _words(0, "type rank dims order bytes donated memory")
RESULT_BYTES = 8 * len(RESULT)

# A program whose processes communicate: the size of what those of one call share, and where in it are the header, the
# records, the inputs and the barriers of backends/cpu/layout.py; the function that ends loops; how many sites there
# are; texts: of every value of FAILED as each process notices it, of every process, of every site and what is before
# them; the size of the longest message of these.
GRID = _words(0, "bytes header records inputs barriers end num_sites failures labels sites message_bytes")
# Before the header: how many processes have not ended, the first error of one, and the event of each.
LEFT, FIRST_ERROR, SHARED_EVENTS = 0, 8, 16

# One call on one device, the `number`-th of those of the program; `grid` is what it shares with the others, if they
# communicate. `owner` is the executable, which it refers to while it is queued (else 0); `scratch` a storage; `handle`
# what its `driver` has for an event (0: none), where it runs on a GPU. Behind
# `call` (include/shlo_call.h) the addresses of inputs, then tables whose places the plan has, one word each: the
# addresses of outputs, the storages of inputs and of outputs, the events of inputs that may not be over. A small
# workspace is last.
JOB = _words(8, "plan owner event scratch failure number grid driver handle call")
INPUTS = JOB["call"] + ctypes.sizeof(Call)
CALL = {name: JOB["call"] + getattr(Call, name).offset for name, _ in Call._fields_}
SMALL_WORKSPACE = 4096


def job_places(inputs: int, outputs: int, workspace_bytes: int) -> dict[str, int]:
    """Where the tables of a job are, and its size; `workspace` is 0 where it has memory of its own. Behind the inputs
    is room for the process of a grid."""
    places, at = {}, INPUTS + 8 * (inputs + 1)
    for name, count in (("outputs", outputs), ("holds", inputs), ("made", outputs), ("events", inputs)):
        places[name], at = at, at + 8 * count
    small = workspace_bytes <= SMALL_WORKSPACE
    places["workspace"] = at if small else 0
    places["job_bytes"] = at + (workspace_bytes + 64 if small else 0)
    return places


# --- the queue of a device --------------------------------------------------------------------------------------------

# What different threads write lies on different cache lines. JOBS is a list, last one first; PUSHED counts, and is
# slept on; PENDING: how many jobs are not over. OPEN: the DRIVER of a GPU, 0 of the processor.
JOBS, PUSHED, SLEEPERS, PENDING, WAITERS, STARTED, HANDLE, OPEN = 0, 64, 68, 128, 132, 192, 200, 208
QUEUE_BYTES = 256
MOST_PENDING = 32  # then who asks for more waits

# --- memory that is kept ----------------------------------------------------------------------------------------------

# A pool of memory: a lock; how many entries; their bytes, and how many these may be; whether they are storages of a
# GPU's memory. Behind that free ones, by size and start (the storage), oldest first.
POOL = {"lock": 0, "count": 8, "bytes": 16, "limit": 24, "on_device": 32, "entries": 64}
POOL_ENTRIES = 256
POOL_SIZE = POOL["entries"] + 16 * POOL_ENTRIES

# A device of a driver that is open: its lock (a pthread mutex); what its functions are `given` first, and where they
# are (backends/gpu/driver/asking.py): what is `given` begins with a number, 0 unless the device is lost; `failed`,
# Python's function that makes an error of a status; sizes of its memory are multiples of `granule`; arrays of NumPy up
# to `staged` bytes are copied before they are sent; 0: the driver itself copies what it is to send, before it returns.
# Behind it the pool of its memory.
DRIVER = _words(0, "lock given ask copy wait failed granule staged")
DRIVER_POOL = 64
DRIVER_BYTES = DRIVER_POOL + POOL_SIZE

# --- the state of the platform ----------------------------------------------------------------------------------------

# FREE: blocks that Python is to free. DONE: the event that is over. MISSING, FORKED_ERROR: errors. FAILED_BEFORE,
# FAILED_BETWEEN: what is said of a custom call that failed, before its name and behind it. ITEM_SIZES: bytes of an
# element by its type. DESCENDING: MOST_DIMENSIONS numbers, each one less than the one before, down to 0.
FREE, DONE, MISSING, FORKED_ERROR, FAILED_BEFORE, FAILED_BETWEEN, ITEM_SIZES, DESCENDING = range(0, 64, 8)
FAILED_BYTES = 64  # more than what is said
# Functions that Python implements, where native code does not: where they are in the table of a platform.
NATIVE_FIRST = (
    *("LoadedExecutable_Execute", "Client_BufferFromHostBuffer", "Buffer_ToHostBuffer", "Buffer_CopyRawToHost"),
    *("Buffer_CopyToDevice", "Buffer_CopyToMemory"),
)
PYTHON = {name: 8 * number for number, name in enumerate(NATIVE_FIRST)}
# FORKED: this process is a child of the one that made the platform. STOPPED: the process ends. HANDLES counts what
# native code has made. CALLING: how many callbacks run; RELEASING: how many that release memory, which nobody calls any
# more after LEAVING. COPY is the plan of a copy. Behind it is the pool of the host's memory.
FORKED, STOPPED, LEAVING, HANDLES, CALLING, RELEASING, COPY = 128, 132, 136, 192, 256, 264, 320
ORDER = 568  # the lock under which jobs are put into queues, so that all queues have those of two calls in one order
HOST_POOL = 576
# Behind the pool is the table of layouts: what a layout of JAX's says of arrays in row-major order, for each rank.
LAYOUTS = HOST_POOL + POOL_SIZE
LAYOUT_BYTES = 32
STATE_BYTES = LAYOUTS + LAYOUT_BYTES * (MOST_DIMENSIONS + 1)
