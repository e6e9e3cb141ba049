"""What build systems read: a package for CMake, a file for pkg-config."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.aot.names import Names
from stablehlo_py.runtime.library import Library


def cmake_file(library: Library, names: Names, file: str, links: Sequence[str]) -> tuple[str, str]:
    """`NAME-config.cmake`: the target `NAME::NAME`, for `find_package(NAME PATHS folder)`."""
    kind, place = {
        "a": ("STATIC", "IMPORTED_LOCATION"),
        "lib": ("STATIC", "IMPORTED_LOCATION"),
        "so": ("SHARED", "IMPORTED_LOCATION"),
    }.get(file.rpartition(".")[2], ("OBJECT", "IMPORTED_OBJECTS"))
    others = ";".join(link.removeprefix("-l") for link in links[1:])
    target = f"{names.model}::{names.model}"
    return f"{names.model}-config.cmake", (
        f"# {names.model}: a model compiled by stablehlo-py for {library.target}.\n"
        f"if(NOT TARGET {target})\n"
        f"  add_library({target} {kind} IMPORTED)\n"
        f"  set_target_properties({target} PROPERTIES\n"
        f'    {place} "${{CMAKE_CURRENT_LIST_DIR}}/{file}"\n'
        f'    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}"\n'
        f'    INTERFACE_LINK_LIBRARIES "{others}")\n'
        "endif()\n"
    )


def pkg_config_file(library: Library, names: Names, file: str, links: Sequence[str]) -> tuple[str, str]:
    """`NAME.pc`, found by PKG_CONFIG_PATH=folder."""
    return f"{names.model}.pc", (
        f"folder=${{pcfiledir}}\n\nName: {names.model}\n"
        f"Description: a model compiled by stablehlo-py for {library.target}\n"
        f"Version: {library.hash[:16]}\n"
        f"Cflags: -I${{folder}}\n"
        f"Libs: {' '.join([f'${{folder}}/{file}', *links[1:]])}\n"
    )
