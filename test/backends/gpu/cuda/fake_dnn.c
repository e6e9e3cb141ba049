/* cuDNN without a device, for tests: a part of the driver beside it, on whose commands its convolutions wait. It computes
 * what their descriptors say, in plain loops; notices what is used after its end, in another context, unlike what it was
 * described as, or out of bounds; names algorithms that nobody may take first; fails where it is told to, and spoils its
 * workspace.
 *
 * Compiled with `-include cuda.h -include cudnn.h -Wno-deprecated-declarations`, where these are, the compiler compares
 * functions and numbers. */
#define MORE_KINDS X(DNN, "handles") X(TENSOR, "tensors") X(FILTER, "filters") X(CONVOLUTION, "convolutions")
#define MORE_SETTINGS \
  X("dnn_version", 92801) \
  X("refuses", 0)          /* how many convolutions it has no algorithm for */ \
  X("workspace", 1 << 20)  /* bytes that algorithm 1 needs */ \
  X("least", 1 << 16)      /* those that algorithm 0 needs */ \
  X("taken", -1)           /* the algorithm of the last one */
#include "fake_driver.c"
#include "fake_floats.h"

enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 9 };                   /* cudnnDataType_t */
enum { DEFAULT_MATH = 0, TENSOR_OP_MATH = 1, FMA_MATH = 3 };    /* cudnnMathType_t */
enum { CHANNELS_FIRST = 0, CHANNELS_LAST = 1 };                 /* cudnnTensorFormat_t */
enum { UNINITIALIZED = 1001, BAD_PARAMETER = 2000, BAD_VALUE = 2001, UNSUPPORTED = 3000, BAD_ARCHITECTURE = 3007 };
enum { NO_HOST_MEMORY = 4003, NO_DEVICE_MEMORY = 4004, FAILED = 5000 };
enum { FORWARD, BACKWARD_DATA, BACKWARD_FILTER };

