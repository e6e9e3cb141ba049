/* A driver of OpenCL without a device, for tests. It works in the host's memory, and not before somebody waits for it;
 * it counts what lives, notices what is used after its end, and fails where it is told to. Its "SPIR-V" is the names of
 * kernels, between blanks. Every kernel adds 1 to the 32-bit integers at its first argument, one a work-item. */
#define KINDS_OF_OBJECTS \
  X(CONTEXT, "contexts") X(QUEUE, "queues") X(PROGRAM, "programs") X(KERNEL, "kernels") X(EVENT, "events") \
  X(BLOCK, "blocks")
#define SETTINGS \
  X("platforms", 1) X("devices", 1) X("version", 30) X("spirv", 1) X("svm", 1) X("kind", 4) X("kind1", 4) X("lost", 0) \
  X("global_bytes", 1 << 30) X("largest", 1 << 28) X("f16", 1) X("f64", 0) X("parameters", 1024)
#define OBJECT \
  int status;        /* of an event */ \
  char *text;        /* of a program */ \
  int32_t *argument; /* of a kernel: the first */
#include "../fake.h"

#include <unistd.h>

enum { QUEUED = 3, NO_DEVICE = -1, LOST = -2, NO_BUILD = -11, FAILED_EVENT = -14, INVALID = -30, NO_KERNEL = -46 };
enum { NO_PLATFORM = -1001 };

typedef struct command {
  enum { COPY, FREE, RUN, FILL, MARK } kind;
  void *target;
  const void *source;
  size_t size;
  object *event, *after; /* after: what it waits for */
  struct command *next;
} command;

static command *first;
static int platform, devices[2];

EXPORT int64_t fake_live(const char *name) { return living(name); }

EXPORT int64_t fake_misuses(void) { return misuses; }

EXPORT void fake_reset(void) {
  forget();
  first = 0;
}

static void *result(void *handle, int status, int *status_out) {
  if (status_out) *status_out = status;
  ended(status);
  return status ? 0 : handle;
}

static int answer(const void *value, size_t size, size_t room, void *target, size_t *size_out) {
  if (size_out) *size_out = size;
  if (target && room < size) return INVALID;
  if (target) memcpy(target, value, size);
  return 0;
}

/* Commands: they wait in one queue, until `drain`, which gives the status of the last one. */

static int execute(command *it) {
  int status = begun("execute");
  if (!status && it->after && it->after->status < 0) status = FAILED_EVENT;
  if (it->kind == FREE)
    for (size_t i = 0; i < it->size; i++) end_block(((void **)it->target)[i]);
  else if (*fake_setting("lost")) status = LOST;
  else if (!status && it->kind == COPY && fits(it->target, it->size) && fits(it->source, it->size))
    memmove(it->target, it->source, it->size);
  else if (!status && it->kind == FILL && fits(it->target, it->size))
    memset(it->target, *(const unsigned char *)it->source, it->size);
  else if (!status && it->kind == RUN && fits(it->target, 4 * it->size))
    for (size_t i = 0; i < it->size; i++) ((int32_t *)it->target)[i]++;
  if (it->event) it->event->status = status;
  return ended(status);
}

static int drain(void) {
  int status = 0;
  while (first) {
    command *it = first;
    first = it->next;
    status = execute(it);
    free(it);
  }
  return status;
}

static int enqueued(const char *name, void *queue, command it, uint32_t count, object **events, object **event) {
  int status = begun(name);
  it.after = count ? events[0] : 0; /* nobody waits for more */
  if (!status && (count > 1 || !count != !events || (count && !holds(it.after, EVENT)))) status = INVALID;
  if (!status && *fake_setting("lost")) status = LOST;
  if (!status && !holds(queue, QUEUE)) status = INVALID;
  if (!status) {
    command **last = &first;
    while (*last) last = &(*last)->next;
    it.event = 0;
    if (event) {
      *event = it.event = made(EVENT);
      it.event->status = QUEUED;
    }
    *last = malloc(sizeof it);
    **last = it;
  }
  return ended(status);
}

/* OpenCL. */

EXPORT int clGetPlatformIDs(uint32_t room, void **list, uint32_t *count) {
  int status = begun("clGetPlatformIDs");
  if (!status && !*fake_setting("platforms")) status = NO_PLATFORM;
  if (!status && count) *count = 1;
  if (!status && list && room) *list = &platform;
  return ended(status);
}

EXPORT int clGetDeviceIDs(void *of, uint64_t type, uint32_t room, void **list, uint32_t *count) {
  (void)of, (void)type;
  int status = begun("clGetDeviceIDs");
  int64_t there = *fake_setting("devices");
  if (!status && !there) status = NO_DEVICE;
  if (!status && count) *count = there;
  for (uint32_t i = 0; !status && list && i < room && i < there; i++) list[i] = &devices[i];
  return ended(status);
}

