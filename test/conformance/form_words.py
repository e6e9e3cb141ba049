"""What programs are changed to, by form_cases.py: element types, types, encodings, attributes and names of attributes,
plausible ones and others."""

from stablehlo_py.conformance.cases import TYPES

QUANTIZED = tuple(
    f"!quant.uniform<{each}>"
    for each in (
        "i8:f32,0.5:3", "u8:f32,0.25:128", "i4:f32,1.0", "u4:f16,0.5:7", "i32:f32,0.5", "i16:bf16,2.0:-1",
        "i8<-127:127>:f32,0.5", "i8:f32:0,{0.5,2.0,0.25}", "i8:f32:1,{0.5:1,2.0:-3}", "i8:f64,1.0e-300",
        "i8:f32:{0:1},{{0.5},{2.0}}",
    )
)  # fmt: skip
ODD = (
    "tf32", "f80", "f128", "i3", "i128", "i1024", "ui1", "ui7", "ui128", "si32", "si1", "index", "complex<f16>",
    "complex<bf16>", "complex<i8>", "complex<f8E4M3FN>", "complex<f80>", "complex<index>", "!stablehlo.token",
    "vector<4xf32>", "!shape.shape", *QUANTIZED,
)  # fmt: skip
ELEMENTS = tuple(each for each in TYPES if each != "none")
# Types of values that are no tensors.
NO_TENSORS = (
    "f32", "i32", "index", "none", "!stablehlo.token", "tuple<>", "tuple<tensor<2xf32>>", "tuple<tuple<tensor<i1>>>",
    "tuple<tensor<f32>, !stablehlo.token>", "!stablehlo.future<tensor<2xf32>>", "!stablehlo.future<!stablehlo.token>",
    "memref<3xf32>", "memref<?xi8>", "vector<4xf32>", "complex<f32>", "() -> ()", "!shape.shape", "!shape.size",
    "!shape.witness", "!quant.uniform<i8:f32,0.5:3>",
)  # fmt: skip
ENCODINGS = (
    "#stablehlo.bounds<3>", "#stablehlo.bounds<?, 5>", "#stablehlo.bounds<7, ?>", "#stablehlo.bounds<?>",
    "#stablehlo.bounds<0>", "#stablehlo.type_extensions<bounds = [4]>", "3 : i64", '"x"', "{}", "dense<1> : tensor<i1>",
)  # fmt: skip
NUMBERS = ("0", "1", "-1", "2", "3", "5", "17", str(2**31), str(2**63 - 1), str(-(2**63)))
ATTRIBUTES = (
    "unit", "true", "false", "0 : i64", "-1 : i64",
    f"{2**63 - 1} : i64", "1 : i32", "0 : ui8", "1 : index", "1.5 : f32",
    "0x7FC00000 : f32", "-0.0 : f64", '""', '"x"', '"DEFAULT"', "[]", "[0]", "[[]]", "[1, 2, 3]", '["a"]', "{}",
    "{a = 1 : i64}", "f32", "tensor<3xf32>", "() -> ()", "@main", "@nowhere", "@a::@b", "array<i64>", "array<i64: 0>",
    "array<i64: 0, 1>", "array<i64: 1, 0>", "array<i64: 0, 0>", "array<i64: -1, 7, 2>", "array<i32: 1, 2>",
    "array<i1: true>", "array<i8>", "array<f32: 1.0>", "dense<0> : tensor<2xi64>", "dense<1> : tensor<1x2xi64>",
    "dense<> : tensor<0xi64>", "dense<> : tensor<0x2xi64>",
    "dense<-1> : tensor<3x2xi64>", "dense<true> : tensor<1xi1>",
    "dense<true> : tensor<2xi1>", "dense<1.0> : tensor<f32>", "dense<2> : tensor<2x2xi32>", "dense<3> : vector<2xi64>",
    "dense<0> : tensor<i64>", '#stablehlo.channel_handle<handle = 1, type = 0>',
    "#stablehlo.channel_handle<handle = -1, type = 7>", "#stablehlo<precision HIGHEST>",
    "[#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]", "#stablehlo<comparison_direction LT>",
    "#stablehlo<comparison_type TOTALORDER>", "#stablehlo<fft_type IRFFT>", "#stablehlo<transpose ADJOINT>",
    "#stablehlo<rng_algorithm PHILOX>", "#stablehlo<rng_distribution NORMAL>", "#chlo<comparison_direction GT>",
    "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>", "#stablehlo.bounds<3>",
    "#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>",
    "[#stablehlo.output_operand_alias<output_tuple_indices = [9], operand_index = 4, operand_tuple_indices = [1]>]",
    "#stablehlo.gather<offset_dims = [9], index_vector_dim = -3>", "affine_map<(a) -> (a)>", "opaque<\"x\", \"0x00\">",
    "dense_resource<nothing> : tensor<2xf32>", "sparse<[[0]], [1.0]> : tensor<3xf32>", "strided<[1]>",
)  # fmt: skip
# Attributes that stand beside those of an op, on arguments, and on the module.
BESIDE = ("mhlo.sharding", "mhlo.frontend_attributes", "mhlo.attributes", "mhlo.backend_config",
    "xla_shape", "hlo.site",
    "result_accuracy", "mhlo.layout_mode", "result_layouts", "operand_layouts", "hlo.slices", "sdy.sharding",
    "output_operand_aliases", "channel_handle", "is_host_transfer", "called_computations", "api_version",
    "composite_attributes", "use_global_device_ids", "precision_config", "algorithm", "op_sharding", "is_stable",
    "hlo.operand_orders", "hlo.inplace", "hlo.fusion", "indices_of_shape_operands", "has_side_effect", "k",
)  # fmt: skip
OF_ARGUMENTS = ("tf.aliasing_output", "jax.buffer_donor", "mhlo.sharding", "jax.global_constant", "sdy.sharding",
    "mhlo.layout_mode", "mhlo.parameter_replicated_at_leaf_buffers", "mhlo.donation", "hlo.process", "hlo.const_size",
)  # fmt: skip
OF_MODULES = ("mhlo.num_replicas", "mhlo.num_partitions", "mhlo.cross_program_prefetches", "mhlo.is_dynamic",
    "jax.uses_shape_polymorphism", "mhlo.spmd_parameters_shardings", "hlo.donations", "hlo.arena_bytes", "hlo.ports",
    "mhlo.input_output_alias", "mhlo.spmd_output_sharding", "mhlo.xla_entry_computation_parameter_layouts",
)  # fmt: skip
