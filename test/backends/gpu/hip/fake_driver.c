/* HIP without a device, for tests. It works in the host's memory, and not before somebody waits for it; it counts what
 * lives, notices what is used after its end or on another device, and fails where it is told to. It loads code objects
 * as AMD's loader does: by their segments and their table of symbols. What a kernel does, its code does not decide.
 *
 * Compiled with `-include hip/hip_runtime_api.h`, where that is, the compiler compares all functions with it. */
#define KINDS_OF_OBJECTS \
  X(STREAM, "streams") X(EVENT, "events") X(MODULE, "modules") X(POOL, "pools") X(BLOCK, "blocks") \
  X(GRAPH, "graphs") X(EXEC, "execs")
#define SETTINGS \
  X("devices", 1) X("processor", 0) X("pools", 1) X("sticky", 0) X("bytes", 1 << 28) \
  X("seed", 1)
#define STREAM_OBJECT \
  const void *image; /* of a module, and a copy of it: the driver reads it until the end */ \
  void *copied;
#define LAUNCH_END 3
#include "../fake_streams.h"
#include <elf.h>

#ifndef HIP_VERSION
typedef int hipError_t, hipDevice_t, hipDeviceAttribute_t, hipMemPoolAttr, hipPointer_attribute, hipMemcpyKind;
typedef void *hipDeviceptr_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipMemPoolHandle_t *hipMemPool_t;
typedef struct { int type, id; } hipMemLocation;
typedef struct {
  int allocType, handleTypes;
  hipMemLocation location;
  void *win32SecurityAttributes;
  size_t maxSize;
  unsigned char reserved[56];
} hipMemPoolProps;
typedef struct { char before[1160], gcnArchName[256], after[56]; } hipDeviceProp_tR0600;
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *, int);
#endif
_Static_assert(sizeof(hipDeviceProp_tR0600) == 1472 && offsetof(hipDeviceProp_tR0600, gcnArchName) == 1160, "layout");
#ifdef HIP_VERSION
_Static_assert(hipDeviceAttributeMaxThreadsPerBlock == 56 && hipDeviceAttributeMultiprocessorCount == 63 &&
                   hipDeviceAttributeMaxSharedMemoryPerBlock == 74 && hipDeviceAttributeWarpSize == 87 &&
                   hipDeviceAttributeMemoryPoolsSupported == 88 && hipMemcpyDefault == 4 &&
                   HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL == 9 && hipMemPoolAttrReleaseThreshold == 4 &&
                   hipStreamNonBlocking == 1 && hipEventDisableTiming == 2,
               "numbers");
#endif

static __thread int chosen; /* the device */

EXPORT int64_t fake_live(const char *name) { return living(name); }

/* A thread that is left with another device than it had is one, too. */
EXPORT int64_t fake_misuses(void) { return misuses + (chosen != 0); }

EXPORT void fake_reset(void) {
  forget_work();
  chosen = 0;
}

static int here(void) { return chosen; }

static int is_default(const void *stream) { return !stream; }

/* A function that works on the device of the thread, where a fault stays. */
static int entered(const char *name) {
  int status = begun(name);
  if (is_sticky(status)) corrupt[chosen] = status;
  return corrupt[chosen] ? corrupt[chosen] : status;
}

/* What is freed after a fault is freed all the same. */
static int given_back(const char *name, void *handle, kind kind) {
  int status = begun(name);
  return ended(status ? status : released_handle(handle, kind));
}

/* The driver: itself, and devices. */

EXPORT hipError_t hipInit(unsigned int flags) {
  int status = begun("hipInit");
  return ended(status ? status : flags ? INVALID : *fake_setting("devices") ? 0 : NONE);
}

EXPORT hipError_t hipRuntimeGetVersion(int *version) {
  int status = begun("hipRuntimeGetVersion");
  *version = 60342134;
  return ended(status);
}