static const char *extensions(void) {
  if (*fake_setting("f64")) return "cl_khr_fp16 cl_khr_fp64 cl_khr_icd";
  return *fake_setting("f16") ? "cl_khr_fp16 cl_khr_icd" : "cl_khr_icd";
}

EXPORT int clGetDeviceInfo(void *device, uint32_t what, size_t room, void *target, size_t *size) {
  int status = begun("clGetDeviceInfo");
  int64_t version = *fake_setting("version");
  char text[64] = "OpenCL _._ of nothing";
  const char *words = 0;
  uint64_t number = 0;
  size_t width = 8;
  int known = 1;
  switch (what) {
  case 0x1000: number = *fake_setting(device == devices ? "kind" : "kind1"); break;
  case 0x1002: number = 3, width = 4; break;
  case 0x1004: number = 256; break;
  case 0x1010: number = *fake_setting("largest"); break;
  case 0x1017: number = *fake_setting("parameters"); break;
  case 0x1019: number = 1024, width = 4; break;
  case 0x101F: number = *fake_setting("global_bytes"); break;
  case 0x1023: number = 32768; break;
  case 0x102B: words = device == devices ? "Fake 0" : "Fake 1"; break;
  case 0x102C: words = "Nobody"; break;
  case 0x102D: words = "1.2.3"; break;
  case 0x102F: text[7] = '0' + version / 10, text[9] = '0' + version % 10, words = text; break;
  case 0x1030: words = extensions(); break;
  case 0x1053: number = *fake_setting("svm"), known = version >= 20; break;
  case 0x105B: words = *fake_setting("spirv") ? "SPIR-V_1.0 SPIR-V_1.2" : "", known = version >= 21; break;
  default: known = 0;
  }
  if (!status && !known) status = INVALID;
  if (!status) status = answer(words ? (void *)words : &number, words ? strlen(words) + 1 : width, room, target, size);
  return ended(status);
}

EXPORT void *clCreateContext(void *properties, uint32_t count, void **list, void *notify, void *own,
                             int *status_out) {
  (void)properties, (void)count, (void)list, (void)notify, (void)own;
  int status = begun("clCreateContext");
  if (!status && *fake_setting("lost")) status = LOST;
  return result(status ? 0 : made(CONTEXT), status, status_out);
}

EXPORT void *clCreateCommandQueueWithProperties(void *context, void *device, void *properties, int *status_out) {
  (void)device, (void)properties;
  int status = begun("clCreateCommandQueueWithProperties");
  if (!status && !holds(context, CONTEXT)) status = INVALID;
  return result(status ? 0 : made(QUEUE), status, status_out);
}

EXPORT void *clCreateProgramWithIL(void *context, const char *text, size_t size, int *status_out) {
  int status = begun("clCreateProgramWithIL");
  if (!status && (!holds(context, CONTEXT) || !size || text[0] < 'a' || text[0] > 'z')) status = INVALID;
  object *it = status ? 0 : made(PROGRAM);
  if (it) it->text = strndup(text, size);
  return result(it, status, status_out);
}

EXPORT int clBuildProgram(object *program, uint32_t count, void **list, const char *options, void *notify,
                          void *own) {
  (void)count, (void)list, (void)options, (void)notify, (void)own;
  int status = begun("clBuildProgram");
  if (!status && !holds(program, PROGRAM)) status = INVALID;
  if (!status && strstr(program->text, "broken")) status = NO_BUILD;
  return ended(status);
}

EXPORT int clGetProgramBuildInfo(object *program, void *device, uint32_t what, size_t room, void *target,
                                 size_t *size) {
  (void)device, (void)what;
  int status = begun("clGetProgramBuildInfo");
  static const char begin[] = "a\nb\nc\nd\ne\nf\ng\nh\ni\nkernel 'broken': undefined symbol ";
  char log[5000];
  memset(log, 'x', sizeof log);
  memcpy(log, begin, sizeof begin - 1);
  log[sizeof log - 1] = 0;
  if (!status && !holds(program, PROGRAM)) status = INVALID;
  return ended(status ? status : answer(log, sizeof log, room, target, size));
}

EXPORT void *clCreateKernel(object *program, const char *name, int *status_out) {
  usleep(10000); /* so that threads meet here */
  int status = begun("clCreateKernel");
  if (!status && !holds(program, PROGRAM)) status = INVALID;
  if (!status && !strstr(program->text, name)) status = NO_KERNEL;
  return result(status ? 0 : made(KERNEL), status, status_out);
}

EXPORT int clSetKernelArg(object *kernel, uint32_t place, size_t size, const void *value) {
  (void)place, (void)size, (void)value;
  int status = begun("clSetKernelArg");
  return ended(status ? status : holds(kernel, KERNEL) ? 0 : INVALID);
}

EXPORT int clSetKernelArgSVMPointer(object *kernel, uint32_t place, void *value) {
  int status = begun("clSetKernelArgSVMPointer");
  if (!status && !holds(kernel, KERNEL)) status = INVALID;
  if (!status && !place) kernel->argument = value;
  return ended(status);
}

