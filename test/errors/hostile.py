"""Modules that nobody writes: each has killed or hung a tool."""

from __future__ import annotations


def _main(body: str, arguments: str = "", result: str = "") -> str:
    return f"func.func @main({arguments}){f' -> {result}' if result else ''} {{\n{body}\n}}\n"


def nested_ifs(depth: int) -> str:
    """Conditionals inside each other."""
    lines = [f'%r{each} = "stablehlo.if"(%p) ({{' for each in range(depth)]
    lines.append("%y = stablehlo.add %x, %x : tensor<f32>")
    last = "%y"
    for each in reversed(range(depth)):
        lines.append(f'"stablehlo.return"({last}) : (tensor<f32>) -> () }}, {{')
        lines.append('"stablehlo.return"(%x) : (tensor<f32>) -> () }) : (tensor<i1>) -> tensor<f32>')
        last = f"%r{each}"
    lines.append(f"return {last} : tensor<f32>")
    return _main("\n".join(lines), "%p: tensor<i1>, %x: tensor<f32>", "tensor<f32>")


def calls_in_branches(count: int) -> str:
    """Functions with a conditional that calls the next one."""
    lines = []
    for each in range(count):
        name = f"private @f{each}" if each else "@main"
        lines.append(f"func.func {name}(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {{")
        lines.append('%0 = "stablehlo.if"(%p) ({')
        if each + 1 < count:
            lines.append(f"%1 = func.call @f{each + 1}(%p, %x) : (tensor<i1>, tensor<f32>) -> tensor<f32>")
        else:
            lines.append("%1 = stablehlo.add %x, %x : tensor<f32>")
        lines.append('"stablehlo.return"(%1) : (tensor<f32>) -> () }, {')
        lines.append('"stablehlo.return"(%x) : (tensor<f32>) -> () }) : (tensor<i1>) -> tensor<f32>')
        lines.append("return %0 : tensor<f32> }")
    return "\n".join(lines)


_ALIASES = "\n".join(["!t0 = tuple<f32>", *(f"!t{each} = tuple<!t{each - 1}>" for each in range(1, 50_000))])
_ALL_TO_ALL = (
    '%0 = "stablehlo.all_to_all"(%x) {split_dimension = 1 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, '
    "replica_groups = dense<0> : tensor<0x2xi64>} : (tensor<2x4xf32>) -> tensor<2x4xf32>\nreturn %0 : tensor<2x4xf32>"
)
_CONVOLUTION = (
    "%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 9223372036854775807, f]x[0, i, o]->[b, 0, f], "
    "window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
    "(tensor<1x4x2xf32>, tensor<1x2x3xf32>) -> tensor<1x4x3xf32>\nreturn %0 : tensor<1x4x3xf32>"
)
_IOTA = (
    "%0 = stablehlo.constant dense<4> : tensor<9223372036854775807xi64>\n"
    "%1 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<9223372036854775807xi64>) -> tensor<?xf32>\nreturn"
)

# Text, and a part of what is said about it.
HOSTILE = {
    "attributes nested 100,000 deep": (f"module attributes {{a = {'[' * 100_000}{']' * 100_000}}} {{}}", "nested"),
    "elements nested 20,000 deep": (
        f"module attributes {{a = dense<{'[' * 20_000}{']' * 20_000}> : tensor<1xi8>}} {{}}",
        "nested",
    ),
    "tuples nested 50,000 deep": (_main("return", f"%a: {'tuple<' * 50_000}{'>' * 50_000}"), "nested"),
    "function types nested 50,000 deep": (_main("return", f"%a: {'(' * 50_000}{') -> ()' * 50_000}"), "nested"),
    "dictionaries nested 50,000 deep": (
        f"module attributes {{a = {'{a = ' * 50_000}{'}' * 50_000}}} {{}}",
        "nested",
    ),
    "types nested 50,000 deep by aliases": (f"{_ALIASES}\n{_main('return', '%a: !t49999')}", "crashed (SIGSEGV)"),
    "20,000 modules in each other": ("module {\n" * 20_000 + "}" * 20_000, "<file>:1001:8"),
    "3,000 conditionals in each other": (nested_ifs(3000), "nested"),
    "201 conditionals in each other": (nested_ifs(201), "<file>:202:9"),
    "201 conditionals in each other by calls": (calls_in_branches(201), "once calls are inlined"),
    "an empty list of replica groups": (_main(_ALL_TO_ALL, "%x: tensor<2x4xf32>", "tensor<2x4xf32>"), "SIGFPE"),
    "a dimension number of 2^63 - 1": (
        _main(_CONVOLUTION, "%x: tensor<1x4x2xf32>, %w: tensor<1x2x3xf32>", "tensor<1x4x3xf32>"),
        "SIGABRT",
    ),
    "a shape of 2^63 - 1 dimensions": (_main(_IOTA), "reading its 189 bytes takes more than"),
}
