"""A Rust module for a library."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.aot.names import Names, described
from stablehlo_py.backends.common.c_types import c_type, parts
from stablehlo_py.backends.common.library import ALIGNMENT, Signature
from stablehlo_py.runtime.library import Library
from stablehlo_py.runtime.program import Spec

_TYPES = {"float": "f32", "double": "f64"} | {
    f"{u}int{bits}_t": f"{'u' if u else 'i'}{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)
}


def rust_file(library: Library, names: Names, file: str, links: Sequence[str]) -> tuple[str, str]:
    """`NAME.rs`: the C functions, and a safe function `run` on slices."""
    del file, links
    program, signature = library.program, Signature.of(library.program)
    takes = [f"{name}: i64" for name in names.dimensions]
    for number, (word, spec) in enumerate(zip(names.arguments, program.inputs, strict=True)):
        mutable = "mut " if number in signature.aliases.values() else ""
        takes.append(f"{word}: &{mutable}[{_type(spec)}]")
    takes += [f"{names.results[number]}: &mut [{_type(program.outputs[number])}]" for number in signature.own_results]
    file_of_constants = bool(program.constants) and library.interface.constants == "file"
    foreign = [f"{name}: i64" for name in names.dimensions]
    foreign += [
        f"{word}: *{'mut' if number in signature.aliases.values() else 'const'} {_type(spec)}"
        for number, (word, spec) in enumerate(zip(names.arguments, program.inputs, strict=True))
    ]
    foreign += [f"{names.results[number]}: *mut {_type(program.outputs[number])}" for number in signature.own_results]
    foreign += ["workspace: *mut c_void", "workspace_bytes: i64"]
    passed = [*names.dimensions]
    for number, word in enumerate(names.arguments):
        passed.append(f"{word}.as_mut_ptr()" if number in signature.aliases.values() else f"{word}.as_ptr()")
    passed += [f"{names.results[number]}.as_mut_ptr()" for number in signature.own_results]
    passed += ["workspace.0.as_mut_ptr() as *mut c_void", f"(workspace.0.len() * {ALIGNMENT}) as i64"]
    if file_of_constants:
        foreign.append("constants: *const *const c_void")
        takes.append("constants: &Constants")
        passed.append("constants.0.as_ptr()")
    if library.interface.threads != "off":
        foreign.append("threads: *const c_void")
        passed.append("std::ptr::null()")
    checks = _checks(library, names, signature)
    sizes = [*(f"{name}: i64" for name in names.dimensions), *(f"{name}: i64" for name in names.values)]
    return f"{names.model}.rs", _TEXT.format(
        model=names.model,
        comment=_comment(library, names),
        foreign=", ".join(foreign),
        takes=", ".join([*takes, "workspace: &mut Workspace"]),
        passed=", ".join(passed),
        checks="".join(f"    {line}\n" for line in checks),
        sizes=", ".join(sizes),
        size_names=", ".join((*names.dimensions, *names.values)),
        hash=library.hash,
        unsafe_="unsafe " if program.dynamic else "",
        safety=_SAFETY if program.dynamic else "",
        alignment=ALIGNMENT,
        constants=_CONSTANTS.format(model=names.model, count=len(program.constants)) if file_of_constants else "",
        constants_foreign=_FIND.format(model=names.model) if file_of_constants else "",
    )


def _type(spec: Spec) -> str:
    return _TYPES[c_type(spec.dtype)]


def _comment(library: Library, names: Names) -> str:
    lines = []
    for kind, words, specs in (
        ("argument", names.arguments, library.program.inputs),
        ("result", names.results, library.program.outputs),
    ):
        lines += [f"//! {kind} {word}: {described(spec)}" for word, spec in zip(words, specs, strict=True)]
    return "\n".join(lines)


def _checks(library: Library, names: Names, signature: Signature) -> list[str]:
    """Slices of known shapes have to hold as many numbers; others at least what is known of them: nothing."""
    found = []
    pairs = [*zip(names.arguments, library.program.inputs, strict=True)]
    pairs += [(names.results[number], library.program.outputs[number]) for number in signature.own_results]
    for word, spec in pairs:
        if None not in spec.shape:
            count = math.prod(spec.shape) * parts(spec.dtype)  # type: ignore[arg-type]
            found.append(f'assert_eq!({word}.len(), {count}, "{word}");')
    return found


_SAFETY = """
///
/// # Safety
/// Slices of dynamic sizes have to be as long as these dimensions make them: that is not checked.
#[allow(unused_unsafe)] // what compilers before 1.65 say of the block below"""

_FIND = """    fn {model}_constants(file: *const c_void, bytes: i64, table: *mut *const c_void) -> i32;
"""

_CONSTANTS = """
/// Where the constants lie in the content of their file, which has to outlive it.
pub struct Constants([*const c_void; {count}]);

impl Constants {{
    pub fn find(file: &'static [u8]) -> Result<Constants, Error> {{
        let mut table = [std::ptr::null(); {count}];
        match unsafe {{ {model}_constants(file.as_ptr() as *const c_void, file.len() as i64, table.as_mut_ptr()) }} {{
            0 => Ok(Constants(table)),
            status => Err(Error(status)),
        }}
    }}
}}
"""

_TEXT = """//! {model}: a model compiled by stablehlo-py. Link with its library.
{comment}

use std::os::raw::c_void;

extern "C" {{
    #[link_name = "{model}"]
    fn entry({foreign}) -> i32;
    fn {model}_workspace_bytes({sizes}) -> i64;
{constants_foreign}}}

pub const HASH: &str = "{hash}";

/// A status of shlo_call.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error(pub i32);

#[derive(Clone, Copy)]
#[repr(C, align({alignment}))]
struct Line([u8; {alignment}]);

/// Memory that a call works in: one for each thread that calls.
pub struct Workspace(Vec<Line>);

impl Workspace {{
    /// None: the model takes no such sizes.
    pub fn new({sizes}) -> Option<Workspace> {{
        let bytes = unsafe {{ {model}_workspace_bytes({size_names}) }};
        if bytes < 0 {{
            return None;
        }}
        Some(Workspace(vec![Line([0; {alignment}]); bytes as usize / {alignment} + 1]))
    }}
}}
{constants}
/// One call.{safety}
#[allow(clippy::too_many_arguments)]
pub {unsafe_}fn run({takes}) -> Result<(), Error> {{
{checks}    match unsafe {{ entry({passed}) }} {{
        0 => Ok(()),
        status => Err(Error(status)),
    }}
}}
"""
