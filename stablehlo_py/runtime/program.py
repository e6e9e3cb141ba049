"""Compiled programs as data: what a backend hands to the runtime, and what an artifact file holds."""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from stablehlo_py.errors import LoadError, ResourceError, ShloError
from stablehlo_py.files import why_no_file_name, write_whole
from stablehlo_py.runtime.quantization import Quantization

FORMAT = 9


def this_machine() -> str:
    """Architecture and system that object files of this process are for."""
    return f"{platform.machine()}-{sys.platform}"


@dataclass(frozen=True)
class Spec:
    """An input or output: name (from the model, else its number), shape (None: symbolic), NumPy or ml_dtypes dtype; for
    a quantized one, whose dtype is that of the stored integers, what they stand for."""

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype
    quantization: Quantization | None = None

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        quantized = f" ({self.quantization})" if self.quantization else ""
        return f"{self.name}: {self.dtype}[{sizes}]{quantized}"


@dataclass(frozen=True)
class Leaves:
    """The arguments of the call that a model was exported from (the leaves of their trees): how many there are, and
    which of them the model takes. JAX drops those that are not used."""

    count: int
    kept: tuple[int, ...]

    @property
    def dropped(self) -> int:
        """How many the model does not take."""
        return self.count - len(self.kept)


SHOWN = 4  # of inputs, and of outputs


def signature(inputs: Sequence[Spec], outputs: Sequence[Spec]) -> str:
    """Inputs and outputs in one line, the first few of them where there are many."""

    def listed(specs: Sequence[Spec]) -> str:
        hidden = [f"{len(specs) - SHOWN} more"] if len(specs) > SHOWN + 1 else []
        return f"({', '.join([*map(str, specs[:SHOWN] if hidden else specs), *hidden])})"

    return f"{listed(inputs)} -> {listed(outputs)}"


@dataclass(frozen=True)
class Port:
    """Where a program hands one tensor to the host, or takes one: `kind` is infeed, outfeed, send or recv; `part` of
    the `parts` that one op moves; `site` is that op, as messages call it."""

    kind: str
    channel: int
    part: int
    parts: int
    spec: Spec
    site: str


@dataclass(frozen=True)
class GridPlan:
    """The processes that a program runs as, and what they need to meet (docs/collectives.md).

    Attributes:
        replicas, partitions: the size of the grid.
        communicates: whether the entry takes the process as one more input.
        whole: whether all processes have the same arguments and the same results.
        barriers: how many groups of groups meet.
        channels: how many channels there are between processes.
        random_sites: how many ops draw random numbers.
        ports: where the program meets the host.
        sites: the ops that communicate, as messages call them.
    """

    replicas: int
    partitions: int
    communicates: bool = False
    whole: bool = False
    barriers: int = 0
    channels: int = 0
    random_sites: int = 0
    ports: tuple[Port, ...] = ()
    sites: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """How many processes there are."""
        return self.replicas * self.partitions


@dataclass(frozen=True)
class DynamicSymbol:
    """A number that a call brings along: dimension `position` of an argument, divided by `divisor`, or (unless
    `of_shape`) element `position` of an argument of integers. Its `name` stands for it in the texts of stages; one that
    is `positive` has to be."""

    name: str
    argument: int
    position: int
    divisor: int
    of_shape: bool
    positive: bool

    @staticmethod
    def named(name: str) -> DynamicSymbol:
        """What a name (passes/symbolize.py) says."""
        argument, position, *divisor = map(int, name[1:].split("_"))
        return DynamicSymbol(name, argument, position, divisor[0] if divisor else 1, name[0] == "d", name[0] != "x")

    def value(self, arrays: Sequence[np.ndarray]) -> int:
        """Its value in a call with these arguments."""
        array = arrays[self.argument]
        return (array.shape[self.position] if self.of_shape else int(array.flat[self.position])) // self.divisor


@dataclass(frozen=True)
class DynamicCheck:
    """What must hold in a call of a program with dynamic dimensions (see `DynamicLayout` for numbers).

    Attributes:
        condition: a number that is 1 where it holds.
        required: where it does not hold the call is an error; else the call needs a specialization.
        message: what is wrong, "{0}", "{1}" ... standing for `values`.
        op, location: who asks for it; empty where nobody in particular does.
    """

    condition: int
    required: bool
    message: str
    values: tuple[int, ...]
    op: str
    location: str


