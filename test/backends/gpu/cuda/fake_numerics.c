/* cuFFT and cuSOLVER without a device, for tests: a part of the driver beside them, on whose commands their work waits.
 * They compute what they are asked for in plain loops, or with the LAPACK that the test brings; notice what is used after its end, in another context, or out of
 * bounds; fail where they are told to, and spoil their workspace.
 *
 * Compiled with `-include cuda.h -include cufftXt.h -include cusolverDn.h`, where these are, the compiler compares
 * functions and numbers. */
#define MORE_KINDS X(TRANSFORM, "transforms") X(SOLVER, "solvers") X(PARAMETERS, "parameters")
#define MORE_SETTINGS \
  X("cufft_version", 11304)    \
  X("cusolver_version", 11700) \
  X("lapack", 0)               /* where the addresses of its routines are: what cuSOLVER computes with */ \
  X("refuses", 0)              /* how many plans they refuse */ \
  X("workspace", 1 << 16)      /* bytes that they need */
#include "fake_driver.c"
#include <complex.h>
#include <math.h>

enum { R32 = 0, R64 = 1, C32 = 4, C64 = 5 }; /* cudaDataType_t */
enum { UNALLOCATED = 2, BAD_PLAN = 1, BAD_VALUE = 4, UNSUPPORTED = 16 };  /* cufftResult */
enum { SOLVER_BAD_VALUE = 3, SOLVER_UNSUPPORTED = 9 };                    /* cusolverStatus_t */

#ifdef CUFFT_VERSION
#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a)
SAME(R32, CUDA_R_32F);
SAME(R64, CUDA_R_64F);
SAME(C32, CUDA_C_32F);
SAME(C64, CUDA_C_64F);
SAME(BAD_PLAN, CUFFT_INVALID_PLAN);
SAME(UNALLOCATED, CUFFT_ALLOC_FAILED);
SAME(3, CUFFT_INVALID_TYPE);
SAME(BAD_VALUE, CUFFT_INVALID_VALUE);
SAME(8, CUFFT_INVALID_SIZE);
SAME(14, CUFFT_NOT_IMPLEMENTED);
SAME(UNSUPPORTED, CUFFT_NOT_SUPPORTED);
SAME(-1, CUFFT_FORWARD);
SAME(1, CUFFT_INVERSE);
SAME(UNALLOCATED, CUSOLVER_STATUS_ALLOC_FAILED);
SAME(1, CUSOLVER_STATUS_NOT_INITIALIZED);
SAME(SOLVER_BAD_VALUE, CUSOLVER_STATUS_INVALID_VALUE);
SAME(4, CUSOLVER_STATUS_ARCH_MISMATCH);
SAME(SOLVER_UNSUPPORTED, CUSOLVER_STATUS_NOT_SUPPORTED);
SAME(0, CUBLAS_FILL_MODE_LOWER);
SAME(1, CUBLAS_FILL_MODE_UPPER);
SAME(0, CUSOLVER_EIG_MODE_NOVECTOR);
SAME(1, CUSOLVER_EIG_MODE_VECTOR);
#else
typedef int cufftResult, cufftHandle, cudaDataType, cusolverStatus_t, cublasFillMode_t, cusolverEigMode_t;
typedef void *cudaStream_t, *cusolverDnHandle_t, *cusolverDnParams_t;
#endif

typedef struct {
  int rank, operand, result, made;
  long long lengths[3], batch;
  void *stream, *workspace;
} transform;

typedef struct {
  transform of;
  const void *from;
  void *to;
  int direction;
} execution;

typedef struct {
  int is_upper, type;
  int64_t size, stride;
  void *matrix, *workspace;
  size_t workspace_bytes;
  int *how;
} factorization;

/* Plans are numbers; that of the nth one is n. */
static object *plans[1 << 12];
static int count;

static transform *plan_of(int plan) {
  object *it = plan >= 0 && plan < count ? plans[plan] : 0;
  if (it && holds_here(it, TRANSFORM)) return (transform *)it->data;
  misuses++;
  return 0;
}

