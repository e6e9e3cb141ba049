"""JAX finds the platform where its name is asked for, and costs nothing where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from stablehlo_py.errors import OptionError
from stablehlo_py.pjrt import initialize

OTHER = r"are for JAX from 0\.9\.1 to 0\.12, and {}(.|\n)*help: pip install 'jax>=0\.9\.1,<0\.13'"
MISSING = "there is no 'jax._src.debugging._make_flat_callback' in"
USED = "import sys; used = 'stablehlo_py.pjrt.plugin' in sys.modules\n"


def run(body: str, platforms: str | None) -> None:
    """A script with this in JAX_PLATFORMS (None: it is not set). It has to end with status 0, and say nothing."""
    environment = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    if platforms is not None:
        environment["JAX_PLATFORMS"] = platforms
    command = [sys.executable, "-c", "import jax\n" + textwrap.dedent(body)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_variable_is_all() -> None:
    run(
        """
        import jax.numpy as jnp
        x = jnp.arange(4.0)
        assert [each.platform for each in x.devices()] == ["shlo"]
        assert jax.default_backend() == "shlo" and jax.jit(lambda x: x.sum())(x) == 6
        """,
        "shlo",
    )


def test_it_stands_beside_others() -> None:
    run(
        """
        import numpy as np
        assert jax.default_backend() == "cpu"
        x = jax.device_put(np.arange(3.0, dtype=np.float32), jax.devices("shlo")[0])
        assert (x + 1).devices() == set(jax.devices("shlo"))
        assert jax.device_put(x, jax.devices("cpu")[0]).tolist() == [0, 1, 2]
        """,
        "cpu,shlo",
    )


def test_a_program_may_ask_by_jax_config() -> None:
    run("jax.config.update('jax_platforms', 'shlo'); assert jax.devices()[0].platform == 'shlo'", None)


@pytest.mark.parametrize("platforms", [None, "cpu"])
def test_where_nobody_asks_nothing_is_imported(platforms) -> None:
    run(f"assert jax.devices()[0].platform == 'cpu'\n{USED}assert not used", platforms)


def test_there_are_no_other_platforms() -> None:
    with pytest.raises(OptionError, match="use one of shlo, shlo_cuda, shlo_opencl, shlo_rocm"):
        initialize("shlo_tpu")


def test_it_may_be_registered_before() -> None:
    run(
        """
        import stablehlo_py.pjrt
        for _ in range(2):
            stablehlo_py.pjrt.initialize()
        assert jax.devices()[0].platform == "shlo"
        """,
        "shlo",
    )


@pytest.mark.parametrize(
    ("platform", "before", "reason"),
    [
        ("shlo", "jax.__version_info__ = (0, 9, 0)", OTHER.format("this is")),
        ("shlo", "jax.__version_info__ = (0, 13, 0)", OTHER.format("this is")),
        ("shlo", "del jax._src.debugging._make_flat_callback", OTHER.format(MISSING)),
        ("shlo", "import os; os.environ['SHLO_NUM_DEVICES'] = 'two'", "SHLO_NUM_DEVICES is 'two'"),
        *(
            (
                f"shlo_{name}",
                f"import os; os.environ['SHLO_{driver.upper()}_LIBRARY'] = '/nowhere'",
                f"no {driver} here",
            )
            for name, driver in (("cuda", "CUDA"), ("opencl", "OpenCL"), ("rocm", "HIP"))
        ),
    ],
)
def test_where_it_cannot_be_had_jax_says_why(platform, before, reason) -> None:
    run(
        f"""
        {before}
        import re
        try:
            jax.devices()
        except RuntimeError as error:
            assert re.search({reason!r}, str(error)), error
        else:
            raise AssertionError
        """,
        platform,
    )