#ifdef CUDNN_MAJOR
#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a)
SAME(F32, CUDNN_DATA_FLOAT);
SAME(F64, CUDNN_DATA_DOUBLE);
SAME(F16, CUDNN_DATA_HALF);
SAME(BF16, CUDNN_DATA_BFLOAT16);
SAME(DEFAULT_MATH, CUDNN_DEFAULT_MATH);
SAME(TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
SAME(FMA_MATH, CUDNN_FMA_MATH);
SAME(CHANNELS_FIRST, CUDNN_TENSOR_NCHW);
SAME(CHANNELS_LAST, CUDNN_TENSOR_NHWC);
SAME(1, CUDNN_CROSS_CORRELATION);
SAME(1, CUDNN_DETERMINISTIC);
SAME(UNINITIALIZED, CUDNN_STATUS_NOT_INITIALIZED);
SAME(1002, CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
SAME(1008, CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED);
SAME(BAD_PARAMETER, CUDNN_STATUS_BAD_PARAM);
SAME(BAD_VALUE, CUDNN_STATUS_INVALID_VALUE);
SAME(UNSUPPORTED, CUDNN_STATUS_NOT_SUPPORTED);
SAME(BAD_ARCHITECTURE, CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
SAME(NO_HOST_MEMORY, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
SAME(NO_DEVICE_MEMORY, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
SAME(FAILED, CUDNN_STATUS_EXECUTION_FAILED);
SAME(0, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
SAME(1, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
SAME(2, CUDNN_CONVOLUTION_FWD_ALGO_GEMM);
SAME(3, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT);
SAME(6, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD);
SAME(1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
SAME(1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
SAME(sizeof(cudnnConvolutionFwdAlgoPerf_t), sizeof(cudnnConvolutionBwdDataAlgoPerf_t));
SAME(sizeof(cudnnConvolutionFwdAlgoPerf_t), sizeof(cudnnConvolutionBwdFilterAlgoPerf_t));
SAME(sizeof(cudnnConvolutionFwdAlgoPerf_t), 48);
SAME(offsetof(cudnnConvolutionFwdAlgoPerf_t, memory), 16);
SAME(offsetof(cudnnConvolutionBwdDataAlgoPerf_t, memory), 16);
SAME(offsetof(cudnnConvolutionBwdFilterAlgoPerf_t, memory), 16);
SAME(offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType), 28);
#else
typedef int cudnnStatus_t, cudnnDataType_t, cudnnTensorFormat_t, cudnnMathType_t, cudnnConvolutionMode_t,
    cudnnDeterminism_t, cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t;
typedef void *cudnnHandle_t, *cudnnTensorDescriptor_t, *cudnnFilterDescriptor_t, *cudnnConvolutionDescriptor_t,
    *cudaStream_t;
typedef struct {
  int algo, status;
  float time;
  size_t memory;
  int determinism, mathType, reserved[3];
} cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdFilterAlgoPerf_t;
#endif

enum { MOST = 5, SPACE = 3 };

typedef struct { int type, layout, count, sizes[MOST], strides[MOST]; } tensor; /* layout: of a filter */
typedef struct { int count, padding[SPACE], steps[SPACE], dilation[SPACE], sums, math, groups; } convolution;

/* Images, filter and result, whichever of them is computed. */
typedef struct {
  tensor images, filter, result;
  convolution of;
  int direction;
  const void *operands[2];
  void *computed, *workspace;
  size_t workspace_bytes;
} call;

/* Descriptors belong to no context. */

static int described(int status, void **handle, kind kind, size_t size) {
  if (!status) {
    object *it = made(kind);
    it->device = -1;
    it->data = calloc(1, size);
    *handle = it;
  }
  return ended(status);
}

static int forgotten(const char *name, void *handle, kind kind) {
  begun(name);
  return ended(released(handle, kind) ? 0 : BAD_PARAMETER);
}

static tensor *tensor_of(const void *handle) { return (tensor *)((const object *)handle)->data; }
static convolution *convolution_of(const void *handle) { return (convolution *)((const object *)handle)->data; }

EXPORT size_t cudnnGetVersion(void) { return *fake_setting("dnn_version"); }

EXPORT const char *cudnnGetErrorString(cudnnStatus_t status) {
  switch ((int)status) {
  case UNINITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
  case BAD_ARCHITECTURE: return "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH";
  case NO_HOST_MEMORY: return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
  case NO_DEVICE_MEMORY: return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
  case FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
  return "CUDNN_UNKNOWN_STATUS";
}

EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  int status = entered("cudnnCreate");
  if (!status) {
    object *it = made_here(DNN);
    it->data = calloc(1, sizeof(void *));
    *handle = (cudnnHandle_t)it;
  }
  return ended(status);
}

EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  int status = entered("cudnnDestroy");
  return ended(holds_here(handle, DNN) && released(handle, DNN) ? status : BAD_PARAMETER);
}

EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  int status = entered("cudnnSetStream");
  if (!holds_here(handle, DNN)) return ended(BAD_PARAMETER);
  if (!status) *(void **)((object *)handle)->data = stream;
  return ended(status);
}

EXPORT cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *it) {
  return described(begun("cudnnCreateTensorDescriptor"), (void **)it, TENSOR, sizeof(tensor));
}

EXPORT cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t it) {
  return forgotten("cudnnDestroyTensorDescriptor", it, TENSOR);
}

EXPORT cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *it) {
  return described(begun("cudnnCreateFilterDescriptor"), (void **)it, FILTER, sizeof(tensor));
}

EXPORT cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t it) {
  return forgotten("cudnnDestroyFilterDescriptor", it, FILTER);
}

EXPORT cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *it) {
  return described(begun("cudnnCreateConvolutionDescriptor"), (void **)it, CONVOLUTION, sizeof(convolution));
}

EXPORT cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t it) {
  return forgotten("cudnnDestroyConvolutionDescriptor", it, CONVOLUTION);
}

EXPORT cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t handle, cudnnDataType_t type, int count,
                                                const int *sizes, const int *strides) {
  int status = begun("cudnnSetTensorNdDescriptor");
  if (!holds(handle, TENSOR) || count < 4 || count > MOST) return ended(BAD_VALUE);
  tensor *it = tensor_of(handle);
  *it = (tensor){.type = type, .count = count};
  memcpy(it->sizes, sizes, count * sizeof *sizes);
  memcpy(it->strides, strides, count * sizeof *strides);
  return ended(status);
}

