/* CUDA's driver without a device, for tests. It works in the host's memory, and not before somebody waits for it; it
 * counts what lives, notices what is used after its end or without its context, and fails where it is told to. Its
 * "PTX" is the names of kernels, between blanks.
 *
 * Compiled with `-include cuda.h`, where that is, the compiler compares all functions with it. */
#ifndef MORE_KINDS /* of a library that works with this driver */
#define MORE_KINDS
#define MORE_SETTINGS
#endif
#define KINDS_OF_OBJECTS \
  X(STREAM, "streams") X(EVENT, "events") X(MODULE, "modules") X(POOL, "pools") X(BLOCK, "blocks") \
  X(GRAPH, "graphs") X(EXEC, "execs") X(HOST, "hosts") MORE_KINDS
#define SETTINGS \
  X("devices", 1) X("version", 12040) X("major", 9) X("minor", 0) X("major1", 9) X("minor1", 0) X("pools", 1) \
  X("unified", 1) X("held", 0) X("seed", 1) X("timeout", 0) X("unavailable", 0) X("bytes", 1 << 28) MORE_SETTINGS
#define STREAM_OBJECT
#define LAUNCH_END 0
#define HAS_HOST_MEMORY
#include "../fake_streams.h"

#ifndef CUDA_VERSION
typedef int CUresult, CUdevice, CUdevice_attribute, CUfunction_attribute, CUmemPool_attribute, CUjit_option,
    CUpointer_attribute;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct { int type, id; } CUmemLocation;
typedef struct {
  int allocType, handleTypes;
  CUmemLocation location;
  void *win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
} CUmemPoolProps;
#endif

static int retained[DEVICES], is_begun;
static int contexts[DEVICES]; /* addresses */
static __thread void *stack[16];
static __thread int depth;

EXPORT int64_t fake_live(const char *name) {
  if (strcmp(name, "contexts")) return living(name);
  return retained[0] + retained[1] + retained[2] + retained[3];
}

EXPORT int64_t fake_misuses(void) { return misuses + depth; }

EXPORT void fake_reset(void) {
  forget_work();
  memset(retained, 0, sizeof retained);
  is_begun = depth = 0;
}

static int here(void) { return depth ? (int)((int *)stack[depth - 1] - contexts) : 0; }

static int is_default(const void *stream) { return (uintptr_t)stream <= 2; }

/* A function that works in the context: the thread has to have it, and a fault stays. */
static int entered(const char *name) {
  int status = begun(name);
  if (!is_begun || !depth || !retained[here()]) {
    misuses++;
    return NO_CONTEXT;
  }
  if (is_sticky(status)) corrupt[here()] = status;
  return corrupt[here()] ? corrupt[here()] : status;
}

/* The driver: itself, and devices. */

EXPORT CUresult cuInit(unsigned int flags) {
  int status = begun("cuInit");
  if (!status && flags) status = INVALID;
  if (!status && !*fake_setting("devices")) status = NONE;
  if (!status) is_begun = 1;
  return ended(status);
}

EXPORT CUresult cuDriverGetVersion(int *version) {
  int status = begun("cuDriverGetVersion");
  *version = *fake_setting("version");
  return ended(status);
}

static const struct { int status; const char *name, *text; } names[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"}};

EXPORT CUresult cuGetErrorName(CUresult status, const char **text) {
  *text = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].status == (int)status) *text = names[i].name;
  return *text ? 0 : INVALID;
}

EXPORT CUresult cuGetErrorString(CUresult status, const char **text) {
  *text = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].status == (int)status) *text = names[i].text;
  return *text ? 0 : INVALID;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
  int status = begun("cuDeviceGetCount");
  *count = *fake_setting("devices");
  return ended(status);
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int number) {
  int status = begun("cuDeviceGet");
  *device = number;
  return ended(status ? status : number < *fake_setting("devices") ? 0 : INVALID);
}

EXPORT CUresult cuDeviceGetName(char *name, int room, CUdevice device) {
  int status = begun("cuDeviceGetName");
  strncpy(name, device ? "Fake 1" : "Fake 0", room);
  return ended(status);
}

