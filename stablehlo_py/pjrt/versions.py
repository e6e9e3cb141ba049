"""Which versions of JAX the platforms are for, and all of them that depends on it: what they use of JAX beside its
public functions, as a table, and how versions differ in that. No other module of them imports JAX's own modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from stablehlo_py.errors import UnsupportedError

#: The range that is tested (test/pjrt/test_versions.py): a later version may have renamed what INTERNALS lists.
OLDEST, NEWEST = (0, 9, 1), (0, 12)

#: What is used of JAX that is not public, by its module. XLA's FFI and the PJRT C API have versions of their own, which
#: are told apart where they are read: ffi_api.py, api.py.
INTERNALS = {
    # Modules whose functions are replaced (patches.py).
    "jax._src": "compilation_cache dlpack",
    "jax._src.array": "ArrayImpl",
    "jax._src.buffer_callback": "buffer_callback_p",
    "jax._src.callback": "io_callback_p pure_callback_p _OrderedIOEffect _callback_op_sharding",
    "jax._src.checkify": "check_p functionalization_error python_err",
    "jax._src.config": "xla_runtime_errors",
    "jax._src.core": "abstract_token",
    "jax._src.debugging": "debug_callback_lowering debug_callback_p debug_effect debug_print_p ordered_debug_effect "
    "_format_print_callback _make_flat_callback",
    "jax._src.dlpack": "MIN_DLPACK_VERSION",
    "jax._src.dtypes": "canonicalize_dtype canonicalize_value",
    "jax._src.effects": "ordered_effects",
    "jax._src.ffi": "build_ffi_lowering_function",
    "jax._src.interpreters.mlir": "TokenSet register_lowering set_sharding _lowerings _platform_specific_lowerings "
    "_platforms_with_donation",
    "jax._src.interpreters.pxla": "get_default_device",
    "jax._src.lax.lax": "_array_copy _nary_lower_hlo",
    "jax._src.lax.control_flow.conditionals": "cond_p platform_index_p",
    "jax._src.mesh": "empty_abstract_mesh empty_concrete_mesh use_abstract_mesh",
    "jax._src.sharding_impls": "SPMDAxisContext SdyArray SdyArrayList _internal_use_concrete_mesh",
    "jax._src.typing": "DLDeviceType",
    "jax._src.xla_bridge": "backends register_backend_factory register_plugin _backend_factories "
    "_nonexperimental_plugins",
    "jaxlib.xla_client": "custom_call_targets register_custom_call_handler register_custom_type_handler",
    "jaxlib._jax": "dlpack_managed_tensor_to_buffer register_custom_call_target register_custom_type",
}
#: Functions that had other parameters before a version: that version, and what makes of the older one the newer one.
_OLDER: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "set_sharding": ((0, 10, 1), lambda older: lambda context, op, sharding: older(op, sharding)),
}


def internal(name: str) -> Any:
    """What INTERNALS lists under a name.

    Raises:
        UnsupportedError: this version of JAX does not have it.
    """
    import jax

    module = next(module for module, names in INTERNALS.items() if name in names.split())
    try:
        found = import_module(f"{module}.{name}") if module == "jax._src" else getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise unsupported(f"there is no '{module}.{name}' in") from error
    since, newer = _OLDER.get(name, ((), None))
    return newer(found) if newer is not None and jax.__version_info__ < since else found


@cache
def internals() -> SimpleNamespace:
    """All that INTERNALS lists, by its names.

    Raises:
        UnsupportedError: the installed JAX is not of the range, or lacks one of them.
    """
    import jax

    if jax.__version_info__ < OLDEST or jax.__version_info__[: len(NEWEST)] > NEWEST:
        raise unsupported("this is")
    return SimpleNamespace(**{name: internal(name) for names in INTERNALS.values() for name in names.split()})


def unsupported(what: str) -> UnsupportedError:
    """The error of a version of JAX that the platforms are not for; `what` stands before the version."""
    import jax

    after = (*NEWEST[:-1], NEWEST[-1] + 1)
    oldest, newest, later = (".".join(map(str, version)) for version in (OLDEST, NEWEST, after))
    return UnsupportedError(
        f"the platforms of stablehlo-py are for JAX from {oldest} to {newest}, and {what} {jax.__version__}",
        remedy=f"pip install 'jax>={oldest},<{later}', or use stablehlo_py.jit, which takes other versions",
    )
