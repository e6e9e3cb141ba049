"""A convnet of the size that spots keywords runs on a Cortex-M3, which qemu-system-arm is, with newlib alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import c_programs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.codegen.emitters.c import CEmitter
from stablehlo_py.codegen.values import F32

BOARD = Path(__file__).parent / "cortex_m"
R = np.random.default_rng(0)

MAIN = """
#include <stdint.h>
#include <string.h>
{structure}
int spot(const shlo_call *call);
void put(const char *text);

{tables}
static float result[12];
static int64_t workspace[{words}];

int main(void) {{
  const void *inputs[] = {{sound}};
  void *outputs[] = {{result}};
  shlo_call call;
  memset(&call, 0, sizeof call);
  call.size = sizeof call, call.inputs = inputs, call.outputs = outputs, call.workspace = workspace;
  if (spot(&call)) return 1;
  for (int i = 0; i < 12; i++) {{
    const float distance = result[i] - expected[i];
    if (!(distance < 1e-5f && distance > -1e-5f)) return 2;
  }}
  put("spotted");
  call.size--;
  return spot(&call) == SHLO_OLD_CALL ? 0 : 3;
}}
"""


def weights(*shape: int) -> np.ndarray:
    return (R.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


FIRST, DEPTHWISE, POINTWISE, LAST = weights(16, 1, 10, 4), weights(16, 1, 3, 3), weights(16, 16, 1, 1), weights(16, 12)


def spot(sound: jax.Array) -> jax.Array:
    """Probabilities of 12 words, from 49 spectra of 10 coefficients."""
    x = jax.nn.relu(lax.conv(sound.reshape(1, 1, 49, 10), FIRST, (2, 2), "SAME"))
    x = jax.nn.relu(lax.conv_general_dilated(x, DEPTHWISE, (1, 1), "SAME", feature_group_count=16))
    x = jax.nn.relu(lax.conv(x, POINTWISE, (1, 1), "SAME"))
    return jax.nn.softmax(x.mean((2, 3)) @ LAST)[0]


def needs(tool: str, package: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"there is no {tool} (Debian: {package})")


def test_keywords_are_spotted(tmp_path: Path) -> None:
    needs("arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi")
    needs("qemu-system-arm", "qemu-system-arm")
    sound = R.standard_normal((49, 10)).astype(np.float32)
    text = jax.jit(spot).lower(sound).as_text()
    expected = np.asarray(spot(jnp.asarray(sound)))
    entry = shlo.compile(text, target="c", options=c_programs.OPTIONS).entry
    assert entry.workspace_bytes is not None
    model = c_programs.c_file(text, "spot")
    tables = "\n".join(CEmitter.table(name, a, F32) for name, a in (("sound", sound), ("expected", expected)))
    words = entry.workspace_bytes // 8 + 1
    (tmp_path / "model.c").write_text(model)
    (tmp_path / "main.c").write_text(MAIN.format(structure=c_programs.structure(model), tables=tables, words=words))
    machine = ["-mcpu=cortex-m3", "-mthumb", "-O2", "-ffunction-sections"]
    strict = [*machine, *c_programs.STRICT, "-ffreestanding"]
    for name in ("model", "main"):
        subprocess.run(["arm-none-eabi-gcc", *strict, "-c", f"{name}.c", "-o", f"{name}.o"], cwd=tmp_path, check=True)
    link = ["-nostartfiles", "-Wl,--gc-sections", "-T", BOARD / "an385.ld", BOARD / "start.c"]
    command = ["arm-none-eabi-gcc", *machine, *link, "main.o", "model.o", "-lm", "-o", "spot.elf"]
    subprocess.run(command, cwd=tmp_path, check=True)
    run = ["qemu-system-arm", "-machine", "mps2-an385", "-display", "none", "-serial", "null", "-monitor", "none"]
    run += ["-semihosting", "-kernel", "spot.elf"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout + done.stderr) == (0, "spotted")