EXPORT cufftResult cufftGetVersion(int *version) {
  *version = *fake_setting("cufft_version");
  return 0;
}

EXPORT cufftResult cufftCreate(cufftHandle *plan) {
  int status = entered("cufftCreate");
  if (!status) {
    plans[count] = made_here(TRANSFORM);
    plans[count]->data = calloc(1, sizeof(transform));
    *plan = count++;
  }
  return ended(status);
}

EXPORT cufftResult cufftDestroy(cufftHandle plan) {
  int status = entered("cufftDestroy");
  if (!plan_of(plan) || !released(plans[plan], TRANSFORM)) status = BAD_PLAN;
  return ended(status);
}

EXPORT cufftResult cufftSetAutoAllocation(cufftHandle plan, int automatic) {
  int status = entered("cufftSetAutoAllocation");
  if (!plan_of(plan) || automatic) misuses++;
  return ended(status);
}

EXPORT cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long *lengths, long long *sizes,
                                       long long step, long long distance, cudaDataType operand,
                                       long long *result_sizes, long long result_step, long long result_distance,
                                       cudaDataType result, long long batch, size_t *workspace, cudaDataType of) {
  int status = entered("cufftXtMakePlanMany");
  transform *it = plan_of(plan);
  if (!it || rank < 1 || rank > 3 || sizes || result_sizes || of != (int)result || batch < 1) return ended(BAD_VALUE);
  if (!status && *fake_setting("refuses")) --*fake_setting("refuses"), status = UNSUPPORTED;
  if (status) return ended(status);
  *it = (transform){.rank = rank, .operand = operand, .result = result, .made = 1, .batch = batch};
  memcpy(it->lengths, lengths, rank * sizeof *lengths);
  *workspace = *fake_setting("workspace");
  return ended(0);
}

EXPORT cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream) {
  int status = entered("cufftSetStream");
  transform *it = plan_of(plan);
  if (it) it->stream = stream;
  return ended(it ? status : BAD_PLAN);
}

EXPORT cufftResult cufftSetWorkArea(cufftHandle plan, void *workspace) {
  int status = entered("cufftSetWorkArea");
  transform *it = plan_of(plan);
  if ((uintptr_t)workspace % 256) misuses++;
  if (it) it->workspace = workspace;
  return ended(it ? status : BAD_PLAN);
}

static complex double loaded(int type, const void *base, int64_t at) {
  switch (type) {
  case R32: return ((const float *)base)[at];
  case R64: return ((const double *)base)[at];
  case C32: return ((const complex float *)base)[at];
  default: return ((const complex double *)base)[at];
  }
}

static void stored(int type, void *base, int64_t at, complex double value) {
  switch (type) {
  case R32: ((float *)base)[at] = creal(value); break;
  case R64: ((double *)base)[at] = creal(value); break;
  case C32: ((complex float *)base)[at] = value; break;
  default: ((complex double *)base)[at] = value;
  }
}

static size_t bytes_of(int type) { return type == R32 ? 4 : type == C64 ? 16 : 8; }

static void along(complex double *numbers, long long outer, long long length, long long inner, int direction) {
  complex double *row = malloc(length * sizeof *row);
  for (long long i = 0; i < outer; i++)
    for (long long j = 0; j < inner; j++) {
      complex double *first = numbers + i * length * inner + j;
      for (long long k = 0; k < length; k++) {
        row[k] = 0;
        for (long long m = 0; m < length; m++) row[k] += first[m * inner] * cexp(direction * 2 * M_PI * I * (k * m % length) / length);
      }
      for (long long k = 0; k < length; k++) first[k * inner] = row[k];
    }
  free(row);
}