EXPORT cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t handle, cudnnDataType_t type,
                                                cudnnTensorFormat_t layout, int count, const int *sizes) {
  int status = begun("cudnnSetFilterNdDescriptor");
  if (!holds(handle, FILTER) || count < 4 || count > MOST) return ended(BAD_VALUE);
  tensor *it = tensor_of(handle);
  *it = (tensor){.type = type, .layout = layout, .count = count};
  memcpy(it->sizes, sizes, count * sizeof *sizes);
  int step = 1;
  if ((int)layout == CHANNELS_LAST) it->strides[1] = 1, step = sizes[1];
  for (int i = count - 1; i >= 0; i--)
    if (i != 1 || (int)layout == CHANNELS_FIRST) it->strides[i] = step, step *= sizes[i];
  return ended(status);
}

EXPORT cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t handle, int count, const int *padding,
                                                     const int *steps, const int *dilation, cudnnConvolutionMode_t mode,
                                                     cudnnDataType_t sums) {
  int status = begun("cudnnSetConvolutionNdDescriptor");
  if (!holds(handle, CONVOLUTION) || count < 2 || count > SPACE || (int)mode != 1) return ended(BAD_VALUE);
  convolution *it = convolution_of(handle);
  *it = (convolution){.count = count, .sums = sums, .groups = 1};
  memcpy(it->padding, padding, count * sizeof *padding);
  memcpy(it->steps, steps, count * sizeof *steps);
  memcpy(it->dilation, dilation, count * sizeof *dilation);
  return ended(status);
}

EXPORT cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t handle, int groups) {
  int status = begun("cudnnSetConvolutionGroupCount");
  if (!holds(handle, CONVOLUTION) || groups < 1) return ended(BAD_VALUE);
  convolution_of(handle)->groups = groups;
  return ended(status);
}

EXPORT cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t handle, cudnnMathType_t math) {
  int status = begun("cudnnSetConvolutionMathType");
  if (!holds(handle, CONVOLUTION)) return ended(BAD_VALUE);
  convolution_of(handle)->math = math;
  return ended(status);
}

/* Algorithms. */

/* Whether descriptors are of one convolution. */
static int fits_together(const tensor *images, const tensor *filter, const tensor *result, const convolution *of) {
  int count = images->count, type = images->type, groups = of->groups;
  if (filter->count != count || result->count != count || of->count != count - 2) return 0;
  if (filter->type != type || result->type != type || of->sums != (type == F64 ? F64 : F32)) return 0;
  if (images->sizes[0] != result->sizes[0] || result->sizes[1] != filter->sizes[0]) return 0;
  if (images->sizes[1] != groups * filter->sizes[1] || filter->sizes[0] % groups) return 0;
  if (filter->layout == CHANNELS_LAST && (images->strides[1] != 1 || result->strides[1] != 1)) return 0;
  for (int i = 0; i < of->count; i++) {
    int room = images->sizes[2 + i] + 2 * of->padding[i] - (filter->sizes[2 + i] - 1) * of->dilation[i] - 1;
    if (of->padding[i] < 0 || room < 0 || room / of->steps[i] + 1 != result->sizes[2 + i]) return 0;
  }
  return 1;
}

static int is_known(cudnnHandle_t handle, const void *images, const void *filter, const void *result, const void *of) {
  return holds_here(handle, DNN) && holds(images, TENSOR) && holds(filter, FILTER) && holds(result, TENSOR) &&
         holds(of, CONVOLUTION) &&
         fits_together(tensor_of(images), tensor_of(filter), tensor_of(result), convolution_of(of));
}

