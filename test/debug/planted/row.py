"""A pass file with a planted bug: row kernels forget their last row. (A pass file may reach into anything; the pass is
there because such a file has one.)"""

from dataclasses import dataclass, replace

from stablehlo_py.backends.cpu.kernels import row
from stablehlo_py.passes.dce import Dce

_emit = row.emit


def _without_the_last_row(fusion, target):
    kernel = _emit(fusion, target)
    return replace(kernel, phases=tuple(replace(each, iterations=each.iterations - 1) for each in kernel.phases))


row.emit = _without_the_last_row


@dataclass(frozen=True)
class UnchangedDce(Dce):
    """The shipped pass."""
