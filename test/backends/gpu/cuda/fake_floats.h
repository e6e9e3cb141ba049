/* Floats that C has no types for, and what units round to: of libraries without a device, for tests. */
#include <math.h>
#include <stdint.h>

/* A float of so many bits of exponent and mantissa, without infinities if it `is_finite` (E4M3). */
static double decoded(unsigned bits, int exponent_bits, int mantissa_bits, int is_finite) {
  int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  int exponent = bits >> mantissa_bits & top, mantissa = bits & ((1 << mantissa_bits) - 1);
  double sign = bits >> (exponent_bits + mantissa_bits) ? -1 : 1, whole = 1 << mantissa_bits;
  if (exponent == top && (!is_finite || mantissa == (1 << mantissa_bits) - 1)) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? ldexp(1 + mantissa / whole, exponent - bias) : ldexp(mantissa / whole, 1 - bias));
}

/* The nearest float of 11 bits of significand, which hardware need not take. */
static double shortened(double value) {
  int exponent;
  double fraction = frexp(value, &exponent);
  return ldexp(nearbyint(ldexp(fraction, 11)), exponent - 11);
}

/* The nearest float of so many bits, to even; finite. */
static uint16_t encoded(double value, int exponent_bits, int mantissa_bits) {
  int exponent, bias = (1 << (exponent_bits - 1)) - 1;
  frexp(value, &exponent);
  if (!value || exponent < 2 - bias) exponent = 2 - bias;
  uint16_t steps = nearbyint(ldexp(fabs(value), mantissa_bits + 1 - exponent)); /* 1.m, or 0.m where it is denormal */
  uint16_t rest = (exponent + bias - 2) << mantissa_bits;
  return (signbit(value) ? 0x8000 : 0) | (uint16_t)(rest + steps);
}