EXPORT CUresult cuDeviceGetPCIBusId(char *name, int room, CUdevice device) {
  int status = begun("cuDeviceGetPCIBusId");
  strncpy(name, device ? "0000:02:00.0" : "0000:01:00.0", room);
  return ended(status);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  (void)device;
  int status = begun("cuDeviceTotalMem");
  *bytes = *fake_setting("bytes");
  return ended(status);
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  int status = begun("cuDeviceGetAttribute");
  switch ((int)which) {
  case 1: *value = 1024; break;
  case 8: *value = 49152; break;
  case 10: *value = 32; break;
  case 16: *value = 132; break;
  case 17: *value = *fake_setting("timeout"); break;
  case 41: *value = *fake_setting("unified"); break;
  case 75: *value = *fake_setting(device ? "major1" : "major"); break;
  case 76: *value = *fake_setting(device ? "minor1" : "minor"); break;
  case 97: *value = 232448; break;
  case 115: *value = *fake_setting("pools"); break;
  default: status = INVALID;
  }
  return ended(status);
}

/* The primary context of a device: others may hold it, too, and then a fault stays for as long as the process. */

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  int status = begun("cuDevicePrimaryCtxRetain");
  if (!status && *fake_setting("unavailable")) status = 46;
  if (!status) {
    retained[device]++;
    *context = (CUcontext)&contexts[device];
  }
  return ended(status);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  int status = begun("cuDevicePrimaryCtxRelease");
  if (!retained[device]) misuses++, status = NO_CONTEXT;
  else if (!--retained[device] && !*fake_setting("held")) {
    for (object *it = objects; it; it = it->before)
      if (it->is_live && it->device == device) it->is_live = 0, live[it->kind]--;
    for (command **place = &first; *place;) {
      command *it = *place;
      if (it->device == device) *place = it->next, free(it);
      else place = &it->next;
    }
    corrupt[device] = 0;
  }
  return ended(status);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  int status = begun("cuCtxPushCurrent");
  if (!status && (!context || !retained[(int *)context - contexts])) misuses++, status = NO_CONTEXT;
  if (!status) stack[depth++] = context;
  return ended(status);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  int status = begun("cuCtxPopCurrent");
  if (depth) *context = stack[--depth];
  else misuses++;
  return ended(status);
}

EXPORT CUresult cuCtxSynchronize(void) {
  int status = entered("cuCtxSynchronize");
  return ended(status ? status : drain());
}

/* Streams and events. */

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  int status = entered("cuStreamCreate");
  if (!status && flags != 1) status = INVALID;
  if (!status) *stream = (CUstream)made_here(STREAM);
  return ended(status);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  int status = entered("cuStreamDestroy");
  drain();
  return ended(status ? status : released_handle(stream, STREAM));
}

EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  int status = entered("cuStreamSynchronize");
  return waited(status ? status : is_stream(stream) ? 0 : BAD_HANDLE);
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  (void)flags;
  return waiting(entered("cuStreamWaitEvent"), stream, event);
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  (void)flags;
  int status = entered("cuEventCreate");
  if (!status) *event = (CUevent)made_here(EVENT);
  return ended(status);
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  return recorded(entered("cuEventRecord"), event, stream);
}

EXPORT CUresult cuEventQuery(CUevent event) {
  return asked(entered("cuEventQuery"), event);
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
  int status = entered("cuEventSynchronize");
  return waited(status ? status : holds(event, EVENT) ? 0 : BAD_HANDLE);
}

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  int status = entered("cuEventDestroy");
  return ended(status ? status : released_handle(event, EVENT));
}

/* Memory. */

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
  int status = entered("cuMemAlloc");
  return ended(status ? status : allocated(size, address));
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  int status = entered("cuMemFree");
  if (first) misuses++; /* somebody might still use it */
  return ended(status ? status : end_block((void *)(uintptr_t)address) ? 0 : INVALID);
}

/* Memory of the host, which devices read too. */
EXPORT CUresult cuMemHostAlloc(void **address, size_t size, unsigned int flags) {
  int status = entered("cuMemHostAlloc");
  if (!status && (flags != 3 || !size)) status = INVALID;
  if (!status) {
    object *it = made_here(HOST);
    *address = it->data = malloc(size);
    memset(it->data, 0xCC, size);
  }
  return ended(status);
}

