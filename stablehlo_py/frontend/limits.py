"""What no program may ask for, whatever its shapes are."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stablehlo_py.dialect.symint import MOST_ELEMENTS
from stablehlo_py.dialect.types import is_tensor, user_location
from stablehlo_py.errors import Problem, ResourceError, UnsupportedError
from stablehlo_py.mlir import ir


def check_elements(types: Mapping[ir.Type, ir.Operation]) -> None:
    """Refuse tensors that no memory holds, so that what is calculated of sizes stays in i64; `types` are those of a
    module (`Census`). A dimension of size 0 does not make up for large ones: arrays of such shapes do not exist either.
    Nor do bounds of sizes that are known.

    Raises:
        ResourceError: each such type is named, with the first op that has it.
        UnsupportedError: a tensor of known shape has an encoding, as bounds are.
    """
    problems, encoded = [], []
    for type_, op in types.items():
        if is_tensor(type_) and math.prod(max(1, size) for size in type_.shape) > MOST_ELEMENTS:
            what = f"{type_} has more elements than any memory holds"
            problems.append(Problem(what, user_location(op.location), op.name, "use smaller shapes"))
        if is_tensor(type_) and type_.has_static_shape and type_.encoding is not None:
            what = f"{type_} has an encoding, though its shape is static"
            encoded.append(Problem(what, user_location(op.location), op.name, "leave out the encoding"))
    if problems:
        raise ResourceError("the model needs more memory than there is", problems=problems)
    if encoded:
        raise UnsupportedError("encodings of tensors are not supported", problems=encoded)
