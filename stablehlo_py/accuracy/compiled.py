"""An op compiled for whole arrays, and a digest of the instructions that a number goes through."""

from __future__ import annotations

import re
from functools import cached_property
from hashlib import sha256

import numpy as np

from stablehlo_py.api import compile
from stablehlo_py.compiler import run_stages
from stablehlo_py.dialect.context import make_context
from stablehlo_py.frontend.load import load
from stablehlo_py.options import Options
from stablehlo_py.runtime.executable import Executable

CHUNK = 1 << 14  # elements of one call: the arrays of a step stay in the second-level cache
_PROGRAM = "llvm.func @shlo_main"
_ATTRIBUTES = re.compile(r"^llvm\.func .*\n| \{alignment = \d+ : i64\}", re.MULTILINE)
_ASSIGNMENT = re.compile(r" *(%\w+) = (.*)")
_NAME = re.compile(r"%\w+")
_LABEL_OR_NAME = re.compile(r"[%^]\w+")
_ORDERED = ("llvm.load", "llvm.alloca", "llvm.call")  # their results depend on where they stand


class Compiled:
    """An op of one or two operands of one type: what a user's program would run. Compiled at the first call.

    Args:
        name: of the StableHLO op, or of the CHLO op where StableHLO has none of that name.
        element: of the operands, as MLIR writes it.
        result: of the result; the same if None.
        arity: how many operands.
        cpu: what it is compiled for; the best for this host if None.
    """

    def __init__(
        self, name: str, element: str, result: str | None = None, arity: int = 1, cpu: str | None = None
    ) -> None:
        self._options = Options(threads=1, cache_dir=None, cpu=cpu)
        dialect = "stablehlo" if make_context().is_registered_operation(f"stablehlo.{name}") else "chlo"
        self._op, self._element, self._result, self._arity = f"{dialect}.{name}", element, result or element, arity

    def __call__(self, *arguments: np.ndarray) -> np.ndarray:
        """The op on arrays of at most CHUNK elements."""
        count = arguments[0].size
        padded = [np.concatenate([a, np.ones(CHUNK - count, a.dtype)]) if count < CHUNK else a for a in arguments]
        return self._run(*padded)[0][:count]

    @cached_property
    def digest(self) -> str:
        """A measurement holds as long as this is the same: of the instructions for a single number, without the CPU
        they are for. What brings the numbers of an array there and back, and how many at once, is not in it: a lane of
        a vector gets the bits that the scalar gets (test/codegen/test_accuracy.py)."""
        return digest_of(str(run_stages(load(self.text(""), isolate=False), "", "kernels", self._options)))

    @cached_property
    def _run(self) -> Executable:
        run = compile(self.text(f"{CHUNK}x"), options=self._options)
        assert isinstance(run, Executable)
        return run

    def text(self, shape: str) -> str:
        """The program for operands of a shape, written as in a tensor type."""
        operand, result = f"tensor<{shape}{self._element}>", f"tensor<{shape}{self._result}>"
        names = [f"%{number}" for number in range(self._arity)]
        return f"""func.func @main({", ".join(f"{name}: {operand}" for name in names)}) -> {result} {{
          %result = "{self._op}"({", ".join(names)}) : ({", ".join([operand] * self._arity)}) -> {result}
          return %result : {result}
        }}"""


def digest_of(kernels: str) -> str:
    """A digest of what kernels (text of the stage) do: all that touches memory or moves control, in order, where for
    the name of a value stands how it comes about. Names, and the order of other instructions, make no difference."""
    values: dict[str, str] = {}
    effects: list[str] = []

    def spelled(text: str) -> str:
        return _NAME.sub(lambda name: values.get(name[0], name[0]), text)

    for line in _ATTRIBUTES.sub("", kernels.partition(_PROGRAM)[0]).splitlines():
        assigned = _ASSIGNMENT.fullmatch(line)
        if line.startswith("^"):
            label, *arguments = _LABEL_OR_NAME.findall(line)
            values |= {name: f"{label}:{number}" for number, name in enumerate(arguments)}
            effects.append(label)
        elif assigned is None:
            effects.append(spelled(line))
        elif assigned[2].startswith(_ORDERED):
            effects.append(spelled(assigned[2]))
            values[assigned[1]] = f"#{len(effects)}"
        else:
            values[assigned[1]] = _hash(spelled(assigned[2]))
    return _hash("\n".join(effects))


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
