"""Partition the program into fusions: kernels that keep intermediate values out of memory.

Before: `@main` of hlo ops in normal form. After: every op with work to do is inside a `func.func private @fusion_N`
that carries its kind in `hlo.fusion` (docs/architecture.md lists the kinds), and `@main` and the regions of its
control flow call them:

    %0 = "hlo.dot"(%x, %w)                          %0 = call @fusion_0(%x, %w, %b)
    %1 = "hlo.broadcast"(%b)               ->
    %2 = "hlo.add"(%0, %1)                          func.func private @fusion_0(...) attributes {hlo.fusion = "dot"}

Five steps decide (`passes/fusing/`): attention is one fusion where the backend wants that, its
gradient a few; dots and convolutions take
their elementwise epilogues; producer-consumer fusion, one walk from the last op to the first, puts every op into the
fusions that use it, where reductions turn loops into row and column fusions; multi-output fusion joins consumers of one
fusion and siblings; work on few elements is gathered into straight-line fusions. No value is computed twice unless that
is cheaper than storing it, and fusions never depend on each other in a circle: a path search precedes every step that
could close one. Which kinds there are, what each may hold and what is cheap, the backend of `target` says
(`passes/policy.py`).

Relies on the normal form, on common subexpressions being one op, and on dead code being gone.
`stablehlo.optimization_barrier` ends here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.edit import replace_op
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions
from stablehlo_py.passes.dce import Dce
from stablehlo_py.passes.fusing.clusters import Clusters
from stablehlo_py.passes.fusing.epilogues import grow_epilogues
from stablehlo_py.passes.fusing.form_attention import form_attention, form_scores
from stablehlo_py.passes.fusing.graph import Graph
from stablehlo_py.passes.fusing.multi_output import fuse_consumers, fuse_siblings, rows_to_loops
from stablehlo_py.passes.fusing.outline import Outliner
from stablehlo_py.passes.fusing.producers import ProducerFusion
from stablehlo_py.passes.fusing.straight_line import fuse_straight_line
from stablehlo_py.passes.policy import Policy, policy_of
from stablehlo_py.passmanager.base import Pass, switch
from stablehlo_py.targets import DEFAULT_TARGET

_CONTROL_FLOW = ("scf.while", "scf.if", "scf.index_switch")


@dataclass(frozen=True)
class Fusion(Pass):
    """Partition the program into fusions, one private function for each different one.

    Without `fuse` every op is a fusion by itself, for whoever looks for the op whose code is wrong.
    """

    name: ClassVar[str] = "fusion"
    required: ClassVar[bool] = True
    makes: ClassVar[tuple[str, ...]] = ("func.call", "func.func", "func.return")
    # What a fusion turns into for the sake of a dead op, which is then left out, does not fit the rest.
    first: ClassVar[tuple[Pass, ...]] = (Dce(),)
    straight_line: bool = switch("straight-line-fusions")
    epilogues: bool = switch("epilogues")
    fuse: bool = switch("fuse")
    target: str = DEFAULT_TARGET

    def run(self, module: ir.Module) -> None:
        """Rewrite `@main` and the regions of its control flow."""
        policy = policy_of(self.target)
        outliner = Outliner(module, policy.fusion.names)
        for function in functions(module)[0]:
            self._block(function.regions[0].blocks[0], outliner, policy)

    def _block(self, block: ir.Block, outliner: Outliner, policy: Policy) -> None:
        graph = Graph(block, policy.costs, self._ops(block, outliner, policy))
        clusters = Clusters(graph, policy.fusion)
        if not self.fuse:
            ProducerFusion(clusters).run_unfused()
        else:
            self._fuse(clusters)
        outliner.outline(clusters)

    def _ops(self, block: ir.Block, outliner: Outliner, policy: Policy) -> Iterator[ir.Operation]:
        """The ops of a block but barriers, which go; the regions of its control flow are done before."""
        for view in block.operations:  # as the bindings do it, this one may go
            name = view.name
            if name == "stablehlo.optimization_barrier":
                replace_op(view, view.operands)
                continue
            if name in _CONTROL_FLOW:
                for region in view.regions:
                    for inner in region.blocks:
                        self._block(inner, outliner, policy)
            yield view.operation

    def _fuse(self, clusters: Clusters) -> None:
        policy = clusters.policy
        if "attention" in policy.kinds:
            form_attention(clusters)
        if "scores" in policy.kinds:
            form_scores(clusters)
        if any(len(each[0].members) > 1 for each in clusters.containing):
            clusters.rank()
        if self.epilogues and policy.epilogue:
            grow_epilogues(clusters, policy.epilogue)
        ProducerFusion(clusters).run()
        rows_to_loops(clusters)
        fuse_consumers(clusters)
        fuse_siblings(clusters)
        if self.straight_line and policy.straight_line:
            fuse_straight_line(clusters, policy.straight_line)