static void transformed(const command *command) {
  const execution *it = command->source;
  const transform *of = &it->of;
  long long numbers = of->batch, last = of->lengths[of->rank - 1], half = last / 2 + 1;
  for (int axis = 0; axis < of->rank; axis++) numbers *= of->lengths[axis];
  int is_real = of->operand == R32 || of->operand == R64;
  long long results = is_real ? numbers / last * half : numbers;
  if (!fits_on(command->device, it->from, numbers * bytes_of(of->operand)) ||
      !fits_on(command->device, it->to, results * bytes_of(of->result)) ||
      !fits_on(command->device, of->workspace, *fake_setting("workspace")))
    return;
  memset(of->workspace, 0xEE, *fake_setting("workspace"));
  complex double *held = malloc(numbers * sizeof *held);
  for (long long at = 0; at < numbers; at++) held[at] = loaded(of->operand, it->from, at);
  long long outer = of->batch, inner = numbers / of->batch;
  for (int axis = 0; axis < of->rank; axis++) {
    inner /= of->lengths[axis];
    along(held, outer, of->lengths[axis], inner, it->direction);
    outer *= of->lengths[axis];
  }
  for (long long at = 0; at < results; at++)
    stored(of->result, it->to, at, held[is_real ? at / half * last + at % half : at]);
  free(held);
}

EXPORT cufftResult cufftXtExec(cufftHandle plan, void *from, void *to, int direction) {
  int status = entered("cufftXtExec");
  transform *it = plan_of(plan);
  if (!it || !it->made || (direction != 1 && direction != -1) || from == to) return ended(BAD_VALUE);
  execution *made = malloc(sizeof *made);
  *made = (execution){*it, from, to, direction};
  return enqueued(status, it->stream, (command){.kind = CALL, .call = transformed, .source = made});
}

/* cuSOLVER */

EXPORT cusolverStatus_t cusolverGetVersion(int *version) {
  *version = *fake_setting("cusolver_version");
  return 0;
}

EXPORT cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle) {
  int status = entered("cusolverDnCreate");
  if (!status) {
    object *it = made_here(SOLVER);
    it->data = calloc(1, sizeof(void *));
    *handle = (cusolverDnHandle_t)it;
  }
  return ended(status);
}

EXPORT cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  int status = entered("cusolverDnDestroy");
  return ended(holds_here(handle, SOLVER) && released(handle, SOLVER) ? status : SOLVER_BAD_VALUE);
}

EXPORT cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  int status = entered("cusolverDnSetStream");
  if (!holds_here(handle, SOLVER)) return ended(SOLVER_BAD_VALUE);
  if (!status) *(void **)((object *)handle)->data = stream;
  return ended(status);
}

EXPORT cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t *parameters) {
  int status = entered("cusolverDnCreateParams");
  if (!status) *parameters = (cusolverDnParams_t)made_here(PARAMETERS);
  return ended(status);
}

EXPORT cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t parameters) {
  int status = entered("cusolverDnDestroyParams");
  return ended(holds_here(parameters, PARAMETERS) && released(parameters, PARAMETERS) ? status : SOLVER_BAD_VALUE);
}

EXPORT cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                                    cublasFillMode_t uplo, int64_t n, cudaDataType type,
                                                    const void *matrix, int64_t stride, cudaDataType of,
                                                    size_t *on_device, size_t *on_host) {
  int status = entered("cusolverDnXpotrf_bufferSize");
  if (!holds_here(handle, SOLVER) || !holds_here(parameters, PARAMETERS) || n < 1 || stride < n || type != of)
    return ended(SOLVER_BAD_VALUE);
  if (!status && *fake_setting("refuses")) --*fake_setting("refuses"), status = SOLVER_UNSUPPORTED;
  if (!status) *on_device = *fake_setting("workspace"), *on_host = 24;
  return ended(status);
}

