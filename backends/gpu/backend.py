"""The backends of GPUs, one for each driver: their policy, and where their parts are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

from stablehlo_py.backends.base import Backend, Code
from stablehlo_py.errors import OptionError, ResourceError, shown
from stablehlo_py.interrupts import deferred
from stablehlo_py.options import GENERATORS, LIBRARIES, TRITON

if TYPE_CHECKING:
    from stablehlo_py.backends.cpu.target import CpuTarget
    from stablehlo_py.backends.gpu.driver.device import Opened
    from stablehlo_py.backends.gpu.driver.memory import GpuMemory
    from stablehlo_py.backends.gpu.plans import Plans
    from stablehlo_py.backends.gpu.target import GpuTarget
    from stablehlo_py.mlir import ir
    from stablehlo_py.options import Options
    from stablehlo_py.passes.policy import Blocking, Costs, FusionPolicy
    from stablehlo_py.runtime.program import CompiledProgram


class GpuBackend(Backend):
    """What backends of GPUs share.

    Attributes:
        listing: the stage that is the kernels' machine code, or what the driver makes it of, as text.
        libraries: that its programs may use; generators: of kernels, that it may take besides its own templates.
        gpus: how the names that `Options(gpu=...)` takes begin; None: code is for all devices.
    """

    listing: ClassVar[str]
    gpus: ClassVar[str | None] = None
    libraries: ClassVar[tuple[str, ...]] = ()
    generators: ClassVar[tuple[str, ...]] = ()

    @property
    def costs(self) -> Costs:
        """Those of all GPUs."""
        from stablehlo_py.backends.gpu.policy import COSTS

        return COSTS

    @property
    def blocking(self) -> Blocking:
        """That of all GPUs."""
        from stablehlo_py.backends.gpu.policy import BLOCKING

        return BLOCKING

    @property
    def fusion(self) -> FusionPolicy:
        """That of all GPUs."""
        from stablehlo_py.backends.gpu.policy import FUSION

        return FUSION

    def pipeline(self, stage: str, options: Options) -> Sequence[str]:
        """The usual passes. Updates of small tensors are elementwise work: their kernels take longer to start than
        the tensors take to be copied."""
        passes = list(super().pipeline(stage, options))
        if stage == "fused" and options.opt_level > 0:
            passes.insert(-1, "spread-updates")
        return passes

    def target(self, options: Options) -> GpuTarget:
        """The description that options ask for. Raises OptionError: there is none of that name, or none is named and no
        GPU is here."""
        from stablehlo_py.backends.gpu.target import NAMED, OPENCL

        unknown = [each for each in options.libraries if each not in self.libraries]
        if unknown:
            reason = f"programs of the backend '{self.name}' do not use the library {shown(unknown[0])}"
            raise OptionError(reason, remedy="leave it out")
        unknown = [each for each in options.generators if each not in self.generators]
        if unknown:
            reason = f"the backend '{self.name}' does not take kernels of the generator {shown(unknown[0])}"
            raise OptionError(reason, remedy="leave it out")
        if self.gpus is None:
            if options.gpu is not None:
                reason = f"code of the backend '{self.name}' is for all devices, gpu is {shown(options.gpu)}"
                raise OptionError(reason, remedy="leave it out")
            return replace(OPENCL, atomic_scatter=options.atomic_scatter)
        name = self.present(options.device) if options.gpu is None else options.gpu
        known = [each for each in NAMED if each.startswith(self.gpus)]
        if name is None:
            raise OptionError(
                f"which GPU to generate code for is not said, and the backend '{self.name}' finds none here",
                remedy=f"pass Options(gpu=...), or --gpu, with one of {', '.join(known)}",
            )
        if name not in known:
            reason = f"the backend '{self.name}' generates no code for gpu={shown(name)}"
            raise OptionError(reason, remedy=f"use one of {', '.join(known)}")
        found = replace(NAMED[name], atomic_scatter=options.atomic_scatter)
        return replace(found, tf32=options.tf32, generators=options.generators)

    def described(self, name: str) -> GpuTarget:
        """The description that a program was generated for, by the name in it. A backend with descriptions of its own
        knows them."""
        from stablehlo_py.backends.gpu.target import NAMED, OPENCL

        return NAMED.get(name, OPENCL)

    def present(self, device: int) -> str | None:
        """The name, as `Options(gpu=...)` takes it, that suits a GPU of this machine best; None: there is none. Raises
        ArgumentError: there are others."""
        return None

    def host(self, options: Options) -> CpuTarget:
        """The processor that the host's part of a program is for: unless options name one, any of this architecture,
        since it only starts kernels. Raises OptionError."""
        from stablehlo_py.backends.cpu.target import baseline_target, named_target, require_own

        target = named_target(options.cpu, baseline_target())
        require_own(target, options.cpu)
        return target

    def describe(self, options: Options) -> str:
        """The descriptions of the GPU and of the host, what assembles, and what chooses kernels."""
        said = [repr(self.target(options)), repr(self.host(options))]
        if options.autotune:
            said.append(f"autotuned on {self._device_name(options)}")
        if options.plans is not None:
            from stablehlo_py.backends.gpu.plans import content_of

            said.append(f"plans {sha256(content_of(options.plans)).hexdigest()}")
        return " ".join(said)

    def _device_name(self, options: Options) -> str:
        """What the driver calls the device that programs run on. Raises ArgumentError, ResourceError: there is none."""
        name = self.opened().description(options.device).name
        assert isinstance(name, str)
        return name

    def plans(self, module: ir.Module, options: Options) -> Plans | None:
        """Those that options ask for, of a scheduled module's kernels; None: templates choose. Raises OptionError,
        ResourceError."""
        from stablehlo_py.backends.gpu.plans import Plans

        given = None if options.plans is None else Plans.read(options.plans, self.target(options).name)
        if not options.autotune:
            return given
        from stablehlo_py.backends.gpu.autotune import tuned
        from stablehlo_py.backends.gpu.trial import Machine

        key = self.describe(replace(options, plans=None))
        machine = Machine(self.name, self.target(options), self.host(options), options, self._device_name(options), key)
        return tuned(module, machine, given)

    def lower(self, module: ir.Module, stop: str, options: Options) -> str:
        """Text of one of `stages`. Raises ResourceError: a tool that it takes is not installed."""
        from stablehlo_py.backends.gpu.compile import lower

        plans = self.plans(module, options)
        return lower(module, stop, self.target(options), self.host(options), plans, options.libraries)

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """Generate and compile everything that a call will run. Raises as `compile.compile_module`."""
        from stablehlo_py.backends.gpu.compile import compile_module

        plans = self.plans(module, options)
        return compile_module(module, self.name, self.target(options), self.host(options), options, plans)

    @abstractmethod
    def opened(self) -> Opened[Any]:
        """The devices of its driver."""

    @deferred()
    def memory(self, device: int = 0) -> GpuMemory:
        """That of a device. Raises ArgumentError, ResourceError, UnsupportedError."""
        return self.opened().get(device).memory

    @deferred()
    def load(self, program: CompiledProgram, device: int = 0) -> Code:
        """The program, on a device. Raises LoadError; else as `memory`."""
        from stablehlo_py.backends.gpu.code import GpuCode

        return GpuCode(program, self.opened().get(device))

    def listings(self, program: CompiledProgram) -> Mapping[str, Callable[[], str]]:
        """What can be derived from the kernels, where they are kept."""
        kernels = program.stages.get("kernels")
        if not isinstance(kernels, str):
            return {}

        def llvm() -> str:
            from stablehlo_py.backends.gpu.launches import device_ir

            return device_ir(kernels)

        def listing() -> str:
            from stablehlo_py.backends.gpu.machine_code import assembly

            return assembly(llvm(), self.described(program.target))

        return {"llvm": llvm, self.listing: listing}

    @property
    def calls_functions_of(self) -> str:
        """The processor's: they run on the host (kernels/host_call.py)."""
        return "cpu"

    def custom_calls(self) -> frozenset[str]:
        """Targets that have a kernel, on the device or on the host."""
        from stablehlo_py.backends.cpu.kernels.custom_call import known_targets

        return known_targets()


