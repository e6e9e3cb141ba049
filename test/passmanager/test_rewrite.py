"""The rewrite driver: replacement, requeueing, regions, erasure, bounds, and the switches for bisecting."""

import numpy as np
import pytest

from stablehlo_py.errors import InternalError, OptionError
from stablehlo_py.passmanager.rewrite import RuleSet, apply_rules, defining

T = "tensor<4xf32>"


def function(body, arguments=f"%x: {T}, %y: {T}, %p: i1", results=T):
    return f"func.func @main({arguments}) -> ({results}) {{\n{body}\n}}"


def unary(result, name, operand):
    return f'{result} = "hlo.{name}"({operand}) : ({T}) -> {T}'


def binary(result, name, lhs, rhs):
    return f'{result} = "hlo.{name}"({lhs}, {rhs}) : ({T}, {T}) -> {T}'


@pytest.fixture
def rules():
    rules = RuleSet("test")

    @rules.pair("hlo.negate", "hlo.negate", where="any")
    def negate_negate(op, inner, rewriter):
        "-(-x) -> x"
        return inner.operands[0]

    @rules.rule("hlo.subtract", where="always")
    def subtract_to_add(op, rewriter):
        """x - y -> x + -y

        More than one line.
        """
        x, y = op.operands
        return rewriter.like("add", x, rewriter.like("negate", y))

    @rules.rule("scf.if")
    def known_branch(op, rewriter):
        "if true -> its branch"
        condition = defining(op.operands[0], "arith.constant")
        if condition is None:
            return None
        return rewriter.inline_region(op.regions[0 if condition.attributes["value"].value else 1], [])

    return rules


def test_rules_carry_their_documentation(rules):
    subtract = next(rule for rule in rules if rule.name == "subtract-to-add")
    assert (subtract.doc, subtract.where, subtract.roots) == ("x - y -> x + -y", "always", ("hlo.subtract",))
    negate = next(rule for rule in rules if rule.name == "negate-negate")
    assert (negate.doc, negate.where, negate.roots) == ("-(-x) -> x", "any", ("hlo.negate",))
    assert negate.needs == {"hlo.negate"}


def test_rules_are_tried_where_their_operands_may_match(parse):
    rules, tried = RuleSet("test"), []

    def note(name, **hints):
        @rules.rule("hlo.add", name=name, **hints)
        def rule(op, rewriter):
            tried.append(name)

    note("any", needs="hlo.negate")
    note("second", needs="hlo.negate", number=1)
    note("all", only=("hlo.negate", "hlo.abs"))
    note("nested", nested=True)
    negated = unary("%0", "negate", "%x")
    for operands, expected in {
        "%2, %y": ["nested"],
        "%0, %y": ["any"],
        "%y, %0": ["any", "second"],
        "%0, %0": ["any", "second", "all"],
    }.items():
        tried.clear()
        sum_ = binary("%2", "add", "%x", "%y")
        added = binary("%1", "add", *operands.split(", "))
        apply_rules(parse(function(f"{negated}\n{sum_}\n{added}\nreturn %1 : {T}")), rules)
        assert tried == expected


@pytest.mark.parametrize("number", [1.0, 2.0])
def test_rules_are_tried_on_their_constants(parse, number):
    rules, tried = RuleSet("test"), []

    @rules.rule("hlo.add", needs="hlo.broadcast", number=1, constants=[1])
    def one(op, rewriter):
        tried.append(op.name)

    scalar = f'%0 = "hlo.constant"() {{value = dense<{number}> : tensor<f32>}} : () -> tensor<f32>'
    ones = f'%1 = "hlo.broadcast"(%0) {{dimensions = array<i64>}} : (tensor<f32>) -> {T}'
    apply_rules(parse(function("\n".join([scalar, ones, binary("%2", "add", "%x", "%1"), f"return %2 : {T}"]))), rules)
    assert bool(tried) == (number == 1)


def test_new_ops_and_users_are_visited_again(parse, rules):
    # x - -y: the subtraction makes -(-y), which another rule removes.
    module = parse(
        function("\n".join([unary("%0", "negate", "%y"), binary("%1", "subtract", "%x", "%0"), f"return %1 : {T}"]))
    )
    statistics = apply_rules(module, rules)
    assert statistics.rewrites == {"subtract-to-add": 1, "negate-negate": 1}
    assert statistics.changed and statistics.total == 2
    body = str(module)
    assert "negate" not in body and '"hlo.add"(%arg0, %arg1)' in body
    module.operation.verify()


def test_new_ops_carry_the_location_of_the_replaced_one(parse, rules):
    line = binary("%0", "subtract", "%x", "%y") + ' loc("model.py":7:3)'
    module = parse(function(f"{line}\nreturn %0 : {T}"))
    apply_rules(module, rules)
    ops = list(module.body.operations[0].regions[0].blocks[0])[:-1]
    assert [view.operation.name for view in ops] == ["hlo.negate", "hlo.add"]
    assert all("model.py" in str(op.location) for op in ops)


