"""What a function of the kernel language becomes: one `Emitter` writes one function, in one language.

`Function` (codegen/builder.py) folds constants, reuses equal index arithmetic and decides where code is hoisted to;
what is written, and how, is its emitter's business alone. So kernels are written once: emitters/llvm.py is for CPUs,
and an emitter for another language is another class here.

A method writes one operation and returns the name of what it computed (the `ref` of the Value that `Function` makes
of it). Operands are Values; types follow from them, or are given. Names of operations, comparisons and casts are those
of the methods of `Function`. An emitter that lacks an operation inherits the method that says so.

Control flow is given as structure, and may be written as structure (C, SPIR-V) or as blocks (LLVM). What belongs to
one loop or branch comes between its `begin_` and its `end_`, in this order, properly nested:

    begin_loop      <body>       end_loop
    begin_while     <condition>  while_holds   <body>        end_while
    begin_if        <then>       [begin_else   <otherwise>]  end_if
    begin_switch   (begin_case   <case>        end_case)...  end_switch

Code is appended to `lines`. A list in it is code that `Function` hoists to that place later, so it must be in reach
of what follows it: `begin_` methods write behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from stablehlo_py.codegen.matrix_units import MatrixUnit, SharedMatrix
from stablehlo_py.codegen.target import TargetDescription
from stablehlo_py.codegen.tensor_maps import TensorMap
from stablehlo_py.codegen.values import ScalarType, Type, Value, VectorType
from stablehlo_py.errors import InternalError

Lines: TypeAlias = "list[str | Lines]"


def flat(lines: Lines) -> Iterator[str]:
    """The lines of a text, those of nested lists in their places."""
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield from flat(line)


class Emitter:
    """One function being written.

    Attributes:
        lines: where code is appended now. `Function` replaces it while it writes into an enclosing region.
        entry: what comes before all code: constants, memory on the stack.
        static_offsets: `element_address` takes ints below this, in absolute value; others come as Values.
        declarations: functions that the code calls and that are defined elsewhere: name -> text.
        target: the machine that runs the function; None where any will do.
        index_bits: of integers that indices are computed in where they are known to fit; 64 where that gains nothing.
        array_alignment: bytes to which arrays are aligned, where accesses to several elements need that; else 0.
        pack_bf16: the instruction, as LLVM calls it, that rounds two f32 to bf16 in the upper and the lower half of a
            word; "": there is none.
        divides_as_floats: vectors of integers are divided sooner as floats, where no instruction does it.
        rounds_to_bf16: fptrunc to bf16 is what whoever compiles the code expects.
        short_nans: the NaN that the machine makes of numbers of f32 has zeros in its lower half, and one of an operand
            keeps its bits but for the quiet one.
        estimate_exp2: the instruction, as LLVM calls it, that estimates 2^x of an f32 to 2^-22; "": there is none.
        estimate_reciprocal: the same of 1 / x, to an ulp.
        threads, blocks: of a kernel, how many a block has, and a launch; 0: it is not known.
        blocks_together: of a kernel, for how many blocks registers of a multiprocessor are to last.
        is_optimized: whether a compiler is to spend time on the function: not where it calls others, and no more.
    """

    static_offsets = 1 << 62
    index_bits = 64
    array_alignment = threads = blocks = 0
    blocks_together = 1
    pack_bf16 = estimate_exp2 = estimate_reciprocal = ""
    divides_as_floats = rounds_to_bf16 = short_nans = False
    is_optimized = True

    def __init__(self, target: TargetDescription | None = None) -> None:
        self.target = target
        self.lines: Lines = []
        self.entry: list[str] = []
        self.declarations: dict[str, str] = {}

    def lacks(self, method: str) -> InternalError:
        """The error of a method that this emitter has not."""
        return InternalError(f"{type(self).__name__} has no {method}: kernels for this target cannot use it")

    def alignment(self, type_: Type) -> int:
        """Bytes to which an element of a type is aligned in memory."""
        bits = type_.element.bits or (self.target.architecture.pointer_bits if self.target else 64)
        return max(1, bits // 8)

    # --- the whole ---------------------------------------------------------------------------------------------------

    def function(
        self,
        name: str,
        parameters: Mapping[str, Value],
        result: Type | None,
        *,
        noalias: frozenset[str],
        private: bool,
    ) -> str:
        """The text of the function. What `noalias` parameters point to is reached by nothing else; a `private` one is
        called in its own module only."""
        raise self.lacks("function")

    def declaration(self, name: str, operands: Sequence[Type], result: Type | None) -> str:
        """The text that declares a function which is defined elsewhere."""
        raise self.lacks("declaration")

    @classmethod
    def table(cls, name: str, numbers: np.ndarray, element: ScalarType) -> str:
        """The text of a read-only table, aligned to 64 bytes: contiguous numbers in the target's byte order."""
        raise InternalError(f"{cls.__name__} has no table")

    @classmethod
    def section(cls, name: str, section: str, content: bytes) -> str:
        """The text of read-only bytes that other modules see, in a section of their own."""
        raise InternalError(f"{cls.__name__} has no section")

    def parameter(self, name: str) -> str:
        """What a parameter is called."""
        raise self.lacks("parameter")

    def name(self) -> str:
        """A name that nothing has yet."""
        raise self.lacks("name")

    def comment(self, text: str) -> None:
        """A line for the reader."""
        raise self.lacks("comment")

    # --- constants ---------------------------------------------------------------------------------------------------

    def constant(self, number: int, type_: Type) -> str:
        """A number in every lane: floats by their bits, integers signed, i1 as 0 or 1."""
        raise self.lacks("constant")

    def constant_lanes(self, numbers: Sequence[int], type_: VectorType) -> str:
        """A number for each lane."""
        raise self.lacks("constant_lanes")

    def poison(self, type_: Type) -> str:
        """An undefined value."""
        raise self.lacks("poison")

    def null(self, type_: ScalarType) -> str:
        """The null pointer."""
        raise self.lacks("null")

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def binary(self, name: str, a: Value, b: Value, *, no_wrap: bool = False) -> str:
        """fadd ... srem; with `no_wrap`, a signed sum, difference or product that is known not to overflow."""
        raise self.lacks("binary")

    def checked(self, name: str, a: Value, b: Value) -> tuple[str, str]:
        """sadd, ssub or smul of two i64, modulo 2^64; and an i1: that is not the exact result."""
        raise self.lacks("checked")

    def fneg(self, a: Value) -> str:
        """-a of floats."""
        raise self.lacks("fneg")

    def intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        """sqrt, fabs, smax, ... lane by lane."""
        raise self.lacks(f"intrinsic {name}")

    def target_intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        """An instruction of one machine, by the name that its compiler gives it."""
        raise self.lacks(f"target_intrinsic {name}")

    def target_effect(self, name: str, operands: Sequence[Value]) -> None:
        """The same without a result."""
        raise self.lacks(f"target_effect {name}")

    def cmp(self, predicate: str, a: Value, b: Value) -> str:
        """i1, lane by lane."""
        raise self.lacks("cmp")

    def select(self, condition: Value, a: Value, b: Value) -> str:
        """condition ? a : b, as a whole or lane by lane."""
        raise self.lacks("select")

    def cast(self, name: str, a: Value, to: Type) -> str:
        """trunc ... inttoptr, lane by lane."""
        raise self.lacks("cast")

    def bitcast(self, a: Value, to: Type) -> str:
        """The same bits as another type."""
        raise self.lacks("bitcast")

    # --- vectors -----------------------------------------------------------------------------------------------------

    def insert(self, into: Value, a: Value, lane: Value) -> str:
        """`into` with `a` at a lane."""
        raise self.lacks("insert")

    def extract(self, a: Value, lane: Value) -> str:
        """One lane."""
        raise self.lacks("extract")

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> str:
        """Lanes of a, then b, in a new order."""
        raise self.lacks("shuffle")

    def opaque(self, a: Value) -> str:
        """The same value; a compiler that looks through the operations before it, and takes long, stops here."""
        return a.ref

    def reduce_lanes(self, kind: str, a: Value, start: Value | None) -> str:
        """All lanes combined in a fixed tree; sums and products of floats begin with `start`."""
        raise self.lacks("reduce_lanes")

    # --- memory ------------------------------------------------------------------------------------------------------

    def element_address(self, base: Value, offset: Value | int, element: ScalarType) -> str:
        """base + offset elements, a pointer of the base's type."""
        raise self.lacks("element_address")

    def load(self, type_: Type, address: Value, alignment: int, *, invariant: bool = False) -> str:
        """What lies at an address; `invariant`: nothing writes there."""
        raise self.lacks("load")

    def store(self, a: Value, address: Value, alignment: int, *, nontemporal: bool = False) -> None:
        """Write to an address; `nontemporal`: nothing reads it soon."""
        raise self.lacks("store")

    def masked_load(self, type_: VectorType, address: Value, mask: Value, other: Value) -> str:
        """Lanes whose mask is set, `other` elsewhere."""
        raise self.lacks("masked_load")

    def masked_store(self, a: Value, address: Value, mask: Value) -> None:
        """Write the lanes whose mask is set."""
        raise self.lacks("masked_store")

    def gather(self, type_: VectorType, base: Value, offsets: Value, mask: Value, other: Value) -> str:
        """Lane i from base + offsets[i] elements where its mask is set, `other` elsewhere."""
        raise self.lacks("gather")

    def prefetch(self, address: Value, *, write: bool, locality: int) -> None:
        """The address will be used."""
        raise self.lacks("prefetch")

    def alloca(self, count: Value, element: ScalarType, alignment: int) -> str:
        """Memory on the stack, in the entry."""
        raise self.lacks("alloca")

    def copy_memory(self, to: Value, source: Value, size: Value) -> None:
        """Copy bytes between buffers that do not overlap."""
        raise self.lacks("copy_memory")

    def set_memory(self, to: Value, byte: Value, size: Value) -> None:
        """Write one byte everywhere."""
        raise self.lacks("set_memory")

    # --- between threads ---------------------------------------------------------------------------------------------

    def atomic_load(self, type_: ScalarType, address: Value, ordering: str) -> str:
        """Atomic load; `ordering` is seq_cst or monotonic."""
        raise self.lacks("atomic_load")

    def atomic_store(self, a: Value, address: Value) -> None:
        """Atomic store."""
        raise self.lacks("atomic_store")

    def atomic_add(self, address: Value, a: Value, ordering: str) -> str:
        """Fetch and add: the old value; `ordering` is seq_cst or monotonic."""
        raise self.lacks("atomic_add")

    def atomic_exchange(self, address: Value, a: Value) -> str:
        """Replace what is there by `a`: the old value."""
        raise self.lacks("atomic_exchange")

    def compare_exchange(self, address: Value, expected: Value, desired: Value) -> str:
        """i1: `expected` was there, and `desired` is."""
        raise self.lacks("compare_exchange")

    def atomic_update(self, name: str, address: Value, a: Value) -> None:
        """Combine `a` into what is there, by an operation of LLVM's atomicrmw: one step to all threads of the device,
        which orders nothing else."""
        raise self.lacks("atomic_update")

    def atomic_replace(self, address: Value, expected: Value, desired: Value) -> tuple[str, str]:
        """Write `desired` where `expected` is: what was there, and i1, whether it was that. Ordered as
        `atomic_update`."""
        raise self.lacks("atomic_replace")

    def fence(self) -> None:
        """Order memory operations before and after."""
        raise self.lacks("fence")

    def pause(self, intrinsic: str, operands: Sequence[Value]) -> None:
        """A spin loop's hint, of the target's own."""
        raise self.lacks("pause")

    def asked_to_end(self, block: Value) -> str:
        """i1: what `block` (a `shlo_interrupt`) belongs to is not to go on; "" where kernels read it by its layout."""
        return ""

    # Machines that run a kernel as blocks of threads. Axes are 0, 1, 2; numbers are i64.

    def thread_number(self, axis: int) -> str:
        """Which thread of its block runs."""
        raise self.lacks("thread_number")

    def block_number(self, axis: int) -> str:
        """Which block it belongs to."""
        raise self.lacks("block_number")

    def block_size(self, axis: int) -> str:
        """How many threads a block has."""
        raise self.lacks("block_size")

    def shared_memory(self, count: int, element: ScalarType, alignment: int) -> str:
        """Memory that all threads of the block see, uninitialized: a pointer into `Space.SHARED`."""
        raise self.lacks("shared_memory")

    @property
    def dynamic_shared_bytes(self) -> int:
        """Shared memory that a launch has to give to a block, beside what the code names."""
        return 0

    def barrier(self) -> None:
        """All threads of the block come here, and see what the others wrote before."""
        raise self.lacks("barrier")

    def copy_async(self, to: Value, source: Value, exists: Value | None) -> None:
        """Begin to copy 16 bytes from global to shared memory; zeros where they do not exist."""
        raise self.lacks("copy_async")

    def commit_copies(self) -> None:
        """End a group of copies."""
        raise self.lacks("commit_copies")

    def await_copies(self, pending: int) -> None:
        """Wait for all groups of copies but the last `pending` ones."""
        raise self.lacks("await_copies")

    def subgroup_shuffle(self, a: Value, mask: Value) -> str:
        """The scalar `a` of the thread of this subgroup (warp) whose number is this one's xor `mask` (i32)."""
        raise self.lacks("subgroup_shuffle")

    def subgroup_read(self, a: Value, number: Value) -> str:
        """The scalar `a` of the thread of this subgroup with a number (i32)."""
        raise self.lacks("subgroup_read")

    def matrix_multiply(
        self, unit: MatrixUnit, a: Sequence[Value], b: Sequence[Value], sums: Sequence[Value]
    ) -> list[str]:
        """The sums with the product of registers added (`matrix_units.MatrixUnit`)."""
        raise self.lacks("matrix_multiply")

    def warpgroup_multiply(
        self, unit: MatrixUnit, a: SharedMatrix, b: SharedMatrix, sums: Sequence[Value]
    ) -> list[str]:
        """The sums with the product of matrices in shared memory added, some time later."""
        raise self.lacks("warpgroup_multiply")

    def publish_shared(self) -> None:
        """Behind the next barrier, `warpgroup_multiply` sees what this thread stored in shared memory."""
        raise self.lacks("publish_shared")

    def begin_warpgroup(self) -> None:
        """`warpgroup_multiply` sees the sums as they are, and what was published."""
        raise self.lacks("begin_warpgroup")

    def commit_warpgroup(self) -> None:
        """End a group of `warpgroup_multiply`."""
        raise self.lacks("commit_warpgroup")

    def await_warpgroup(self, sums: Sequence[Value], pending: int) -> list[str]:
        """The sums, when all groups but the last `pending` ones have ended."""
        raise self.lacks("await_warpgroup")

    def load_matrices(self, address: Value, count: int, *, transposed: bool) -> list[str]:
        """`count` matrices of shared memory (`Operations.load_matrices`): one i32 of each."""
        raise self.lacks("load_matrices")

    def make_tensor_map(self, of: TensorMap, source: Value, place: Value, to: Value, thread: Value) -> None:
        """Describe a tensor to the copy engine (`Operations.make_tensor_map`)."""
        raise self.lacks("make_tensor_map")

    def begin_arrivals(self, place: Value) -> None:
        """Make a counter of bytes (`Operations.begin_arrivals`)."""
        raise self.lacks("begin_arrivals")

    def expect_bytes(self, place: Value, count: int) -> None:
        """So many bytes are to come in the counter's phase."""
        raise self.lacks("expect_bytes")

    def await_arrivals(self, place: Value, parity: Value) -> None:
        """Wait until the phase of a counter with this parity has ended."""
        raise self.lacks("await_arrivals")

    def copy_box(self, map_: Value, to: Value, place: Value, begin: Sequence[Value]) -> None:
        """Begin to copy a box (`Operations.copy_box`)."""
        raise self.lacks("copy_box")

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, name: str, operands: Sequence[Value], result: Type | None) -> str:
        """Call a function by its name ("" where it returns nothing)."""
        raise self.lacks("call")

    def call_pointer(self, callee: Value, operands: Sequence[Value], result: Type | None) -> str:
        """Call through a pointer."""
        raise self.lacks("call_pointer")

    def launch(
        self, kernel: str, blocks: Value, threads: Value, shared: Value | None, operands: Sequence[Value], caller: Value
    ) -> None:
        """Start a kernel of a GPU, by its symbol: so many blocks of so many threads, and bytes of shared memory."""
        raise self.lacks("launch")

    def address_of(self, name: str) -> str:
        """The address of a function or of a table."""
        raise self.lacks("address_of")

    def ret(self, value: Value | None) -> None:
        """Return."""
        raise self.lacks("ret")

    def ret_if(self, condition: Value, value: Value | None) -> None:
        """Return if the condition holds."""
        raise self.lacks("ret_if")

    # --- control flow ------------------------------------------------------------------------------------------------

    def begin_loop(self, start: Sequence[Value], enter: Value | None) -> list[str]:
        """A counted loop. `start` is the first index (i64) and the carries before the first trip; the names of both in
        the body are returned. There is a first trip if `enter` holds, always where it is None."""
        raise self.lacks("begin_loop")

    def end_loop(self, step: Value, high: Value, results: Sequence[Value]) -> list[str]:
        """The index goes up by `step`, and another trip follows while it is below `high`; `results` are its carries.
        The names of the carries after the loop are returned."""
        raise self.lacks("end_loop")

    def begin_while(self, carries: Sequence[Value]) -> list[str]:
        """A loop whose condition follows; the names of its carries in condition and body are returned."""
        raise self.lacks("begin_while")

    def while_holds(self, condition: Value) -> None:
        """Leave the loop unless the condition holds. The body follows."""
        raise self.lacks("while_holds")

    def end_while(self, results: Sequence[Value]) -> list[str]:
        """Go on with these carries; their names after the loop are returned."""
        raise self.lacks("end_while")

    def begin_if(self, condition: Value, *, otherwise: bool, unlikely: bool) -> None:
        """What follows runs if the condition holds, which is `unlikely` or not; `otherwise`: `begin_else` comes."""
        raise self.lacks("begin_if")

    def begin_else(self, results: Sequence[Value]) -> None:
        """The first branch ends with these values; the other one follows."""
        raise self.lacks("begin_else")

    def end_if(self, results: Sequence[Value]) -> list[str]:
        """The last branch ends with these values; the names of the merged ones are returned."""
        raise self.lacks("end_if")

    def begin_switch(self, selector: Value, count: int) -> None:
        """One of `count` cases runs, the last one for all selectors (i32) that have none."""
        raise self.lacks("begin_switch")

    def begin_case(self, number: int) -> None:
        """A case begins."""
        raise self.lacks("begin_case")

    def end_case(self) -> None:
        """A case ends, and with it the switch."""
        raise self.lacks("end_case")

    def end_switch(self) -> None:
        """All cases were written."""
        raise self.lacks("end_switch")
