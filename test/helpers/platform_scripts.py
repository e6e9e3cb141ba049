"""Scripts that use the platform of stablehlo_py.pjrt: JAX keeps the platforms of a process, so each runs in its own.

To import JAX and the compiler takes longer than most scripts: one process does it for all scripts of an environment,
and forks for each. No platform is initialized, and no thread runs, before that."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
from functools import lru_cache
from pathlib import Path

LIMIT_S = 240

# The child goes on behind the loop, and ends as an interpreter does: with its globals, at the end of this text.
_READY = """
import importlib, json, os, pkgutil, sys
import stablehlo_py.backends.cpu, stablehlo_py.passes, stablehlo_py.pjrt
for package in (stablehlo_py.backends.cpu, stablehlo_py.passes, stablehlo_py.pjrt):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
for request in sys.stdin:
    code, variables, *files = json.loads(request)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for number, (name, flags) in enumerate(zip([os.devnull, *files], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
    file = os.open(name, flags)
    os.dup2(file, number)
    os.close(file)
os.environ.update(variables)
exec(compile(code, "<string>", "exec"))
"""


class _Ready:
    """A process that runs scripts, each in a process that it forks."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-W", "ignore", "-c", _READY]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            start_new_session=True,
        )

    def run(self, code: str, variables: dict[str, str]) -> tuple[int, str, str]:
        """The status of a script with these variables, and what it prints to stdout and stderr."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ("stdout", "stderr")]
            for file in files:
                file.touch()
            self._process.stdin.write(json.dumps([code, variables, *map(str, files)]) + "\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], LIMIT_S)[0]:
                os.killpg(self._process.pid, signal.SIGKILL)
            status = self._process.stdout.readline()
            said = [file.read_text() for file in files]
        if not status:
            _ready.cache_clear()
        assert status, f"no end in {LIMIT_S} s, or the process that forks has ended\n" + "".join(said)
        return int(status), said[0], said[1]

    def __del__(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()  # its loop ends


@lru_cache(maxsize=2)
def _ready(environment: tuple[tuple[str, str], ...]) -> _Ready:
    return _Ready(dict(environment))


atexit.register(_ready.cache_clear)


def head_for(platform: str) -> str:
    """How a script begins that uses a platform; it may import `in_scripts`, which lies beside this file."""
    return f"""
import faulthandler; faulthandler.enable()
import sys; sys.path.append({str(Path(__file__).parent)!r})
import stablehlo_py.pjrt
from stablehlo_py.pjrt import handles
stablehlo_py.pjrt.initialize("{platform}")
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_platforms", "{platform}")
"""


HEAD = head_for("shlo")


def script(body: str, head: str = "", platform: str = "shlo", **environment: str) -> str:
    """What a script prints, behind `head_for` its platform and `head`. It has to end with status 0."""
    ours = {name: value for name, value in environment.items() if name.startswith("SHLO_")}  # read when they are needed
    others = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"} | environment
    ready = _ready(tuple(sorted(item for item in others.items() if item[0] not in ours)))
    status, out, err = ready.run(head_for(platform) + textwrap.dedent(head) + textwrap.dedent(body), ours)
    assert status == 0, out + err
    return out
