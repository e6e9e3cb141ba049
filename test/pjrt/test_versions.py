"""The platform with the oldest and the newest version of JAX that it is for, each in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import requires
from importlib.metadata import version as installed
from pathlib import Path

import pytest

from stablehlo_py.pjrt import api, native, versions

ROOT = Path(__file__).parents[2]
HANDLERS = Path(__file__).parent / "ffi_handlers.cc"
PROGRAM = Path(__file__).parent / "versions_program.py"
#: The versions, and the oldest Python that each is for.
ENDS = {"0.9.1": (3, 11), "0.12.0.1": (3, 12)}
GXX = shutil.which("g++")
# What pip says of an index that is not there; its other failures are failures here.
NO_INDEX = re.compile("connection|name resolution|timed out|unreachable", re.IGNORECASE)
# jaxlib's log: "The PJRT plugin has PJRT API version 0.94. The framework PJRT API version is 0.100."
FRAMEWORK = re.compile(r"framework PJRT API version is (\d+)\.(\d+)")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _python(oldest: tuple[int, int]) -> tuple[str, tuple[int, int]]:
    """An interpreter that is new enough, and its version: this one, one on PATH, or one of pyenv's."""
    found = [sys.executable, *(shutil.which(f"python3.{minor}") for minor in (12, 13))]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found += [str(each) for each in sorted(pyenv.glob("3.1[23].*/bin/python"))]
    for each in filter(None, found):
        asked = [each, "-c", "import sys; print(*sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0 and oldest <= (version := tuple(map(int, done.stdout.split()))) < (3, 14):
            return each, version  # type: ignore[return-value]
    pytest.skip(f"there is no Python {oldest[0]}.{oldest[1]}, which JAX needs")


def _environment(version: str, python: tuple[int, int]) -> Path:
    """A folder of packages: JAX, to stand before this environment's packages, or all where Python is another. It is
    made once for each environment of the tests."""
    made = Path(sys.prefix) / "jax-versions" / f"{version}-python{python[0]}.{python[1]}"
    if made.exists():
        return made
    made.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as name:
        folder, constraints = Path(name) / "packages", Path(name) / "constraints.txt"
        pinned = (ROOT / "constraints.txt").read_text().splitlines()
        constraints.write_text("\n".join(line for line in pinned if not line.startswith(("jax==", "jaxlib=="))))
        wanted = ["--target", folder, "-c", constraints, f"jax=={version}", f"jaxlib=={version}"]
        if python == sys.version_info[:2]:
            wanted += ["--no-deps"]
        else:
            # pip would compare what packages require with the Python that it runs on, too.
            wanted += ["--python-version", f"{python[0]}.{python[1]}", "--ignore-requires-python"]
            wanted += ["--only-binary=:all:"]
            wanted += [each for each in requires("stablehlo-py") or () if "extra ==" not in each]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
        done = subprocess.run([*pip, *wanted], capture_output=True, text=True, timeout=600, check=False)
        if done.returncode and NO_INDEX.search(done.stderr):
            pytest.skip(f"the package index cannot be reached: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr
        # The package itself is this checkout; here is what pip would say of it.
        said = folder / "stablehlo_py-0.dist-info"
        said.mkdir()
        known = f"Metadata-Version: 2.1\nName: stablehlo-py\nVersion: {installed('stablehlo-py')}\n"
        (said / "METADATA").write_text(known)
        folder.rename(made)
    return made


def _used(name: str) -> int:
    """How many bytes of its arguments a function of the API reads and writes."""
    if name in api.PYTHON_FUNCTIONS:
        return api.size_used(name)
    end = 0 if name in native._NOTHING else native.OBJECT + 8
    for word in native._READS[name][1].split() if name in native._READS else ():
        width = native._TYPES[word[0]][1]
        end = -(-end // width) * width + width
    return end


def test_the_ends_of_the_range_are_tested() -> None:
    oldest, newest = map(_numbers, ENDS)
    assert oldest == versions.OLDEST and newest[: len(versions.NEWEST)] == versions.NEWEST
    ends = [".".join(map(str, end)) for end in (versions.OLDEST, (versions.NEWEST[0], versions.NEWEST[1] + 1))]
    assert f'"jax>={ends[0]},<{ends[1]}; ' in (ROOT / "pyproject.toml").read_text()


def test_one_module_knows_what_is_inside_of_jax() -> None:
    imports = re.compile(r"^\s*(?:from|import) jax(?:\._src|lib)", re.MULTILINE)
    files = [*Path(versions.__file__).parent.glob("*.py")]
    assert [path.name for path in files if imports.search(path.read_text())] == []
    assert all(versions.internal(name) is not None for names in versions.INTERNALS.values() for name in names.split())


REPLACED = """
from jax._src import compilation_cache, dlpack
import stablehlo_py.pjrt
from stablehlo_py.errors import UnsupportedError
def is_cache_used(backend, devices):
    return False
compilation_cache.is_cache_used, usual = is_cache_used, dlpack.to_dlpack
try:
    stablehlo_py.pjrt.initialize()
except UnsupportedError as error:
    assert "'is_cache_used' takes (backend devices), not (backend), in" in str(error), error
else:
    raise AssertionError("it was replaced")
assert dlpack.to_dlpack is usual and compilation_cache.is_cache_used is is_cache_used
"""


def test_a_function_that_takes_other_parameters_is_not_replaced() -> None:
    done = subprocess.run([sys.executable, "-c", REPLACED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(GXX is None, reason="needs g++")
@pytest.mark.parametrize("version", ENDS)
def test_a_version_at_an_end_of_the_range(version: str, tmp_path: Path) -> None:
    """A call, derivatives, loops, donation, callbacks, custom calls, LAPACK, several devices, errors, and an exit with
    live arrays."""
    python, found = _python(ENDS[version])
    packages = _environment(version, found)
    library, report = tmp_path / "handlers.so", tmp_path / "sizes.json"
    flags = ["-std=c++17", "-O0", "-w", "-shared", "-fPIC", f"-I{packages / 'jaxlib' / 'include'}"]
    subprocess.run([str(GXX), *flags, HANDLERS, "-o", library], check=True)
    done = subprocess.run(
        [python, "-W", "ignore", PROGRAM, library, report],
        capture_output=True,
        text=True,
        timeout=240,
        env={
            **{name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"},
            "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}",
            "SHLO_NUM_DEVICES": "4",
            "TF_CPP_MIN_LOG_LEVEL": "0",
        },
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"done with {version}\n"), done.stderr
    # What jaxlib itself reports: the version of its API, and the sizes of the structures that it passes.
    major, minor = map(int, FRAMEWORK.search(done.stderr).groups())
    assert major == api.MAJOR and minor >= api.OLDEST_MINOR
    sizes = json.loads(report.read_text())
    assert len(sizes) > 50
    assert {name: size for name, size in sizes.items() if size < _used(name)} == {}
