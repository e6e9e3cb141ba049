"""The machine code of a program as text."""

from __future__ import annotations

import os
import shutil
import subprocess


def disassembly(objects: list[bytes]) -> str:
    """objdump's listing where binutils are installed, else names and sizes."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return "\n".join(
            f"object {number}: {len(content)} bytes (no objdump here)" for number, content in enumerate(objects)
        )
    listings = []
    for content in objects:
        with open(os.memfd_create("shlo-object"), "wb") as file:  # in memory: a full disk is not in the way
            file.write(content)
            file.flush()
            command = [objdump, "--disassemble", "--no-show-raw-insn", "--reloc", f"/proc/self/fd/{file.fileno()}"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, pass_fds=[file.fileno()])
            listings.append(done.stdout)
    return "\n".join(listings)