static const struct { int status; const char *name, *text; } names[] = {
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {35, "hipErrorInsufficientDriver", "driver version is insufficient for runtime version"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {200, "hipErrorInvalidImage", "device kernel image is invalid"},
    {209, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {214, "hipErrorECCNotCorrectable", "uncorrectable ECC error encountered"},
    {400, "hipErrorInvalidHandle", "invalid resource handle"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {702, "hipErrorLaunchTimeOut", "the launch timed out and was terminated"},
    {719, "hipErrorLaunchFailure", "unspecified launch failure"},
    {999, "hipErrorUnknown", "unknown error"},
    {1053, "hipErrorRuntimeOther", "runtime call other than memory returned error"}};

static int place_of(int status) {
  int i = 0;
  while (i + 1 < (int)(sizeof names / sizeof *names) && names[i].status != status) i++;
  return names[i].status == status ? i : -1;
}

EXPORT const char *hipGetErrorName(hipError_t status) {
  int place = place_of(status);
  return place < 0 ? "hipErrorUnknown" : names[place].name;
}

EXPORT const char *hipGetErrorString(hipError_t status) {
  int place = place_of(status);
  return place < 0 ? "unknown error" : names[place].text;
}

EXPORT hipError_t hipGetDeviceCount(int *count) {
  int status = begun("hipGetDeviceCount");
  *count = *fake_setting("devices");
  return ended(status);
}

static int is_device(int number) { return 0 <= number && number < *fake_setting("devices"); }

EXPORT hipError_t hipDeviceGet(hipDevice_t *device, int number) {
  int status = begun("hipDeviceGet");
  *device = number;
  return ended(status ? status : is_device(number) ? 0 : BAD_DEVICE);
}

EXPORT hipError_t hipDeviceGetName(char *name, int room, hipDevice_t device) {
  int status = begun("hipDeviceGetName");
  strncpy(name, device ? "Fake 1" : "Fake 0", room);
  return ended(status);
}

EXPORT hipError_t hipDeviceGetPCIBusId(char *name, int room, int device) {
  int status = begun("hipDeviceGetPCIBusId");
  strncpy(name, device ? "0000:02:00.0" : "0000:01:00.0", room);
  return ended(status);
}

EXPORT hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device) {
  (void)device;
  int status = begun("hipDeviceTotalMem");
  *bytes = *fake_setting("bytes");
  return ended(status);
}

/* EF_AMDGPU_MACH_AMDGCN_*, and what such a device is called. */
static const struct { int machine; const char *name; } processors[] = {
    {0x4c, "gfx942:sramecc+:xnack-"}, {0x3f, "gfx90a:sramecc+:xnack-"}, {0x41, "gfx1100"}, {0x2f, "gfx906"}};

EXPORT hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *properties, int device) {
  (void)device;
  int status = begun("hipGetDevicePropertiesR0600");
  memset(properties, 0, sizeof *properties);
  strcpy(properties->gcnArchName, processors[*fake_setting("processor")].name);
  return ended(status);
}

EXPORT hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t which, int device) {
  (void)device;
  int status = begun("hipDeviceGetAttribute");
  switch ((int)which) {
  case 56: *value = 1024; break;
  case 63: *value = 304; break;
  case 74: *value = 65536; break;
  case 87: *value = 64; break;
  case 88: *value = *fake_setting("pools"); break;
  default: status = INVALID;
  }
  return ended(status);
}

EXPORT hipError_t hipGetDevice(int *device) {
  int status = begun("hipGetDevice");
  *device = chosen;
  return ended(status);
}

EXPORT hipError_t hipSetDevice(int device) {
  int status = begun("hipSetDevice");
  if (!status && !is_device(device)) status = BAD_DEVICE;
  if (!status) chosen = device;
  return ended(status);
}

EXPORT hipError_t hipDeviceSynchronize(void) {
  int status = entered("hipDeviceSynchronize");
  return ended(status ? status : drain());
}

/* Streams and events. A fault ends where a stream is made, unless it is told to stay. */

EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags) {
  if (!*fake_setting("sticky")) corrupt[chosen] = 0;
  int status = entered("hipStreamCreateWithFlags");
  if (!status && flags != 1) status = INVALID;
  if (!status) *stream = (hipStream_t)made_here(STREAM);
  return ended(status);
}

EXPORT hipError_t hipStreamDestroy(hipStream_t stream) {
  drain();
  return given_back("hipStreamDestroy", stream, STREAM);
}