class OpenClBackend(GpuBackend):
    """Kernels as SPIR-V for devices of OpenCL: GPUs of Intel, Arm and others, and CPUs."""

    name = "opencl"
    platform = "cpu"  # what JAX exports for it
    listing = "spirv"
    stages: ClassVar[Mapping[str, str]] = {"plans": "json", "kernels": "mlir", "llvm": "ll", "spirv": "spvasm"}

    def opened(self) -> Opened[Any]:
        """Devices of OpenCL."""
        from stablehlo_py.backends.gpu.opencl.device import DEVICES

        return DEVICES


class CudaBackend(GpuBackend):
    """Kernels as PTX for GPUs of NVIDIA, and as their machine code where ptxas is installed."""

    name = platform = "cuda"
    listing, gpus, libraries, generators = "ptx", "sm_", LIBRARIES, GENERATORS
    stages: ClassVar[Mapping[str, str]] = {
        "plans": "json",
        TRITON: "py",
        "kernels": "mlir",
        "llvm": "ll",
        "ptx": "ptx",
        "sass": "sass",
    }

    def present(self, device: int) -> str | None:
        """As `GpuBackend.present`."""
        from stablehlo_py.backends.gpu.capability import best_gpu

        try:
            return best_gpu(self.opened().description(device).capability)
        except ResourceError:
            return None

    def opened(self) -> Opened[Any]:
        """Devices of CUDA."""
        from stablehlo_py.backends.gpu.cuda.device import DEVICES

        return DEVICES

    def target(self, options: Options) -> GpuTarget:
        """As `GpuBackend.target`; without tensor maps, unless an assembler is here that makes them right."""
        from stablehlo_py.backends.gpu.ptx import makes_tensor_maps

        found = super().target(options)
        return replace(found, maps=found.maps and makes_tensor_maps())

    def describe(self, options: Options) -> str:
        """With the version of the assembler: without one, a program holds PTX; and with those of generators."""
        from stablehlo_py.backends.gpu.ptx import assembler
        from stablehlo_py.backends.gpu.triton.build import require_triton, triton_version

        # Whether or not generators ask for it: models call kernels that it compiles.
        triton = require_triton() if TRITON in options.generators else triton_version()
        return f"{super().describe(options)} ptxas {assembler()}{f' triton {triton}' if triton else ''}"

    def custom_calls(self) -> frozenset[str]:
        """With kernels of Triton."""
        from stablehlo_py.dialect.triton_calls import TARGETS

        return super().custom_calls() | TARGETS

    def listings(self, program: CompiledProgram) -> Mapping[str, Callable[[], str]]:
        """With the listing of machine code, where there is some and a tool that lists it."""
        from stablehlo_py.backends.gpu import ptx
        from stablehlo_py.backends.gpu.capability import MACHINE_CODE

        listings = dict(super().listings(program))
        has_code = any(name.startswith(MACHINE_CODE) for name in program.features)
        if has_code and ptx.find_tool("nvdisasm"):
            listings["sass"] = lambda: "\n".join(map(ptx.disassembly, filter(None, program.objects[1:])))
        return listings


class RocmBackend(GpuBackend):
    """Kernels as code objects for GPUs of AMD."""

    name = platform = "rocm"
    listing, gpus = "gcn", "gfx"
    stages: ClassVar[Mapping[str, str]] = {"plans": "json", "kernels": "mlir", "llvm": "ll", "gcn": "s"}

    def present(self, device: int) -> str | None:
        """As `GpuBackend.present`."""
        try:
            return self.opened().description(device).processor
        except ResourceError:
            return None

    def opened(self) -> Opened[Any]:
        """Devices of HIP."""
        from stablehlo_py.backends.gpu.hip.device import DEVICES

        return DEVICES
