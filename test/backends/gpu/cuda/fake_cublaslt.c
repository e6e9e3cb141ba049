/* cuBLASLt without a device, for tests: a part of the driver beside it, on whose commands its products wait. It computes
 * what their descriptions say, in plain loops; notices what is used after its end, in another context, unlike what it was
 * described as, or out of bounds; and fails where it is told to. It spoils its workspace.
 *
 * Compiled with `-include cuda.h -include cublasLt.h`, where these are, the compiler compares functions and numbers. */
#define MORE_KINDS X(HANDLE, "handles") X(PRODUCT, "products") X(LAYOUT, "layouts") X(PREFERENCE, "preferences")
#define MORE_SETTINGS \
  X("library_version", 120903) /* cuBLASLt's own */ \
  X("refuses", 0)              /* how many products it has no algorithm for */ \
  X("workspace", 1 << 20)      /* bytes that its algorithms need */
#include "fake_driver.c"
#include "fake_floats.h"

enum { F32 = 0, F64 = 1, F16 = 2, I8 = 3, I32 = 10, BF16 = 14, E4M3 = 28, E5M2 = 29 }; /* cudaDataType_t */
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32I = 72, COMPUTE_TF32 = 77 };
enum { UNINITIALIZED = 1, UNALLOCATED = 3, BAD_VALUE = 7, FAILED = 13, UNSUPPORTED = 15 };
enum { TRANSPOSE_A = 3, TRANSPOSE_B = 4, EPILOGUE = 7, BIAS_POINTER = 8, BATCH_COUNT = 5, BATCH_STRIDE = 6 };
enum { MAX_WORKSPACE = 1, SCHEMES = 3, ALIGNMENT_A = 5, IN_COMPUTE_TYPE = 2 };
enum { DEFAULT = 1, RELU = 2, BIAS = 4, GELU = 32 };

