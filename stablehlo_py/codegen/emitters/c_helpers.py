"""Functions that generated C calls: what an operation of the kernel language takes more than an expression for. A file
gets those that it names, and what these name in turn."""

from __future__ import annotations

import re

# Two roundings where a processor has no fused instruction: fmaf would be a function of a library there, and slow.
_FUSED = """#if defined(FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define shlo_muladd_{name}(a, b, c) {function}(a, b, c)
#else
#define shlo_muladd_{name}(a, b, c) ((a) * (b) + (c))
#endif"""

_COPIES = """static inline {type} shlo_load_{name}(const char *p) {{
  {type} a;
  memcpy(&a, p, sizeof a);
  return a;
}}"""
_STORES = """static inline void shlo_store_{name}(char *p, {type} a) {{ memcpy(p, &a, sizeof a); }}"""
_BITS = """static inline {to} {function}({source} a) {{
  {to} b;
  memcpy(&b, &a, sizeof b);
  return b;
}}"""
# NaN wins, and -0 is below +0: of equal numbers the bits of a zero decide.
_EXTREME = """static inline {type} shlo_{kind}_{name}({type} a, {type} b) {{
  if (a {sign} b || a != a) return a;
  return a == b ? {of}({bits}(a) {combine} {bits}(b)) : b;
}}"""
# Where the number is outside, the kernel language says nothing, and C that anything may happen: the nearest inside.
_TO_INTEGER = """static inline {to} shlo_{source}_to_{name}({type} a) {{
  a = a > {low} ? a : {low};
  a = a < {high} ? a : {high};
  return ({to})a;
}}"""
_CHECKED = {
    "sadd": """static inline _Bool shlo_sadd_overflows(int64_t a, int64_t b) {
  return b >= 0 ? a > INT64_MAX - b : a < INT64_MIN - b;
}""",
    "ssub": """static inline _Bool shlo_ssub_overflows(int64_t a, int64_t b) {
  return b >= 0 ? a < INT64_MIN + b : a > INT64_MAX + b;
}""",
    "smul": """static inline _Bool shlo_smul_overflows(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == -1) return b == INT64_MIN;
  if (b == -1) return a == INT64_MIN;
  return (a > 0) == (b > 0) ? (a > 0 ? a > INT64_MAX / b : a < INT64_MAX / b)
                            : (a > 0 ? b < INT64_MIN / a : a < INT64_MIN / b);
}""",
}

