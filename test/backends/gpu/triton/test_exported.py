"""Kernels of Triton that exports hold, in programs for CUDA. What Triton makes of a kernel is exchanged for what the
fake driver takes: the names of kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu
from triton_exports import KERNEL, PLAIN, PROGRAMS, SCALED, SIZE, array, field, kernel_call, model, packed, typed
from triton_products import needs_triton

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu.kernels import triton_call as template
from stablehlo_py.backends.gpu.launches import device_ir
from stablehlo_py.backends.gpu.triton import build as build_module
from stablehlo_py.backends.gpu.triton.worker import Built, IrRequest
from stablehlo_py.errors import ResourceError, UnsupportedError
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram

OWN = shlo.Options(gpu="sm_90a", cache_dir=None)
TYPED, PACKED = '"__gpu$xla.gpu.triton"', "triton_kernel_call"
SHARED = 2048
OVER = """, output_operand_aliases = [#stablehlo.output_operand_alias<
  output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>]"""
OVER_ONE = OVER.replace("[0]", "[]", 1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[IrRequest]:
    """What Triton is asked for; it answers with the kernel's name."""
    found: list[IrRequest] = []

    def build(request: IrRequest) -> Built:
        found.append(request)
        return Built(request.symbol.encode(), "", SHARED, request.warps * 32, 0)

    monkeypatch.setattr(template, "build", build)
    monkeypatch.setattr(template, "triton_version", lambda: "3.9.0")
    return found


def launches(device: Callable[..., int], program: CompiledProgram) -> list[tuple[str, tuple[int, ...]]]:
    """Those of a call, with our own kernels' code exchanged too."""
    host, code, *others = program.objects
    own = " ".join(name for name in program.kernels if name not in program.modules).encode()
    objects = [host.replace(sha256(code).digest(), sha256(own).digest()), own, *others] if own else program.objects
    Executable(replace(program, objects=objects))(np.ones(SIZE, np.float32))
    return list(device.launches())


def test_a_program(cuda_device: Callable[..., int], asked: list[IrRequest]) -> None:
    program = compile_program(model(TYPED, typed()), target="cuda", options=OWN)
    (request,) = asked
    assert (request.text, request.name, request.capability, request.warps, request.stages) == (PLAIN, "copy", 90, 4, 2)
    signature = request.signature
    assert (signature.pointers, signature.arguments) == (("in0", "out0"), ("in0", "out0"))
    assert signature.grid == (1, PROGRAMS, 1)
    assert program.modules == program.kernels == (request.symbol,) and "sm_90a" in program.features
    assert f"kernels by Triton: {request.symbol}" in program.report
    source = program.stages["triton"]
    assert isinstance(source, str) and "#   tt.func public @copy(" in source
    assert all(line.startswith("#") for line in source.splitlines() if line)
    ((name, (blocks, threads, shared, _, parameters)),) = launches(cuda_device, program)
    assert (name, blocks, threads, shared) == (request.symbol, PROGRAMS, 128, SHARED)
    assert parameters == 8 * (2 + 1 + 1)  # scratch memory, and what Triton adds
    again = artifact.deserialize(artifact.serialize(program))
    assert (again.modules, again.objects) == (program.modules, program.objects)


def test_numbers(asked: list[IrRequest]) -> None:
    compile_program(model(PACKED, packed(field(1, kernel_call(SCALED)))), target="cuda", options=OWN)
    (request,) = asked
    number = request.signature.arguments[1]
    assert not isinstance(number, str) and (number.type, number.value) == ("f32", "0x40200000")
    assert (request.text, request.name, request.signature.grid) == (KERNEL, "", (PROGRAMS, 1, 1))


def test_a_result_in_the_place_of_an_operand(cuda_device: Callable[..., int], asked: list[IrRequest]) -> None:
    """The kernel gets the result for both; a kernel of ours copies the operand before."""
    text = PLAIN.replace("%arg2: !tt.ptr<f32>)", "%arg2: !tt.ptr<f32>, %arg3: !tt.ptr<f32>)")
    program = compile_program(model(TYPED, typed(text), 2, OVER), target="cuda", options=OWN)
    assert asked[0].signature.arguments == ("out0", "out0", "out1")
    (copy, (blocks, threads, *_)), (name, _) = launches(cuda_device, program)
    assert name == asked[0].symbol and copy == f"{name}_before0"
    assert blocks * threads == SIZE
    kernels = device_ir(str(program.stages["kernels"]))
    assert " = load " in kernels and kernels.count(" store ") == 1