EXPORT CUresult cuMemFreeHost(void *address) {
  int status = entered("cuMemFreeHost");
  object *it = objects;
  while (it && (it->kind != HOST || it->data != address)) it = it->before;
  return ended(status ? status : released_handle(it, HOST));
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  int status = entered("cuMemPoolCreate");
  static const unsigned char nothing[54];
  if (!status && ((int)properties->allocType != 1 || (int)properties->location.type != 1 || properties->handleTypes ||
                  properties->win32SecurityAttributes || properties->maxSize ||
                  memcmp(properties->reserved, nothing, 54)))
    status = INVALID;
  if (!status) *pool = (CUmemoryPool)made_here(POOL);
  return ended(status);
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  int status = entered("cuMemPoolDestroy");
  return ended(status ? status : released_handle(pool, POOL));
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value) {
  int status = entered("cuMemPoolSetAttribute");
  if (!status && (!holds(pool, POOL) || (int)which != 4 || !*(uint64_t *)value)) status = INVALID;
  return ended(status);
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
  (void)bytes;
  int status = entered("cuMemPoolTrimTo");
  return ended(status ? status : holds(pool, POOL) ? 0 : INVALID);
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream) {
  int status = entered("cuMemAllocFromPoolAsync");
  if (!status && (!holds_here(pool, POOL) || !holds_here(stream, STREAM))) status = BAD_HANDLE;
  return ended(status ? status : allocated(size, address));
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  int status = entered("cuMemFreeAsync");
  return enqueued(status, stream, (command){.kind = FREE, .target = (void *)(uintptr_t)address});
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream) {
  int status = entered("cuMemcpyAsync");
  command copy = {.kind = COPY, .target = (void *)(uintptr_t)target, .source = (void *)(uintptr_t)source, .size = size};
  return enqueued(status, stream, copy);
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, size_t size,
                                  CUstream stream) {
  int status = entered("cuMemcpyPeerAsync"), other = (int)((int *)from - contexts);
  command copy = {.kind = COPY, .target = (void *)(uintptr_t)target, .source = (void *)(uintptr_t)source, .size = size};
  copy.from = other;
  if (!status && ((int *)to - contexts != here() || !retained[other])) misuses++, status = NO_CONTEXT;
  return enqueued_from(status, stream, copy, 1);
}

EXPORT CUresult cuPointerGetAttribute(void *value, CUpointer_attribute which, CUdeviceptr address) {
  int status = entered("cuPointerGetAttribute");
  if (!status && ((int)which != 9 || !block_of((void *)(uintptr_t)address))) status = INVALID;
  if (!status) *(int *)value = block_of((void *)(uintptr_t)address)->device;
  return ended(status);
}

/* Modules. */

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                                   void **values) {
  int status = entered("cuModuleLoadDataEx");
  const char *text = image;
  if (!status && text[0] != '.' && (text[0] < 'a' || text[0] > 'z')) status = BAD_IMAGE;
  if (!status && strstr(text, "broken")) {
    static const char log[] = "ptxas application ptx input, line 7; error : Unknown symbol 'nowhere'";
    status = BAD_PTX;
    for (unsigned i = 0; i + 1 < count; i++)
      if ((int)options[i] == 5 && (int)options[i + 1] == 6 && sizeof log <= (uintptr_t)values[i + 1])
        memcpy(values[i], log, sizeof log);
  }
  if (!status) {
    object *it = made_here(MODULE);
    it->text = strdup(text);
    *module = (CUmodule)it;
  }
  return ended(status);
}

EXPORT CUresult cuModuleUnload(CUmodule module) {
  int status = entered("cuModuleUnload");
  return ended(status ? status : released_handle(module, MODULE));
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  int status = entered("cuModuleGetFunction");
  if (!status && !holds(module, MODULE)) status = BAD_HANDLE;
  if (!status && !strstr(((object *)module)->text, name)) status = UNKNOWN_NAME;
  if (!status) *function = (CUfunction)kernel_of(module, name);
  return ended(status);
}

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction function) {
  int status = entered("cuFuncGetAttribute");
  (void)function;
  *value = 1024;
  return ended(status ? status : (int)which == 1 ? 0 : INVALID);
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  int status = entered("cuFuncSetAttribute");
  (void)function;
  return ended(status ? status : (int)which == 8 && value == 232448 - 1024 ? 0 : INVALID);
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int u,
                               unsigned int v, unsigned int w, unsigned int shared, CUstream stream, void **parameters,
                               void **extra) {
  int status = entered("cuLaunchKernel");
  command it = {0};
  const unsigned int blocks[] = {x, y, z}, threads[] = {u, v, w};
  if (!status) status = launch_of(function, blocks, threads, shared, parameters, extra, &it);
  if (!status) note(&it, stream);
  return enqueued(status, stream, it);
}

#include "fake_graphs.h"