/* The first algorithm that anyone may take needs more memory than the last one. */
static int named(int status, int direction, int is_known, const void *of, int most, int *count,
                 cudnnConvolutionFwdAlgoPerf_t *found) {
  if (!is_known) return ended(BAD_VALUE);
  if (!status && *fake_setting("refuses")) --*fake_setting("refuses"), status = UNSUPPORTED;
  if (status) return ended(status);
  const struct { int algorithm, status, determinism; size_t memory; } all[] = {
      {direction == FORWARD ? 6 : 0, 0, direction == FORWARD, 0}, /* less exact; not the same from run to run */
      {1, UNSUPPORTED, 1, 0},
      {1, 0, 0, 0},
      {1, 0, 1, *fake_setting("workspace")},
      {0, 0, 1, *fake_setting("least")}, /* of no gradient */
  };
  int math = convolution_of(of)->math, known = direction == FORWARD ? 5 : 4;
  for (*count = 0; *count < most && *count < known; ++*count) {
    cudnnConvolutionFwdAlgoPerf_t it = {.memory = all[*count].memory};
    it.algo = all[*count].algorithm;
    it.status = all[*count].status;
    it.determinism = all[*count].determinism;
    it.mathType = math == FMA_MATH ? DEFAULT_MATH : math; /* for what it was not asked */
    found[*count] = it;
  }
  return ended(0);
}

static int sized(int status, int direction, int is_known, int algorithm, size_t *size) {
  if (!is_known || (algorithm != 1 && (algorithm || direction != FORWARD))) return ended(BAD_VALUE);
  if (!status) *size = *fake_setting(algorithm ? "workspace" : "least");
  return ended(status);
}

EXPORT cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t images, const cudnnFilterDescriptor_t filter,
    const cudnnConvolutionDescriptor_t of, const cudnnTensorDescriptor_t result, const int most, int *count,
    cudnnConvolutionFwdAlgoPerf_t *found) {
  int status = entered("cudnnGetConvolutionForwardAlgorithm_v7");
  return named(status, FORWARD, is_known(handle, images, filter, result, of), of, most, count, found);
}

EXPORT cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filter, const cudnnTensorDescriptor_t result,
    const cudnnConvolutionDescriptor_t of, const cudnnTensorDescriptor_t images, const int most, int *count,
    cudnnConvolutionBwdDataAlgoPerf_t *found) {
  int status = entered("cudnnGetConvolutionBackwardDataAlgorithm_v7"), known = is_known(handle, images, filter, result, of);
  return named(status, BACKWARD_DATA, known, of, most, count, (cudnnConvolutionFwdAlgoPerf_t *)found);
}

EXPORT cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t images, const cudnnTensorDescriptor_t result,
    const cudnnConvolutionDescriptor_t of, const cudnnFilterDescriptor_t filter, const int most, int *count,
    cudnnConvolutionBwdFilterAlgoPerf_t *found) {
  int status = entered("cudnnGetConvolutionBackwardFilterAlgorithm_v7"), known = is_known(handle, images, filter, result, of);
  return named(status, BACKWARD_FILTER, known, of, most, count, (cudnnConvolutionFwdAlgoPerf_t *)found);
}

EXPORT cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t images, const cudnnFilterDescriptor_t filter,
    const cudnnConvolutionDescriptor_t of, const cudnnTensorDescriptor_t result, cudnnConvolutionFwdAlgo_t algorithm,
    size_t *size) {
  int status = entered("cudnnGetConvolutionForwardWorkspaceSize");
  return sized(status, FORWARD, is_known(handle, images, filter, result, of), algorithm, size);
}

EXPORT cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filter, const cudnnTensorDescriptor_t result,
    const cudnnConvolutionDescriptor_t of, const cudnnTensorDescriptor_t images, cudnnConvolutionBwdDataAlgo_t algorithm,
    size_t *size) {
  int status = entered("cudnnGetConvolutionBackwardDataWorkspaceSize");
  return sized(status, BACKWARD_DATA, is_known(handle, images, filter, result, of), algorithm, size);
}

EXPORT cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t images, const cudnnTensorDescriptor_t result,
    const cudnnConvolutionDescriptor_t of, const cudnnFilterDescriptor_t filter,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t *size) {
  int status = entered("cudnnGetConvolutionBackwardFilterWorkspaceSize");
  return sized(status, BACKWARD_FILTER, is_known(handle, images, filter, result, of), algorithm, size);
}

/* Convolutions. */

static double loaded(int type, const void *base, int64_t at) {
  switch (type) {
  case F64: return ((const double *)base)[at];
  case F32: return ((const float *)base)[at];
  case F16: return decoded(((const uint16_t *)base)[at], 5, 10, 0);
  default: return decoded(((const uint16_t *)base)[at], 8, 7, 0);
  }
}

