/* What a library that stablehlo-py wrote says of its model: `extern const shlo_model <name>_model;`. Its own header
 * declares the functions that a program usually calls; this table is for programs that serve any model. */

#ifndef SHLO_MODEL_H
#define SHLO_MODEL_H

#include "shlo_call.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHLO_MODEL_ABI 1

/* Threads that a caller lends to a call: `parallel_for` as shlo_call.h says, and its first argument. The thread numbers
 * that it gives to tasks are below the model's `threads`. */
typedef struct shlo_threads {
  shlo_parallel_for parallel_for;
  void *context;
} shlo_threads;

/* An argument or a result: dense, row-major. */
typedef struct shlo_tensor {
  const char *name;
  int32_t dtype;          /* as in shlo_custom_call.h: SHLO_F32 = 16 ... */
  int32_t rank;
  const int64_t *shape;   /* null for rank 0; below 0: of an argument any size that fits the model, of a result slot
                             -1 - size of the table that `sizes` fills */
  const int64_t *strides; /* in bytes; null for rank 0, and where sizes are not known */
  int64_t bytes;          /* -1: not known */
  int64_t alias;          /* of a result: the argument whose memory it has; else -1 */
} shlo_tensor;

/* A number that a call of a model with dynamic dimensions brings along: a dimension of an argument or, unless
 * `of_shape`, an element of an argument of integers; divided by `divisor`. */
typedef struct shlo_symbol {
  int64_t argument, position, divisor, of_shape;
} shlo_symbol;

typedef struct shlo_model {
  int32_t abi;                     /* SHLO_MODEL_ABI of the compiler */
  int32_t threads;                 /* how many threads a call may use */
  const char *name;
  const char *hash;                /* of everything that the library computes, in hexadecimal digits */
  const char *target;              /* what it was compiled for */
  int32_t argument_count, result_count;
  const shlo_tensor *arguments, *results;
  int64_t workspace_bytes;         /* below 0: slot -1 - bytes of the table that `sizes` fills */
  int64_t workspace_alignment;
  int (*call)(const shlo_call *call); /* constants and interrupt may be null */
  int64_t table_slots;             /* of a model with dynamic dimensions; the last slot is 1 where sizes fit it */
  int64_t symbol_count;
  const shlo_symbol *symbols;
  void (*sizes)(const int64_t *symbols, int64_t *table);
  int64_t constant_count;          /* where constants are in a file of their own */
  int (*constants)(const void *file, int64_t bytes, const void **table);
  int64_t (*threads_start)(void *memory, int64_t threads); /* where it has threads of its own, else null */
  void (*threads_stop)(void *memory);
  shlo_parallel_for parallel_for;
} shlo_model;

#define SHLO_THREADS_BYTES 4096 /* of zeroed memory, aligned to 64, that threads_start takes */

/* What a status is called. */
static inline const char *shlo_status_text(int status) {
  switch (status) {
    case SHLO_OK: return "no error";
    case SHLO_FAILED: return "a custom call failed";
    case SHLO_ENDED: return "the interrupt ended the call";
    case SHLO_OLD_CALL: return "the caller was compiled with an older shlo_call.h";
    case SHLO_WORKSPACE: return "the workspace is too small, null, or not aligned to 64 bytes";
    case SHLO_SIZES: return "the dimensions do not fit the model";
    case SHLO_CONSTANTS: return "the constants are missing, or are not those of this model";
    case SHLO_NULL: return "the address of an argument or a result is null";
    case SHLO_NO_TILES: return "the CPU has no AMX, or the system does not let this process use it";
  }
  return "unknown status";
}

#ifdef __cplusplus
}
#endif
#endif
