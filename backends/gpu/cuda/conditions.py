"""Conditions of CUDA's graphs: the kernel that sets them, and the parameters of nodes that run under one.

The kernel calls a function of the device's runtime, which only the driver's compiler links: so it is PTX, and a module
of its own, whatever a program's own code is.
"""

from __future__ import annotations

import ctypes

#: The first driver whose bodies have copies, and conditionals in conditionals.
NEEDED_VERSION = 12040
FUNCTIONS = ("cuGraphConditionalHandleCreate", "cuGraphAddNode_v2", "cuMemHostAlloc", "cuMemFreeHost")
IF, WHILE = 0, 1  # CU_GRAPH_COND_TYPE_*
_CONDITIONAL = 13  # CU_GRAPH_NODE_TYPE_CONDITIONAL
NAME = "shlo_set_conditions"
ROW = 3  # numbers of a condition in the kernel's table: its handle, the way that it is, the last way
#: shlo_set_conditions(place, bytes, conditions, table, stop): the unsigned integer of so many bytes is the way that is
#: taken, or greater than the last one, which is taken then. A condition is set to whether its way is. Where `stop` is
#: the address of a number other than 0, all are set to 0: loops end.
PTX = """.version 7.8
.target sm_80
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

.visible .entry shlo_set_conditions(
  .param .u64 place, .param .u64 bytes, .param .u64 conditions, .param .u64 table, .param .u64 stop
) {
  .reg .pred %is, %more;
  .reg .b32 %value, %asked, %goes_on;
  .reg .b64 %place, %bytes, %count, %row, %stop, %number, %handle, %way, %last;
  .reg .b16 %half;
  ld.param.u64 %place, [place];
  ld.param.u64 %bytes, [bytes];
  ld.param.u64 %count, [conditions];
  ld.param.u64 %row, [table];
  ld.param.u64 %stop, [stop];
  cvta.to.global.u64 %place, %place;
  cvta.to.global.u64 %row, %row;
  setp.eq.u64 %is, %bytes, 1;
  @%is bra ONE;
  setp.eq.u64 %is, %bytes, 2;
  @%is bra TWO;
  setp.eq.u64 %is, %bytes, 4;
  @%is bra FOUR;
  ld.global.u64 %number, [%place];
  bra READ;
ONE:
  ld.global.u8 %half, [%place];
  cvt.u64.u16 %number, %half;
  bra READ;
TWO:
  ld.global.u16 %half, [%place];
  cvt.u64.u16 %number, %half;
  bra READ;
FOUR:
  ld.global.u32 %value, [%place];
  cvt.u64.u32 %number, %value;
READ:
  mov.b32 %goes_on, 1;
  setp.eq.u64 %is, %stop, 0;
  @%is bra NEXT;
  cvta.to.global.u64 %stop, %stop;
  ld.volatile.global.u32 %asked, [%stop];
  setp.eq.u32 %is, %asked, 0;
  selp.b32 %goes_on, 1, 0, %is;
NEXT:
  setp.eq.u64 %is, %count, 0;
  @%is bra DONE;
  ld.global.u64 %handle, [%row];
  ld.global.u64 %way, [%row + 8];
  ld.global.u64 %last, [%row + 16];
  min.u64 %last, %last, %number;
  setp.eq.u64 %is, %last, %way;
  selp.b32 %value, %goes_on, 0, %is;
  {
    .param .b64 first;
    .param .b32 second;
    st.param.b64 [first], %handle;
    st.param.b32 [second], %value;
    call.uni cudaGraphSetConditional, (first, second);
  }
  add.u64 %row, %row, 24;
  sub.u64 %count, %count, 1;
  bra NEXT;
DONE:
  ret;
}
"""


class ConditionalParameters(ctypes.Structure):
    """CUgraphNodeParams of cuda.h, with CUDA_CONDITIONAL_NODE_PARAMS in it."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("reserved", ctypes.c_int32 * 3),
        ("condition", ctypes.c_uint64),
        ("type", ctypes.c_int32),
        ("size", ctypes.c_uint32),
        ("graphs", ctypes.POINTER(ctypes.c_void_p)),
        ("context", ctypes.c_void_p),
        ("padding", ctypes.c_uint8 * 200),
        ("more", ctypes.c_int64),
    )

    @classmethod
    def of(cls, condition: int, type_: int, context: int) -> ConditionalParameters:
        """Those of a node with one block."""
        return cls(kind=_CONDITIONAL, condition=condition, type=type_, size=1, context=context)
