"""Other libraries that compute what a model of the suite does: what its time is held against, next to XLA's.

A peer is asked for by name (`shlo-bench --peers`), and imported then. NumPy (with SciPy) and PyTorch compute a model's
form (`Model.forms`), which states the same semantics in their words; IREE compiles the model's StableHLO. Whether the
semantics are equal is checked: results are compared with ours, and have to lie in memory as ours do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np

from stablehlo_py.debug.compare import difference_of, is_exact
from stablehlo_py.errors import OptionError

if TYPE_CHECKING:
    from stablehlo_py.suite.registry import Model

Call: TypeAlias = "Callable[[], Any]"


@dataclass(frozen=True)
class Prepared:
    """A model as a peer runs it.

    Attributes:
        call: what is timed.
        read: arrays of what it gives.
        arguments: arrays of what it is called with.
    """

    call: Call
    read: Callable[[Any], list[np.ndarray]]
    arguments: Callable[[], list[np.ndarray]]

    def disagreement(self, arrays: Sequence[np.ndarray], ours: Sequence[np.ndarray], tolerance: float) -> str | None:
        """Call it once: what is not equal in the results, or that arguments are not left as they are."""
        found = disagreement(self.read(self.call()), ours, tolerance)
        if found is None and any(a.tobytes() != b.tobytes() for a, b in zip(self.arguments(), arrays, strict=True)):
            return "overwrites its arguments"
        return found


@dataclass
class PeerTime:
    """What a peer took. Seconds of a call, and their ratio to ours (the median over rounds); None where it was not
    timed, and `error` says why, or the model states no form for it."""

    seconds: float | None = None
    ratio: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class Peer:
    """How a peer is used.

    Attributes:
        package: what has to be installed.
        prepare: of a model, its arguments (which it may keep), the bytes of its module and the number of threads. None:
            the model states no form for it.
        remedy: what installs it.
        patience: seconds after which it is given up, with what it compiles.
    """

    package: str
    prepare: Callable[[Model, Sequence[np.ndarray], bytes, int], Prepared | None]
    remedy: str = "pip install 'stablehlo-py[peers]'"
    patience: float = 20.0

    @property
    def version(self) -> str | None:
        """That is installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None


def check_peers(names: Sequence[str]) -> None:
    """Raise OptionError for a peer that is not known, or not installed."""
    for name in names:
        if name not in PEERS:
            raise OptionError(f"no peer is named {name!r}", remedy=f"choose among {', '.join(PEERS)}")
        if PEERS[name].version is None:
            raise OptionError(f"the peer {name!r} needs {PEERS[name].package}", remedy=PEERS[name].remedy)


def disagreement(results: Sequence[np.ndarray], ours: Sequence[np.ndarray], tolerance: float) -> str | None:
    """What is not equal in the results of a peer, with the tolerance of the model; None: nothing. Types may be wider,
    as those of indices are in NumPy and PyTorch."""
    if len(results) != len(ours):
        return f"gives {len(results)} results, not {len(ours)}"
    for number, (result, wanted) in enumerate(zip(results, ours, strict=True)):
        if result.shape != wanted.shape:
            return f"result {number} is of shape {result.shape}, not {wanted.shape}"
        if not result.flags.c_contiguous:
            return f"result {number} does not lie in row-major order"
        if is_exact(wanted.dtype) and not is_exact(result.dtype):
            wanted = wanted.astype(result.dtype)
        difference = difference_of(result.astype(wanted.dtype), wanted)
        if difference > tolerance:
            return f"result {number} differs by {difference:.1e}"
    return None


# --- NumPy ------------------------------------------------------------------------------------------------------------


def _numpy(model: Model, arrays: Sequence[np.ndarray], _module: bytes, _threads: int) -> Prepared | None:
    form = model.forms.get("numpy")
    return None if form is None else Prepared(partial(form, *arrays), _as_arrays, lambda: list(arrays))


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _as_arrays(results: Any) -> list[np.ndarray]:
    return [np.asarray(each) for each in _listed(results)]


# --- PyTorch ----------------------------------------------------------------------------------------------------------

_BITS = {"bfloat16": (np.int16, ml_dtypes.bfloat16), "float8_e4m3fn": (np.uint8, ml_dtypes.float8_e4m3fn)}


def _torch(
    model: Model, arrays: Sequence[np.ndarray], _module: bytes, threads: int, compiled: bool = False
) -> Prepared | None:
    form = model.forms.get("torch")
    if form is None:
        return None
    import torch

    torch.set_num_threads(threads)
    function = partial(form, torch)
    if compiled:
        torch.compiler.reset()
        function = torch.compile(function, dynamic=False)
    given = [_tensor(torch, array) for array in arrays]
    read = partial(_of_tensors, torch)
    return Prepared(partial(function, *given), read, partial(read, given))


def _tensor(torch: Any, array: np.ndarray) -> Any:
    """A copy, as PyTorch aligns its tensors."""
    name = array.dtype.name
    if name in _BITS:
        return torch.from_numpy(array.view(_BITS[name][0])).view(getattr(torch, name)).clone()
    return torch.from_numpy(array).clone()


def _of_tensors(torch: Any, results: Any) -> list[np.ndarray]:
    arrays = []
    for each in _listed(results):
        name = str(each.dtype).removeprefix("torch.")
        plain = each.detach().resolve_conj().resolve_neg()
        if name in _BITS:
            bits, type_ = _BITS[name]
            arrays.append(plain.view(getattr(torch, np.dtype(bits).name)).numpy().view(type_))
        else:
            arrays.append(plain.numpy())
    return arrays


# --- IREE -------------------------------------------------------------------------------------------------------------


def _iree(_model: Model, arrays: Sequence[np.ndarray], module: bytes, threads: int) -> Prepared:
    import iree.compiler
    import iree.runtime as rt

    code = iree.compiler.compile_str(
        module,
        input_type="stablehlo",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false"],
    )
    if threads > 1:
        rt.flags.parse_flags(f"--task_topology_cpu_ids={','.join(map(str, range(threads)))}")
    driver = "local-sync" if threads == 1 else "local-task"
    loaded = rt.load_vm_flatbuffer(code, driver=driver)
    device = rt.get_device(driver)
    given = [rt.asdevicearray(device, array) for array in arrays]
    return Prepared(partial(loaded.main, *given), _of_iree, partial(_of_iree, given))


def _of_iree(results: Any) -> list[np.ndarray]:
    return [each.to_host() for each in _listed(results)]


PEERS: Mapping[str, Peer] = {
    "numpy": Peer("scipy", _numpy),
    "torch": Peer("torch", _torch),
    "torch-compile": Peer("torch", partial(_torch, compiled=True), patience=60.0),
    "iree": Peer("iree-base-compiler", _iree),
}
