"""Clusters become functions: each fusion a private function, each equal one the same function, and a call where it
runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.dialect.calls import new_call, new_function
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.passes._order import topological_order
from stablehlo_py.passes.fusing.clusters import Cluster, Clusters
from stablehlo_py.passes.fusing.graph import ALONE, CONSTANT, CONTROL, Node

_TOP_LEVEL = ("control", "view")
#: Fusions whose results may differ in shape, so that a reshape of one of them can move out.
_ANY_SHAPES = ("row", "straight_line")


class Outliner:
    """Makes fusion functions at the end of a module; shared by all blocks, so that equal fusions meet."""

    def __init__(self, module: ir.Module, names: Mapping[str, str]) -> None:
        self.module = module
        self.names = names  # of kinds, where they are not those of the passes
        self.functions: dict[object, str] = {}  # by the structure of their bodies
        # By a structure in the order of a program: the function, and its inputs as positions in those of that order.
        self.met: dict[object, tuple[str, list[int]]] = {}
        self.count = 0
        self._descriptions: dict[object, int] = {}
        self._symbol = {view.operation.attributes["sym_name"].value for view in module.body.operations}

    def outline(self, clusters: Clusters) -> None:
        """Rewrite the block of `clusters`: calls in a valid order, control flow and views between them."""
        _Block(self, clusters).run()

    def description(self, node: Node, types: Sequence[ir.Type]) -> int:
        """The same number for ops that are equal but for their operands and regions; `types` of all values."""
        attributes = node.op.attributes
        results = [types[result] for result in node.results]
        key = (node.name, len(node.operands), *results, *(attributes.items() if len(attributes) else ()))
        return self._descriptions.setdefault(key, len(self._descriptions))

    def function(self, kind: str, key: object, make: Callable[[str, str], None]) -> str:
        """The name of the function with that structural key, made now, with a name and a kind, if it is new."""
        name = self.functions.get(key)
        if name is None:
            name = f"fusion_{self.count}"
            while name in self._symbol:
                self.count += 1
                name = f"fusion_{self.count}"
            self.count += 1
            make(name, self.names.get(kind, kind))
            self.functions[key] = name
        return name


def region_key(op: ir.Operation) -> tuple[object, ...]:
    """Something equal for equal regions, which use no values from outside."""
    return tuple(_key_of_regions(op, {}))


def _key_of_regions(op: ir.Operation, numbers: dict[ir.Value, int]) -> Iterator[object]:
    for region in op.regions:
        for block in region.blocks:
            for argument in block.arguments:
                numbers[argument] = len(numbers)
                yield argument.type
            for view in block.operations:
                nested = view.operation
                operands = [numbers[value] for value in nested.operands]
                results = list(nested.results)
                yield (nested.name, *nested.attributes.items(), *operands, *(one.type for one in results))
                yield from _key_of_regions(nested, numbers)
                for result in results:
                    numbers[result] = len(numbers)
            yield "end"


class _Block:
    def __init__(self, outliner: Outliner, clusters: Clusters) -> None:
        self.outliner = outliner
        self.clusters = clusters
        self.graph = clusters.graph
        self.current: list[ir.Value] = list(self.graph.values)
        self.placed: set[int] = set()  # nodes that stay at the top level and are there by now
        self.descriptions = [outliner.description(node, self.graph.types) for node in self.graph.nodes]
        self.last = self.graph.nodes[-1].index
        self.terminator = self.graph.nodes[-1].op
        self.end = ir.InsertionPoint(self.terminator)

    def run(self) -> None:
        everything = self.clusters.all()
        self._drop_unread_outputs(everything)
        for cluster in self._order(everything):
            self._emit(cluster)
        self._erase()

    def _drop_unread_outputs(self, everything: Sequence[Cluster]) -> None:
        """Outputs that nobody outside reads are not written; reshapes at the border of a fusion become views at the
        top level."""
        nodes = self.graph.nodes
        for cluster in everything:
            if cluster.kind in ("control", "view", "constant"):
                continue
            if not nodes[cluster.hero].stays or len(cluster.members) > 1:
                cluster.outputs = [node for node in cluster.outputs if self.clusters.is_read_from_memory(node)]

    def _order(self, everything: Sequence[Cluster]) -> list[Cluster]:
        """A topological order of the clusters that keeps to the original order where it can."""
        everything = [
            cluster
            for cluster in everything
            if cluster.kind in _TOP_LEVEL or cluster.outputs or self.graph.nodes[cluster.hero].stays
        ]
        order = topological_order(self.clusters.followers(everything))
        if len(order) != len(everything):
            stuck = [everything[number] for number in sorted(set(range(len(everything))) - set(order))]
            raise InternalError(
                f"fusions depend on each other in a circle: {stuck[:4]}", remedy="report this with the module"
            )
        return [everything[number] for number in order]

    # --- emission ----------------------------------------------------------------------------------------------------

    def _emit(self, cluster: Cluster) -> None:
        hero = self.graph.nodes[cluster.hero]
        if cluster.kind == "constant" or all(self.graph.nodes[member].outside for member in cluster.members):
            return
        if cluster.kind in _TOP_LEVEL:
            self._place(hero)
            return
        members = set(cluster.members)
        for index in sorted(members):
            node = self.graph.nodes[index]
            if node.name == "reshape" and node.producers[0] not in members:
                members.remove(index)
                self._place(node)
        outputs, sunk = self._sink(cluster, members)
        if outputs or hero.name == "custom_call":
            self._call(cluster, members, outputs or [cluster.hero])
        for node in reversed(sunk):
            self._place(node)

    def _place(self, node: Node) -> None:
        """Move an op that stays at the top level to the end of what has been emitted."""
        if node.index in self.placed or node.outside:
            return
        self.placed.add(node.index)
        if node.index != self.last:
            node.op.move_before(self.terminator)

    def _sink(self, cluster: Cluster, members: set[int]) -> tuple[list[int], list[Node]]:
        """Outputs, with reshapes of a member moved out; those reshapes, last first."""
        outputs: list[int] = []
        sunk: list[Node] = []
        may_sink = len(cluster.outputs) == 1 or cluster.kind in _ANY_SHAPES
        for index in cluster.outputs:
            if index not in members:
                continue
            node = self.graph.nodes[index]
            while may_sink and node.name == "reshape" and node.producers[0] in members:
                if not any(user in members for user in self.clusters.users[node.index]):
                    members.discard(node.index)
                sunk.append(node)
                node = self.graph.nodes[node.producers[0]]
            if node.index not in outputs:
                outputs.append(node.index)
        return outputs, sunk

    def _body_order(self, members: set[int], outputs: list[int]) -> list[int]:
        """Members in depth-first order from the results, so that equal fusions have equal bodies wherever their ops
        came from."""
        nodes, left = self.graph.nodes, set(members)
        order: list[int] = []
        stack = outputs[::-1]
        while stack:
            index = stack.pop()
            if index < 0:  # the complement of a member, behind what it needs
                order.append(~index)
            elif index in left:
                left.remove(index)
                needed = [each for each in nodes[index].producers if each in left]
                if needed:
                    stack.append(~index)
                    stack += needed[::-1]
                else:
                    order.append(index)
        return order

    def _call(self, cluster: Cluster, members: set[int], outputs: list[int]) -> None:
        nodes, types = self.graph.nodes, self.graph.types
        results = [result for index in outputs for result in nodes[index].results]
        location = nodes[cluster.hero].op.location
        inputs, key = self._structure(cluster.kind, sorted(members), results)
        met = self.outliner.met.get(key)
        if met is None:  # layers are alike, so the order of the body is found once for all of them
            body = self._body_order(members, outputs)
            read, structure = self._structure(cluster.kind, body, results)

            def make(name: str, kind: str) -> None:
                self._make(name, kind, body, read, results, location)

            name = self.outliner.function(cluster.kind, structure, make)
            met = self.outliner.met[key] = name, [inputs.index(each) for each in read]
        name, positions = met
        operands = [self.current[inputs[position]] for position in positions]
        call = new_call(name, operands, [types[result] for result in results], self.end, location)
        for number, value in zip(results, call.results, strict=True):
            self._replace(number, value)
            self.current[number] = value

    def _structure(self, kind: str, members: list[int], results: list[int]) -> tuple[list[int], object]:
        """The values that members read of others, and what is equal for equal members in the same order."""
        nodes, types = self.graph.nodes, self.graph.types
        body = [nodes[index] for index in members]
        read = [operand for node in body for operand in node.operands]
        local = dict(zip([result for node in body for result in node.results], count()))  # by number in the fusion
        inputs = [value for value in dict.fromkeys(read) if value not in local]
        local.update(zip(inputs, count(len(local))))
        key = (
            kind,
            *[self.descriptions[index] for index in members],
            *[local[operand] for operand in read],
            *[types[value] for value in inputs],
            *[local[result] for result in results],
            *[region_key(node.op) for node in body if node.role == ALONE and len(node.op.regions)],
        )
        return inputs, key

    def _make(
        self, name: str, kind: str, members: list[int], inputs: list[int], results: list[int], location: ir.Location
    ) -> None:
        """Build `func.func private @name` with `hlo.fusion = kind` by cloning the members; inputs and results are value
        ids."""
        graph = self.graph
        block = new_function(
            name,
            [graph.types[number] for number in inputs],
            [graph.types[number] for number in results],
            ir.InsertionPoint(self.outliner.module.body),
            location=location,
            private=True,
            attributes={FUSION: ir.StringAttr.get(kind)},
        )
        inside: dict[int, ir.Value] = dict(zip(inputs, block.arguments, strict=True))
        insertion = ir.InsertionPoint(block)
        for index in members:
            node = graph.nodes[index]
            clone = node.op.clone(ip=insertion)
            for position, operand in enumerate(node.operands):
                clone.operands[position] = inside[operand]
            inside.update(zip(node.results, clone.results, strict=True))
        returned = [inside[number] for number in results]
        ir.Operation.create("func.return", operands=returned, ip=insertion, loc=location)

    def _replace(self, number: int, value: ir.Value) -> None:
        """Uses of a value in this block become uses of the call's result; a constant expression of an enclosing block
        stays what it is elsewhere."""
        old = self.graph.values[number]
        if not self.graph.nodes[self.graph.producer[number]].outside:
            old.replace_all_uses_with(value)
            return
        for use in list(old.uses):
            if self._is_inside(use.owner.operation):
                use.owner.operands[use.operand_number] = value

    def _is_inside(self, op: ir.Operation) -> bool:
        """Is the op in this block, or in a region of an op of it?"""
        while op.block != self.graph.block:
            parent = op.parent
            if parent is None or parent.name in ("func.func", "builtin.module"):
                return False
            op = parent.operation
        return True

    def _erase(self) -> None:
        constants: list[Node] = []
        for node in reversed(self.graph.nodes):
            if node.outside or node.index in self.placed or node.index == self.last:
                if node.role == CONTROL and node.name == "constant" and not node.outside:
                    constants.append(node)
                continue
            if node.role == CONSTANT or node.name == "constant":
                constants.append(node)
            elif node.role != CONTROL:
                node.op.erase()
        for node in constants:
            if next(iter(node.op.result.uses), None) is None:
                node.op.erase()