static void stored(int type, void *base, int64_t at, double value) {
  switch (type) {
  case F64: ((double *)base)[at] = value; break;
  case F32: ((float *)base)[at] = value; break;
  case F16: ((uint16_t *)base)[at] = encoded(value, 5, 10); break;
  default: ((uint16_t *)base)[at] = encoded(value, 8, 7);
  }
}

static int64_t numbers_of(const tensor *of) {
  int64_t count = 1;
  for (int i = 0; i < of->count; i++) count *= of->sizes[i];
  return count;
}

/* Where the nth element of a tensor lies. */
static int64_t place_of(const tensor *of, int64_t number) {
  int64_t place = 0;
  for (int i = of->count - 1; i >= 0; i--) place += number % of->sizes[i] * of->strides[i], number /= of->sizes[i];
  return place;
}

static int lies(int device, const tensor *of, const void *base) {
  size_t bytes = of->type == F64 ? 8 : of->type == F32 ? 4 : 2;
  if ((uintptr_t)base % 16) misuses++;
  return fits_on(device, base, (place_of(of, numbers_of(of) - 1) + 1) * bytes);
}

static double *read_all(const tensor *of, const void *base, int is_short) {
  double *all = calloc(numbers_of(of), sizeof *all);
  for (int64_t i = 0; base && i < numbers_of(of); i++) {
    double value = loaded(of->type, base, place_of(of, i));
    all[i] = is_short ? shortened(value) : value;
  }
  return all;
}

static void convolve(const command *command) {
  const call *it = command->source;
  const tensor *images = &it->images, *filter = &it->filter, *result = &it->result;
  const tensor *all[] = {images, filter, result};
  const void *from[] = {it->operands[0], it->operands[1], 0};
  if (it->direction == BACKWARD_DATA) from[2] = from[0], from[0] = 0;
  if (it->direction == BACKWARD_FILTER) from[2] = from[1], from[1] = 0;
  int ok = fits_on(command->device, it->workspace, it->workspace_bytes);
  for (int i = 0; i < 3; i++) ok &= lies(command->device, all[i], from[i] ? from[i] : it->computed);
  if (!ok) return;
  memset(it->workspace, 0xEE, it->workspace_bytes);
  double *numbers[3];
  int is_short = it->of.math == DEFAULT_MATH && images->type == F32; /* to TF32 */
  for (int i = 0; i < 3; i++) numbers[i] = read_all(all[i], from[i], is_short);
  int size[3][SPACE] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, steps[SPACE], holes[SPACE], padding[SPACE];
  for (int axis = 0, count = it->of.count; axis < SPACE; axis++) {
    int is_there = axis < count; /* those that are not there are the last ones, of one pixel */
    for (int i = 0; i < 3; i++) size[i][axis] = is_there ? all[i]->sizes[2 + axis] : 1;
    steps[axis] = is_there ? it->of.steps[axis] : 1, holes[axis] = is_there ? it->of.dilation[axis] : 1;
    padding[axis] = is_there ? it->of.padding[axis] : 0;
  }
  int features = filter->sizes[0], depth = filter->sizes[1], of_group = features / it->of.groups;
  for (int64_t pixel = 0, pixels = numbers_of(result) / features; pixel < pixels; pixel++) {
    int z = pixel % size[2][2], y = pixel / size[2][2] % size[2][1], x = pixel / size[2][2] / size[2][1] % size[2][0];
    int image = pixel / size[2][2] / size[2][1] / size[2][0], inside = pixel % (size[2][0] * size[2][1] * size[2][2]);
    for (int k = 0; k < features; k++) {
      double *r = &numbers[2][((int64_t)image * features + k) * size[2][0] * size[2][1] * size[2][2] + inside];
      const int first = k / of_group * depth;
      for (int c = 0; c < depth; c++)
        for (int a = 0; a < size[1][0]; a++)
          for (int b = 0; b < size[1][1]; b++)
            for (int d = 0; d < size[1][2]; d++) {
              int u = x * steps[0] + a * holes[0] - padding[0], v = y * steps[1] + b * holes[1] - padding[1];
              int w = z * steps[2] + d * holes[2] - padding[2];
              if (u < 0 || v < 0 || w < 0 || u >= size[0][0] || v >= size[0][1] || w >= size[0][2]) continue;
              int64_t at = ((int64_t)image * images->sizes[1] + first + c) * size[0][0] + u;
              double *i = &numbers[0][(at * size[0][1] + v) * size[0][2] + w];
              double *f = &numbers[1][((((int64_t)k * depth + c) * size[1][0] + a) * size[1][1] + b) * size[1][2] + d];
              if (it->direction == FORWARD) *r += *i * *f;
              else if (it->direction == BACKWARD_DATA) *i += *r * *f;
              else *f += *r * *i;
            }
    }
  }
  int computed = it->direction == FORWARD ? 2 : it->direction == BACKWARD_DATA ? 0 : 1;
  for (int64_t i = 0; i < numbers_of(all[computed]); i++)
    stored(images->type, it->computed, place_of(all[computed], i), numbers[computed][i]);
  for (int i = 0; i < 3; i++) free(numbers[i]);
}

