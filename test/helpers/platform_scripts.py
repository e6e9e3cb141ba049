"""Scripts that use the platform of stablehlo_py.pjrt: JAX keeps the platforms of a process, so each runs in its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

HEAD = """
import faulthandler; faulthandler.enable()
import stablehlo_py.pjrt
from stablehlo_py.pjrt import handles
stablehlo_py.pjrt.initialize()
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_platforms", "shlo")
"""


def script(body: str, head: str = "", **environment: str) -> str:
    """What a script prints, behind HEAD and `head`. It has to end with status 0."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HEAD + textwrap.dedent(head) + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