EXPORT int clSetKernelExecInfo(object *kernel, uint32_t name, size_t size, const void *value) {
  (void)name, (void)size, (void)value;
  int status = begun("clSetKernelExecInfo");
  return ended(status ? status : holds(kernel, KERNEL) ? 0 : INVALID);
}

EXPORT int clEnqueueNDRangeKernel(void *queue, object *kernel, uint32_t rank, const size_t *offset,
                                  const size_t *global, const size_t *local, uint32_t count,
                                  object **events, object **event) {
  (void)rank, (void)offset, (void)local;
  if (!holds(kernel, KERNEL)) return INVALID;
  command run = {.kind = RUN, .target = kernel->argument, .size = *global};
  return enqueued("clEnqueueNDRangeKernel", queue, run, count, events, event);
}

EXPORT void *clSVMAlloc(void *context, uint64_t flags, size_t size, uint32_t alignment) {
  (void)flags, (void)alignment;
  int status = begun("clSVMAlloc");
  if (!status && (!holds(context, CONTEXT) || *fake_setting("lost"))) status = INVALID;
  object *it = status ? 0 : new_block(size);
  return result(it ? it->data : 0, status, 0);
}

EXPORT void clSVMFree(void *context, void *address) {
  begun("clSVMFree");
  holds(context, CONTEXT);
  end_block(address);
  ended(0);
}

EXPORT int clEnqueueSVMFree(void *queue, uint32_t blocks, void **list, void *ender, void *own, uint32_t count,
                            object **events, object **event) {
  (void)ender, (void)own, (void)event;
  void **ours = memcpy(malloc(blocks * sizeof *list), list, blocks * sizeof *list);
  command it = {.kind = FREE, .target = ours, .size = blocks};
  return blocks ? enqueued("clEnqueueSVMFree", queue, it, count, events, 0) : INVALID;
}

EXPORT int clEnqueueSVMMemcpy(void *queue, uint32_t blocking, void *target, const void *source, size_t size,
                              uint32_t count, object **events, object **event) {
  command copy = {.kind = COPY, .target = target, .source = source, .size = size};
  int status = size ? enqueued("clEnqueueSVMMemcpy", queue, copy, count, events, event) : INVALID;
  if (!status && blocking) {
    pthread_mutex_lock(&mutex);
    status = ended(drain());
  }
  return status;
}

EXPORT int clEnqueueSVMMemFill(void *queue, void *target, const void *pattern, size_t width, size_t size,
                               uint32_t count, object **events, object **event) {
  (void)width;
  command fill = {.kind = FILL, .target = target, .source = pattern, .size = size};
  return enqueued("clEnqueueSVMMemFill", queue, fill, count, events, event);
}

EXPORT int clEnqueueMarkerWithWaitList(void *queue, uint32_t count, object **events, object **event) {
  return enqueued("clEnqueueMarkerWithWaitList", queue, (command){.kind = MARK}, count, events, event);
}

EXPORT int clFlush(void *queue) {
  int status = begun("clFlush");
  if (!status && *fake_setting("lost")) status = LOST;
  return ended(status ? status : holds(queue, QUEUE) ? 0 : INVALID);
}

EXPORT int clFinish(void *queue) {
  int status = begun("clFinish");
  int is_queue = holds(queue, QUEUE);
  drain();
  if (!status && *fake_setting("lost")) status = LOST;
  return ended(status ? status : is_queue ? 0 : INVALID);
}

EXPORT int clWaitForEvents(uint32_t count, object **list) {
  int status = begun("clWaitForEvents");
  drain();
  for (uint32_t i = 0; i < count && !status; i++)
    status = !holds(list[i], EVENT) ? INVALID : list[i]->status < 0 ? FAILED_EVENT : 0;
  return ended(status);
}

EXPORT int clGetEventInfo(object *event, uint32_t what, size_t room, void *target, size_t *size) {
  (void)what;
  int status = begun("clGetEventInfo");
  if (!status && !holds(event, EVENT)) status = INVALID;
  return ended(status ? status : answer(&event->status, sizeof event->status, room, target, size));
}

EXPORT int clRetainEvent(object *event) {
  int status = begun("clRetainEvent");
  if (!status && !holds(event, EVENT)) status = INVALID;
  if (!status) event->is_live++;
  return ended(status);
}

#define RELEASE(name, kind) \
  EXPORT int name(void *handle) { \
    begun(#name); \
    if (kind == QUEUE) drain(); \
    return ended(released(handle, kind) ? 0 : INVALID); \
  }
RELEASE(clReleaseContext, CONTEXT)
RELEASE(clReleaseCommandQueue, QUEUE)
RELEASE(clReleaseProgram, PROGRAM)
RELEASE(clReleaseKernel, KERNEL)
RELEASE(clReleaseEvent, EVENT)
