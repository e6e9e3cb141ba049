"""Random well-typed StableHLO programs from a seed, over the ops and types of the specification.

A program is drawn family by family from a table (`families.py`), each of which takes operands from the values so far.
MLIR infers result types and refuses what the specification does not allow: a refused op is drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stablehlo_py.debug.edits import Case, remove_unused
from stablehlo_py.debug.engines import set_signature
from stablehlo_py.debug.generate import (  # noqa: F401 - they fill the table of families
    chlo,
    collectives,
    contractions,
    control,
    dynamic,
    elementwise,
    models,
    quantized,
    regions,
    shapes,
    structure,
)
from stablehlo_py.debug.generate.draft import DYNAMIC, Draft
from stablehlo_py.debug.generate.variants import Variant, at_sizes, on_grid
from stablehlo_py.debug.settings import context
from stablehlo_py.dialect.calls import MAIN, new_function
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import MLIRError, ir
from stablehlo_py.options import Options

# A seed means the same program for as long as this number does not change.
VERSION = 7
MAX_RESULTS = 8
ATTEMPTS = 20
GRIDS = ((2, 1), (1, 2), (2, 1), (1, 2), (2, 2))
LENGTHS, LENGTH_WEIGHTS = ((2, 8), (6, 15), (12, 26)), (0.6, 0.3, 0.1)


@dataclass(frozen=True)
class Program:
    """A random program, and how it is compiled. A program with a variant is that, and has a case for each of its
    sizes."""

    seed: int
    case: Case
    options: Options
    variant: Variant | None = None
    more: tuple[Case, ...] = ()

    @property
    def cases(self) -> tuple[Case, ...]:
        """What the oracles run."""
        return (self.case, *self.more)


def generate(seed: int) -> Program:
    """The program of a seed."""
    # Some rules are looked at only when the program is whole: what is refused then is drawn again.
    for again in range(ATTEMPTS):
        program = _draw(seed, np.random.default_rng([VERSION, seed, *[again] * bool(again)]))
        if program is not None:
            return program
    raise AssertionError(f"seed {seed} makes invalid programs")


def _draw(seed: int, random: np.random.Generator) -> Program | None:
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        block = new_function(MAIN, [], [], ir.InsertionPoint(module.body))
        function = block.owner.operation
        draft = Draft(random, block, ir.InsertionPoint(block))
        _choose_kind(draft)
        for _ in range(draft.whole(1, 4)):
            draft.fresh(_first_shape(draft), draft.element())
        made = control.add_ops(draft, _length(draft))
        unused = [value for value in made if not any(True for _ in value.uses)]
        used = [value for value in made if draft.chance(0.05)]
        returned = list(dict.fromkeys([*unused, *used]))[:MAX_RESULTS] or draft.pool[:1]
        ir.Operation.create("func.return", operands=returned, ip=draft.point)
        remove_unused(function, draft.inputs)
        set_signature(function)
        try:
            module.operation.verify()
        except MLIRError:
            return None
        case = Case(str(module), tuple(draft.inputs))
        options = _options(random)
    try:
        return _program(seed, draft, case, options)
    except UnsupportedError:  # sizes that cannot be filled in
        return None


def _choose_kind(draft: Draft) -> None:
    if draft.chance(0.06):
        draft.kind, draft.grid = "grid", GRIDS[draft.whole(0, len(GRIDS))]
    elif draft.chance(0.06):
        draft.kind, draft.dynamic_size = "symbolic", draft.whole(2, 9)


def _first_shape(draft: Draft) -> list[int]:
    """A shape for a first input; with dynamic sizes in a symbolic program."""
    shape = draft.shape()
    if draft.kind == "symbolic":
        shape = [size or 1 for size in shape[:3]] or [1]
        shape[draft.whole(0, len(shape))] = DYNAMIC
    return shape


def _program(seed: int, draft: Draft, case: Case, options: Options) -> Program:
    if draft.grid is not None:
        replicas, partitions = draft.grid
        options = replace(options, num_replicas=replicas, num_partitions=partitions)
        whole = on_grid(case.module, case.inputs, replicas, partitions)
        return Program(seed, whole, options, Variant(case.module, draft.grid))
    if any("?" in line for line in case.module.splitlines() if "func.func @main" in line):
        sizes = (draft.dynamic_size, 1, draft.dynamic_size // 2)
        first, *more = at_sizes(case.module, case.inputs, sizes)
        return Program(seed, first, options, Variant(case.module), tuple(more))
    return Program(seed, case, options)


def _length(draft: Draft) -> int:
    """How many ops are drawn: mostly few, since a program costs what its kernels cost; sometimes enough to fill
    fusions."""
    low, high = LENGTHS[int(draft.random.choice(len(LENGTHS), p=LENGTH_WEIGHTS))]
    return draft.whole(low, high)


def _options(random: np.random.Generator) -> Options:
    """How a program is compiled: mostly as users do, else with some passes and rules left out, or for another CPU."""
    from stablehlo_py.compiler import toggles

    disable: list[str] = []
    if random.random() < 0.5:
        for name, rules in toggles().items():
            if random.random() < 0.15:
                disable.append(name)
            disable += [rule for rule in rules if random.random() < 0.08]
    level = int(random.random() > 0.1)
    cpu = ("avx2", "x86-64")[int(random.integers(2))] if random.random() < 0.1 else None
    return Options(threads=1, opt_level=level, cache_dir=None, cpu=cpu, disable=tuple(disable))
