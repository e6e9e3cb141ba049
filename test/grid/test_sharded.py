"""Exports of jax.shard_map and jax.pmap, called as they are in JAX: with whole arrays."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.compiler import run_stages
from stablehlo_py.dialect.sharding import meshes_of, shardings_of
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir

pytest.importorskip("jax")
WITHOUT_GRID = ("annotated only", "sharded product")
NAMES = ("product", "moves", "ring", "two axes", "partly manual", "training step", "pmap", *WITHOUT_GRID)


@pytest.fixture(scope="module")
def models(sharded: ModuleType) -> dict[str, Any]:
    return sharded.models("shardy")


@pytest.fixture(scope="module")
def older_models(sharded: ModuleType) -> dict[str, Any]:
    """The same, exported for the partitioner before Shardy."""
    return sharded.models("gspmd")


def test_every_model_is_tested(models: dict[str, Any]) -> None:
    assert set(models) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("exports", ["models", "older_models"])
def test_as_jax(name: str, exports: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(exports)[name]
    made = shlo.compile(model.exported, options=shlo.Options(verify=True))
    assert isinstance(made, shlo.GridExecutable) == (name not in WITHOUT_GRID)
    results = made(*model.arguments)
    assert len(results) == len(model.results)
    for one, other in zip(results, model.results, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)


def test_every_process_has_the_same_results(models: dict[str, Any]) -> None:
    model = models["training step"]
    made = shlo.compile(model.exported)
    assert isinstance(made, shlo.GridExecutable)
    assert (made.num_replicas, made.num_partitions) == (1, 4)
    (row,) = made.call_grid([[model.arguments] * 4])
    for process in row[1:]:
        for one, other in zip(process, row[0], strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(("exports", "first", "second"), [("models", "x", "y"), ("older_models", "axis_0", "axis_1")])
def test_shardings_reach_the_optimized_program(
    exports: str, first: str, second: str, request: pytest.FixtureRequest
) -> None:
    """What jax.jit and with_sharding_constraint say of the product's operands, and of the product after a factor of
    one is gone, in Shardy's words from both partitioners."""
    module = load(request.getfixturevalue(exports)["sharded product"].exported)
    with module.context, ir.Location.unknown():
        run_stages(module, "", "optimized")
    assert next(iter(meshes_of(module).values())) == f'#sdy.mesh<["{first}"=2, "{second}"=2]>'
    (main,) = module.body.operations
    arguments = [each["hlo.sharding"].value for each in main.attributes["arg_attrs"]]
    assert arguments == [
        f"#sdy.sharding<@mesh, [{axes}]>" for axes in (f'{{"{first}"}}, {{}}', f'{{}}, {{"{second}"}}')
    ]
    constrained = [shardings_of(op) for op in main.regions[0].blocks[0].operations if "hlo.sharding" in op.attributes]
    assert constrained == [[f'#sdy.sharding<@mesh, [{{"{first}"}}, {{"{second}"}}]>']]


def test_kernels_are_those_of_the_program_without_shardings() -> None:
    text = """module {{
      {mesh}
      func.func public @main(%x: tensor<8x8xf32>{rows}) -> tensor<8x8xf32> {{
        %0 = stablehlo.dot %x, %x{op} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
        %1 = stablehlo.tanh %0 : tensor<8x8xf32>
        return %1 : tensor<8x8xf32>
      }}
    }}"""
    rows = '#sdy.sharding<@mesh, [{"x"}, {}]>'
    per_value = " {sdy.sharding = #sdy.sharding_per_value<[" + rows.removeprefix("#sdy.sharding") + "]>}"
    plain = shlo.compile(text.format(mesh="", rows="", op=""))
    sharded = shlo.compile(
        text.format(mesh='sdy.mesh @mesh = <["x"=4]>', rows=f" {{sdy.sharding = {rows}}}", op=per_value)
    )
    assert "hlo.sharding = [" in sharded.stages["optimized"]
    assert sharded.stages["kernels"] == plain.stages["kernels"]


MESH = "module {{ sdy.mesh @mesh = <[{mesh}]>"
COMPUTATION = """
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {{
    %1 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{{{axes}}}]>] out_shardings=[<@mesh, [{{{axes}}}]>]
        manual_axes={{"d"}} (%arg1: tensor<{part}xf32>) {{
      %2 = stablehlo.add %arg1, %arg1 : tensor<{part}xf32>
      sdy.return %2 : tensor<{part}xf32>
    }} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }}
}}"""


