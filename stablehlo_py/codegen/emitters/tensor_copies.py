"""Copies of boxes by NVIDIA's tensor memory accelerator, which LLVM has no complete set of names for: PTX.

A kernel describes a tensor to the engine by an object of 128 bytes (a tensor map), which it makes itself: in shared
memory field by field, then in global memory, where the engine reads it (PTX ISA 9.7.9.28, 9.7.13.15). A copy tells an
mbarrier how many bytes have come; who waits for a phase of it waits for these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stablehlo_py.codegen.emitters.llvm import LlvmEmitter
from stablehlo_py.codegen.tensor_maps import BYTES, TensorMap
from stablehlo_py.codegen.values import I64, Value

_TYPES = {8: 0, 16: 1}  # .u8, .u16: elements are copied as they are
_SWIZZLE_OF_128 = 3


class TensorCopies(LlvmEmitter):
    """What an emitter for NVIDIA's GPUs derives from."""

    def make_tensor_map(self, of: TensorMap, source: Value, place: Value, to: Value, thread: Value) -> None:
        fields = "; ".join(f"@first tensormap.replace.tile.{field}" for field in _fields(of))
        self._instructions(
            "{ .reg .pred first; .reg .b64 word; setp.eq.u32 first, $3, 0; mad.wide.u32 word, $3, 4, $1; "
            "st.shared.b32 [word], 0; bar.warp.sync 0xffffffff; "
            f"{fields}; bar.warp.sync 0xffffffff; "
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
            f"[$2], [$1], {BYTES}; fence.proxy.tensormap::generic.acquire.gpu [$2], {BYTES}; }}",
            [source, place, to, thread],
        )

    def begin_arrivals(self, place: Value) -> None:
        self._instructions("mbarrier.init.shared::cta.b64 [$0], 1; fence.mbarrier_init.release.cluster;", [place])

    def expect_bytes(self, place: Value, count: int) -> None:
        self._instructions(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {count};", [place])

    def await_arrivals(self, place: Value, parity: Value) -> None:
        self._instructions(
            "{ .reg .pred there; again: mbarrier.try_wait.parity.shared::cta.b64 there, [$0], $1; @!there bra again; }",
            [place, parity],
        )

    def copy_box(self, map_: Value, to: Value, place: Value, begin: Sequence[Value]) -> None:
        indices = ", ".join(f"${number}" for number in range(3, 3 + len(begin)))
        self._instructions(
            f"cp.async.bulk.tensor.{len(begin)}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            f"[$1], [$0, {{{indices}}}], [$2];",
            [map_, to, place, *begin],
        )

    def _instructions(self, text: str, read: Sequence[Value]) -> None:
        """Instructions that change memory. Pointers become numbers: in shared memory, offsets in it."""
        numbers = [self._as_integer(each) if each.type.text.startswith("ptr") else each for each in read]
        constraints = ",".join([*("l" if each.type == I64 else "r" for each in numbers), "~{memory}"])
        refs, types = ", ".join(each.ref for each in numbers), ", ".join(each.type.text for each in numbers)
        self.lines.append(
            f'llvm.inline_asm has_side_effects asm_dialect = att "{text}", "{constraints}" {refs} : ({types}) -> ()'
        )

    def _as_integer(self, address: Value) -> Value:
        return Value(self._define(f"llvm.ptrtoint {address.ref} : {self.types[address.type.text]} to i64"), I64)


def _fields(of: TensorMap) -> Iterator[str]:
    """The rest of each instruction that sets a field of the object at $1 (PTX ISA 9.7.9.27). Which dimension, and what
    is not a number of 32 or 64 bits, are part of it."""

    def wide(name: str, value: str, dimension: str = "") -> str:
        return f"{name}.shared::cta.b1024.b64 [$1], {dimension}{value}"

    def narrow(name: str, value: int, dimension: str = "") -> str:
        return f"{name}.shared::cta.b1024.b32 [$1], {dimension}{value}"

    yield wide("global_address", "$0")
    yield narrow("rank", len(of.sizes) - 1)
    for number, (size, box) in enumerate(zip(of.sizes, of.box, strict=True)):
        yield narrow("box_dim", box, f"{number}, ")
        yield narrow("global_dim", size, f"{number}, ")
        yield narrow("element_stride", 1, f"{number}, ")
    for number, stride in enumerate(of.strides):
        yield wide("global_stride", str(stride), f"{number}, ")
    yield narrow("elemtype", _TYPES[of.bits])
    yield narrow("interleave_layout", 0)
    yield narrow("swizzle_mode", _SWIZZLE_OF_128)
    yield narrow("fill_mode", 0)