@pytest.mark.parametrize("attributes", [
    typed(more=", zeroed_outputs = [1 : i32]"), packed(field(1, kernel_call((*SCALED[:2], array(zeroed=4 * SIZE))))),
])  # fmt: skip
def test_zeros(cuda_device: Callable[..., int], asked: list[IrRequest], attributes: str) -> None:
    program = compile_program(model(TYPED if "mhlo" in attributes else PACKED, attributes), target="cuda", options=OWN)
    zeros, (name, _) = launches(cuda_device, program)
    assert (zeros[0], name) == (f"{asked[0].symbol}_before0", asked[0].symbol)
    kernels = device_ir(str(program.stages["kernels"]))
    assert " = load " not in kernels and kernels.count(" store ") == 1


def test_a_loop_is_no_kernel_with_it(asked: list[IrRequest]) -> None:
    """Machine code of Triton is no part of a loop that is one kernel."""
    body = model(TYPED, typed()).splitlines()[1:3]
    text = f"""func.func @main(%start: tensor<{SIZE}xf32>) -> tensor<{SIZE}xf32> {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %end:2 = stablehlo.while(%i = %zero, %x = %start) : tensor<i32>, tensor<{SIZE}xf32>
        cond {{
          %less = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %less : tensor<i1>
        }} do {{
          {" ".join(body).replace("%0:1", "%0")}
          %next = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %next, %0 : tensor<i32>, tensor<{SIZE}xf32>
        }}
      return %end#1 : tensor<{SIZE}xf32>
    }}"""
    program = compile_program(text, target="cuda", options=OWN)
    assert "loops that are one kernel" not in program.report and len(program.modules) == 1


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_triton_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "triton_version", lambda: "")
    wanted = r"kernels.py:7:3: 'stablehlo.custom_call': calls '__gpu\$xla.gpu.triton', the kernel 'copy' of Triton, "
    with pytest.raises(ResourceError, match=rf"{wanted}which is not installed(.|\n)*stablehlo-py\[triton\]"):
        compile_program(model(TYPED, typed()), target="cuda", options=OWN)
    with pytest.raises(ResourceError, match="'triton_kernel_call', a kernel of Triton, which is not installed"):
        compile_program(model(PACKED, packed(field(1, kernel_call(SCALED)))), target="cuda", options=OWN)


@pytest.mark.parametrize(("target", "gpu"), [("rocm", "gfx942"), ("opencl", None), ("cpu", None)])
def test_other_machines(target: str, gpu: str | None) -> None:
    wanted = r"kernels.py:7:3: 'stablehlo.custom_call': calls '__gpu\$xla.gpu.triton', a kernel of Triton for NVIDIA's"
    with pytest.raises(UnsupportedError, match=rf"{wanted}(.|\n)*help: export the model with the function"):
        compile_program(model(TYPED, typed()), target=target, options=shlo.Options(gpu=gpu, cache_dir=None))


def test_other_refusals(asked: list[IrRequest], monkeypatch: pytest.MonkeyPatch) -> None:
    for target in ("mosaic_gpu_v2", "tpu_custom_call"):
        with pytest.raises(UnsupportedError, match=rf"calls '{target}', a kernel that another compiler \(Mosaic\)"):
            compile_program(model(target, 'backend_config = ""'), target="cuda", options=OWN)
    with pytest.raises(UnsupportedError, match=r"kernels.py:7:3: (.*)is not as JAX writes it: 3 warps"):
        broken = typed().replace("num_warps = 4", "num_warps = 3")
        compile_program(model(TYPED, broken), target="cuda", options=OWN)
    with pytest.raises(UnsupportedError, match="sets an operand to zero, which no result takes over"):
        compile_program(model(TYPED, typed(more=", zeroed_outputs = [0 : i32]")), target="cuda", options=OWN)
    monkeypatch.setattr(template, "build", lambda request: Built(b"", "", 1 << 20, 128, 0))
    with pytest.raises(UnsupportedError, match=r"kernels.py:7:3: (.*)takes 1048576 bytes of shared memory, sm_90a has"):
        compile_program(model(TYPED, typed()), target="cuda", options=OWN)