def test_devices_in_another_order() -> None:
    text = MESH.format(mesh='"d"=4], device_ids=[2, 0, 3, 1') + COMPUTATION.format(axes='"d"', part=2)
    made = shlo.compile(text)
    assert made.num_partitions == 4
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(made(x)[0], 2 * x)


def test_a_part_of_an_axis() -> None:
    made = shlo.compile(MESH.format(mesh='"d"=4') + COMPUTATION.format(axes='"d":(1)2', part=4))
    assert made.num_partitions == 4
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(made(x)[0], 2 * x)


GROUPS = """
  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {{
    %0 = "stablehlo.all_reduce"(%arg0) <{{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, use_global_device_ids,
        replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [{axes}]>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }}) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }}
}}"""
PART = "sub_axis_info = ({})2"


@pytest.mark.parametrize(
    ("axes", "rows"),
    [
        ('#stablehlo.axis_ref<name = "d">', [[3, 1, 4, 6], [7, 2, 5, 0]]),
        ('#stablehlo.axis_ref<name = "e">, #stablehlo.axis_ref<name = "d">', [[3, 1, 4, 6, 7, 2, 5, 0]]),
        (f'#stablehlo.axis_ref<name = "d", {PART.format(1)}>', [[1, 6], [2, 0], [3, 4], [7, 5]]),
        (f'#stablehlo.axis_ref<name = "d", {PART.format(2)}>', [[3, 1], [4, 6], [5, 0], [7, 2]]),
    ],
)
def test_groups_along_axes_of_a_named_mesh(axes: str, rows: list[list[int]]) -> None:
    """As JAX writes them from 0.11 on."""
    mesh = MESH.format(mesh='"d"=4, "e"=2], device_ids=[3, 7, 1, 2, 4, 5, 6, 0')
    head = "module attributes {mhlo.num_partitions = 8 : i32} {"
    module = load((mesh + GROUPS.format(axes=axes)).replace("module {", head))
    shape = f"tensor<{len(rows)}x{len(rows[0])}xi64>"
    assert f"replica_groups = dense<{rows}> : {shape}" in str(module)


SHARDED = """module attributes {{mhlo.num_partitions = 4 : i32}} {{
  func.func public @main(%arg0: tensor<8x6xf32>) -> tensor<8x6xf32> {{
    %0 = stablehlo.custom_call @Sharding(%arg0) {{mhlo.sharding = "{there}"}} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {{mhlo.sharding = "{{manual}}"}}
      : (tensor<8x6xf32>) -> tensor<4x3xf32>
    %2 = stablehlo.add %1, %1 : tensor<4x3xf32>
    %3 = stablehlo.custom_call @Sharding(%2) {{mhlo.sharding = "{{manual}}"}} : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {{mhlo.sharding = "{back}"}}
      : (tensor<4x3xf32>) -> tensor<8x6xf32> loc("model.py":7:3)
    return %4 : tensor<8x6xf32>
  }}
}}"""


@pytest.mark.parametrize("devices", ["<=[4]", "<=[2,2]T(1,0)", "2,0,3,1"])
def test_tiles_as_gspmd_writes_them(devices: str) -> None:
    sharding = f"{{devices=[2,2]{devices}}}"
    made = shlo.compile(SHARDED.format(there=sharding, back=sharding))
    assert (made.num_replicas, made.num_partitions) == (1, 4)
    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    np.testing.assert_array_equal(made(x)[0], 2 * x)


@pytest.mark.parametrize(
    ("back", "reason"),
    [
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "does not make tensor<4x3xf32> of tensor<8x6xf32>"),
        ("{devices=[4,2]<=[8]}", "has 8 devices up to number 7, and the module is for 4 partitions"),
        ("{manual}", "the sharding {manual} is not known"),
    ],
)
def test_tiles_that_do_not_fit_are_refused(back: str, reason: str) -> None:
    with pytest.raises(shlo.UnsupportedError, match=reason) as caught:
        shlo.compile(SHARDED.format(there="{devices=[2,2]<=[4]}", back=back))
    assert caught.value.location == "model.py:7:3"
