"""What the platforms change in JAX: functions that know platforms by their names, and take no others. One table says
which, what each has to be like, and why; all of it is checked before any of it is changed."""

from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from types import SimpleNamespace
from typing import Any

import jax
import jax.dlpack

from stablehlo_py.pjrt import callbacks, dlpack
from stablehlo_py.pjrt.platforms import HOST
from stablehlo_py.pjrt.versions import internals, unsupported

_jax = internals()
_CPU = SimpleNamespace(platform="cpu")


@dataclass(frozen=True)
class Patch:
    """A function of JAX's that is replaced.

    Attributes:
        owner: the module, class or primitive that has it.
        name: its name there.
        parameters: names of those that it has to have, in their order.
        why: what it does not do for our platforms.
        made: what takes its place, of the platform and the function so far, which serves all other platforms.
        of_host: only the processor's platform needs it.
        also: where else it has been bound to a name.
    """

    owner: Any
    name: str
    parameters: str
    why: str
    made: Callable[[str, Callable[..., Any]], Callable[..., Any]]
    of_host: bool = False
    also: tuple[Any, ...] = ()

    def check(self) -> None:
        """Raises UnsupportedError: the function is not what the patch is for."""
        usual = getattr(self.owner, self.name, None)
        if usual is None:
            raise unsupported(f"there is no '{self.name}' in")
        found = " ".join(inspect.signature(usual).parameters)
        if found != self.parameters:
            raise unsupported(f"'{self.name}' takes ({found}), not ({self.parameters}), in")

    def apply(self, platform: str) -> None:
        """Replace the function, by one that looks like it."""
        usual = getattr(self.owner, self.name)
        patched = wraps(usual)(self.made(platform, usual))
        for owner in (self.owner, *self.also):
            setattr(owner, self.name, patched)


def _keeps_executables(platform: str, usual: Callable[..., Any]) -> Callable[..., Any]:
    return lambda backend: usual(_CPU if backend.platform == platform else backend)


PATCHES = (
    Patch(
        _jax.compilation_cache,
        "is_cache_used",
        "backend",
        "JAX keeps executables (jax_compilation_cache_dir) of a list of platforms. Ours are found again by what they "
        "were made of, and by the platform's version, which tells compilers, machines and numbers of threads apart",
        _keeps_executables,
    ),
    Patch(
        _jax.debug_callback_p,
        "impl",
        "args callback effect partitioned",
        "outside of programs JAX calls these functions on its platform cpu, which a process may not have",
        callbacks.of_debug_callback,
    ),
    Patch(
        _jax.debug_print_p,
        "impl",
        "args fmt ordered partitioned in_tree static_args np_printoptions has_placeholders logging_record",
        "the same",
        callbacks.of_debug_print,
    ),
    Patch(
        _jax.ArrayImpl,
        "__dlpack_device__",
        "self",
        "JAX knows by a platform's name which kind of memory it has",
        dlpack.device_function,
        of_host=True,
    ),
    Patch(
        _jax.dlpack,
        "to_dlpack",
        "x stream src_device dl_device max_version copy",
        "jaxlib writes capsules for its own platforms",
        dlpack.export_function,
        of_host=True,
    ),
    Patch(
        _jax.dlpack,
        "from_dlpack",
        "external_array device copy",
        "what cannot be shared JAX copies in a way that the PJRT C API does not have",
        dlpack.import_function,
        of_host=True,
        also=(jax.dlpack,),
    ),
)


def apply(platform: str) -> None:
    """Change what a platform needs changed. Raises UnsupportedError, before anything is: JAX is of another version."""
    patches = [patch for patch in PATCHES if platform == HOST or not patch.of_host]
    for patch in patches:
        patch.check()
    for patch in patches:
        patch.apply(platform)
    # Lists of names. Without the first, JAX says at each start that it knows nothing of the platform.
    _jax._nonexperimental_plugins.add(platform)
    if platform not in _jax._platforms_with_donation:
        _jax._platforms_with_donation.append(platform)
    # What is lowered in a way of its own for the CPU (LAPACK, random bits), now or later, is so for this platform.
    rules = _jax._platform_specific_lowerings
    rules[platform] = ChainMap(rules[platform], rules["cpu"])