def test_bytecode_of_another_version(asked: list[IrRequest], monkeypatch: pytest.MonkeyPatch) -> None:
    """jaxlib reads it, or says why not."""
    text = model(TYPED, typed("ML\xefRnothing").replace("\\C3\\AF", "\\EF"))
    with pytest.raises(
        UnsupportedError, match=r"kernels.py:7:3: (.*)jaxlib \S+ does not read the bytecode of a kernel"
    ):
        compile_program(text, target="cuda", options=OWN)
    monkeypatch.setattr(build_module, "find_spec", lambda name: None)
    build_module.text_of.cache_clear()
    with pytest.raises(ResourceError, match=r"jaxlib is not installed(.|\n)*that the model was exported with"):
        compile_program(text, target="cuda", options=OWN)


# --- exports of JAX ---------------------------------------------------------------------------------------------------


def _kernel(x_ref, y_ref, sum_ref, product_ref) -> None:  # type: ignore[no-untyped-def]
    sum_ref[...] = x_ref[...] + y_ref[...] * pl.program_id(1)
    product_ref[...] = jnp.exp(x_ref[...]) * pl.num_programs(0)


def exported() -> jax.export.Exported:
    """A kernel of Pallas with two results, of which the first takes the place of the first operand."""
    block = pl.BlockSpec((64, 32), lambda i, j: (i, j))
    struct = jax.ShapeDtypeStruct((256, 64), jnp.float32)

    def call(x: jax.Array, y: jax.Array) -> jax.Array:
        a, b = pl.pallas_call(
            _kernel,
            out_shape=[struct, struct],
            grid=(4, 2),
            in_specs=[block] * 2,
            out_specs=[block] * 2,
            input_output_aliases={0: 0},
            compiler_params=plgpu.CompilerParams(num_warps=4, num_stages=2),
        )(x, y)
        return a + b

    check = jax.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.triton")
    return jax.export.export(jax.jit(call), platforms=["cuda"], disabled_checks=[check])(struct, struct)


def test_an_export(asked: list[IrRequest]) -> None:
    """Its kernel is bytecode, which jaxlib makes text of."""
    program = compile_program(exported(), target="cuda", options=OWN)
    (request,) = asked
    assert request.text.startswith("module @_kernel") and "tt.get_program_id y" in request.text
    assert request.signature.arguments == ("out0", "in1", "out0", "out1")
    assert (request.signature.grid, request.name, request.stages) == ((4, 2, 1), "_kernel", 2)
    assert len(program.kernels) == 3  # a copy before, and the sum behind


@needs_triton
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_exports_compile(gpu: str) -> None:
    programs = [compile_program(exported(), target="cuda", options=replace(OWN, gpu=gpu)) for _ in range(2)]
    assert programs[0].objects == programs[1].objects
    (symbol,) = programs[0].modules
    (code,) = programs[0].objects[2:]
    assert code.startswith(b"\x7fELF") and symbol.encode() in code and b"_inner" not in code


@needs_triton
def test_kernels_compile() -> None:
    """With the machine's own arithmetic in them: numbers are constants, and axes are computed from one."""
    scaled = build_module.build(_request(model(PACKED, packed(field(1, kernel_call(SCALED))))))
    assert "0f40200000" in scaled.ptx and ".param .f32" not in scaled.ptx
    plain = build_module.build(_request(model(TYPED, typed())))
    assert "%ctaid.x" in plain.ptx and "%ctaid.y" not in plain.ptx and "add.f32" in plain.ptx.replace(".rn", "")


def _request(text: str) -> IrRequest:
    found: list[IrRequest] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(template, "build", lambda request: found.append(request) or Built(b"", "", 0, 128, 0))
        compile_program(text, target="cuda", options=OWN)
    return found[0]


@needs_triton
def test_what_triton_does_not_read() -> None:
    """IR of another version: the message says what to do."""
    text = model(TYPED, typed(PLAIN.replace("tt.get_program_id", "tt.get_program_number")))
    with pytest.raises(UnsupportedError, match=r"kernels.py:7:3: (.*)Triton does not compile the kernel"):
        compile_program(text, target="cuda", options=OWN)