EXPORT hipError_t hipStreamSynchronize(hipStream_t stream) {
  int status = entered("hipStreamSynchronize");
  return waited(status ? status : is_stream(stream) ? 0 : BAD_HANDLE);
}

EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  int status = entered("hipStreamWaitEvent");
  return waiting(status ? status : flags ? INVALID : 0, stream, event);
}

EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned int flags) {
  int status = entered("hipEventCreateWithFlags");
  if (!status && flags != 2) status = INVALID;
  if (!status) *event = (hipEvent_t)made_here(EVENT);
  return ended(status);
}

EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return recorded(entered("hipEventRecord"), event, stream);
}

EXPORT hipError_t hipEventQuery(hipEvent_t event) {
  return asked(entered("hipEventQuery"), event);
}

EXPORT hipError_t hipEventSynchronize(hipEvent_t event) {
  int status = entered("hipEventSynchronize");
  return waited(status ? status : holds(event, EVENT) ? 0 : BAD_HANDLE);
}

EXPORT hipError_t hipEventDestroy(hipEvent_t event) { return given_back("hipEventDestroy", event, EVENT); }

/* Memory. */

EXPORT hipError_t hipMalloc(void **address, size_t size) {
  int status = entered("hipMalloc");
  return ended(status ? status : allocated(size, address));
}

EXPORT hipError_t hipFree(void *address) {
  int status = begun("hipFree");
  if (first) misuses++; /* somebody might still use it */
  return ended(status ? status : end_block(address) ? 0 : INVALID);
}

EXPORT hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *properties) {
  int status = entered("hipMemPoolCreate");
  static const unsigned char nothing[56];
  if (!status && ((int)properties->allocType != 1 || (int)properties->location.type != 1 || properties->handleTypes ||
                  properties->location.id != chosen || properties->win32SecurityAttributes || properties->maxSize ||
                  memcmp(properties->reserved, nothing, sizeof nothing)))
    status = INVALID;
  if (!status) *pool = (hipMemPool_t)made_here(POOL);
  return ended(status);
}

EXPORT hipError_t hipMemPoolDestroy(hipMemPool_t pool) { return given_back("hipMemPoolDestroy", pool, POOL); }

EXPORT hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr which, void *value) {
  int status = entered("hipMemPoolSetAttribute");
  if (!status && (!holds_here(pool, POOL) || (int)which != 4 || !*(uint64_t *)value)) status = INVALID;
  return ended(status);
}

EXPORT hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytes) {
  int status = entered("hipMemPoolTrimTo");
  return ended(status ? status : !bytes && holds(pool, POOL) ? 0 : INVALID);
}

EXPORT hipError_t hipMallocFromPoolAsync(void **address, size_t size, hipMemPool_t pool, hipStream_t stream) {
  int status = entered("hipMallocFromPoolAsync");
  if (!status && (!holds_here(pool, POOL) || !holds_here(stream, STREAM))) status = BAD_HANDLE;
  return ended(status ? status : allocated(size, address));
}

EXPORT hipError_t hipFreeAsync(void *address, hipStream_t stream) {
  int status = begun("hipFreeAsync");
  return enqueued(status, stream, (command){.kind = FREE, .target = address});
}

EXPORT hipError_t hipMemcpyAsync(void *target, const void *source, size_t size, hipMemcpyKind kind,
                                 hipStream_t stream) {
  int status = entered("hipMemcpyAsync");
  if (!status && (int)kind != 4) status = INVALID;
  command copy = {.kind = COPY, .target = target, .source = source, .size = size};
  return enqueued(status, stream, copy);
}

EXPORT hipError_t hipMemcpyPeerAsync(void *target, int device, const void *source, int from, size_t size,
                                     hipStream_t stream) {
  int status = entered("hipMemcpyPeerAsync");
  if (!status && device != chosen) status = INVALID;
  command copy = {.kind = COPY, .target = target, .source = source, .size = size, .from = from};
  return enqueued_from(status, stream, copy, 1);
}

EXPORT hipError_t hipPointerGetAttribute(void *value, hipPointer_attribute which, hipDeviceptr_t address) {
  int status = entered("hipPointerGetAttribute");
  object *block = block_of(address);
  *(int *)value = block ? block->device : -2;
  return ended(status ? status : (int)which == 9 && block ? 0 : INVALID);
}

