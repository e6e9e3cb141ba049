"""Memory that native code and the runtime share: where in it what lies, in bytes."""

from __future__ import annotations

from stablehlo_py.runtime.entry import ANSWER, ASKED

POOL_BYTES = 4096  # of a thread pool, all zero where its threads have not started; pool.py says what is in it

# --- the block that ends loops of Python's main thread (interrupt.py) ---

# It goes on behind ANSWER: how often the thread was asked to set ASKED, whether it is there, after which time it does
# so (a timespec), and a word that nobody changes. ASKED, which loops read, has a cache line of its own.
REQUESTS, STARTED, PERIOD, NEVER = 64, 68, 72, 88
# The thread whose calls it ends (as `threading.get_ident`), and the address of the block for those of other threads.
MAIN, QUIET = 96, 104
SIGNALS_BYTES = 128
# Ctrl-C is answered within this time. Each answer takes 0.2 microseconds, or waits for the thread that has the GIL.
PERIOD_NANOSECONDS = 100_000_000

# --- calls from Python (fastcall.py) ---

# Objects of CPython and arrays of NumPy; `dispatch.is_known` looks whether these are so.
REFERENCES, TYPE, LENGTH = 0, 8, 16
DATA, RANK, SIZES, DTYPE, FLAGS = 16, 24, 32, 56, 64
DENSE, WRITEABLE = 0x101, 0x400  # flags of arrays: C-contiguous and aligned; may be written

# A dispatch: how many inputs and outputs a program has, and their records; the list of frames that are free, as the
# addresses of their `shlo_call`; the program's entry; its thread pool, the block that ends its loops (0: it has none);
# what is needed of Python and NumPy.
INPUT_COUNT, OUTPUT_COUNT, INPUTS, OUTPUTS, FRAMES, PROGRAM, POOL, SIGNALS = range(0, 64, 8)
NONE, ARRAY_TYPE, NEW_FROM_DESCR, SET_BASE_OBJECT = range(64, 96, 8)
DISPATCH_BYTES = 96
# The record of an input or output: its dtype, rank, and where its sizes are; of an output besides its bytes, the list
# of memory that the pool keeps for it (0: NumPy's own), and which input is donated to it (-1: none).
OF_DTYPE, OF_RANK, OF_SIZES, OF_BYTES, OF_KEPT, OF_SOURCE = range(0, 48, 8)
INPUT_BYTES, OUTPUT_BYTES = 24, 48

# --- a grid of processes (grid.py) ---

# The input `process`.
NUMBER, RECORD = 0, 8
PROCESS_BYTES = 16

# The header, a block that ends loops: FAILED is what went wrong (0: nothing), END the address of `shlo_grid_end`. AT is
# the process that noticed; NAP a timespec; CALL the address of `shlo_call_python` (calls.py), TRANSFER the Python
# function for infeed and outfeed: of three i64, process, port, address. PROCESSES: how many there are, if one that
# waits is to look whether all do so for ever; else 0.
FAILED, END, AT, NAP, CALL, TRANSFER, RECORDS, BARRIERS, CHANNELS = ASKED, ANSWER, 16, 24, 40, 48, 56, 64, 72
PROCESSES = 80
HEADER_BYTES = 128
STOPPED, MISMATCH, MISFIT, NO_MEMORY, STUCK = 1, 2, 3, 4, 5  # values of FAILED

# A record: the op that the process is at, its operand, the i32 that it waits for to change (address, 0 when it does not
# wait, and value), how often it has waited, the header; the key of its random numbers, and the address of how often
# each of its random sites has drawn.
SITE, OPERAND, WAIT_ADDRESS, WAIT_VALUE, WAITS, HEADER, KEY, DRAWN = 0, 8, 16, 24, 32, 40, 48, 56
RECORD_BYTES = 64
COUNT_BYTES = 8  # of what a random site has drawn

# A barrier of one group: what is counted and what is slept on lie on one line, which all members write anyway.
ARRIVED, GENERATION = 0, 4
BARRIER_BYTES = 64

NAP_NANOSECONDS = 20_000_000

# A channel (channels.py): the sender's line, then the receiver's. FIRST is the link to the first node.
SENT, TAIL, FIRST, RECEIVED, HEAD = 0, 8, 16, 64, 72
CHANNEL_BYTES = 128
