"""Handlers of XLA's FFI, compiled against JAX's headers, on the platform."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import jax
import pytest

from stablehlo_py.errors import OptionError
from stablehlo_py.foreign import name_of_capsule, new_capsule, pointer_of_capsule
from stablehlo_py.pjrt import ffi, ffi_api
from test.helpers.platform_scripts import script

GXX = shutil.which("g++")
pytestmark = pytest.mark.skipif(GXX is None, reason="needs g++")
SOURCE = Path(__file__).parent / "ffi_handlers.cc"


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What scripts begin with: the handlers, and how they are registered."""
    library = tmp_path_factory.mktemp("ffi") / "handlers.so"
    flags = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}"]
    subprocess.run([str(GXX), *flags, SOURCE, "-o", library], check=True)
    return f"""
import ctypes
library = ctypes.CDLL({str(library)!r})
def register(name, platform="shlo"):
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform=platform)
def fails(function, *arguments):
    try:
        jax.block_until_ready(jax.jit(function)(*arguments))
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        return str(error)
    raise AssertionError("it went well")
"""


@pytest.mark.parametrize("platform", ["shlo", "cpu"])
def test_buffers_and_attributes(head: str, platform: str) -> None:
    """Also handlers that are registered for JAX's own CPU."""
    script(
        f"""
        register("scale", {platform!r})
        """
        """
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        def scale(v, mode="scale"):
            call = jax.ffi.ffi_call("scale", jax.ShapeDtypeStruct(v.shape, v.dtype), vmap_method="sequential")
            return call(v, factor=np.float32(2), mode=mode, added=np.array([1, -4], np.int64))
        assert (jax.jit(lambda v: scale(v) + 1)(x) == x * 2 - 2).all()
        assert (jax.vmap(scale)(x) == x * 2 - 3).all()
        steps = jax.lax.fori_loop(0, 3, lambda i, v: scale(v), x)
        assert (steps == ((x * 2 - 3) * 2 - 3) * 2 - 3).all()
        said = fails(lambda v: scale(v, "odd"), x)
        assert said.startswith("INVALID_ARGUMENT") and "there is no mode odd" in said and "Traceback" not in said, said
        assert "scale" in said and "<string>" in said  # the target, and the line of the model
        assert "Wrong attribute type" in fails(lambda v: scale(v, np.float32(3)), x)
        assert (jax.jit(scale)(x) == x * 2 - 3).all()
        """,
        head,
    )


def test_all_types(head: str) -> None:
    numbers = ffi_api.DATA_TYPES
    script(
        """
        import ml_dtypes
        jax.config.update("jax_enable_x64", True)
        register("describe"); register("attributes")
        """
        f"""
        numbers = {[numbers[name] for name in ("i1", "i8", "ui16", "bf16", "complex<f64>", "f8E4M3FN", "i4")]}
        """
        """
        kinds = (bool, "i1", "u2", ml_dtypes.bfloat16, "c16", ml_dtypes.float8_e4m3fn, ml_dtypes.int4)
        values = [np.zeros((2, 3, 5)[:rank], kind) for rank, kind in zip((0, 1, 2, 3, 1, 2, 3), kinds)]
        shapes = [jax.ShapeDtypeStruct((2 + v.ndim,), np.int64) for v in values]
        got = jax.jit(lambda *v: jax.ffi.ffi_call("describe", shapes)(*v))(*values)
        for value, number, found in zip(values, numbers, got):
            assert found.tolist() == [number, value.ndim, *value.shape], (value.dtype, found)
        total = jax.jit(lambda: jax.ffi.ffi_call("attributes", jax.ShapeDtypeStruct((), np.float64))(
            b=True, i8=np.int8(-3), u16=np.uint16(60000), i32=np.int32(-7), i64=1 << 40, f64=0.5,
            list=np.array([1.5, 8], np.float32)))()
        assert total == 1 - 3 + 60000 - 7 + (1 << 40) + 0.5 + 9.5
        """,
        head,
    )


def test_dictionaries_as_attributes(head: str) -> None:
    script(
        """
        jax.config.update("jax_enable_x64", True)
        register("settings")
        def settings(**values):
            call = jax.ffi.ffi_call("settings", jax.ShapeDtypeStruct((), np.float64))
            return lambda: call(settings=values)
        assert jax.jit(settings(number=0.5, name="abc"))() == 320.5
        assert jax.jit(settings(number=1.5, name="", more=np.int32(3)))() == 31.5
        said = fails(settings(number=np.float32(1), name=""))
        assert "expected F64 but got F32" in said, said
        """,
        head,
    )