@dataclass(frozen=True)
class DynamicLayout:
    """What the runtime has to know of a program with dynamic dimensions. A number below 0 is slot `-1 - number` of the
    table that the program's `shlo_sizes` fills at the start of a call; any other is itself.

    Attributes:
        symbols: what the sizes are worked out from.
        slots: slots of the table; behind them is 1 where all checks hold.
        outputs: shapes of the results. arena_bytes: memory a call needs.
    """

    symbols: tuple[DynamicSymbol, ...]
    slots: int
    outputs: tuple[tuple[int, ...], ...]
    arena_bytes: int
    checks: tuple[DynamicCheck, ...]

    @staticmethod
    def number(table: Sequence[int], number: int) -> int:
        """What a number stands for in a call."""
        return table[-1 - number] if number < 0 else number


@dataclass(repr=False)
class CompiledProgram:
    """Everything needed to run a program in a new process, and what a user may ask about it.

    Attributes:
        backend, target: which backend loads it; the name of the CPU it was generated for.
        machine: architecture and system of the object files (`this_machine`).
        features: what the CPU must have, by LLVM's names.
        inputs, outputs: specs in call order.
        objects: object files that define `shlo_main`.
        symbols: functions that the objects call and that the process must have, e.g. "shlo.lapack.dgetrf".
        constants: the arrays behind slices of the constant space.
        donations: (output, input) pairs: the output is written into the input's buffer.
        arena_bytes: memory a call needs, scratch included. uses_pool: whether any phase asks for threads.
        loops: whether it has loops, which may have to be ended.
        threads: threads a call may use.
        stages: text of stages (or MLIR bytecode, rendered when asked for).
        grid: for a program that runs as several processes, or exchanges data with the host while it runs.
        dynamic: of a program with dynamic dimensions, what a call works out.
        leaves: which arguments of the call that was exported are the inputs, where that is known.
    """

    backend: str
    target: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    objects: list[bytes]
    constants: list[np.ndarray]
    donations: tuple[tuple[int, int], ...]
    arena_bytes: int
    uses_pool: bool
    threads: int
    stages: dict[str, str | bytes] = field(default_factory=dict)
    report: str = ""
    machine: str = field(default_factory=this_machine)
    features: tuple[str, ...] = ()
    grid: GridPlan | None = None
    symbols: tuple[str, ...] = ()
    dynamic: DynamicLayout | None = None
    leaves: Leaves | None = None
    loops: bool = False

    def __repr__(self) -> str:
        size = f"{sum(map(len, self.objects)) / 1024:.0f} KiB"
        return f"<CompiledProgram {signature(self.inputs, self.outputs)}, {size} for {self.backend} ({self.target})>"


def _dtype_name(dtype: np.dtype) -> str:
    return dtype.name


