"""DLPack for arrays of this platform: their memory is the host's.

JAX knows by a platform's name which kind of memory it has, jaxlib writes capsules for its own platforms alone, and
copies of what cannot be shared it makes in a way that the PJRT C API does not have. So capsules are NumPy's here, of an
array that sees the memory, and copies JAX's own of NumPy's arrays; jaxlib takes over memory that can be shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stablehlo_py.pjrt.blocks import view
from stablehlo_py.pjrt.transfers import VIEW_ALIGNMENT
from stablehlo_py.pjrt.versions import internals
from stablehlo_py.runtime.dlpack import exported, imported

_jax = internals()
_HOST = _jax.DLDeviceType.kDLCPU
_VERSIONED = 1, 0  # from this version on a capsule says that its memory is only to be read


def device_function(platform: str, usual: Callable[..., Any]) -> Callable[..., Any]:
    """`ArrayImpl.__dlpack_device__`, which says that arrays of a platform are the host's."""

    def device_of(self: Any) -> tuple[Any, int]:
        return (_HOST, 0) if len(self._arrays) == 1 and self.platform() == platform else usual(self)

    return device_of


def export_function(platform: str, usual: Callable[..., Any]) -> Callable[..., Any]:
    """JAX's `to_dlpack`, for arrays of a platform, too."""

    def to_dlpack(
        x: Any,
        stream: Any = None,
        src_device: Any = None,
        dl_device: tuple[Any, int] | None = None,
        max_version: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        to_host = dl_device is None or dl_device[0] == _HOST
        if not (to_host and isinstance(x, _jax.ArrayImpl) and x.platform() == platform):
            return usual(x, stream, src_device, dl_device, max_version, copy)
        if max_version is not None and max_version < _jax.MIN_DLPACK_VERSION:
            raise BufferError(f"JAX has no capsules of DLPack {max_version}, which is older than 0.5")
        return _capsule(_jax._array_copy(x) if copy else x, max_version)

    return to_dlpack


def import_function(platform: str, usual: Callable[..., Any]) -> Callable[..., Any]:
    """JAX's `from_dlpack`, for devices of a platform, too."""

    def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> jax.Array:
        target = _target(external_array, device)
        where = getattr(external_array, "__dlpack_device__", None)
        if where is None or target.platform != platform or where()[0] != _HOST:
            return usual(external_array, device, copy)
        return _taken_over(external_array, target, copy)

    return from_dlpack


def _target(external_array: Any, device: Any) -> Any:
    """The device that takes over an array: the one that is asked for, its own, or the default one."""
    devices = getattr(device, "device_set", device and [device])
    if devices is None:
        devices = external_array.devices() if isinstance(external_array, jax.Array) else [_jax.get_default_device()]
    return next(iter(devices))  # of a sharding over several JAX says that it cannot be


def _taken_over(external_array: Any, device: Any, copy: bool | None) -> jax.Array:
    if not copy:
        try:
            made = _jax.dlpack_managed_tensor_to_buffer(external_array.__dlpack__(stream=None), device, None, False)
        except (BufferError, jax.errors.JaxRuntimeError) as error:  # NumPy's; of Client_CreateViewOfDeviceBuffer
            if copy is False:
                raise ValueError(
                    "Specified input which requires a copy, since its memory is only to be read, is not dense and "
                    f"row-major, or is not aligned to {VIEW_ALIGNMENT} bytes. However copy=False. Set copy=True or "
                    "copy=None."
                ) from error
        else:
            dtype = _jax.canonicalize_dtype(made.dtype)
            return made if made.dtype == dtype else jnp.asarray(made, dtype=dtype)
    return jnp.array(imported(external_array), device=device)


def _capsule(x: jax.Array, max_version: tuple[int, int] | None) -> object:
    """The capsule of an array, whose memory stays as long as it is used."""
    seen = np.asarray(x)
    if max_version is not None and max_version >= _VERSIONED:
        return exported(seen, max_version=max_version)
    # Older capsules cannot say that memory is only to be read, so NumPy makes none of such arrays; JAX does.
    return exported(view(seen.ctypes.data, seen.shape, seen.dtype, None, seen))