def test_nested_regions_are_rewritten_and_erased(parse, rules):
    module = parse(
        function(
            f"""
            %0 = scf.if %p -> {T} {{
              {binary("%1", "subtract", "%x", "%y")}
              scf.yield %1 : {T}
            }} else {{
              scf.yield %x : {T}
            }}
            {unary("%dead", "tanh", "%0")}
            %unused = scf.while (%i = %0) : ({T}) -> {T} {{
              scf.condition(%p) %i : {T}
            }} do {{
            ^bb0(%i: {T}):
              {binary("%3", "subtract", "%i", "%dead")}
              scf.yield %3 : {T}
            }}
            return %0 : {T}"""
        )
    )
    statistics = apply_rules(module, rules)
    body = str(module)
    assert "scf.while" not in body and "tanh" not in body and "subtract" not in body
    assert statistics.rewrites == {"subtract-to-add": 1}, "the dead loop goes before its body is rewritten"
    module.operation.verify()


def test_a_known_branch_is_moved_out(parse, rules):
    module = parse(
        function(
            f"""
            %true = arith.constant true
            %0 = scf.if %true -> {T} {{
              {binary("%1", "subtract", "%x", "%y")}
              scf.yield %1 : {T}
            }} else {{
              {binary("%2", "multiply", "%x", "%y")}
              scf.yield %2 : {T}
            }}
            return %0 : {T}"""
        )
    )
    assert apply_rules(module, rules).rewrites == {"known-branch": 1, "subtract-to-add": 1}
    assert "scf" not in str(module) and "multiply" not in str(module) and "hlo.add" in str(module)
    module.operation.verify()


def test_effects_are_not_erased(parse, rules):
    module = parse(function(f"stablehlo.custom_call @f(%x) {{has_side_effect = true}} : ({T}) -> ()\nreturn %x : {T}"))
    assert apply_rules(module, rules).erased == 0
    assert "custom_call" in str(module)


def test_rules_can_be_disabled_and_unknown_names_are_refused(parse, rules):
    module = parse(function(f"{binary('%0', 'subtract', '%x', '%y')}\nreturn %0 : {T}"))
    assert not apply_rules(module, rules, disable=("subtract-to-add",)).changed
    with pytest.raises(OptionError, match="did you mean 'subtract-to-add'"):
        apply_rules(module, rules, disable=("subtract-to-ad",))


def test_stop_after_ends_the_run(parse, rules):
    lines = [binary(f"%{i + 1}", "subtract", f"%{i}" if i else "%x", "%y") for i in range(5)]
    for stop in (0, 2, 9):
        module = parse(function("\n".join([*lines, f"return %5 : {T}"])))
        apply_rules(module, rules, stop_after=stop)
        assert str(module).count("hlo.add") == min(stop, 5)


def test_rules_that_undo_each_other_are_reported():
    from stablehlo_py.dialect.context import make_context
    from stablehlo_py.mlir import ir

    rules = RuleSet("circle")

    @rules.rule("hlo.add")
    def swap(op, rewriter):
        "x + y -> y + x"
        x, y = op.operands
        return rewriter.like("add", y, x)

    with make_context() as context:
        module = ir.Module.parse(function(f"{binary('%0', 'add', '%x', '%y')}\nreturn %0 : {T}"), context)
        with pytest.raises(InternalError, match=r"do not come to an end.*swap"):
            apply_rules(module, rules)


def wrong_type(op, rewriter):
    return rewriter.reshape(op.operands[0], [2, 2])


def wrong_number(op, rewriter):
    return []


@pytest.mark.parametrize(
    ("function_", "reason"), [(wrong_type, "replaces a"), (wrong_number, "0 values for 1 results")]
)
def test_a_replacement_of_another_type_or_number_is_refused(parse, function_, reason):
    rules = RuleSet("wrong")
    rules.rule("hlo.add")(function_)
    module = parse(function(f"{binary('%0', 'add', '%x', '%y')}\nreturn %0 : {T}"))
    with pytest.raises(InternalError, match=reason):
        apply_rules(module, rules)


def test_in_place_changes(parse):
    rules = RuleSet("in-place")

    @rules.rule("hlo.add")
    def first_twice(op, rewriter):
        if op.operands[0] == op.operands[1]:
            return None
        rewriter.set_operand(op, 1, op.operands[0])
        return True

    lines = [unary("%0", "tanh", "%y"), binary("%1", "add", "%x", "%0"), f"return %1 : {T}"]
    module = parse(function("\n".join(lines)))
    statistics = apply_rules(module, rules)
    assert statistics.rewrites == {"first-twice": 1} and statistics.erased == 1
    assert "tanh" not in str(module)


def test_several_results(parse):
    rules = RuleSet("several")

    @rules.rule("hlo.rng_bit_generator")
    def same(op, rewriter):
        return [op.operands[0], rewriter.constant(np.zeros(3, np.uint32), op.results[1].type.element_type)]

    body = """%0:2 = "hlo.rng_bit_generator"(%s) {algorithm = "DEFAULT"}
      : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)
    return %0#0, %0#1 : tensor<2xui64>, tensor<3xui32>"""
    module = parse(function(body, "%s: tensor<2xui64>", "tensor<2xui64>, tensor<3xui32>"))
    apply_rules(module, rules)
    assert "rng" not in str(module) and "return %arg0, %0" in str(module)


def test_sets_add_and_names_are_unique(rules):
    with pytest.raises(ValueError, match="already has a rule"):
        rules + rules
    other = RuleSet("other")
    other.rule("hlo.abs")(lambda op, rewriter: None)
    assert len(list(rules + other)) == 4
