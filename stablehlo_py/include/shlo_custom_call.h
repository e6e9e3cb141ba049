/* Custom calls of stablehlo-py: what a C function gets that is bound by stablehlo_py.register_custom_call.
 *
 *   #include "shlo_custom_call.h"
 *
 *   int32_t scale(const shlo_custom_call *call) {
 *     const shlo_buffer *x = &call->operands[0], *y = &call->results[0];
 *     const shlo_attribute *factor = shlo_find_attribute(call, "factor");
 *     if (x->dtype != SHLO_F32 || !factor || factor->dtype != SHLO_F32)
 *       return shlo_fail(call, "scale takes float32 and a float32 attribute 'factor'");
 *     for (int64_t i = 0; i < shlo_count(x); i++)
 *       ((float *)y->data)[i] = ((const float *)x->data)[i] * *(const float *)factor->data;
 *     return 0;
 *   }
 *
 * Compile with  cc -shared -fPIC -I$(python -c "import stablehlo_py; print(stablehlo_py.get_include())") scale.c
 *
 * Nothing here may be kept after the function has returned. Operands are only read, results only written; a result that
 * the call says to be an operand's alias has that operand's memory, and holds its value. The function is called on the
 * thread that called the executable, by any number of threads at once. */

#ifndef SHLO_CUSTOM_CALL_H
#define SHLO_CUSTOM_CALL_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHLO_CUSTOM_CALL_VERSION 1

/* Element types. Those of less than 8 bits take a byte each, booleans are 0 or 1, complex numbers pairs. */
enum {
  SHLO_I1 = 1,
  SHLO_I2 = 2,
  SHLO_I4 = 3,
  SHLO_I8 = 4,
  SHLO_I16 = 5,
  SHLO_I32 = 6,
  SHLO_I64 = 7,
  SHLO_UI2 = 8,
  SHLO_UI4 = 9,
  SHLO_UI8 = 10,
  SHLO_UI16 = 11,
  SHLO_UI32 = 12,
  SHLO_UI64 = 13,
  SHLO_F16 = 14,
  SHLO_BF16 = 15,
  SHLO_F32 = 16,
  SHLO_F64 = 17,
  SHLO_C64 = 18,
  SHLO_C128 = 19,
  SHLO_F8E4M3FN = 20,
  SHLO_F8E5M2 = 21,
  SHLO_F8E4M3FNUZ = 22,
  SHLO_F8E5M2FNUZ = 23,
  SHLO_F8E4M3B11FNUZ = 24,
  SHLO_F8E4M3 = 25,
  SHLO_F8E3M4 = 26,
  SHLO_F8E8M0FNU = 27,
  SHLO_F6E2M3FN = 28,
  SHLO_F6E3M2FN = 29,
  SHLO_F4E2M1FN = 30
};

/* Kinds of attributes. */
enum {
  SHLO_SCALAR = 1, /* data: one value of dtype */
  SHLO_ARRAY = 2,  /* data: count values of dtype, row-major */
  SHLO_STRING = 3, /* data: count characters, and a zero; dtype is 0 */
  SHLO_DICTIONARY = 4 /* data: count attributes, a shlo_attribute each; dtype is 0 */
};

typedef struct {
  void *data;
  int64_t dtype;
  int64_t rank;
  const int64_t *dims;
  const int64_t *strides; /* in elements; row-major unless the call has other layouts */
} shlo_buffer;

typedef struct {
  const char *name;
  int64_t kind;
  int64_t dtype;
  int64_t count;
  const void *data;
} shlo_attribute;

typedef struct {
  int64_t version; /* SHLO_CUSTOM_CALL_VERSION of the program */
  int64_t num_operands;
  const shlo_buffer *operands;
  int64_t num_results;
  const shlo_buffer *results;
  int64_t num_attributes;
  const shlo_attribute *attributes;
  char *message; /* what went wrong, in UTF-8 and with a zero, when the function does not return 0 */
  int64_t message_bytes;
} shlo_custom_call;

/* Returns 0, or anything else to make the executable raise a stablehlo_py.CallError with the message. */
typedef int32_t (*shlo_handler)(const shlo_custom_call *call);

/* The number of elements. */
static inline int64_t shlo_count(const shlo_buffer *buffer) {
  int64_t count = 1;
  for (int64_t d = 0; d < buffer->rank; d++) count *= buffer->dims[d];
  return count;
}

/* The attribute of that name, or 0. */
static inline const shlo_attribute *shlo_find_attribute(const shlo_custom_call *call, const char *name) {
  for (int64_t i = 0; i < call->num_attributes; i++)
    if (strcmp(call->attributes[i].name, name) == 0) return &call->attributes[i];
  return 0;
}

/* Sets the message; `return shlo_fail(call, "...")`. */
static inline int32_t shlo_fail(const shlo_custom_call *call, const char *message) {
  strncpy(call->message, message, (size_t)call->message_bytes - 1);
  call->message[call->message_bytes - 1] = 0;
  return 1;
}

#ifdef __cplusplus
}
#endif
#endif