#ifdef CUBLAS_VERSION
#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a)
SAME(F32, CUDA_R_32F);
SAME(F64, CUDA_R_64F);
SAME(F16, CUDA_R_16F);
SAME(I8, CUDA_R_8I);
SAME(I32, CUDA_R_32I);
SAME(BF16, CUDA_R_16BF);
SAME(E4M3, CUDA_R_8F_E4M3);
SAME(E5M2, CUDA_R_8F_E5M2);
SAME(COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(COMPUTE_64F, CUBLAS_COMPUTE_64F);
SAME(COMPUTE_32I, CUBLAS_COMPUTE_32I);
SAME(COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(UNINITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED);
SAME(UNALLOCATED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(BAD_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME(FAILED, CUBLAS_STATUS_EXECUTION_FAILED);
SAME(UNSUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(8, CUBLAS_STATUS_ARCH_MISMATCH);
SAME(1, CUBLAS_OP_T);
SAME(TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(SCHEMES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(ALIGNMENT_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(IN_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(DEFAULT, CUBLASLT_EPILOGUE_DEFAULT);
SAME(RELU, CUBLASLT_EPILOGUE_RELU);
SAME(BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(GELU, CUBLASLT_EPILOGUE_GELU);
SAME(RELU | BIAS, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME(GELU | BIAS, CUBLASLT_EPILOGUE_GELU_BIAS);
#else
typedef int cublasStatus_t, cublasComputeType_t, cudaDataType, cublasLtMatmulDescAttributes_t,
    cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t;
typedef void *cublasLtHandle_t, *cublasLtMatmulDesc_t, *cublasLtMatrixLayout_t, *cublasLtMatmulPreference_t,
    *cudaStream_t;
typedef struct { uint64_t data[8]; } cublasLtMatmulAlgo_t;
typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;
#endif

typedef struct {
  int compute, scale, transposed[2], epilogue;
  const void *bias;
} product;
typedef struct {
  int type, batch;
  uint64_t rows, columns;
  int64_t stride, batch_stride;
} layout;
typedef struct { uint64_t workspace; uint32_t schemes, alignment[4]; } preference;

/* All that a product on its way needs. */
typedef struct {
  product of;
  layout left, right, result;
  const void *a, *b, *addend;
  void *d, *workspace;
  size_t workspace_bytes;
  double alpha, beta;
} call;

/* Descriptions belong to no context. */

static int described(int status, void **handle, kind kind, const void *content, size_t size) {
  if (!status) {
    object *it = made(kind);
    it->device = -1;
    it->data = memcpy(malloc(size), content, size);
    *handle = it;
  }
  return ended(status);
}

static int forgotten(const char *name, void *handle, kind kind) {
  begun(name);
  return ended(released(handle, kind) ? 0 : BAD_VALUE);
}

static int set(int status, const void *handle, kind kind, void *place, size_t size, const void *value, size_t given) {
  if (!status && (!holds(handle, kind) || !place || size != given)) misuses++, status = BAD_VALUE;
  if (!status) memcpy(place, value, size);
  return ended(status);
}

static product *product_of(const void *handle) { return (product *)((const object *)handle)->data; }
static layout *layout_of(const void *handle) { return (layout *)((const object *)handle)->data; }

EXPORT size_t cublasLtGetVersion(void) { return *fake_setting("library_version"); }

EXPORT const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch ((int)status) {
  case UNINITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
  case UNALLOCATED: return "CUBLAS_STATUS_ALLOC_FAILED";
  case BAD_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
  case FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
  case UNSUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return 0;
}

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  int status = entered("cublasLtCreate");
  if (!status) *handle = (cublasLtHandle_t)made_here(HANDLE);
  return ended(status);
}

EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  int status = entered("cublasLtDestroy");
  if (!holds_here(handle, HANDLE) || !released(handle, HANDLE)) status = BAD_VALUE;
  return ended(status);
}

EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *it, cublasComputeType_t compute,
                                               cudaDataType scale) {
  product content = {.compute = compute, .scale = scale, .epilogue = DEFAULT};
  return described(begun("cublasLtMatmulDescCreate"), (void **)it, PRODUCT, &content, sizeof content);
}

EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t it) {
  return forgotten("cublasLtMatmulDescDestroy", it, PRODUCT);
}

EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t it, cublasLtMatmulDescAttributes_t attribute,
                                                     const void *value, size_t size) {
  product *of = product_of(it);
  void *place = 0;
  switch ((int)attribute) {
  case TRANSPOSE_A: place = &of->transposed[0]; break;
  case TRANSPOSE_B: place = &of->transposed[1]; break;
  case EPILOGUE: place = &of->epilogue; break;
  case BIAS_POINTER: place = &of->bias; break;
  }
  size_t wanted = (int)attribute == BIAS_POINTER ? sizeof of->bias : sizeof(int);
  return set(begun("cublasLtMatmulDescSetAttribute"), it, PRODUCT, place, wanted, value, size);
}

EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *it, cudaDataType type, uint64_t rows,
                                                 uint64_t columns, int64_t stride) {
  layout content = {.type = type, .batch = 1, .rows = rows, .columns = columns, .stride = stride};
  if (stride < (int64_t)rows) misuses++;
  return described(begun("cublasLtMatrixLayoutCreate"), (void **)it, LAYOUT, &content, sizeof content);
}

EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t it) {
  return forgotten("cublasLtMatrixLayoutDestroy", it, LAYOUT);
}

EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t it,
                                                       cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                       size_t size) {
  layout *of = layout_of(it);
  void *place = (int)attribute == BATCH_COUNT ? (void *)&of->batch : (int)attribute == BATCH_STRIDE ? &of->batch_stride : 0;
  size_t wanted = (int)attribute == BATCH_COUNT ? sizeof of->batch : sizeof of->batch_stride;
  return set(begun("cublasLtMatrixLayoutSetAttribute"), it, LAYOUT, place, wanted, value, size);
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *it) {
  preference content = {.schemes = 7, .alignment = {256, 256, 256, 256}};
  return described(begun("cublasLtMatmulPreferenceCreate"), (void **)it, PREFERENCE, &content, sizeof content);
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t it) {
  return forgotten("cublasLtMatmulPreferenceDestroy", it, PREFERENCE);
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t it,
                                                           cublasLtMatmulPreferenceAttributes_t attribute,
                                                           const void *value, size_t size) {
  preference *of = (preference *)((object *)it)->data;
  int which = attribute;
  void *place = which == MAX_WORKSPACE ? (void *)&of->workspace : which == SCHEMES ? &of->schemes : 0;
  if (which >= ALIGNMENT_A && which < ALIGNMENT_A + 4) place = &of->alignment[which - ALIGNMENT_A];
  size_t wanted = which == MAX_WORKSPACE ? sizeof of->workspace : sizeof of->schemes;
  return set(begun("cublasLtMatmulPreferenceSetAttribute"), it, PREFERENCE, place, wanted, value, size);
}

/* Products. */

static int is_f8(int type) { return type == E4M3 || type == E5M2; }

/* The library's tables of types. */
static int has_types(const product *of, int a, int b, int result) {
  if (of->compute == COMPUTE_64F) return of->scale == F64 && a == F64 && b == F64 && result == F64;
  if (of->compute == COMPUTE_32I) return of->scale == I32 && a == I8 && b == I8 && result == I32;
  if (of->compute == COMPUTE_TF32 && of->scale == F32) return a == F32 && b == F32 && result == F32;
  if (of->compute != COMPUTE_32F || of->scale != F32) return 0;
  if (is_f8(a) && is_f8(b)) return (a == E4M3 || b == E4M3) && (result == F32 || result == BF16 || result == F16);
  return a == b && (a == F32 || a == F16 || a == BF16) && (result == F32 || result == a);
}

static int supports(const product *of, const layout *a, const layout *b, const layout *c, const layout *d) {
  int is_turned = of->transposed[0] && !of->transposed[1], activation = of->epilogue & ~(BIAS | DEFAULT);
  if (!has_types(of, a->type, b->type, d->type) || memcmp(c, d, sizeof *c)) return 0;
  if ((is_f8(a->type) || a->type == I8) && !is_turned) return 0;
  if (a->type == I8 && of->epilogue != DEFAULT) return 0;
  return !activation || activation == RELU || activation == GELU;
}

static void require_sizes(const product *of, const layout *a, const layout *b, const layout *d) {
  uint64_t rows = of->transposed[0] ? a->columns : a->rows, depth = of->transposed[0] ? a->rows : a->columns;
  uint64_t columns = of->transposed[1] ? b->rows : b->columns, other = of->transposed[1] ? b->columns : b->rows;
  if (rows != d->rows || columns != d->columns || depth != other || a->batch != d->batch || b->batch != d->batch)
    misuses++;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t it,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t preferred, int wanted,
                                                     cublasLtMatmulHeuristicResult_t *results, int *count) {
  int status = entered("cublasLtMatmulAlgoGetHeuristic");
  if (!holds_here(handle, HANDLE) || !holds(it, PRODUCT) || !holds(a, LAYOUT) || !holds(b, LAYOUT) ||
      !holds(c, LAYOUT) || !holds(d, LAYOUT) || !holds(preferred, PREFERENCE) || wanted != 1)
    return ended(BAD_VALUE);
  const preference *of = (const preference *)((object *)preferred)->data;
  const product *what = product_of(it);
  require_sizes(what, layout_of(a), layout_of(b), layout_of(d));
  if (of->schemes != IN_COMPUTE_TYPE || of->alignment[0] != 16 || of->alignment[3] != 16) misuses++;
  if (what->epilogue & BIAS && (!what->bias || (uintptr_t)what->bias % 16)) misuses++;
  *count = 0;
  if (!status && !supports(what, layout_of(a), layout_of(b), layout_of(c), layout_of(d))) status = UNSUPPORTED;
  if (!status && *fake_setting("refuses")) --*fake_setting("refuses"), status = UNSUPPORTED;
  if (!status && *fake_setting("workspace") <= (int64_t)of->workspace) {
    memset(results, 0, sizeof *results);
    results->algo.data[0] = (uintptr_t)it; /* good for this product alone */
    results->workspaceSize = *fake_setting("workspace");
    *count = 1;
  }
  return ended(status);
}

static size_t bytes_of(int type) { return type == F64 ? 8 : type == F32 || type == I32 ? 4 : type == F16 || type == BF16 ? 2 : 1; }

static double loaded(int type, const void *base, int64_t at) {
  switch (type) {
  case F64: return ((const double *)base)[at];
  case F32: return ((const float *)base)[at];
  case I32: return ((const int32_t *)base)[at];
  case I8: return ((const int8_t *)base)[at];
  case E4M3: return decoded(((const uint8_t *)base)[at], 4, 3, 1);
  case E5M2: return decoded(((const uint8_t *)base)[at], 5, 2, 0);
  case F16: return decoded(((const uint16_t *)base)[at], 5, 10, 0);
  default: return decoded(((const uint16_t *)base)[at], 8, 7, 0);
  }
}

static void stored(int type, void *base, int64_t at, double value) {
  switch (type) {
  case F64: ((double *)base)[at] = value; break;
  case F32: ((float *)base)[at] = value; break;
  case I32: ((int32_t *)base)[at] = value; break;
  case F16: ((uint16_t *)base)[at] = encoded(value, 5, 10); break;
  default: ((uint16_t *)base)[at] = encoded(value, 8, 7);
  }
}

static int lies(int device, const layout *of, const void *base) {
  size_t last = (of->batch - 1) * of->batch_stride + (of->columns - 1) * of->stride + of->rows;
  if ((uintptr_t)base % 16) misuses++;
  return fits_on(device, base, last * bytes_of(of->type));
}

static void multiply(const command *command) {
  const call *it = command->source;
  const layout *left = &it->left, *right = &it->right, *to = &it->result;
  int is_turned = it->of.transposed[0], other_is_turned = it->of.transposed[1];
  size_t depth = is_turned ? left->rows : left->columns;
  if (!lies(command->device, left, it->a) || !lies(command->device, right, it->b) || !lies(command->device, to, it->d) ||
      !lies(command->device, to, it->addend) || !fits_on(command->device, it->workspace, it->workspace_bytes))
    return;
  memset(it->workspace, 0xEE, it->workspace_bytes);
  for (int64_t batch = 0; batch < to->batch; batch++)
    for (size_t i = 0; i < to->rows; i++)
      for (size_t j = 0; j < to->columns; j++) {
        double sum = 0;
        for (size_t k = 0; k < depth; k++) {
          int64_t at = batch * left->batch_stride + (is_turned ? k + i * left->stride : i + k * left->stride);
          int64_t other = batch * right->batch_stride + (other_is_turned ? j + k * right->stride : k + j * right->stride);
          double x = loaded(left->type, it->a, at), y = loaded(right->type, it->b, other);
          sum += it->of.compute == COMPUTE_TF32 ? shortened(x) * shortened(y) : x * y;
        }
        int64_t at = batch * to->batch_stride + i + j * to->stride;
        double value = it->alpha * sum + (it->beta ? it->beta * loaded(to->type, it->addend, at) : 0);
        if (it->of.epilogue & BIAS) value += loaded(to->type, it->of.bias, i);
        if (it->of.epilogue & RELU) value = value > 0 ? value : 0;
        if (it->of.epilogue & GELU) value *= 0.5 * (1 + tanh(sqrt(2 / M_PI) * (value + 0.044715 * value * value * value)));
        stored(to->type, it->d, at, value);
      }
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t it, const void *alpha, const void *a,
                                     cublasLtMatrixLayout_t left, const void *b, cublasLtMatrixLayout_t right,
                                     const void *beta, const void *c, cublasLtMatrixLayout_t addend, void *d,
                                     cublasLtMatrixLayout_t result, const cublasLtMatmulAlgo_t *algorithm,
                                     void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  int status = entered("cublasLtMatmul");
  if (!holds_here(handle, HANDLE) || !holds(it, PRODUCT) || !holds(left, LAYOUT) || !holds(right, LAYOUT) ||
      !holds(addend, LAYOUT) || !holds(result, LAYOUT))
    return ended(BAD_VALUE);
  const product *of = product_of(it);
  if (algorithm->data[0] != (uintptr_t)it || (uintptr_t)workspace % 256 || !c) misuses++;
  if ((int64_t)workspace_bytes < *fake_setting("workspace")) misuses++;
  if (of->epilogue & BIAS && !fits_on(here(), of->bias, layout_of(result)->rows * bytes_of(layout_of(result)->type)))
    status = BAD_VALUE;
  call *made = malloc(sizeof *made);
  *made = (call){*of, *layout_of(left), *layout_of(right), *layout_of(result), a, b, c, d, workspace, workspace_bytes,
                 loaded(of->scale, alpha, 0), loaded(of->scale, beta, 0)};
  return enqueued(status, stream, (command){.kind = CALL, .call = multiply, .source = made});
}
