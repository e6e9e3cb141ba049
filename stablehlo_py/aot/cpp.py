"""A C++ class around a library, with the functions that tfcompile's classes had."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.aot.names import Names, described
from stablehlo_py.backends.common.c_types import c_type, parts
from stablehlo_py.backends.common.library import ALIGNMENT, Signature
from stablehlo_py.runtime.library import Library
from stablehlo_py.runtime.program import Spec


def cpp_file(library: Library, names: Names, file: str, links: Sequence[str]) -> tuple[str, str]:
    """`NAME.hpp`: a class that owns the memory of its arguments, results and workspace."""
    del file, links
    return f"{names.model}.hpp", _Class(library, names).text()


class _Class:
    def __init__(self, library: Library, names: Names) -> None:
        self.library, self.names = library, names
        self.program, self.signature = library.program, Signature.of(library.program)
        self.dynamic = self.program.dynamic is not None
        self.name = "".join(part[:1].upper() + part[1:] for part in names.model.split("_"))

    def text(self) -> str:
        """The whole file."""
        model = self.names.model
        guard = f"SHLO_LIBRARY_{self.names.upper}_HPP"
        return "\n".join(
            [
                f"// {model} as a C++11 class. It owns its arguments, results and workspace; Run allocates nothing.",
                f"#ifndef {guard}\n#define {guard}\n",
                f'#include <cstddef>\n#include <cstdint>\n#include <new>\n#include <vector>\n\n#include "{model}.h"\n',
                f"class {self.name} {{\n public:",
                *map(_indented, self._members()),
                " private:",
                *map(_indented, self._private()),
                "};\n",
                "#endif",
                "",
            ]
        )

    # --- public ------------------------------------------------------------------------------------------------------

    def _members(self) -> list[str]:
        names, program = self.names, self.program
        found = [
            f"static constexpr int kNumArgs = {len(program.inputs)};",
            f"static constexpr int kNumResults = {len(program.outputs)};",
            f"static const shlo_model &Model() {{ return {names.model}_model; }}",
            "static const char *ArgName(int i) { return Model().arguments[i].name; }",
            "static const char *ResultName(int i) { return Model().results[i].name; }",
            self._constructor(),
            f"{self.name}(const {self.name} &) = delete;",
            f"{self.name} &operator=(const {self.name} &) = delete;\n",
        ]
        for number, (word, spec) in enumerate(zip(names.arguments, program.inputs, strict=True)):
            found += self._tensor("arg", number, word, spec, f"args_[{number}]", writable=True)
        for number, (word, spec) in enumerate(zip(names.results, program.outputs, strict=True)):
            alias = self.signature.aliases.get(number)
            place = f"args_[{alias}]" if alias is not None else f"results_[{number}]"
            found += self._tensor("result", number, word, spec, place, writable=False)
        return [*found, *self._calls()]

    def _constructor(self) -> str:
        parameters = [f"int64_t {name}" for name in self.names.dimensions]
        if self.library.interface.constants == "file" and self.program.constants:
            parameters += ["const void *constants_file", "int64_t constants_bytes"]
        body = [f"dims_[{number}] = {name};" for number, name in enumerate(self.names.dimensions)]
        if self.dynamic:
            body += ["status_ = Measure();", "if (status_ != SHLO_OK) return;"]
        for number, spec in enumerate(self.program.inputs):
            body.append(f"args_[{number}] = Memory({self._bytes('arg', number, spec)});")
        for number in self.signature.own_results:
            size = self._bytes("result", number, self.program.outputs[number])
            body.append(f"results_[{number}] = Memory({size});")
        if self.library.interface.constants == "file" and self.program.constants:
            count = len(self.program.constants)
            body.append(f"constants_.resize({count});")
            body.append(
                "if (status_ == SHLO_OK) status_ = "
                f"{self.names.model}_constants(constants_file, constants_bytes, constants_.data());"
            )
        size = "workspace_bytes_" if self.dynamic else f"{self.names.upper}_WORKSPACE_BYTES"
        body.append(f"workspace_ = Memory({size});")
        lines = "\n  ".join(body)
        explicit = "explicit " if len(parameters) == 1 else ""
        return f"{explicit}{self.name}({', '.join(parameters)}) {{\n  {lines}\n}}"

    def _bytes(self, kind: str, number: int, spec: Spec) -> str:
        if self.dynamic:
            return f"Bytes({kind}_shape({number}), {len(spec.shape)}, {spec.dtype.itemsize})"
        return str(math.prod(spec.shape) * spec.dtype.itemsize)  # type: ignore[arg-type]

    def _tensor(self, kind: str, number: int, word: str, spec: Spec, place: str, *, writable: bool) -> list[str]:
        type_, count = c_type(spec.dtype), parts(spec.dtype)
        constant = "" if writable else "const "
        complex_ = ", as pairs of parts" if count == 2 else ""
        found = [
            f"// {kind} {number}: {described(spec)}{complex_}",
            f"{constant}{type_} *{word}_data() {{ return static_cast<{type_} *>({place}); }}",
            f"const {type_} *{word}_data() const {{ return static_cast<const {type_} *>({place}); }}"
            if writable
            else "",
            f"{constant}{type_} *{kind}{number}_data() {{ return {word}_data(); }}"
            if word != f"{kind}{number}"
            else "",
            f"int64_t {word}_size() const {{ return {self._count(kind, number, spec)}; }}",
        ]
        if spec.shape and count == 1:
            indices = ", ".join(f"int64_t i{axis}" for axis in range(len(spec.shape)))
            found.append(
                f"{constant}{type_} &{word}({indices}) {{ return {word}_data()[{self._at(kind, number, spec)}]; }}"
            )
        elif count == 1:
            found.append(f"{constant}{type_} &{word}() {{ return *{word}_data(); }}")
        if writable:
            found.append(
                f"void set_{word}_data(const {type_} *data) {{ args_[{number}] = const_cast<{type_} *>(data); }}"
                "  // the caller's memory, from now on"
            )
        return [each for each in found if each] + [""]

    def _count(self, kind: str, number: int, spec: Spec) -> str:
        if self.dynamic:
            return f"Bytes({kind}_shape({number}), {len(spec.shape)}, 1)"
        return str(math.prod(spec.shape))  # type: ignore[arg-type]

    def _at(self, kind: str, number: int, spec: Spec) -> str:
        index = "i0"
        for axis in range(1, len(spec.shape)):
            size = f"{kind}_shape({number})[{axis}]" if spec.shape[axis] is None else str(spec.shape[axis])
            index = f"({index}) * {size} + i{axis}" if axis > 1 else f"{index} * {size} + i{axis}"
        return index

    def _calls(self) -> list[str]:
        run = ["if (status_ == SHLO_OK) {" if self.dynamic or self._has_file() else "{"]
        run += [
            "  shlo_call call = {};",
            "  call.size = sizeof call;",
            "  call.inputs = args_;",
            f"  void *outputs[{max(1, len(self.program.outputs))}];",
        ]
        for number in range(len(self.program.outputs)):
            alias = self.signature.aliases.get(number)
            place = f"results_[{number}]" if alias is None else f"args_[{alias}]"
            run.append(f"  outputs[{number}] = {place};")
        run += ["  call.outputs = outputs;", "  call.workspace = workspace_;", "  call.error = &error_;"]
        if self.dynamic:
            run.append("  call.sizes = table_;")
        if self._has_file():
            run.append("  call.constants = constants_.data();")
        if self.library.interface.threads != "off":
            run += [
                "  call.parallel_for = threads_.parallel_for;",
                "  call.parallel_context = threads_.context;",
            ]
        run += [f"  last_ = {self.names.model}_call(&call);", "} else {", "  last_ = status_;", "}"]
        if run[0] == "{":
            run = [*(line[2:] for line in run[1:-3])]
        body = "\n  ".join([*run, "return last_ == SHLO_OK;"])
        found = [
            "// Computes the results. False: error_msg() says why not.",
            f"bool Run() {{\n  {body}\n}}",
            "int status() const { return last_; }",
            "const char *error_msg() const {\n"
            "  return last_ == SHLO_FAILED && error_ ? error_->message : shlo_status_text(last_);\n}",
        ]
        if self.library.interface.threads != "off":
            found += [
                "// Threads for Run, which the caller keeps: {nullptr, nullptr} for none.",
                "void set_threads(shlo_threads threads) { threads_ = threads; }",
            ]
        if self.dynamic:
            found += [
                "// Sizes of an argument or a result.",
                "const int64_t *arg_shape(int i) const { return arg_shapes_[i].data(); }",
                "const int64_t *result_shape(int i) const { return result_shapes_[i].data(); }",
            ]
        return [*found, ""]

    def _has_file(self) -> bool:
        return self.library.interface.constants == "file" and bool(self.program.constants)

    # --- private -----------------------------------------------------------------------------------------------------

    def _private(self) -> list[str]:
        found = [
            "// Zeroed memory, aligned for vectors; it is freed with the object.",
            f"void *Memory(int64_t bytes) {{\n"
            f"  memory_.emplace_back(static_cast<std::size_t>((bytes > 0 ? bytes : 1) + {ALIGNMENT}));\n"
            "  std::uintptr_t at = reinterpret_cast<std::uintptr_t>(memory_.back().data());\n"
            f"  return reinterpret_cast<void *>((at + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT});\n}}",
        ]
        if self.dynamic:
            found += self._measure()
        found += [
            "std::vector<std::vector<unsigned char>> memory_;",
            f"void *args_[{max(1, len(self.program.inputs))}] = {{}};",
            f"void *results_[{max(1, len(self.program.outputs))}] = {{}};",
            "void *workspace_ = nullptr;",
            "const shlo_error *error_ = nullptr;",
            "int status_ = SHLO_OK, last_ = SHLO_OK;",
        ]
        if self._has_file():
            found.append("std::vector<const void *> constants_;")
        if self.library.interface.threads != "off":
            found.append("shlo_threads threads_ = {nullptr, nullptr};")
        return found

    def _measure(self) -> list[str]:
        layout = self.program.dynamic
        assert layout is not None
        lines = [f"int64_t symbols[{max(1, len(layout.symbols))}] = {{}};"]
        places = [(each.argument, each.position) for each in self.signature.dimensions]
        for number, symbol in enumerate(layout.symbols):
            if symbol.of_shape:
                dimension = places.index((symbol.argument, symbol.position))
                divided = "" if symbol.divisor == 1 else f" / {symbol.divisor}"
                lines.append(f"symbols[{number}] = dims_[{dimension}]{divided};")
        lines += [f"{self.names.model}_sizes(symbols, table_);"]
        for kind, specs in (("arg", self.program.inputs), ("result", self.program.outputs)):
            for number, spec in enumerate(specs):
                sizes = [
                    self._size(kind, number, axis, size, places, layout.outputs) for axis, size in enumerate(spec.shape)
                ]
                lines.append(f"{kind}_shapes_[{number}] = {{{', '.join(sizes)}}};")
        needed = layout.arena_bytes
        lines.append(f"workspace_bytes_ = {needed if needed >= 0 else f'table_[{-1 - needed}]'};")
        body = "\n  ".join([*lines, f"return table_[{layout.slots}] == 1 ? SHLO_OK : SHLO_SIZES;"])
        return [
            f"int Measure() {{\n  {body}\n}}",
            "static int64_t Bytes(const int64_t *shape, int rank, int64_t item) {\n"
            "  for (int i = 0; i < rank; i++) item *= shape[i];\n  return item;\n}",
            f"int64_t dims_[{max(1, len(self.names.dimensions))}] = {{}};",
            f"int64_t table_[{layout.slots + 1}] = {{}};",
            "int64_t workspace_bytes_ = 0;",
            f"std::vector<int64_t> arg_shapes_[{max(1, len(self.program.inputs))}];",
            f"std::vector<int64_t> result_shapes_[{max(1, len(self.program.outputs))}];",
        ]

    def _size(
        self,
        kind: str,
        number: int,
        axis: int,
        size: int | None,
        places: Sequence[tuple[int, int]],
        outputs: Sequence[Sequence[int]],
    ) -> str:
        if size is not None:
            return str(size)
        if kind == "result":
            place = outputs[number][axis]
            return f"table_[{-1 - place}]" if place < 0 else str(place)
        # A dimension that no size is worked out from is 1 here: such arguments hold nothing that is read.
        return f"dims_[{places.index((number, axis))}]" if (number, axis) in places else "1"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else line for line in text.split("\n"))
