"""Scripts that use the platform of stablehlo_py.pjrt: JAX keeps the platforms of a process, so each runs in its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path


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
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", head_for(platform) + textwrap.dedent(head) + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