def test_states_threads_and_futures(head: str) -> None:
    script(
        """
        jax.config.update("jax_enable_x64", True)
        capsule = lambda name: jax.ffi.pycapsule(getattr(library, name))
        def address(name):
            getattr(library, name).restype = ctypes.c_void_p
            return jax.ffi.pycapsule(getattr(library, name)())
        jax.ffi.register_ffi_type(
            "counter", {"type_id": address("counter_type_id"), "type_info": address("counter_type_info")}, "shlo")
        jax.ffi.register_ffi_target(
            "count", {"instantiate": capsule("make_counter"), "execute": capsule("count")}, platform="shlo")
        def count(first):
            return jax.jit(lambda: jax.ffi.ffi_call("count", jax.ShapeDtypeStruct((), np.int64))(first=first))
        five = count(5)
        assert [int(five()), int(five()), int(five())] == [5, 6, 7] and count(100)() == 100
        register("square"); register("needs_stream")
        square = lambda v: jax.ffi.ffi_call("square", jax.ShapeDtypeStruct(v.shape, v.dtype))(v)
        x = np.arange(40, dtype=np.float32)
        for _ in range(20):
            assert (jax.jit(square)(x) == x * x).all()
        assert fails(square, -x).startswith("ABORTED: "), fails(square, -x)
        said = fails(lambda: jax.ffi.ffi_call("needs_stream", (), has_side_effect=True)())
        assert "Stream_Get is not there" in said, said
        """,
        head,
    )


def test_what_cannot_be_registered(head: str) -> None:
    script(
        """
        import stablehlo_py as shlo
        def refused(name, function, **how):
            try:
                jax.ffi.register_ffi_target(name, function, platform="shlo", **how)
            except shlo.OptionError as error:
                return str(error)
            raise AssertionError("it was registered")
        handler = jax.ffi.pycapsule(library.scale)
        assert "answers the target" in refused("lapack_sgetrf_ffi", handler)
        assert "api_version=0" in refused("old", handler, api_version=0)
        assert "is a int" in refused("number", 5)
        assert "register a handler for 'execute'" in refused("stages", {"prepare": handler})
        assert "not known" in fails(lambda v: jax.ffi.ffi_call("unknown", v)(v), np.float32(1))
        """,
        head,
    )


@pytest.mark.parametrize("version", [(0, 1), (0, 6), (1, 0)])
def test_handlers_for_other_versions_of_the_interface(version: tuple[int, int]) -> None:
    @ffi_api.Handler
    def handler(frame: int) -> None:
        extension = ffi_api.MetadataExtension.from_address(ffi_api.Frame.from_address(frame).extensions)
        metadata = ffi_api.Metadata.from_address(extension.metadata)
        metadata.version.major, metadata.version.minor = version

    capsule = new_capsule(ctypes.cast(handler, ctypes.c_void_p).value or 0, b"handler")
    said = r"made for version {}\.{} of XLA's FFI(.|\n)*from 0\.2 to 0\.5".format(*version)
    with pytest.raises(OptionError, match=said):
        ffi._bind("cpu", "of_another_version", capsule)


def test_what_handlers_of_each_version_ask_for() -> None:
    """The structures of 0.2 to 0.5: their sizes tell them apart."""
    runtime = ffi_api.runtime()
    functions = dict(zip(ffi_api._FUNCTIONS, runtime._kept, strict=True))
    number, data = ctypes.c_int64(7), ctypes.c_int64(11)

    def ask(name: str, made: ctypes.Structure, size: int) -> int | None:
        made.struct_size = size
        return functions[name](ctypes.addressof(made))

    def handler(frame: int) -> None:
        context = ffi_api.Frame.from_address(frame).context
        where = {"context": context, "type_id": ctypes.addressof(number)}
        older = [ffi_api._OLDER[f"State_{which}", 40](**where) for which in ("Set", "Get")]
        older[0].state = ctypes.addressof(data)
        newer = ffi_api._STRUCTURES["State_Get"](**where, stage=ffi_api.INSTANTIATE)
        assert not ask("State_Set", older[0], 40)
        assert not ask("State_Get", older[1], 40) and not ask("State_Get", newer, 48)
        assert older[1].state == newer.state == ctypes.addressof(data)
        newer.stage = ffi_api.PREPARE
        error = ask("State_Get", newer, 48)
        asked = ffi_api._STRUCTURES["Error_GetDetails"](error=error, code=-1)
        assert not ask("Error_GetDetails", asked, 32) and b"no state" in ctypes.string_at(asked.message)
        assert asked.code == -1  # an older handler has no such field
        assert not ask("Error_GetDetails", asked, 36) and asked.code == 5
        extension = ffi_api._STRUCTURES["InvokeContext_FindExtension"](context=context, type=1, extension=1)
        options = ffi_api._STRUCTURES["CustomOptions_Get"](context=context)
        assert not ask("InvokeContext_FindExtension", extension, 40) and extension.extension is None
        assert not ask("CustomOptions_Get", options, 32)
        assert ffi_api.Attributes.from_address(options.attributes).size == 0
        seen.append(True)

    seen: list[bool] = []
    runtime.call(ffi_api.Handler(handler), ffi_api.Frame(), ffi_api.Context())
    assert seen


def test_capsules_when_others_declare_pythons_functions_as_they_like() -> None:
    handler = jax.ffi.pycapsule(ctypes.CDLL(None).free)  # declares PyCapsule_New of ctypes.pythonapi
    assert pointer_of_capsule(handler) == ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p).value
    made = new_capsule(8, name := b"made")
    assert (name_of_capsule(made), pointer_of_capsule(made)) == (name, 8)