/* Of a matrix by columns, in the chosen triangle alone. */
static void factorize(const command *command) {
  const factorization *it = command->source;
  int64_t n = it->size;
  if (!fits_on(command->device, it->matrix, ((n - 1) * it->stride + n) * bytes_of(it->type)) ||
      !fits_on(command->device, it->workspace, it->workspace_bytes) || !fits_on(command->device, it->how, 4))
    return;
  memset(it->workspace, 0xEE, it->workspace_bytes);
  *it->how = 0;
  complex double *l = calloc(n * n, sizeof *l); /* by rows */
  for (int64_t i = 0; i < n && !*it->how; i++)
    for (int64_t j = 0; j <= i; j++) {
      int64_t row = it->is_upper ? j : i, column = it->is_upper ? i : j;
      complex double value = loaded(it->type, it->matrix, row + column * it->stride);
      if (it->is_upper) value = conj(value);
      for (int64_t k = 0; k < j; k++) value -= l[i * n + k] * conj(l[j * n + k]);
      if (i == j && creal(value) <= 0) *it->how = i + 1;
      l[i * n + j] = i == j ? csqrt(value) : value / l[j * n + j];
      complex double kept = it->is_upper ? conj(l[i * n + j]) : l[i * n + j];
      stored(it->type, it->matrix, row + column * it->stride, kept);
    }
  free(l);
}

EXPORT cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                         cublasFillMode_t uplo, int64_t n, cudaDataType type, void *matrix,
                                         int64_t stride, cudaDataType of, void *on_device, size_t device_bytes,
                                         void *on_host, size_t host_bytes, int *how) {
  int status = entered("cusolverDnXpotrf");
  if (!holds_here(handle, SOLVER) || !holds_here(parameters, PARAMETERS) || n < 1 || stride < n || type != of)
    return ended(SOLVER_BAD_VALUE);
  if (host_bytes != 24 || (int64_t)device_bytes != *fake_setting("workspace") || (uintptr_t)on_device % 256) misuses++;
  memset(on_host, 0xEE, host_bytes);
  factorization *made = malloc(sizeof *made);
  *made = (factorization){(int)uplo, (int)type, n, stride, matrix, on_device, device_bytes, how};
  void *stream = *(void **)((object *)handle)->data;
  return enqueued(status, stream, (command){.kind = CALL, .call = factorize, .source = made});
}

/* Routines of LAPACK, of matrices by columns. */

enum { GETRF, GEQRF, ORGQR, SYEVD, GESVD, ROUTINES };

typedef struct {
  int routine, type, m, n, k, lda, ldu, ldvt, elements;
  char left, right; /* modes, or a triangle */
  void *a, *first, *u, *vt, *work;
  int *info;
} decomposition;

static int letter_of(int type) { return type == R32 ? 0 : type == R64 ? 1 : type == C32 ? 2 : 3; }

static void *routine_at(int routine, int type) { return ((void **)*fake_setting("lapack"))[4 * routine + letter_of(type)]; }

static int fits_all(const command *command, const decomposition *it) {
  int device = command->device;
  int64_t size = bytes_of(it->type), real = it->type == C32 || it->type == R32 ? 4 : 8;
  int64_t least = it->m < it->n ? it->m : it->n;
  int64_t of_first = it->routine == GETRF ? 4 * least : it->routine == GEQRF ? size * least
                   : it->routine == ORGQR ? size * it->k : real * least;
  int64_t left = it->left == 'A' ? it->m : least;
  int all = fits_on(device, it->a, ((int64_t)(it->n - 1) * it->lda + it->m) * size) &&
            fits_on(device, it->first, of_first) && fits_on(device, it->info, 4) &&
            fits_on(device, it->work, it->elements * size);
  if (it->routine == GESVD && it->left != 'N')
    all = all && fits_on(device, it->u, ((left - 1) * it->ldu + it->m) * size);
  if (it->routine == GESVD && it->right != 'N')
    all = all && fits_on(device, it->vt, ((int64_t)(it->n - 1) * it->ldvt + it->n) * size);
  return all;
}

