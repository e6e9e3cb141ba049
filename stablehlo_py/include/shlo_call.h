/* The entry of a program that stablehlo-py compiled: one C function, which needs no Python and no runtime.
 *
 *   #include "shlo_call.h"
 *
 *   int shlo_main(const shlo_call *call);
 *
 *   const void *inputs[] = {x, y};
 *   void *outputs[] = {z};
 *   const shlo_error *error = 0;
 *   shlo_call call = {sizeof call};
 *   call.inputs = inputs, call.outputs = outputs, call.workspace = workspace, call.constants = constants;
 *   call.error = &error;
 *   if (shlo_main(&call)) puts(error ? error->message : "ended");
 *
 * What a program needs of this (how many inputs, how large a workspace, which constants) its description says:
 * docs/native-entry.md. Tensors are dense and row-major, of the element sizes in shlo_custom_call.h. The function may be
 * called by any number of threads at once, each with a workspace of its own. It keeps nothing of a call. */

#ifndef SHLO_CALL_H
#define SHLO_CALL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the entry returns. */
enum {
  SHLO_OK = 0,
  SHLO_FAILED = 1,   /* a custom call failed: *error says which, and why */
  SHLO_ENDED = 2,    /* the caller's interrupt ended it; the results are not to be read */
  SHLO_OLD_CALL = 3, /* `size` is smaller than the program needs: the caller knows an older version of this struct */
  /* What only the functions of a library return (shlo_model.h), which then have done nothing: */
  SHLO_WORKSPACE = 4, /* the workspace is too small, null, or not aligned to 64 bytes */
  SHLO_SIZES = 5,     /* the dimensions do not fit the model */
  SHLO_CONSTANTS = 6, /* there are no constants, or their file is not the one that belongs to the model */
  SHLO_NULL = 7,      /* the address of an argument or a result is null */
  /* What the entry returns, too: */
  SHLO_NO_TILES = 8   /* the code uses AMX, and the CPU has none, or Linux does not let this process use it */
};

/* A part of the work: iterations [begin, end), by a thread whose number is below the program's thread count. */
typedef void (*shlo_task)(void *context, int64_t begin, int64_t end, int64_t thread);

/* Does all of [0, iterations) in pieces of `chunk` iterations, by any threads, and returns when all is done. No two
 * pieces that run at one time have the same thread number. */
typedef void (*shlo_parallel_for)(void *parallel_context, shlo_task task, void *context, int64_t iterations,
                                  int64_t chunk);

/* What ends loops: at the end of each trip they look whether `asked` is not 0; then answer(this) says whether to go on
 * (0) or to end. */
typedef struct shlo_interrupt {
  int32_t asked;
  int32_t (*answer)(struct shlo_interrupt *interrupt);
} shlo_interrupt;

/* What a custom call that failed leaves in the workspace; valid until the workspace is used again. */
typedef struct shlo_error {
  const char *where; /* the target of the custom call, a newline, and the line of the model */
  char message[1016];
} shlo_error;

typedef struct shlo_call {
  size_t size;                /* sizeof(shlo_call): later versions add fields at the end */
  const void *const *inputs;  /* the address of each input; null is allowed where there are none */
  void *const *outputs;       /* the address of each output; a donated input's output is that input */
  void *workspace;            /* the bytes that the program's description asks for, aligned to 64 */
  const void *const *constants;
  const int64_t *sizes;       /* of a program with dynamic dimensions: the table that its shlo_sizes filled */
  shlo_interrupt *interrupt;  /* a program with loops must have one; 16 zero bytes never end it */
  shlo_parallel_for parallel_for; /* null: the calling thread does everything */
  void *parallel_context;
  void *stream;               /* of a program for a device: the queue that its work goes to */
  const shlo_error **error;   /* null, or set when SHLO_FAILED is returned */
} shlo_call;

#ifdef __cplusplus
}
#endif
#endif
