"""How a library's product is called: what native code (calls.py) finds in memory. cuBLASLt and hipBLASLt have the same
functions under two names."""

from __future__ import annotations

#: Of a plan, 64 bits each: the functions that multiply and set an attribute of a description; handles of the library,
#: the description, the layouts of the operands and the result; addresses of alpha, beta and the algorithm; the bytes of
#: the workspace; the attribute that is the bias's address. Libraries keep matrices by columns: what lies by rows is the
#: transposed matrix to them, so they are asked for result^T = b^T a^T, and `left` is the layout of b.
PLAN = tuple("multiply set handle description alpha left right beta result algorithm workspace bias_attribute".split())
STATUS_BIT = 32  # set in a status that is a library's
