"""How much of the models may run side by side in graphs: the longest path of each graph against all of its nodes, by
the times that a machine's roofline allows. No GPU is needed.

python benchmarks/gpu_graphs.py [model ...] [--gpu sm_90] [--size full]

Besides, what it would be if every value, and the scratch memory of every kernel, had memory of its own: so that kernels
wait only for what they read. Models with branches and loops are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stablehlo_py.backends.common.walk import Walk
from stablehlo_py.backends.gpu.driver.dependencies import Order, Range
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.dialect.attributes import DONATIONS
from stablehlo_py.dialect.memory import INPUT, OUTPUT
from stablehlo_py.dialect.types import operations, tensor_bytes
from stablehlo_py.mlir import ir

COLUMNS = (
    "model",
    "nodes",
    "longest path",
    "roofline, us",
    "longest path, us",
    "share",
    "with memory of its own for all",
)
_APART = 1 << 48  # bytes between buffers
_SCRATCH = "scratch memory"


@dataclass(frozen=True)
class Node:
    """A kernel or a copy: the ranges of bytes that it reads and writes, and its time in microseconds."""

    read: list[Range]
    written: list[Range]
    microseconds: float


class Nodes(Walk[None]):
    """The nodes of a scheduled module without loops and branches.

    Args:
        kernels, times: by the name of a fusion. donated: results that lie in an input. bandwidth: as in `Rates`.
        is_shared: whether memory is where the program has it; else all values have memory of their own.
    """

    def __init__(
        self,
        module: ir.Module,
        kernels: Mapping[str, GpuKernel],
        times: Mapping[str, float],
        donated: Mapping[int, int],
        bandwidth: float,
        is_shared: bool,
    ) -> None:
        super().__init__(module)
        self.nodes: list[Node] = []
        self._kernels, self._times, self._bandwidth = kernels, times, bandwidth
        self._donated, self._is_shared = donated, is_shared
        self._bases: dict[object, int] = {}

    def steps(self, ops: Sequence[ir.OpView]) -> None:
        for op in ops:
            read, written = ([self._range(value) for value in values] for values in (op.operands, op.results))
            if op.operation.name == "hlo.copy":
                self.nodes.append(
                    Node(read, written, 1e6 * 2 * (written[0][1] - written[0][0]) / self._bandwidth / 1e12)
                )
                continue
            name = op.attributes["callee"].value
            launches, scratch = self._kernels[name].launches, self._kernels[name].scratch_bytes
            base = self._base(_SCRATCH if self._is_shared else op)
            for _ in launches:
                time = self._times[name] / len(launches)
                self.nodes.append(Node(read, [*written, (base, base + scratch)], time))

    def _range(self, value: ir.Value) -> Range:
        size = int(tensor_bytes(value))
        if not self._is_shared:
            while isinstance(value.owner, ir.Operation | ir.OpView) and value.owner.operation.name == "hlo.reshape":
                value = value.owner.operands[0]
            begin = self._base(value)
            return begin, begin + size
        place = self.slices[value]
        is_donated = place.space == OUTPUT and place.number in self._donated
        buffer = (INPUT, self._donated[place.number]) if is_donated else place.buffer
        begin = self._base(buffer) + int(place.offset)
        return begin, begin + size

    def _base(self, buffer: object) -> int:
        return self._bases.setdefault(buffer, _APART * (1 + len(self._bases)))

    def longest(self) -> tuple[int, float]:
        """Nodes of the longest path of the graph, and microseconds of the one that takes longest."""
        self.run()
        order, depth, time = Order(), list[int](), list[float]()
        for node in self.nodes:
            order.add(node.read, node.written)
            last = order.before[-1]
            depth.append(1 + max((depth[number] for number in last), default=0))
            time.append(node.microseconds + max((time[number] for number in last), default=0.0))
        return max(depth), max(time)

    def element(self, value: ir.Value) -> None:
        raise AssertionError("`row` walks no module with loops or branches")

    index = equal = branch = loop = element  # type: ignore[assignment]


def row(name: str, size: str, gpu: str) -> list[Any]:
    """Of a model."""
    import stablehlo_py as shlo
    from stablehlo_py.backends.common.fusion import Fusion, fusions
    from stablehlo_py.backends.common.kernels import kernels_of
    from stablehlo_py.backends.common.roofline import work_of
    from stablehlo_py.backends.gpu.kernels import emit_kernel
    from stablehlo_py.backends.gpu.target import NAMED
    from stablehlo_py.compiler import run_stages
    from stablehlo_py.frontend.load import load
    from stablehlo_py.suite import registry

    target = NAMED[gpu]
    module = load(registry.export(registry.build(name, size)), isolate=False)  # type: ignore[arg-type]
    with module.context, ir.Location.unknown():
        run_stages(module, "", "scheduled", shlo.Options(cache_dir=None), target="cuda")
        if any(op.name.startswith("scf.") for op in operations(module.operation)):
            return [f"`{name}`", "none", *[""] * (len(COLUMNS) - 2)]
        kernels = dict(kernels_of(module, lambda function: emit_kernel(function, target), "GPU"))
        each = [Fusion.read(function) for function in fusions(module)]
        times = {fusion.name: 1e6 * work_of(fusion).seconds(target.rates) for fusion in each}
        attributes = module.operation.attributes
        pairs = tuple(attributes[DONATIONS]) if DONATIONS in attributes else ()
        donated = dict(zip(pairs[::2], pairs[1::2], strict=True))
        shared, apart = (
            Nodes(module, kernels, times, donated, target.rates.bandwidth, is_shared) for is_shared in (True, False)
        )
        (depth, path), (least_depth, least) = shared.longest(), apart.longest()
    total = sum(node.microseconds for node in shared.nodes)
    return [
        f"`{name}`",
        len(shared.nodes),
        depth,
        f"{total:.4g}",
        f"{path:.4g}",
        f"{100 * path / total:.0f} %",
        f"{least_depth} nodes, {100 * least / total:.0f} %",
    ]


def main() -> int:
    """Entry point."""
    from stablehlo_py.markdown import table
    from stablehlo_py.suite import registry

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: all")
    parser.add_argument("--gpu", default="sm_90")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    arguments = parser.parse_args()
    print(table(COLUMNS, [row(name, arguments.size, arguments.gpu) for name in arguments.models or registry.names()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