/* The first operand, the second one and what is computed come in this order. */
static int run_here(int status, int direction, int is_known, const void *handle, const void *images, const void *filter,
                    const void *result, const void *of, const void *alpha, const void *first, const void *second,
                    int algorithm, void *workspace, size_t bytes, const void *beta, void *computed) {
  if (!is_known) return ended(BAD_VALUE);
  call *made = malloc(sizeof *made);
  *made = (call){*tensor_of(images), *tensor_of(filter), *tensor_of(result), *convolution_of(of), direction,
                 {first, second}, computed, workspace, bytes};
  int is_wide = made->images.type == F64;
  double factor = is_wide ? *(const double *)alpha : *(const float *)alpha;
  double other = is_wide ? *(const double *)beta : *(const float *)beta;
  if (direction == BACKWARD_DATA) made->operands[0] = second, made->operands[1] = first; /* the filter comes first */
  int64_t least = *fake_setting(algorithm ? "workspace" : "least");
  if (factor != 1 || other || computed == first || computed == second) misuses++;
  if ((int64_t)bytes < least || (uintptr_t)workspace % 256) misuses++;
  if ((algorithm != 1 && (algorithm || direction != FORWARD)) || made->of.math == 2) misuses++;
  *fake_setting("taken") = algorithm;
  void *stream = *(void **)((object *)handle)->data;
  return enqueued(status, stream, (command){.kind = CALL, .call = convolve, .source = made});
}

EXPORT cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                             const cudnnTensorDescriptor_t images, const void *x,
                                             const cudnnFilterDescriptor_t filter, const void *w,
                                             const cudnnConvolutionDescriptor_t of, cudnnConvolutionFwdAlgo_t algorithm,
                                             void *workspace, size_t bytes, const void *beta,
                                             const cudnnTensorDescriptor_t result, void *y) {
  int status = entered("cudnnConvolutionForward"), known = is_known(handle, images, filter, result, of);
  return run_here(status, FORWARD, known, handle, images, filter, result, of, alpha, x, w, algorithm, workspace, bytes,
                  beta, y);
}

EXPORT cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                                  const cudnnFilterDescriptor_t filter, const void *w,
                                                  const cudnnTensorDescriptor_t result, const void *dy,
                                                  const cudnnConvolutionDescriptor_t of,
                                                  cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace,
                                                  size_t bytes, const void *beta, const cudnnTensorDescriptor_t images,
                                                  void *dx) {
  int status = entered("cudnnConvolutionBackwardData"), known = is_known(handle, images, filter, result, of);
  return run_here(status, BACKWARD_DATA, known, handle, images, filter, result, of, alpha, w, dy, algorithm, workspace,
                  bytes, beta, dx);
}

EXPORT cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                                    const cudnnTensorDescriptor_t images, const void *x,
                                                    const cudnnTensorDescriptor_t result, const void *dy,
                                                    const cudnnConvolutionDescriptor_t of,
                                                    cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace,
                                                    size_t bytes, const void *beta,
                                                    const cudnnFilterDescriptor_t filter, void *dw) {
  int status = entered("cudnnConvolutionBackwardFilter"), known = is_known(handle, images, filter, result, of);
  return run_here(status, BACKWARD_FILTER, known, handle, images, filter, result, of, alpha, x, dy, algorithm,
                  workspace, bytes, beta, dw);
}
