"""What code for GPUs needs of the GPU that runs it, as features of a program name it: "sm_90", machine code of NVIDIA;
"compute_90", PTX, which the driver compiles; "gfx942", machine code of AMD.

NVIDIA's numbers are (major, minor). Machine code runs where major is the same and minor is not less, PTX wherever the
number is not less, and what ends in "a" on that very machine (CUDA Programming Guide, Compute Capability).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stablehlo_py.errors import LoadError
from stablehlo_py.options import GPUS

Capability = tuple[int, int]
MACHINE_CODE, PTX = "sm_", "compute_"
_NEEDS = re.compile(r"(sm_|compute_)(\d+)(\d)(a?)|gfx\w+")


def needs(features: Iterable[str]) -> list[str]:
    """Those of a program's features that a GPU has to have; the others are the processor's."""
    return [name for name in features if _NEEDS.fullmatch(name)]


def runs_on(need: str, capability: Capability) -> bool:
    """Whether a GPU of NVIDIA runs what needs this."""
    found = _NEEDS.fullmatch(need)
    if found is None or not found[1]:
        return False
    least = int(found[2]), int(found[3])
    if found[4]:
        return capability == least
    return capability >= least and (found[1] == PTX or capability[0] == least[0])


def require_capability(features: Iterable[str], capability: Capability, name: str) -> None:
    """Refuse a program for another GPU; `name` is what the driver calls the one that is here.

    Raises:
        LoadError: it says which one the program is for.
    """
    missing = [need for need in needs(features) if not runs_on(need, capability)]
    if missing:
        raise _other(missing[0], f"{name}, which is sm_{capability[0]}{capability[1]}", best_gpu(capability))


def require_processor(features: Iterable[str], processor: str, name: str) -> None:
    """The same for a GPU of AMD, e.g. "gfx942": code of AMD runs on no other."""
    for need in needs(features):
        if need != processor:
            raise _other(need, f"{name}, which is {processor}", processor if processor in GPUS else None)


def _other(need: str, here: str, best: str | None) -> LoadError:
    remedy = f"compile the model with Options(gpu='{best}')" if best else "use a newer GPU"
    return LoadError(f"this program was compiled for {need}, and does not run on {here}", remedy=remedy)


def best_gpu(capability: Capability) -> str | None:
    """The last of the names of `Options(gpu=...)` whose machine code, or else PTX, such a GPU runs; None: none."""
    named: Sequence[str] = [name for name in GPUS if name.startswith(MACHINE_CODE)]
    virtual = {name: name.replace(MACHINE_CODE, PTX) for name in named}
    own = [name for name in named if runs_on(name, capability)]
    others = [name for name in named if runs_on(virtual[name], capability)]
    return next(reversed([*others, *own]), None)
