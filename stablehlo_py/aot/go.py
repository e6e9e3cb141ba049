"""A Go package for a library, by cgo."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.aot.names import Names, described
from stablehlo_py.backends.common.c_types import c_type, parts
from stablehlo_py.backends.common.library import ALIGNMENT, Signature
from stablehlo_py.runtime.library import Library
from stablehlo_py.runtime.program import Spec

_TYPES = {"float": "float32", "double": "float64"}


def go_file(library: Library, names: Names, file: str, links: Sequence[str]) -> tuple[str, str]:
    """`NAME.go`, beside the library and its header: `Run` on slices, in a workspace from `NewWorkspace`."""
    program, signature = library.program, Signature.of(library.program)
    pairs = [*zip(names.arguments, program.inputs, strict=True)]
    pairs += [(names.results[number], program.outputs[number]) for number in signature.own_results]
    takes = [f"{name} int64" for name in names.dimensions] + [f"{word} []{_type(spec)}" for word, spec in pairs]
    passed = [f"C.int64_t({name})" for name in names.dimensions]
    passed += [f"(*C.{c_type(spec.dtype)})(first({word}))" for word, spec in pairs]
    passed += ["work.address", "C.int64_t(work.bytes)"]
    if program.constants and library.interface.constants == "file":
        takes.append("constants unsafe.Pointer")
        passed.append("(*unsafe.Pointer)(constants)")
    if library.interface.threads != "off":
        passed.append("nil")
    sizes = [*names.dimensions, *names.values]
    checks = [
        f"\tif len({word}) != {_count(spec)} {{\n"
        f'\t\treturn errors.New("{names.model}: {word} has to hold {_count(spec)} numbers ({described(spec)})")\n\t}}\n'
        for word, spec in pairs
        if None not in spec.shape
    ]
    return f"{names.model}.go", _TEXT.format(
        model=names.model,
        links=" ".join([f"${{SRCDIR}}/{file}", *links[1:]]),
        sizes=", ".join(f"{name} int64" for name in sizes),
        size_values=", ".join(f"C.int64_t({name})" for name in sizes),
        takes=", ".join(takes),
        checks="".join(checks),
        passed=", ".join(passed),
        alignment=ALIGNMENT,
    )


def _type(spec: Spec) -> str:
    stored = c_type(spec.dtype)
    return _TYPES.get(stored, stored.removesuffix("_t"))


def _count(spec: Spec) -> int:
    return math.prod(spec.shape) * parts(spec.dtype)  # type: ignore[arg-type]


_TEXT = """// Package {model} is a model compiled by stablehlo-py.
package {model}

/*
#cgo LDFLAGS: {links}
#include <stdlib.h>
#include "{model}.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Workspace is memory that a call works in: one for each goroutine that calls.
type Workspace struct {{
	memory  unsafe.Pointer
	address unsafe.Pointer
	bytes   int64
}}

// NewWorkspace fails for sizes that the model does not take. Free it with Close.
func NewWorkspace({sizes}) (*Workspace, error) {{
	bytes := int64(C.{model}_workspace_bytes({size_values}))
	if bytes < 0 {{
		return nil, errors.New("{model}: the dimensions do not fit the model")
	}}
	memory := C.malloc(C.size_t(bytes + {alignment}))
	odd := uintptr(memory) % {alignment}
	return &Workspace{{memory, unsafe.Add(memory, ({alignment}-odd)%{alignment}), bytes}}, nil
}}

// Close frees the memory.
func (work *Workspace) Close() {{
	C.free(work.memory)
}}

// first is the address of a slice, nil of an empty one.
func first[T any](slice []T) unsafe.Pointer {{
	if len(slice) == 0 {{
		return nil
	}}
	return unsafe.Pointer(&slice[0])
}}

// Run makes one call. Slices hold tensors row-major; those of dynamic sizes have to be long enough.
func Run(work *Workspace, {takes}) error {{
{checks}	status := C.{model}({passed})
	if status != 0 {{
		return errors.New("{model}: " + C.GoString(C.shlo_status_text(status)))
	}}
	return nil
}}
"""