static void decompose(const command *command) {
  const decomposition *it = command->source;
  if (!fits_all(command, it)) return;
  int big = it->type >= C32, most = it->m > it->n ? it->m : it->n, info = 0;
  int lwork = 8 * most * most + 64 * most + 64, lreal = 8 * most * most + 64 * most + 64, lints = 5 * most + 8;
  void *work = malloc(16 * (size_t)lwork), *real = malloc(8 * (size_t)lreal), *ints = malloc(4 * (size_t)lints);
  memset(it->work, 0xEE, it->elements * bytes_of(it->type));
  int m = it->m, n = it->n, k = it->k, lda = it->lda, ldu = it->ldu, ldvt = it->ldvt;
  char left = it->left, right = it->right;
  void *f = routine_at(it->routine, it->type);
  typedef int *N;
  typedef void *P;
  switch (it->routine) {
  case GETRF: ((void (*)(N, N, P, N, P, N))f)(&m, &n, it->a, &lda, it->first, &info); break;
  case GEQRF: ((void (*)(N, N, P, N, P, P, N, N))f)(&m, &n, it->a, &lda, it->first, work, &lwork, &info); break;
  case ORGQR: ((void (*)(N, N, N, P, N, P, P, N, N))f)(&m, &n, &k, it->a, &lda, it->first, work, &lwork, &info); break;
  case SYEVD:
    if (big)
      ((void (*)(P, P, N, P, N, P, P, N, P, N, P, N, N))f)(&left, &right, &n, it->a, &lda, it->first, work, &lwork,
                                                            real, &lreal, ints, &lints, &info);
    else
      ((void (*)(P, P, N, P, N, P, P, N, P, N, N))f)(&left, &right, &n, it->a, &lda, it->first, work, &lwork, ints,
                                                      &lints, &info);
    break;
  default:
    if (big)
      ((void (*)(P, P, N, N, P, N, P, P, N, P, N, P, N, P, N))f)(&left, &right, &m, &n, it->a, &lda, it->first, it->u,
                                                                  &ldu, it->vt, &ldvt, work, &lwork, real, &info);
    else
      ((void (*)(P, P, N, N, P, N, P, P, N, P, N, P, N, N))f)(&left, &right, &m, &n, it->a, &lda, it->first, it->u,
                                                               &ldu, it->vt, &ldvt, work, &lwork, &info);
  }
  *it->info = info;
  free(work), free(real), free(ints);
}

static cusolverStatus_t asked_for(int status, cusolverDnHandle_t handle, int type, int bad, int *elements) {
  if (!holds_here(handle, SOLVER) || bad) return ended(SOLVER_BAD_VALUE);
  if (!status && *fake_setting("refuses")) --*fake_setting("refuses"), status = SOLVER_UNSUPPORTED;
  if (!status) *elements = *fake_setting("workspace") / bytes_of(type);
  return ended(status);
}

/* `elements`: -1 where the function is not told. */
static cusolverStatus_t sent(int status, cusolverDnHandle_t handle, decomposition it) {
  int64_t has = *fake_setting("workspace") / bytes_of(it.type);
  if (!holds_here(handle, SOLVER) || it.m < 1 || it.n < 1 || it.lda < it.m) return ended(SOLVER_BAD_VALUE);
  if (it.elements == -1) it.elements = has;
  if (it.elements != has || (uintptr_t)it.work % 256) misuses++;
  decomposition *made = malloc(sizeof *made);
  *made = it;
  void *stream = *(void **)((object *)handle)->data;
  return enqueued(status, stream, (command){.kind = CALL, .call = decompose, .source = made});
}

