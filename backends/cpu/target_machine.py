"""LLVM IR of a whole program becomes one relocatable object file, for this machine or another, by llvmlite's target
machine: position-independent code of the small code model, in which only what is public has a name that a linker sees.

What the bytes depend on stands in the arguments: code, target, public names, triple. The compiling process and its
machine are not asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stablehlo_py.backends.common.llvm_process import in_process_of_llvm
from stablehlo_py.backends.common.older_llvm import for_older_llvm
from stablehlo_py.backends.common.program import ENTRY
from stablehlo_py.backends.common.sizes import ENTRY as SIZES
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.errors import InternalError

if TYPE_CHECKING:
    import llvmlite.binding

# As MLIR's templates ask of LLVM's mid-end: nothing. Instruction selection and register allocation do their best.
CODE_GENERATION = 3


@dataclass(frozen=True)
class _Machine:
    """What the process of LLVM makes a target machine of."""

    triple: str
    cpu: str
    features: str
    attributes: str
    abi: str
    relocation: str


def emit_object(
    llvm_ir: str,
    target: CpuTarget,
    *,
    public: Collection[str],
    triple: str | None = None,
    position_independent: bool = True,
) -> bytes:
    """One relocatable object file: ELF, Mach-O, COFF or WebAssembly, as the triple says.

    Args:
        llvm_ir: a module as `backends.common.llvm_ir.llvm_ir` writes it, its functions for this target.
        target: the processor.
        public: functions and tables that other object files may refer to. All others become local, and what none of
            the public ones needs is dropped.
        triple: system, object format and calling convention, as LLVM writes them; None: the target's own.
        position_independent: whether the code may be linked into a shared library.

    Returns:
        Bytes that are equal whenever the arguments are.

    Raises:
        InternalError: the module does not define a public name, or LLVM refuses it.
        UnsupportedError: LLVM has no code for something in it; the message is LLVM's own.
        ResourceError: there can be no process for LLVM.
    """
    return _made(llvm_ir, target, public, triple, position_independent, as_text=False)


def emit_linked_object(
    parts: Sequence[tuple[str, CpuTarget]], *, public: Collection[str], shared: Collection[str], triple: str
) -> bytes:
    """One object file of several modules, each for a processor of its own; the machine is that of the last.

    Args:
        parts: LLVM IR as of `emit_object`, and what its functions are for.
        public: as of `emit_object`; shared: functions by which the modules call each other. All others are local to
            their modules, where equal names mean different things.
        triple: as of `emit_object`.

    Raises:
        InternalError, UnsupportedError, ResourceError: as `emit_object`.
    """
    machines = [_machine(target, triple, True) for _, target in parts]
    texts = [_for_machine(for_older_llvm(text), machine) for (text, _), machine in zip(parts, machines, strict=True)]
    name = parts[-1][1].name
    return in_process_of_llvm(name, _generated, texts, machines[-1], frozenset(public), frozenset(shared), False)


def assembly(
    llvm_ir: str,
    target: CpuTarget,
    *,
    public: Collection[str],
    triple: str | None = None,
    position_independent: bool = True,
) -> str:
    """The same as the assembler's text. Arguments and errors as of `emit_object`."""
    return _made(llvm_ir, target, public, triple, position_independent, as_text=True).decode()


def _made(
    llvm_ir: str,
    target: CpuTarget,
    public: Collection[str],
    triple: str | None,
    position_independent: bool,
    as_text: bool,
) -> bytes:
    machine = _machine(target, triple, position_independent)
    text = _for_machine(for_older_llvm(llvm_ir), machine)
    missing = sorted(set(public) - set(_DEFINED.findall(text)))
    if missing:
        raise InternalError(f"the program's code does not define {', '.join(missing)}")
    return in_process_of_llvm(target.name, _generated, [text], machine, frozenset(public), frozenset(), as_text)


def _machine(target: CpuTarget, triple: str | None, position_independent: bool) -> _Machine:
    return _Machine(
        triple or target.architecture.triple,
        target.name,
        target.features,
        target.attributes,
        target.architecture.abi,
        "pic" if position_independent else "static",
    )


def entries_of(llvm_ir: str) -> list[str]:
    """The public functions of a program by itself: its entry, and what fills its table of sizes."""
    return [name for name in _DEFINED.findall(llvm_ir) if name in (ENTRY, SIZES)]


_DEFINED = re.compile(r'^(?:define [^@\n]*)?@"?([^"( =\n]+)"?(?:\(| = (?!external))', re.MULTILINE)
_OF_A_TARGET = re.compile(r"^target (?:datalayout|triple) = .*\n", re.MULTILINE)
_GROUP = re.compile(r"^attributes (#\d+) = \{ (?P<all>[^\n]*) \}$", re.MULTILINE)
_PROCESSOR = re.compile(r'"target-(?:cpu|features)"(?:="[^"\n]*")? ?')


def _for_machine(text: str, machine: _Machine) -> str:
    """The module without what it says of a machine; its functions are for this one, and raise no exceptions."""
    own = f'nounwind "target-cpu"="{machine.cpu}" "target-features"="{machine.features}"'
    own = f"{machine.attributes} {own}".strip()

    def renewed(group: re.Match[str]) -> str:
        rest, found = _PROCESSOR.subn("", group["all"])
        return f"attributes {group[1]} = {{ {rest.strip()} {own} }}" if found else group[0]

    return _GROUP.sub(renewed, _OF_A_TARGET.sub("", text))


# --- in the other process --------------------------------------------------------------------------------------------


def _generated(
    texts: Sequence[str], described: _Machine, public: frozenset[str], shared: frozenset[str], as_text: bool
) -> bytes:
    import llvmlite.binding as llvm

    machine = llvm.Target.from_triple(described.triple).create_target_machine(
        cpu=described.cpu,
        features=described.features,
        opt=CODE_GENERATION,
        reloc=described.relocation,
        codemodel="small",
        abiname=described.abi,
    )
    # In front: the module is read with the sizes and alignments of this machine.
    head = f'target datalayout = "{machine.target_data}"\ntarget triple = "{described.triple}"\n'
    modules = [_read(head + text, public | shared) for text in texts]
    module = modules[0]
    for other in modules[1:]:
        module.link_in(other)
    for function in module.functions:
        if function.name in shared:
            function.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return machine.emit_assembly(module).encode() if as_text else machine.emit_object(module)


def _read(text: str, kept: frozenset[str]) -> llvmlite.binding.ModuleRef:
    """A module in which all but some names are local."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration:
            value.linkage = "external" if value.name in kept else "internal"
    return module
