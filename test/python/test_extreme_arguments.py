"""Values of arguments that are sizes, paddings and strides: none ends the process or gives a wrong result."""

import numpy as np
import pytest

import stablehlo_py
from stablehlo_py import Options
from stablehlo_py.errors import ArgumentError, LoadError, ResourceError, UnsupportedError

ONCE = Options(cache_dir=None, dynamic="once", threads=1)
LOW, HIGH = -(2**63), 2**63 - 1

PAD = """
func.func @main(%x: tensor<?xf32>, %v: tensor<f32>, %l: tensor<1xi64>, %h: tensor<1xi64>, %i: tensor<1xi64>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_pad %x, %v, %l, %h, %i : (tensor<?xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32> loc("model.py":7:3)
  return %0 : tensor<?xf32>
}
"""  # noqa: E501
IOTA = """
func.func @main(%x: tensor<?xf32>, %n: tensor<1x$T>) -> tensor<?xi32> {
  %m = stablehlo.convert %n : (tensor<1x$T>) -> tensor<1xi64>
  %0 = stablehlo.dynamic_iota %m, dim = 0 : (tensor<1xi64>) -> tensor<?xi32> loc("model.py":7:3)
  return %0 : tensor<?xi32>
}
"""
CUBE = """
func.func @main(%x: tensor<?xi8>) -> tensor<?xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi8>) -> tensor<i32>
  %m = stablehlo.convert %n : (tensor<i32>) -> tensor<i64>
  %a = stablehlo.multiply %m, %m : tensor<i64>
  %b = stablehlo.multiply %a, %m : tensor<i64>
  %s = stablehlo.reshape %b : (tensor<i64>) -> tensor<1xi64>
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi64>) -> tensor<?xf32> loc("model.py":7:3)
  return %0 : tensor<?xf32>
}
"""
SLICE = """
func.func @main(%x: tensor<?xf32>, %l: tensor<1xi64>, %h: tensor<1xi64>, %s: tensor<1xi64>) -> tensor<?xf32> {
  %0 = stablehlo.real_dynamic_slice %x, %l, %h, %s : (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""  # noqa: E501
BROADCAST = """
func.func @main(%x: tensor<?xf32>, %n: tensor<2xi64>) -> tensor<?x?xf32> {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [1] : (tensor<?xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
"""
QUOTIENT = """
func.func @main(%x: tensor<?xf32>, %n: tensor<i64>) -> tensor<?xi32> {
  %c = stablehlo.constant dense<12> : tensor<i64>
  %q = stablehlo.divide %c, %n : tensor<i64>
  %s = stablehlo.reshape %q : (tensor<i64>) -> tensor<1xi64>
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi64>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}
"""


def padded(low: int, high: int, interior: int) -> np.ndarray:
    executable = stablehlo_py.compile(PAD, options=ONCE)
    edges = [np.array([number]) for number in (low, high, interior)]
    return executable(np.ones(3, np.float32), np.float32(0), *edges)[0]


def test_negative_interior_padding_of_a_call_is_refused():
    """It was a division by zero in native code."""
    assert padded(1, 0, 1).tolist() == [0, 1, 0, 1, 0, 1]
    for interior in (-1, LOW):
        with pytest.raises(ArgumentError, match=f"{interior} is given, and must be at least 0") as error:
            padded(0, 0, interior)
        assert (error.value.op, error.value.location) == ("stablehlo.dynamic_pad", "model.py:7:3")


def test_edges_of_a_call_that_cancel_each_other_are_padding():
    """Indices wrapped around, and took elements of the operand."""
    assert padded(LOW + 9, HIGH, 0).tolist() == [0] * 11
    assert padded(HIGH - 9, 12 - HIGH, 0).tolist() == [0] * 6


@pytest.mark.parametrize("edge", [0, 1])
def test_edges_of_a_call_at_their_extremes(edge):
    for value, error in ((LOW, ArgumentError), (HIGH, ResourceError)):
        with pytest.raises(error, match="dynamic_pad"):
            padded(*[value if number == edge else 0 for number in range(3)])


@pytest.mark.parametrize("type_", ["i32", "i64", "ui64"])
def test_dimensions_of_a_call_at_their_extremes(type_):
    executable = stablehlo_py.compile(IOTA.replace("$T", type_), options=ONCE)
    dtype = np.dtype(type_.replace("ui", "uint") if type_[0] == "u" else type_.replace("i", "int"))
    assert executable(np.ones(1, np.float32), np.array([3], dtype))[0].tolist() == [0, 1, 2]
    for value in (LOW, -1, np.iinfo(dtype).min):
        if np.iinfo(dtype).min <= value < 0:
            with pytest.raises(ArgumentError, match=f"element 0 of argument 1 is {value}, and must be at least 0") as e:
                executable(np.ones(1, np.float32), np.array([value], dtype))
            assert (e.value.op, e.value.location) == ("stablehlo.dynamic_iota", "model.py:7:3")
    if type_ != "i32":
        with pytest.raises(ResourceError, match=f"its result has {np.iinfo(dtype).max} elements"):
            executable(np.ones(1, np.float32), np.array([np.iinfo(dtype).max], dtype))


def test_a_product_of_sizes_that_is_not_in_i64_is_seen():
    """2^22 cubed wraps around to 0."""
    executable = stablehlo_py.compile(CUBE, options=ONCE)
    assert executable(np.ones(3, np.int8))[0].shape == (27,)
    with pytest.raises(ResourceError, match=f"its result has {2**66} elements") as error:
        executable(np.ones(2**22, np.int8))
    assert (error.value.op, error.value.location) == ("stablehlo.dynamic_iota", "model.py:7:3")


def test_a_stride_of_zero_is_refused():
    executable = stablehlo_py.compile(SLICE, options=ONCE)

    def call(*bounds: int) -> np.ndarray:
        return executable(np.arange(5, dtype=np.float32), *[np.array([bound]) for bound in bounds])[0]

    assert call(0, 5, 2).tolist() == [0, 2, 4]
    assert call(1, 5, HIGH).tolist() == [1]
    for bounds in ((0, 5, 0), (0, 5, -1), (0, 5, LOW), (-1, 5, 1), (LOW, 5, 1), (0, 6, 1), (0, HIGH, 1), (4, 3, 1)):
        with pytest.raises(ArgumentError, match="real_dynamic_slice"):
            call(*bounds)


def test_a_constant_stride_of_zero_is_refused():
    sizes = "%a = stablehlo.constant dense<0> : tensor<1xi64>\n%b = stablehlo.constant dense<5> : tensor<1xi64>\n"
    op = "%0 = stablehlo.real_dynamic_slice %x, %a, %b, %a : (tensor<$xf32>"
    op += ", tensor<1xi64>" * 3 + ")"
    for size, result, error in (("5", "5", LoadError), ("5", "?", LoadError), ("?", "?", UnsupportedError)):
        text = f"func.func @main(%x: tensor<{size}xf32>) -> tensor<{result}xf32> {{\n{sizes}{op.replace('$', size)}"
        text += f" -> tensor<{result}xf32>\nreturn %0 : tensor<{result}xf32>\n}}"
        with pytest.raises(error):
            stablehlo_py.compile(text, options=ONCE)


def test_a_dimension_that_does_not_broadcast_is_refused():
    executable = stablehlo_py.compile(BROADCAST, options=ONCE)
    assert executable(np.ones(3, np.float32), np.array([2, 3]))[0].shape == (2, 3)
    for sizes in ([2, 4], [2, 1], [2, 0], [2, -1], [2, HIGH], [-1, 3], [LOW, 3]):
        with pytest.raises(ArgumentError, match="dynamic_broadcast_in_dim"):
            executable(np.ones(3, np.float32), np.array(sizes))


def test_an_operand_that_does_not_broadcast_to_a_known_size_is_refused():
    text = BROADCAST.replace("%n: tensor<2xi64>", "%unused: tensor<f32>").replace("?x?xf32", "3x4xf32")
    text = text.replace("  %0 =", "  %n = stablehlo.constant dense<[3, 4]> : tensor<2xi64>\n  %0 =")
    executable = stablehlo_py.compile(text, options=Options(cache_dir=None))
    for size in (1, 4):
        assert executable(np.ones(size, np.float32), np.float32(0))[0].shape == (3, 4)
    with pytest.raises(ArgumentError, match="is 2, and must be 4"):
        executable(np.ones(2, np.float32), np.float32(0))


def test_a_size_that_is_a_quotient_by_zero_is_refused():
    executable = stablehlo_py.compile(QUOTIENT, options=ONCE)
    assert executable(np.ones(1, np.float32), np.int64(5))[0].shape == (2,)
    with pytest.raises(ArgumentError, match="division by zero"):
        executable(np.ones(1, np.float32), np.int64(0))
    with pytest.raises(ArgumentError, match="a dimension of its result is -12"):
        executable(np.ones(1, np.float32), np.int64(-1))


def test_an_artifact_refuses_the_same(tmp_path):
    stablehlo_py.compile(PAD, options=ONCE).save(tmp_path / "pad.shloexe")
    loaded = stablehlo_py.load_executable(tmp_path / "pad.shloexe")
    edges = [np.array([number]) for number in (0, 0, -1)]
    with pytest.raises(ArgumentError, match="-1 is given, and must be at least 0"):
        loaded(np.ones(3, np.float32), np.float32(0), *edges)


@pytest.mark.parametrize("sizes", ["?x5", "?x?"])
def test_an_inverse_transform_of_open_sizes(sizes):
    """The last size of the result was not known to the call: an IndexError."""
    result = sizes.replace("5", "8")
    executable = stablehlo_py.compile(
        f"""
        func.func @main(%x: tensor<{sizes}xcomplex<f32>>) -> tensor<{result}xf32> {{
          %0 = stablehlo.fft %x, type = IRFFT, length = [8] : (tensor<{sizes}xcomplex<f32>>) -> tensor<{result}xf32>
          return %0 : tensor<{result}xf32>
        }}""",
        options=ONCE,
    )
    x = np.fft.rfft(np.arange(24).reshape(3, 8)).astype(np.complex64)
    np.testing.assert_allclose(executable(x)[0], np.arange(24).reshape(3, 8), atol=1e-5)
    with pytest.raises(ArgumentError):
        executable(np.ones((3, 4), np.complex64))


def test_a_reshape_of_a_bounded_dimension_is_no_error_of_ours():
    text = """
      func.func @main(%x: tensor<?x4xf32, #stablehlo.bounds<8, ?>>) -> tensor<?xf32, #stablehlo.bounds<32>> {
        %0 = stablehlo.reshape %x : (tensor<?x4xf32, #stablehlo.bounds<8, ?>>) -> tensor<?xf32, #stablehlo.bounds<32>>
        return %0 : tensor<?xf32, #stablehlo.bounds<32>>
      }"""
    with pytest.raises(UnsupportedError, match=r"stablehlo\.reshape"):
        stablehlo_py.compile(text, options=Options(cache_dir=None))(np.ones((3, 4), np.float32))


@pytest.mark.parametrize("shape", ["0x9223372036854775807", "9223372036854775807", "4294967296x4294967296x0"])
def test_a_tensor_that_no_memory_holds_is_refused(shape):
    text = f"func.func @main() -> tensor<{shape}xf32> {{\n"
    text += f'%0 = stablehlo.iota dim = 0 : tensor<{shape}xf32> loc("model.py":7:3)\n'
    with pytest.raises(ResourceError, match="more elements than any memory holds") as error:
        stablehlo_py.compile(f"{text}return %0 : tensor<{shape}xf32>\n}}", options=Options(cache_dir=None))
    assert (error.value.op, error.value.location) == ("stablehlo.iota", "model.py:7:3")


@pytest.mark.parametrize(("dim", "batch"), [(HIGH, 0), (5, 0), (-1, 0), (0, 1), (0, HIGH), (0, -1)])
def test_the_dimension_of_an_index_select_is_checked(dim, batch):
    """A loop counted up to it."""
    text = f"""
      func.func @main(%x: tensor<5x4xf32>, %i: tensor<2xi32>) -> tensor<2x4xf32> {{
        %0 = "stablehlo.torch_index_select"(%x, %i) {{dim = {dim} : i64, batch_dims = {batch} : i64}}
          : (tensor<5x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
        return %0 : tensor<2x4xf32>
      }}"""
    with pytest.raises(UnsupportedError, match=r"torch_index_select': has (dim|batch_dims) = "):
        stablehlo_py.compile(text, options=Options(cache_dir=None))


def test_the_result_of_an_index_select_is_compared_with_its_operands():
    text = """
      func.func @main(%x: tensor<5x4xf32>, %i: tensor<2x3xi32>) -> tensor<5x2x3xf32> {
        %0 = "stablehlo.torch_index_select"(%x, %i) {dim = 1 : i64, batch_dims = 1 : i64}
          : (tensor<5x4xf32>, tensor<2x3xi32>) -> tensor<5x2x3xf32>
        return %0 : tensor<5x2x3xf32>
      }"""
    with pytest.raises(UnsupportedError, match=r"gives no \(5, 2, 3\)"):
        stablehlo_py.compile(text, options=Options(cache_dir=None))


@pytest.mark.parametrize("high", [-1, -2])
def test_results_declared_open_have_the_sizes_that_static_ops_give(high):
    """A rule found another type than the one that was declared: an internal error."""
    text = f"""
      func.func @main(%x: tensor<3xf32>, %c: tensor<f32>) -> tensor<?xf32> {{
        %0 = stablehlo.pad %x, %c, low = [-1], high = [{high}], interior = [0]
          : (tensor<3xf32>, tensor<f32>) -> tensor<?xf32>
        return %0 : tensor<?xf32>
      }}"""
    executable = stablehlo_py.compile(text, options=Options(cache_dir=None))
    (result,) = executable(np.arange(3, dtype=np.float32), np.float32(7))
    assert result.tolist() == [1.0][: 2 + high]


@pytest.mark.parametrize("groups", [(4, 1), (1, 2)])
def test_groups_of_a_convolution_divide_open_features(groups):
    """A kernel met sizes that nothing had said to be multiples: an internal error."""
    features, batches = groups
    inputs, kernel = "tensor<?x6x4xf32>", f"tensor<3x{4 // features}x?xf32>"
    text = f"""
      func.func @main(%x: {inputs}, %k: {kernel}) -> tensor<?x6x?xf32> {{
        %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{pad = [[1, 1]]}}
          {{batch_group_count = {batches} : i64, feature_group_count = {features} : i64}}
          : ({inputs}, {kernel}) -> tensor<?x6x?xf32>
        return %0 : tensor<?x6x?xf32>
      }}"""
    executable = stablehlo_py.compile(text, options=Options(cache_dir=None))
    (result,) = executable(np.ones((4, 6, 4), np.float32), np.ones((3, 4 // features, 8), np.float32))
    np.testing.assert_array_equal(result[:, 2], np.full((4 // batches, 8), 12.0 / features))
    with pytest.raises(ArgumentError, match=f"is 5, and must be a multiple of {features * batches}"):
        executable(np.ones((4, 6, 4), np.float32), np.ones((3, 4 // features, 5), np.float32))


@pytest.mark.parametrize("length", [-(2**31), 2**31 - 1])
def test_a_transform_of_impossible_length_is_refused(length):
    """A negative size was an internal error; the tables of a long prime took all memory."""
    text = f"""
      func.func @main(%x: tensor<?x?xcomplex<f32>>) -> tensor<?x?xf32> {{
        %0 = stablehlo.fft %x, type = IRFFT, length = [{length}] : (tensor<?x?xcomplex<f32>>) -> tensor<?x?xf32>
        return %0 : tensor<?x?xf32>
      }}"""
    with pytest.raises(ArgumentError, match=r"stablehlo\.fft"):
        stablehlo_py.compile(text, options=Options(cache_dir=None))(np.ones((1, 2), np.complex64))


@pytest.mark.parametrize("kind", ["FFT", "RFFT"])
def test_a_transform_whose_tables_are_too_large_is_refused(kind):
    n = 2**31 - 1  # a prime
    types = {
        "FFT": f"tensor<{n}xcomplex<f32>>) -> tensor<{n}xcomplex<f32>>",
        "RFFT": f"tensor<{n}xf32>) -> tensor<{n // 2 + 1}xcomplex<f32>>",
    }[kind]
    text = f"""
      func.func @main(%x: {types} {{
        %0 = stablehlo.fft %x, type = {kind}, length = [{n}] : ({types}
        return %0 : {types.partition("-> ")[2]}
      }}"""
    with pytest.raises(UnsupportedError, match="needs a table of"):
        stablehlo_py.compile(text, options=Options(cache_dir=None))


@pytest.mark.parametrize("open_size", [False, True])
def test_a_top_k_of_the_smallest_integer_is_refused(open_size):
    """MLIR writes a size that is not known as -2^63: its verifier took k for one, and the program sorted memory that
    was not its own."""
    k = -(2**63)
    size = "?" if open_size else "5"
    types = f"tensor<3x{size}xf32>, tensor<3x{size}xi32>"
    text = f"""
      func.func @main(%x: tensor<3x17xf32>) -> ({types}) {{
        %0, %1 = chlo.top_k(%x, k = {k}) : tensor<3x17xf32> -> ({types})
        return %0, %1 : {types}
      }}"""
    with pytest.raises(LoadError if open_size else UnsupportedError, match=r"chlo\.top_k"):
        stablehlo_py.compile(text, options=Options(cache_dir=None))


def test_a_transform_of_another_length_is_refused():
    """The rest of the dimension was ignored."""
    text = """
      func.func @main(%x: tensor<3x16xcomplex<f32>>) -> tensor<3x16xcomplex<f32>> {
        %0 = stablehlo.fft %x, type = FFT, length = [8] : (tensor<3x16xcomplex<f32>>) -> tensor<3x16xcomplex<f32>>
        return %0 : tensor<3x16xcomplex<f32>>
      }"""
    with pytest.raises(UnsupportedError, match=r"transforms dimensions of sizes \[16\]"):
        stablehlo_py.compile(text, options=Options(cache_dir=None))


@pytest.mark.parametrize("size", ["5", "?"])
@pytest.mark.parametrize("type_", ["ui8", "ui32", "ui64", "i8"])
def test_indices_of_all_types_are_clamped(size, type_):
    text = f"""
      func.func @main(%x: tensor<{size}xf32>, %i: tensor<{type_}>) -> tensor<1xf32> {{
        %0 = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<{size}xf32>, tensor<{type_}>) -> tensor<1xf32>
        return %0 : tensor<1xf32>
      }}"""
    executable = stablehlo_py.compile(text, options=Options(cache_dir=None, threads=1))
    dtype = np.dtype(type_.replace("ui", "uint") if type_[0] == "u" else type_.replace("i", "int"))
    for index in (np.iinfo(dtype).min, 0, 3, 7, np.iinfo(dtype).max):
        (result,) = executable(np.arange(5, dtype=np.float32), np.array(index, dtype))
        assert result.tolist() == [min(max(index, 0), 4)]