#define STATUS EXPORT cusolverStatus_t
#define H cusolverDnHandle_t h
#define LAPACK(L, T, R, CODE, OR, SY)                                                                                  \
  STATUS cusolverDn##L##getrf_bufferSize(H, int m, int n, T *a, int lda, int *lwork) {                                 \
    return asked_for(entered("cusolverDn" #L "getrf_bufferSize"), h, CODE, m < 1 || n < 1 || lda < m, lwork);              \
  }                                                                                                                    \
  STATUS cusolverDn##L##getrf(H, int m, int n, T *a, int lda, T *work, int *pivots, int *info) {                       \
    return sent(entered("cusolverDn" #L "getrf"), h,                                                                 \
                  (decomposition){GETRF, CODE, m, n, 0, lda, 0, 0, -1, 0, 0, a, pivots, 0, 0, work, info});            \
  }                                                                                                                    \
  STATUS cusolverDn##L##geqrf_bufferSize(H, int m, int n, T *a, int lda, int *lwork) {                                 \
    return asked_for(entered("cusolverDn" #L "geqrf_bufferSize"), h, CODE, m < 1 || n < 1 || lda < m, lwork);              \
  }                                                                                                                    \
  STATUS cusolverDn##L##geqrf(H, int m, int n, T *a, int lda, T *tau, T *work, int lwork, int *info) {                 \
    return sent(entered("cusolverDn" #L "geqrf"), h,                                                                 \
                  (decomposition){GEQRF, CODE, m, n, 0, lda, 0, 0, lwork, 0, 0, a, tau, 0, 0, work, info});            \
  }                                                                                                                    \
  STATUS cusolverDn##L##OR##_bufferSize(H, int m, int n, int k, const T *a, int lda, const T *tau, int *lwork) {       \
    return asked_for(entered("cusolverDn" #L #OR "_bufferSize"), h, CODE, m < n || n < k || lda < m, lwork);               \
  }                                                                                                                    \
  STATUS cusolverDn##L##OR(H, int m, int n, int k, T *a, int lda, const T *tau, T *work, int lwork, int *info) {       \
    return sent(entered("cusolverDn" #L #OR), h,                                                                     \
                  (decomposition){ORGQR, CODE, m, n, k, lda, 0, 0, lwork, 0, 0, a, (void *)tau, 0, 0, work, info});    \
  }                                                                                                                    \
  STATUS cusolverDn##L##SY##_bufferSize(H, cusolverEigMode_t mode, cublasFillMode_t uplo, int n, const T *a, int lda,  \
                                        const R *w, int *lwork) {                                                      \
    return asked_for(entered("cusolverDn" #L #SY "_bufferSize"), h, CODE, n < 1 || lda < n, lwork);                        \
  }                                                                                                                    \
  STATUS cusolverDn##L##SY(H, cusolverEigMode_t mode, cublasFillMode_t uplo, int n, T *a, int lda, R *w, T *work,      \
                           int lwork, int *info) {                                                                     \
    return sent(entered("cusolverDn" #L #SY), h,                                                                     \
                  (decomposition){SYEVD, CODE, n, n, 0, lda, 0, 0, lwork, "NV"[mode == 1], "LU"[uplo == 1], a, w, 0,   \
                                  0, work, info});                                                                     \
  }                                                                                                                    \
  STATUS cusolverDn##L##gesvd_bufferSize(H, int m, int n, int *lwork) {                                                \
    return asked_for(entered("cusolverDn" #L "gesvd_bufferSize"), h, CODE, n < 1 || m < n, lwork);                         \
  }                                                                                                                    \
  STATUS cusolverDn##L##gesvd(H, signed char left, signed char right, int m, int n, T *a, int lda, R *s, T *u,         \
                              int ldu, T *vt, int ldvt, T *work, int lwork, R *rwork, int *info) {                     \
    int status = entered("cusolverDn" #L "gesvd");                                                                     \
    if (m < n || ldu < m || ldvt < n || rwork) return ended(SOLVER_BAD_VALUE);                                         \
    return sent(status, h, (decomposition){GESVD, CODE, m, n, 0, lda, ldu, ldvt, lwork, left, right, a, s, u, vt,    \
                                             work, info});                                                             \
  }
#ifndef CUFFT_VERSION
typedef complex float cuComplex;
typedef complex double cuDoubleComplex;
#endif
LAPACK(S, float, float, R32, orgqr, syevd)
LAPACK(D, double, double, R64, orgqr, syevd)
LAPACK(C, cuComplex, float, C32, ungqr, heevd)
LAPACK(Z, cuDoubleComplex, double, C64, ungqr, heevd)