/* Modules. */

static const Elf64_Shdr *section_of(const unsigned char *image, unsigned type) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
  for (int i = 0; i < header->e_shnum; i++)
    if (sections[i].sh_type == type) return sections + i;
  return 0;
}

/* Whether a code object has a kernel: its descriptor, the distance in which leads to its code. */
static int has_kernel(const unsigned char *image, const char *name) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff), *table = section_of(image, SHT_SYMTAB);
  const char *texts = (const char *)image + sections[table->sh_link].sh_offset;
  const Elf64_Sym *symbols = (const Elf64_Sym *)(image + table->sh_offset), *code = 0, *descriptor = 0;
  for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
    const char *found = texts + symbols[i].st_name;
    size_t size = strlen(name);
    if (!strcmp(found, name) && ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC) code = symbols + i;
    if (!strncmp(found, name, size) && !strcmp(found + size, ".kd")) descriptor = symbols + i;
  }
  if (!code || !descriptor || descriptor->st_size != 64) return 0;
  const Elf64_Shdr *data = sections + descriptor->st_shndx;
  int64_t distance;
  memcpy(&distance, image + data->sh_offset + descriptor->st_value - data->sh_addr + 16, sizeof distance);
  return descriptor->st_value + distance == code->st_value && !(code->st_value & 255);
}

/* What AMD's loader, and before it HIP, ask of a code object of version 4 and later. */
static int load_status(const unsigned char *image) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
  if (memcmp(image, ELFMAG, 4) || image[EI_OSABI] != 64 || image[EI_ABIVERSION] < 2 || image[EI_ABIVERSION] > 3)
    return BAD_IMAGE;
  if (header->e_type != ET_DYN || header->e_machine != 224 || !section_of(image, SHT_SYMTAB)) return BAD_IMAGE;
  const Elf64_Phdr *segments = (const Elf64_Phdr *)(image + header->e_phoff);
  int loaded = 0, notes = 0;
  for (int i = 0; i < header->e_phnum; i++) {
    loaded += segments[i].p_type == PT_LOAD;
    notes += segments[i].p_type == PT_NOTE && !memcmp(image + segments[i].p_offset + 12, "AMDGPU", 7);
  }
  if (loaded != 3 || notes != 1) return BAD_IMAGE;
  return (int)(header->e_flags & 0xff) == processors[*fake_setting("processor")].machine ? 0 : OTHER_GPU;
}

static size_t size_of(const unsigned char *image) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
  return header->e_shoff + header->e_shnum * header->e_shentsize;
}

EXPORT hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
  int status = entered("hipModuleLoadData");
  if (!status) status = load_status(image);
  if (!status) {
    object *it = made_here(MODULE);
    it->image = image;
    it->copied = memcpy(malloc(size_of(image)), image, size_of(image));
    *module = (hipModule_t)it;
  }
  return ended(status);
}

EXPORT hipError_t hipModuleUnload(hipModule_t module) {
  const object *it = (object *)module;
  if (memcmp(it->image, it->copied, size_of(it->copied))) misuses++;
  return given_back("hipModuleUnload", module, MODULE);
}

EXPORT hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name) {
  int status = entered("hipModuleGetFunction");
  if (!status && !holds_here(module, MODULE)) status = BAD_HANDLE;
  if (!status && !has_kernel(((object *)module)->image, name)) status = UNKNOWN_NAME;
  if (!status) *function = (hipFunction_t)kernel_of(module, name);
  return ended(status);
}

EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int x, unsigned int y, unsigned int z,
                                        unsigned int u, unsigned int v, unsigned int w, unsigned int shared,
                                        hipStream_t stream, void **parameters, void **extra) {
  int status = entered("hipModuleLaunchKernel");
  command it = {0};
  const unsigned int blocks[] = {x, y, z}, threads[] = {u, v, w};
  if (!status) status = launch_of(function, blocks, threads, shared, parameters, extra, &it);
  if (!status) note(&it, stream);
  return enqueued(status, stream, it);
}

#include "fake_graphs.h"