def _dtype_from(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _spec_json(spec: Spec) -> dict[str, object]:
    described: dict[str, object] = {"name": spec.name, "shape": list(spec.shape), "dtype": _dtype_name(spec.dtype)}
    return described | ({"quantization": spec.quantization.to_json()} if spec.quantization else {})


def _spec_from(data: dict[str, Any]) -> Spec:
    quantization = Quantization.from_json(data["quantization"]) if "quantization" in data else None
    return Spec(str(data["name"]), tuple(data["shape"]), _dtype_from(str(data["dtype"])), quantization)


def _grid_json(grid: GridPlan) -> dict[str, object]:
    ports = [{**vars(port), "spec": _spec_json(port.spec)} for port in grid.ports]
    return {**vars(grid), "ports": ports}


def _grid_from(data: dict[str, Any]) -> GridPlan:
    ports = tuple(Port(**{**port, "spec": _spec_from(port["spec"])}) for port in data["ports"])
    return GridPlan(**{**data, "sites": tuple(data["sites"]), "ports": ports})


def serialize(program: CompiledProgram) -> bytes:
    """The artifact: an uncompressed zip of metadata, object files and constants."""
    metadata = {
        "format": FORMAT,
        "backend": program.backend,
        "target": program.target,
        "machine": program.machine,
        "features": program.features,
        "symbols": program.symbols,
        "inputs": [_spec_json(spec) for spec in program.inputs],
        "outputs": [_spec_json(spec) for spec in program.outputs],
        "objects": len(program.objects),
        "constants": [{"shape": list(array.shape), "dtype": _dtype_name(array.dtype)} for array in program.constants],
        "donations": program.donations,
        "arena_bytes": program.arena_bytes,
        "uses_pool": program.uses_pool,
        "loops": program.loops,
        "threads": program.threads,
        "report": program.report,
        "grid": _grid_json(program.grid) if program.grid else None,
        "dynamic": asdict(program.dynamic) if program.dynamic else None,
        "leaves": asdict(program.leaves) if program.leaves else None,
        "stages": [[name, isinstance(text, bytes)] for name, text in program.stages.items()],
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("metadata.json", json.dumps(metadata, indent=1))
        for number, content in enumerate(program.objects):
            archive.writestr(f"object{number}.o", content)
        for number, array in enumerate(program.constants):
            archive.writestr(f"constant{number}.bin", np.ascontiguousarray(array).tobytes())
        for name, text in program.stages.items():
            archive.writestr(f"stage-{name}", text)
    return buffer.getvalue()


def deserialize(source: str | os.PathLike[str] | bytes) -> CompiledProgram:
    """Read an artifact back.

    Raises:
        ResourceError: the file cannot be read.
        LoadError: it is not an artifact, is damaged, or has another format version.
    """
    name = "the artifact" if isinstance(source, bytes) else str(source)
    reason = None if isinstance(source, bytes) else why_no_file_name(source)
    if reason is not None:
        raise ResourceError(f"{name!r} cannot be read: {reason}", remedy="check the path")
    try:
        content = source if isinstance(source, bytes) else Path(source).read_bytes()
    except OSError as error:
        raise ResourceError(f"{name} cannot be read: {error.strerror}", remedy="check the path") from error
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read(archive, name)
    except (ShloError, MemoryError):
        raise
    except Exception as error:  # zipfile alone raises eight kinds on damaged bytes
        raise LoadError(
            f"{name} is not a whole executable artifact: {error}",
            remedy="write it again with Executable.save or shlo-compile",
        ) from error


def _read(archive: zipfile.ZipFile, name: str) -> CompiledProgram:
    metadata = json.loads(archive.read("metadata.json"))
    if metadata["format"] != FORMAT:
        raise LoadError(
            f"{name} has artifact format {metadata['format']}, this version reads {FORMAT}",
            remedy="compile the model again",
        )
    constants = []
    for number, described in enumerate(metadata["constants"]):
        flat = np.frombuffer(archive.read(f"constant{number}.bin"), _dtype_from(described["dtype"]))
        constants.append(flat.reshape(described["shape"]))
    return CompiledProgram(
        backend=metadata["backend"],
        target=metadata["target"],
        machine=metadata["machine"],
        features=tuple(metadata["features"]),
        symbols=tuple(metadata["symbols"]),
        inputs=tuple(_spec_from(spec) for spec in metadata["inputs"]),
        outputs=tuple(_spec_from(spec) for spec in metadata["outputs"]),
        objects=[archive.read(f"object{number}.o") for number in range(metadata["objects"])],
        constants=constants,
        donations=tuple((output, input_) for output, input_ in metadata["donations"]),
        arena_bytes=metadata["arena_bytes"],
        uses_pool=metadata["uses_pool"],
        loops=metadata["loops"],
        threads=metadata["threads"],
        stages={
            stage: archive.read(f"stage-{stage}") if binary else archive.read(f"stage-{stage}").decode()
            for stage, binary in metadata["stages"]
        },
        report=metadata["report"],
        grid=_grid_from(metadata["grid"]) if metadata["grid"] else None,
        dynamic=_dynamic_from(metadata["dynamic"]) if metadata["dynamic"] else None,
        leaves=Leaves(metadata["leaves"]["count"], tuple(metadata["leaves"]["kept"])) if metadata["leaves"] else None,
    )


def _dynamic_from(data: dict[str, Any]) -> DynamicLayout:
    checks = tuple(DynamicCheck(**{**entry, "values": tuple(entry["values"])}) for entry in data["checks"])
    symbols = tuple(DynamicSymbol(**symbol) for symbol in data["symbols"])
    outputs = tuple(map(tuple, data["outputs"]))
    return DynamicLayout(symbols, data["slots"], outputs, data["arena_bytes"], checks)


def save(program: CompiledProgram, path: str | os.PathLike[str]) -> None:
    """Write an artifact file, whole or not at all.

    Raises:
        ResourceError: the file cannot be written.
    """
    write_whole(path, serialize(program))