_TYPES = {"u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "i64": "int64_t", "f32": "float", "f64": "double"}
_TYPES["pointer"] = "char *"

_F16 = {
    # Exponent and fraction move into place; multiplication by a power of two moves the bias, denormal numbers too.
    "shlo_f16_to_f32": """static inline float shlo_f16_to_f32(uint16_t a) {
  const uint32_t sign = (uint32_t)(a & 0x8000) << 16, magnitude = (uint32_t)(a & 0x7fff) << 13;
  const float number = shlo_f32(magnitude) * 0x1p112f;
  return shlo_f32(sign | (magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : shlo_f32_bits(number)));
}""",
    # In x + c, c a power of two, the addition rounds x to the bits that remain.
    "shlo_f32_to_f16": """static inline uint16_t shlo_f32_to_f16(float a) {
  const uint32_t bits = shlo_f32_bits(a), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const uint32_t odd = magnitude >> 13 & 1u, normal = (magnitude - 0x38000000u + 0xfffu + odd) >> 13;
  const uint32_t small = shlo_f32_bits(shlo_f32(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t large = magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x3ffu) : 0x7c00u;
  return (uint16_t)(sign | (magnitude >= 0x477ff000u ? large : magnitude < 0x38800000u ? small : normal));
}""",
    # Rounded to odd on the way, so that rounding again is as rounding once.
    "shlo_f64_to_f16": """static inline uint16_t shlo_f64_to_f16(double a) {
  const float nearest = (float)a;
  uint32_t bits = shlo_f32_bits(nearest);
  if (a == a && (double)nearest != a && !(bits & 1u))
    bits = ((double)nearest > a) == (a > 0) ? bits - 1u : bits + 1u;
  return shlo_f32_to_f16(shlo_f32(bits));
}""",
}

_COUNTS = {
    "shlo_popcount": """static inline int shlo_popcount(uint64_t a) {
  a -= a >> 1 & UINT64_C(0x5555555555555555);
  a = (a & UINT64_C(0x3333333333333333)) + (a >> 2 & UINT64_C(0x3333333333333333));
  a = (a + (a >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
  return (int)(a * UINT64_C(0x0101010101010101) >> 56);
}""",
    "shlo_leading_zeros": """static inline int shlo_leading_zeros(uint64_t a, int width) {
  int count = width;
  for (; a; a >>= 1) count--;
  return count;
}""",
    "shlo_reversed": """static inline uint64_t shlo_reversed(uint64_t a, int width) {
  uint64_t b = 0;
  for (int i = 0; i < width; i++, a >>= 1) b = b << 1 | (a & 1u);
  return b;
}""",
}

_ENDS = """static inline _Bool shlo_is_ended(void *block) {
  shlo_interrupt *interrupt = block;
  return interrupt && *(volatile int32_t *)&interrupt->asked && interrupt->answer(interrupt);
}"""


def _all() -> dict[str, str]:
    helpers = {
        "shlo_muladd_f32": _FUSED.format(name="f32", function="fmaf"),
        "shlo_muladd_f64": _FUSED.format(name="f64", function="fma").replace("FP_FAST_FMAF", "FP_FAST_FMA"),
    }
    for function, source, to in (
        ("shlo_f32", "uint32_t", "float"),
        ("shlo_f32_bits", "float", "uint32_t"),
        ("shlo_f64", "int64_t", "double"),
        ("shlo_f64_bits", "double", "int64_t"),
    ):
        helpers[function] = _BITS.format(function=function, source=source, to=to)
    for name, type_ in _TYPES.items():
        helpers[f"shlo_load_{name}"] = _COPIES.format(name=name, type=type_)
        helpers[f"shlo_store_{name}"] = _STORES.format(name=name, type=type_)
    for name, type_ in (("f32", "float"), ("f64", "double")):
        for kind, sign, combine in (("maximum", ">", "&"), ("minimum", "<", "|")):
            values = {"of": f"shlo_{name}", "bits": f"shlo_{name}_bits", "combine": combine}
            helpers[f"shlo_{kind}_{name}"] = _EXTREME.format(type=type_, name=name, kind=kind, sign=sign, **values)
    for source, type_ in (("f32", "float"), ("f64", "double")):
        for bits in (32, 64):
            for signed in (True, False):
                low, end = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
                digits = 24 if source == "f32" else 53
                high = end - max(1.0, end / 2.0**digits)
                suffix = "f" if source == "f32" else ""
                name = f"{'i' if signed else 'u'}{bits}"
                to = f"{'' if signed else 'u'}int{bits}_t"
                helpers[f"shlo_{source}_to_{name}"] = _TO_INTEGER.format(
                    to=to, source=source, name=name, type=type_, low=f"{low!r}{suffix}", high=f"{high!r}{suffix}"
                )
    helpers |= {f"shlo_{name}_overflows": text for name, text in _CHECKED.items()}
    return {**helpers, **_F16, **_COUNTS, "shlo_is_ended": _ENDS}


HELPERS = _all()
_CALLED = re.compile(r"\bshlo_\w+\b")


def helpers_of(text: str) -> list[str]:
    """The texts of the functions that a text names, and of what they name, in order."""
    wanted: set[str] = set()
    found = [name for name in _CALLED.findall(text) if name in HELPERS]
    while found:
        name = found.pop()
        if name not in wanted:
            wanted.add(name)
            found += [each for each in _CALLED.findall(HELPERS[name]) if each in HELPERS]
    return [text for name, text in HELPERS.items() if name in wanted]
