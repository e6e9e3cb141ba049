"""Files for other languages and build systems, beside a library and its header."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.aot.build_files import cmake_file, pkg_config_file
from stablehlo_py.aot.cpp import cpp_file
from stablehlo_py.aot.go import go_file
from stablehlo_py.aot.names import Names
from stablehlo_py.aot.python_module import python_file
from stablehlo_py.aot.rust import rust_file
from stablehlo_py.runtime.library import Library

# What each makes: (library, names, file of the library, what is linked) -> file name, text.
Writer = Callable[[Library, Names, str, Sequence[str]], tuple[str, str]]
BINDINGS: dict[str, Writer] = {
    "c++": cpp_file,
    "rust": rust_file,
    "python": python_file,
    "go": go_file,
    "cmake": cmake_file,
    "pkg-config": pkg_config_file,
}


def binding_files(
    library: Library, names: Names, wanted: Sequence[str], file: str, links: Sequence[str]
) -> dict[str, str]:
    """Texts by file name."""
    return dict(BINDINGS[each](library, names, file, links) for each in wanted)
