"""Kernels as text of the llvm dialect for GPUs: SPIR-V (OpenCL), NVPTX and AMDGPU.

A function is written for one thread. Pointers are generic, those of a kernel's parameters point to global memory; LLVM
finds out again which space a generic pointer is of. What differs between the machines is one class each: how kernels
are called and described, how threads and blocks are numbered, meet, and exchange values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stablehlo_py.codegen.emitter import flat
from stablehlo_py.codegen.emitters.byte_integers import ByteIntegers
from stablehlo_py.codegen.emitters.llvm import LlvmEmitter, PointerTypes
from stablehlo_py.codegen.emitters.tensor_copies import TensorCopies
from stablehlo_py.codegen.matrix_units import MatrixUnit, SharedMatrix
from stablehlo_py.codegen.target import TargetDescription
from stablehlo_py.codegen.values import (
    F16,
    F32,
    F64,
    I1,
    I16,
    I32,
    I64,
    PTR,
    ScalarType,
    Space,
    Type,
    Value,
    VectorType,
    pointer,
)
from stablehlo_py.dialect.alignment import ACCESS_ALIGNMENT

LONGEST_ROW = 1 << 14  # numbers of a table that are one constant of SPIR-V
SUBGROUP = 32  # threads of a subgroup of OpenCL, where a kernel uses them
GLOBAL, SHARED = 1, 3  # numbers of address spaces, the same on all machines
_OF_PREDICATES = {"umax": "or", "umin": "and", "smax": "and", "smin": "or"}  # true is -1 where it has a sign
_KEYWORDS = ("and", "or", "xor")  # of MLIR, which has the atomic operations of these names behind a line
_MANGLED = {"f32": "f", "f64": "d", "i32": "i", "i64": "l"}  # types in names of OpenCL's builtin functions


_TO_F16 = {"f8E4M3FN": "llvm.nvvm.e4m3x2.to.f16x2.rn", "f8E5M2": "llvm.nvvm.e5m2x2.to.f16x2.rn"}


def _pointer(space: int) -> str:
    return f"!llvm.ptr<{space}>" if space else "!llvm.ptr"


class GpuEmitter(LlvmEmitter):
    """One function for a GPU.

    Args:
        threads: how many a block has, of a kernel; 0: the function is called by one.
        blocks: how many a launch has; 0: it is not known.

    Attributes:
        generic, private: numbers of these address spaces.
        kernel_convention: how kernels are called, in the words of the dialect.
        function_attributes: attributes of functions that kernels call.
        most_parameters: of a kernel; the pointers of one with more are in a table, whose address it takes instead.
        named_shared_bytes: of the arrays in shared memory that code names, at most.
        device_scope: LLVM's name of all threads of a device, those that atomic updates are one step to.
        atomic_attributes: of atomic updates: what LLVM may know of the memory.
        adds_floats: whether an instruction adds f32, or f64, to what memory holds.
        spelled: types that have another name in the text.
    """

    generic = private = 0
    kernel_convention = function_attributes = atomic_attributes = ""
    device_scope = "device"
    adds_floats = True
    divides_as_floats = short_nans = False
    most_parameters = 512  # 4 KB: what all drivers of CUDA take
    named_shared_bytes = 1 << 30
    index_bits = 32  # of 64 bits, a sum takes two instructions, a product four, a division by a number 20
    spelled: Mapping[str, str] = {}
    table_space = GLOBAL

    def __init__(self, target: TargetDescription | None = None, threads: int = 0, blocks: int = 0) -> None:
        super().__init__(target)
        self.threads, self.blocks = threads, blocks
        self.array_alignment = ACCESS_ALIGNMENT if threads else 0  # pointers of functions may point into arrays
        self._shared: list[tuple[str, int, ScalarType, int]] = []  # name, number and type of elements, alignment

    def __init_subclass__(cls) -> None:
        spaces = {Space.GLOBAL: GLOBAL, Space.SHARED: SHARED, Space.PRIVATE: cls.private, Space.GENERIC: cls.generic}
        pointers = {pointer(space).text: _pointer(number) for space, number in spaces.items()}
        cls.types = PointerTypes(pointers | dict(cls.spelled))

    # --- what a machine says -----------------------------------------------------------------------------------------

    def kernel_attributes(self) -> str:
        """Attributes of a kernel with blocks of `threads`."""
        raise self.lacks("kernel_attributes")

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
        arguments, casts = [], []
        through_table = self.threads and len(parameters) > self.most_parameters
        for number, (parameter, value) in enumerate(parameters.items()):
            ref, type_ = value.ref, self.types[value.type.text]
            if through_table:
                casts += self._from_table(number, ref)
                continue
            if self.threads and value.type == PTR and self.generic != GLOBAL:
                casts.append(self._cast_space(ref, f"{ref}.global", GLOBAL, self.generic))
                ref, type_ = f"{ref}.global", _pointer(GLOBAL)
            said = [f"llvm.align = {self.array_alignment} : i64"] if self.threads and value.type == PTR else []
            said += ["llvm.noalias"] if parameter in noalias else []
            arguments.append(f"{ref}: {type_}" + (f" {{{', '.join(said)}}}" if said else ""))
        arguments = [f"%addresses: {_pointer(GLOBAL)}"] if through_table else arguments
        returns = f" -> {self.types[result.text]}" if result else ""
        linkage = "" if self.threads else "internal "
        convention = self.kernel_convention if self.threads else self.function_convention
        attributes = f"gpu.kernel, {self.kernel_attributes()}" if self.threads else self.function_attributes
        head = f"llvm.func {linkage}{convention}@{name}({', '.join(arguments)}){returns} attributes {{{attributes}}} {{"
        memory, addresses = [], []
        dynamic = self._dynamic_shared()
        for number, (ref, count, element, alignment) in enumerate(self._shared):
            described = f"addr_space = {SHARED} : i32, alignment = {alignment} : i64"
            if number == dynamic:
                array = f"!llvm.array<0 x {self.types[element.text]}>"
                memory.append(f"llvm.mlir.global external @{name}_shared() {{{described}}} : {array}")
                addresses.append(f"{ref} = llvm.mlir.addressof @{name}_shared : {_pointer(SHARED)}")
                continue
            array = f"!llvm.array<{count} x {self.types[element.text]}>"
            described = f"{described}, dso_local"
            undefined = f"%0 = llvm.mlir.undef : {array}\nllvm.return %0 : {array}"
            memory.append(f"llvm.mlir.global internal @{name}.shared{number}() {{{described}}} : {array} {{")
            memory += [undefined, "}"]
            addresses.append(f"{ref} = llvm.mlir.addressof @{name}.shared{number} : {_pointer(SHARED)}")
        return "\n".join([*memory, head, *casts, *addresses, *self.entry, *flat(self.lines), "}"])

    def _from_table(self, number: int, ref: str) -> list[str]:
        """Read a pointer to global memory from the table of a kernel that takes one."""
        memory = _pointer(GLOBAL)
        return [
            f"{ref}.place = llvm.getelementptr %addresses[{number}] : ({memory}) -> {memory}, i64",
            f"{ref}.number = llvm.load {ref}.place invariant {{alignment = 8 : i64}} : {memory} -> i64",
            f"{ref}.global = llvm.inttoptr {ref}.number : i64 to {memory}",
            self._cast_space(ref, f"{ref}.global", GLOBAL, self.generic),
        ]

    def _cast_space(self, to: str, source: str, space: int, target: int) -> str:
        if space == target:
            return f"{to} = llvm.bitcast {source} : {_pointer(space)} to {_pointer(space)}"
        return f"{to} = llvm.addrspacecast {source} : {_pointer(space)} to {_pointer(target)}"

    # --- memory and calls --------------------------------------------------------------------------------------------

    def alloca(self, count: Value, element: ScalarType, alignment: int) -> str:
        ref, place = self.name(), _pointer(self.private)
        of = f"{count.ref} x {self.types[element.text]} {{alignment = {alignment} : i64}}"
        self.entry.append(f"%private{ref[1:]} = llvm.alloca {of} : (i64) -> {place}")
        self.entry.append(self._cast_space(ref, f"%private{ref[1:]}", self.private, self.generic))
        return ref

    def shared_memory(self, count: int, element: ScalarType, alignment: int) -> str:
        self._shared.append((self.name(), count, element, alignment))
        return self._shared[-1][0]

    def copy_async(self, to: Value, source: Value, exists: Value | None) -> None:
        """At once, where the machine has no other way."""
        words = VectorType(4, I32)
        value = Value(self.load(words, source, ACCESS_ALIGNMENT), words)
        if exists is not None:
            value = Value(self.select(exists, value, Value(self.constant(0, words), words)), words)
        self.store(value, to, ACCESS_ALIGNMENT)

    def commit_copies(self) -> None:
        """Nothing is left to come."""

    def await_copies(self, pending: int) -> None:
        """All has come."""

    def publish_shared(self) -> None:
        """Nothing multiplies beside the threads here; so it is for the next three, too."""

    def begin_warpgroup(self) -> None:
        pass

    def commit_warpgroup(self) -> None:
        pass

    def await_warpgroup(self, sums: Sequence[Value], pending: int) -> list[str]:
        return [each.ref for each in sums]

    @property
    def dynamic_shared_bytes(self) -> int:
        """Shared memory that a launch has to give to the kernel, beside what its code names."""
        number = self._dynamic_shared()
        return self._shared_bytes(number) if number is not None else 0

    def _dynamic_shared(self) -> int | None:
        """The array whose size the launch says: the largest one, where all of them are more than code may name."""
        sizes = [self._shared_bytes(number) for number in range(len(self._shared))]
        return sizes.index(max(sizes)) if sizes and sum(sizes) > self.named_shared_bytes else None

    def _shared_bytes(self, number: int) -> int:
        _, count, element, _ = self._shared[number]
        return count * element.bits // 8

    def address_of(self, name: str) -> str:
        found = self._define(f"llvm.mlir.addressof @{name} : {_pointer(GLOBAL)}")
        ref = self.name()
        self.lines.append(self._cast_space(ref, found, GLOBAL, self.generic))
        return ref

    # --- between threads ---------------------------------------------------------------------------------------------

    def atomic_load(self, type_: ScalarType, address: Value, ordering: str) -> str:
        return super().atomic_load(type_, address, self._of_device if ordering == "monotonic" else ordering)

    def atomic_update(self, name: str, address: Value, a: Value) -> None:
        name = f"_{name}" if name in _KEYWORDS else name
        self._atomic(name, address, a, self._of_device + self.atomic_attributes)

    def atomic_replace(self, address: Value, expected: Value, desired: Value) -> tuple[str, str]:
        found, done = self._compare_exchange(address, expected, desired, f"{self._of_device} monotonic", (0, 1))
        return found, done

    @property
    def _of_device(self) -> str:
        """An order of atomic operations: one step to all threads of the device, and nothing else is ordered."""
        return f'syncscope("{self.device_scope}") monotonic'

    def intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        # With one rounding everywhere: whether the machine has an instruction of its own is not asked.
        return super().intrinsic("fma" if name == "fmuladd" else name, operands, result)


class SpirvEmitter(ByteIntegers, GpuEmitter):
    """SPIR-V for OpenCL: what a thread asks is a builtin function."""

    generic = 4
    most_parameters = 128  # 1024 bytes: what all devices take (OpenCL 3.0, CL_DEVICE_MAX_PARAMETER_SIZE)
    kernel_convention, function_convention = "spir_kernelcc ", "spir_funccc "
    adds_floats = False  # few devices have SPV_EXT_shader_atomic_float_add
    _uses_subgroups = False

    def kernel_attributes(self) -> str:
        blocks = f"reqd_work_group_size = array<i32: {self.threads}, 1, 1>"
        return f"{blocks}, intel_reqd_sub_group_size = {SUBGROUP} : i32" if self._uses_subgroups else blocks

    @classmethod
    def table(cls, name: str, numbers: np.ndarray, element: ScalarType) -> str:
        # An instruction of SPIR-V has less than 2^16 words: long tables have rows, the last one with zeros at its end.
        if numbers.size > LONGEST_ROW:
            rows = -(-numbers.size // LONGEST_ROW)
            numbers = np.pad(numbers, (0, rows * LONGEST_ROW - numbers.size)).reshape(rows, LONGEST_ROW)
        if element.is_float:  # the hex of little-endian bytes, whatever the target
            listed = f'"0x{numbers.astype(numbers.dtype.newbyteorder("<")).tobytes().hex().upper()}"'
        else:
            listed = str(numbers.tolist())
        body = f"dense<{listed}> : tensor<{'x'.join(map(str, numbers.shape))}x{element.text}>"
        array = element.text
        for size in reversed(numbers.shape):
            array = f"array<{size} x {array}>"
        attributes = f"{{addr_space = {cls.table_space} : i32, alignment = 64 : i64}}"
        return f"llvm.mlir.global internal constant @{name}({body}) {attributes} : !llvm.{array}"

    def thread_number(self, axis: int) -> str:
        return self._builtin("_Z12get_local_idj", [self._i32(axis)], I64)

    def block_number(self, axis: int) -> str:
        return self._builtin("_Z12get_group_idj", [self._i32(axis)], I64)

    def block_size(self, axis: int) -> str:
        return self._builtin("_Z14get_local_sizej", [self._i32(axis)], I64)

    def barrier(self) -> None:
        self._builtin("_Z7barrierj", [self._i32(3)], None)  # local and global memory

    def subgroup_shuffle(self, a: Value, mask: Value) -> str:
        self._uses_subgroups = True
        return self._builtin(f"_Z21sub_group_shuffle_xor{_MANGLED[a.type.text]}j", [a, mask], a.type)

    def subgroup_read(self, a: Value, number: Value) -> str:
        self._uses_subgroups = True
        return self._builtin(f"_Z17sub_group_shuffle{_MANGLED[a.type.text]}j", [a, number], a.type)

    def _i32(self, number: int) -> Value:
        return Value(self.constant(number, I32), I32)

    def _builtin(self, name: str, operands: Sequence[Value], result: Type | None) -> str:
        declared = self.declaration(name, [operand.type for operand in operands], result)
        self.declarations[name] = f"{declared} attributes {{convergent, no_unwind}}"
        refs, types = self._listed(operands)
        return self._called(
            f"llvm.call {self.function_convention}@{name}({refs}) {{convergent, no_unwind}} : ({types})", result
        )

    def intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        # LLVM makes fmax and fmin of these, which lose NaN.
        if name in ("maximum", "minimum"):
            return self._extremum(name == "maximum", *operands)
        if operands[0].type.element == I1 and name in _OF_PREDICATES:  # OpenCL has none of Booleans
            return self.binary(_OF_PREDICATES[name], *operands)
        return super().intrinsic(name, operands, result)

    def _extremum(self, is_maximum: bool, a: Value, b: Value) -> str:
        condition = ScalarType(f"vector<{a.type.lanes}xi1>", 1) if a.type.lanes > 1 else I1
        bits = ScalarType(a.type.text.replace("f", "i"), a.type.bits)

        def test(predicate: str) -> Value:
            return Value(self.cmp(predicate, a, b), condition)

        further = Value(self.select(test("ogt" if is_maximum else "olt"), a, b), a.type)
        left, right = (Value(self.bitcast(each, bits), bits) for each in (a, b))
        joined = Value(self.binary("and" if is_maximum else "or", left, right), bits)  # of -0 and 0
        equal = Value(self.bitcast(joined, a.type), a.type)
        found = Value(self.select(test("oeq"), equal, further), a.type)
        return self.select(test("uno"), Value(self.binary("fadd", a, b), a.type), found)


class NvptxEmitter(TensorCopies, GpuEmitter):
    """PTX, by way of LLVM."""

    kernel_convention = "ptx_kernelcc "
    pack_bf16 = "llvm.nvvm.ff2bf16x2.rn"
    estimate_exp2 = "llvm.nvvm.ex2.approx.ftz.f"
    estimate_reciprocal = "llvm.nvvm.rcp.approx.ftz.f"
    named_shared_bytes = 48 << 10

    def kernel_attributes(self) -> str:
        room = f", nvvm.minctasm = {self.blocks_together} : i32" if self.blocks_together > 1 else ""
        return f"nvvm.kernel, nvvm.reqntid = array<i32: {self.threads}, 1, 1>{room}"

    def thread_number(self, axis: int) -> str:
        return self._register(f"tid.{'xyz'[axis]}")

    def block_number(self, axis: int) -> str:
        return self._register(f"ctaid.{'xyz'[axis]}")

    def block_size(self, axis: int) -> str:
        return self._register(f"ntid.{'xyz'[axis]}")

    def barrier(self) -> None:
        zero = self.constant(0, I32)
        self.lines.append(f'llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"({zero}) : (i32) -> ()')

    def subgroup_shuffle(self, a: Value, mask: Value) -> str:
        everyone, clamp = self.constant(-1, I32), self.constant(31, I32)
        name = f"llvm.nvvm.shfl.sync.bfly.{'f32' if a.type.is_float else 'i32'}"
        refs = f"{everyone}, {a.ref}, {mask.ref}, {clamp}"
        return self._define(f'llvm.call_intrinsic "{name}"({refs}) : (i32, {a.type.text}, i32, i32) -> {a.type.text}')

    def matrix_multiply(
        self, unit: MatrixUnit, a: Sequence[Value], b: Sequence[Value], sums: Sequence[Value]
    ) -> list[str]:
        if unit.bits == 8 and unit.total == "f32":
            return self._multiply_f8(unit, a, b, sums)
        registers = [*a, *b]
        if unit.operand in ("f16", "f64"):
            held: Type = F64 if unit.operand == "f64" else VectorType(unit.pack, F16)
            registers = [Value(self.bitcast(register, held), held) for register in registers]
        return self._several(unit.instruction, [*registers, *sums], [each.type for each in sums])

    def _multiply_f8(
        self, unit: MatrixUnit, a: Sequence[Value], b: Sequence[Value], sums: Sequence[Value]
    ) -> list[str]:
        """As two products of f16, which has all numbers of the operands: of the first and the second halves of all
        registers. Which elements of both sides are together does not matter to their sum."""
        totals, half = list(sums), ScalarType("i16", 16)
        for first in (0, 16):
            registers = list[Value]()
            for side, of in zip((a, b), unit.operands, strict=True):
                for register in side:
                    moved = Value(self.binary("lshr", register, Value(self.constant(first, I32), I32)), I32)
                    two = Value(self.cast("trunc", moved if first else register, half), half)
                    pair = VectorType(2, F16)
                    registers.append(Value(self.target_intrinsic(_TO_F16[of], [two], pair), pair))
            found = self._several(unit.instruction, [*registers, *totals], [each.type for each in sums])
            totals = [Value(ref, each.type) for ref, each in zip(found, sums, strict=True)]
        return [each.ref for each in totals]

    def copy_async(self, to: Value, source: Value, exists: Value | None) -> None:
        memory = pointer(Space.GLOBAL)
        source = Value(self._define(f"llvm.addrspacecast {source.ref} : {_pointer(0)} to {_pointer(GLOBAL)}"), memory)
        operands = [to, source]
        if exists is not None:
            sizes = [Value(self.constant(number, I32), I32) for number in (16, 0)]
            operands.append(Value(self.select(exists, *sizes), I32))
        self._effect(f"llvm.nvvm.cp.async.cg.shared.global.16{'.s' if exists is not None else ''}", operands)

    def commit_copies(self) -> None:
        self._effect("llvm.nvvm.cp.async.commit.group", [])

    def await_copies(self, pending: int) -> None:
        self._effect("llvm.nvvm.cp.async.wait.group", [Value(self.constant(pending, I32), I32)])

    def _effect(self, name: str, operands: Sequence[Value]) -> None:
        """An intrinsic without a result."""
        refs, types = self._listed(operands)
        self.lines.append(f'llvm.call_intrinsic "{name}"({refs}) : ({types}) -> ()')

    def warpgroup_multiply(
        self, unit: MatrixUnit, a: SharedMatrix, b: SharedMatrix, sums: Sequence[Value]
    ) -> list[str]:
        count = len(sums)
        registers = ", ".join(f"${number}" for number in range(count))
        # Which operands lie along rows or columns: those of 16 bits may.
        turned = "".join(f", {int(each.turned)}" for each in (a, b)) if unit.bits == 16 else ""
        instruction = unit.instruction.format(columns=2 * count)
        text = (
            "{ .reg .pred one; setp.eq.u32 one, 0, 0; "
            f"{instruction} {{{registers}}}, ${2 * count}, ${2 * count + 1}, one, 1, 1{turned}; }}"
        )
        return self._assembly(text, sums, [self._descriptor(each) for each in (a, b)])

    def _descriptor(self, matrix: SharedMatrix) -> Value:
        """PTX ISA 9.7.15.5.1.2: where a matrix lies in shared memory, how far it is to the next eight rows and to the
        next 64 elements of a row, all in units of 16 bytes, and the swizzle (1: of lines of 128 bytes)."""
        address = Value(self._define(f"llvm.ptrtoint {matrix.base.ref} : {_pointer(SHARED)} to i64"), I64)
        low = Value(self.binary("and", address, Value(self.constant(0x3FFFF, I64), I64)), I64)
        units = Value(self.binary("lshr", low, Value(self.constant(4, I64), I64)), I64)
        fixed = matrix.part_bytes >> 4 << 16 | matrix.group_bytes >> 4 << 32 | 1 << 62
        return Value(self.binary("or", units, Value(self.constant(fixed, I64), I64)), I64)

    def publish_shared(self) -> None:
        self._assembly("fence.proxy.async.shared::cta;", [], [])

    def begin_warpgroup(self) -> None:
        self._assembly("wgmma.fence.sync.aligned;", [], [])

    def commit_warpgroup(self) -> None:
        self._assembly("wgmma.commit_group.sync.aligned;", [], [])

    def await_warpgroup(self, sums: Sequence[Value], pending: int) -> list[str]:
        return self._assembly(f"wgmma.wait_group.sync.aligned {pending};", sums, [])

    def _assembly(self, text: str, changed: Sequence[Value], read: Sequence[Value]) -> list[str]:
        """Instructions that LLVM has no names for: what they change comes back."""
        results = [f"={'f' if each.type.is_float else 'r'}" for each in changed]
        given = [*map(str, range(len(changed))), *("l" for _ in read)]
        constraints = ",".join([*results, *given, "~{memory}"])
        refs, types = self._listed([*changed, *read])
        head = f'llvm.inline_asm has_side_effects asm_dialect = att "{text}", "{constraints}" {refs} : ({types})'
        if not changed:
            self.lines.append(f"{head} -> ()")
            return []
        return self._taken_apart(head, [each.type for each in changed])

    def load_matrices(self, address: Value, count: int, *, transposed: bool) -> list[str]:
        turned = ".trans" if transposed else ""
        return self._several(f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{turned}.b16", [address], [I32] * count)

    def _several(self, name: str, operands: Sequence[Value], results: Sequence[Type]) -> list[str]:
        """An intrinsic with several results."""
        refs, types = self._listed(operands)
        return self._taken_apart(f'llvm.call_intrinsic "{name}"({refs}) : ({types})', results)

    def _taken_apart(self, text: str, results: Sequence[Type]) -> list[str]:
        """The members of the structure that an operation returns."""
        made = f"!llvm.struct<({', '.join(self.types[result.text] for result in results)})>"
        whole = self._define(f"{text} -> {made}")
        return [self._define(f"llvm.extractvalue {whole}[{number}] : {made}") for number in range(len(results))]

    def _register(self, name: str) -> str:
        read = self.target_intrinsic(f"llvm.nvvm.read.ptx.sreg.{name}", [], I32)
        return self.cast("zext", Value(read, I32), I64)


class AmdgpuEmitter(GpuEmitter):
    """GCN and CDNA, by way of LLVM."""

    private = 5
    kernel_convention = "amdgpu_kernelcc "
    estimate_exp2 = "llvm.amdgcn.exp2.f32"
    device_scope = "agent"
    # Results lie in memory that the driver allocates on the device. Without that, LLVM exchanges in a loop.
    atomic_attributes = " {rocdl.no_fine_grained_memory, rocdl.no_remote_memory, rocdl.ignore_denormal_mode}"

    def kernel_attributes(self) -> str:
        return f'passthrough = [["amdgpu-flat-work-group-size", "{self.threads},{self.threads}"]], rocdl.kernel'

    def thread_number(self, axis: int) -> str:
        return self._widened(f"llvm.amdgcn.workitem.id.{'xyz'[axis]}")

    def block_number(self, axis: int) -> str:
        return self._widened(f"llvm.amdgcn.workgroup.id.{'xyz'[axis]}")

    def block_size(self, axis: int) -> str:
        return self.constant(self.threads if axis == 0 else 1, I64)

    def barrier(self) -> None:
        self.lines.append('llvm.fence syncscope("workgroup") release')
        self.lines.append('llvm.call_intrinsic "llvm.amdgcn.s.barrier"() : () -> ()')
        self.lines.append('llvm.fence syncscope("workgroup") acquire')

    def subgroup_shuffle(self, a: Value, mask: Value) -> str:
        everyone, two = (Value(self.constant(number, I32), I32) for number in (-1, 2))
        zero = Value(self.constant(0, I32), I32)
        low = Value(self.target_intrinsic("llvm.amdgcn.mbcnt.lo", [everyone, zero], I32), I32)
        lane = Value(self.target_intrinsic("llvm.amdgcn.mbcnt.hi", [everyone, low], I32), I32)
        other = Value(self.binary("xor", lane, mask), I32)
        at = Value(self.binary("shl", other, two), I32)  # in bytes
        bits = Value(self.bitcast(a, I32), I32) if a.type != I32 else a
        moved = Value(self.target_intrinsic("llvm.amdgcn.ds.bpermute", [at, bits], I32), I32)
        return self.bitcast(moved, a.type) if a.type != I32 else moved.ref

    def matrix_multiply(
        self, unit: MatrixUnit, a: Sequence[Value], b: Sequence[Value], sums: Sequence[Value]
    ) -> list[str]:
        left, right = (self._operand(unit, self._joined(side)) for side in (a, b))
        total = self._joined(sums)
        zero, yes, no = (Value(self.constant(*each), each[1]) for each in ((0, I32), (1, I1), (0, I1)))
        if not unit.repeats:
            operands = [right, left, total, zero, zero, zero]
        elif total.type.element.is_float:
            operands = [right, left, total]
        else:  # whether operands are signed, and whether sums are kept in range
            operands = [yes, right, yes, left, total, no]
        whole = Value(self.target_intrinsic(unit.instruction, operands, total.type), total.type)
        return [self.extract(whole, Value(self.constant(number, I64), I64)) for number in range(len(sums))]

    def _joined(self, values: Sequence[Value]) -> Value:
        """A vector of scalars; of one, the scalar."""
        if len(values) == 1:
            return values[0]
        of = VectorType(len(values), values[0].type.element)
        whole = Value(self.poison(of), of)
        for number, each in enumerate(values):
            whole = Value(self.insert(whole, each, Value(self.constant(number, I64), I64)), of)
        return whole

    def _operand(self, unit: MatrixUnit, registers: Value) -> Value:
        """Registers in the type that the instruction takes."""
        count = unit.pack * registers.type.lanes
        taken: dict[str, Type] = {"f16": VectorType(count, F16), "bf16": VectorType(count, I16), "f32": F32, "f64": F64}
        held = taken.get(unit.operand, registers.type)
        return Value(self.bitcast(registers, held), held)

    def _widened(self, name: str) -> str:
        return self.cast("zext", Value(self.target_intrinsic(name, [], I32), I32), I64)
