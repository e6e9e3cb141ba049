"""Kernels as their device takes them: SPIR-V, PTX or machine code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stablehlo_py.backends.gpu.capability import MACHINE_CODE, PTX
from stablehlo_py.backends.gpu.code_object import code_object
from stablehlo_py.backends.gpu.machine_code import extensions, machine_code
from stablehlo_py.backends.gpu.ptx import assemble, find_tool
from stablehlo_py.backends.gpu.target import AMDGCN, SPIRV64, GpuTarget
from stablehlo_py.backends.gpu.usage import Usage, of_object, of_ptxas


@dataclass(frozen=True)
class DeviceCode:
    """All kernels of a program.

    Attributes:
        features: what the device has to have, as `CompiledProgram.features` names it.
        usage: by kernel, what it takes of the machine, where that is known.
    """

    binary: bytes
    features: tuple[str, ...] = ()
    usage: Mapping[str, Usage] = field(default_factory=dict)


def device_code(ir: str, target: GpuTarget) -> DeviceCode:
    """SPIR-V; for NVIDIA machine code where ptxas is installed, else PTX; for AMD a code object.

    Raises:
        UnsupportedError, InternalError, ResourceError: as `machine_code` and `ptx.assemble`.
    """
    made = machine_code(ir, target)
    if target.architecture is SPIRV64:
        return DeviceCode(made, extensions(made))
    if target.architecture is AMDGCN:
        return DeviceCode(code_object(made), (target.name,), of_object(made))
    if find_tool("ptxas") is None:
        return DeviceCode(made, (target.name.replace(MACHINE_CODE, PTX),))
    binary, report = assemble(made, target.name)
    return DeviceCode(binary, (target.name,), of_ptxas(report))
