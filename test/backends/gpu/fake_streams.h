/* What drivers with streams have in common, for tests: commands, which wait until somebody waits for them, launches and
 * waits of streams, which a test asks for, and memory. A kernel adds 1 to the 32-bit integers at its first argument,
 * one a thread; one that is called `sum`, ... to 32-bit floats: third = first + second; one that a test describes, a
 * hash of all that it reads. Before it is included, a driver defines what fake.h asks for (the members of its own as
 * STREAM_OBJECT) and LAUNCH_END, the number behind the parameters of a launch; and then `here` and `is_default`. */
#define OBJECT \
  int device; \
  int status;              /* of an event */ \
  const void *stream;      /* that an event was recorded in */ \
  char *text;              /* of a module; the name of a kernel */ \
  struct object *graph;    /* of what was made of a graph */ \
  struct command *nodes;   /* of a graph, and of what was made of it */ \
  struct object *kernels;  /* of a kernel, its module */ \
  int polls;               /* of an event: how often somebody has asked for it */ \
  STREAM_OBJECT
#include "fake.h"

enum { INVALID = 1, NO_MEMORY = 2, NONE = 100, BAD_DEVICE, BAD_IMAGE = 200, NO_CONTEXT, OTHER_GPU = 209 };
enum { BAD_PTX = 218, BAD_HANDLE = 400, UNKNOWN_NAME = 500, RUNNING = 600, DEVICES = 4, OPERANDS = 24 };

#define SETTER "shlo_set_conditions"
static int here(void);                        /* the device of the thread */
static int is_default(const void *stream);    /* whether it is a stream that is not made */

typedef struct command {
  enum { COPY, FREE, RUN, MARK, CALL, ALL, CONDITIONAL } kind; /* ALL: of a graph */
  void *target, *operands[OPERANDS];
  const void *source;
  size_t size;
  object *it; /* an event, a kernel */
  int device, from; /* from: of a copy, the source's */
  int64_t numbers[5]; /* of a launch */
  enum { WHOLE, WAITS, BEGUN, ENDED } state; /* of a node, which begins and ends; all else does so at once */
  struct command *original; /* of a node of what was made of a graph: the graph's */
  struct command **before; /* of a node: those of the graph that it is behind */
  size_t count;
  void (*call)(const struct command *); /* of a library, which gets its `source` */
  struct condition *condition; /* of a node that runs a body, once or as long as it holds */
  int is_loop;
  struct object *body; /* of that node in a graph */
  struct command *nodes; /* of that node in what was made of a graph, and of ALL */
  struct command *next;
} command;

static struct { char name[64]; int64_t numbers[6]; } launches[256];
static int64_t launched, waits[2];
static command *first;
static int corrupt[DEVICES]; /* the fault that stays */

/* What a test says of a kernel: of how many operands it reads and writes how many bytes; the last one is its scratch
 * memory. */
typedef struct { char name[64]; int count; int64_t read[OPERANDS], written[OPERANDS]; } description;
static description descriptions[256];

EXPORT int fake_describe(const char *name, int count, const int64_t *read, const int64_t *written) {
  description *it = descriptions;
  while (it->count && strcmp(it->name, name)) it++;
  if (it == descriptions + 255 || count > OPERANDS || strlen(name) > 63) return 0;
  strcpy(it->name, name);
  it->count = count;
  memcpy(it->read, read, count * sizeof *read);
  memcpy(it->written, written, count * sizeof *written);
  return 1;
}

static description *description_of(const char *name) {
  description *it = descriptions;
  while (it->count && strcmp(it->name, name)) it++;
  return it->count ? it : 0;
}

/* The nth launch, from 0: blocks, threads, bytes of shared memory, stream, bytes of parameters. */
EXPORT const char *fake_launch(int64_t nth, int64_t *numbers) {
  if (nth >= launched) return 0;
  memcpy(numbers, launches[nth].numbers, sizeof launches[nth].numbers);
  return launches[nth].name;
}

/* The last stream that waited for another one: which, and for which. */
EXPORT int64_t *fake_waits(void) { return waits; }

static void forget_work(void) {
  forget();
  memset(waits, 0, sizeof waits);
  memset(descriptions, 0, sizeof descriptions);
  memset(corrupt, 0, sizeof corrupt);
  first = 0;
  launched = 0;
}

static int is_sticky(int status) {
  return status == 214 || status == 220 || status == 226 || status == 709 || status == 999 || status == 1053 ||
         (status >= 700 && status <= 721 && status != 701 && status != 704 && status != 705 && status != 708 &&
          !(status >= 711 && status <= 713) && status != 720);
}

static object *made_here(kind kind) {
  object *it = made(kind);
  it->device = here();
  return it;
}

/* Whether it is there, and made on the device that the thread has. */
static int holds_here(const void *handle, kind expected) {
  if (!holds(handle, expected)) return 0;
  if (((const object *)handle)->device == here()) return 1;
  misuses++;
  return 0;
}

static int is_stream(const void *stream) { return is_default(stream) || holds_here(stream, STREAM); }

static int released_handle(void *handle, kind kind) { return released(handle, kind) ? 0 : BAD_HANDLE; }

/* As `fits`, and not on another device. */
static int fits_on(int device, const void *address, size_t size) {
  object *block = block_of(address);
  if (block && block->device != device) misuses++;
  return fits(address, size) && (!block || block->device == device);
}

static int64_t used(void) {
  int64_t bytes = 0;
  for (object *it = objects; it; it = it->before)
    if (it->kind == BLOCK && it->is_live && it->device == here()) bytes += it->size;
  return bytes;
}

/* `address`: where the address is stored, whatever type it has there. */
static int allocated(size_t size, void *address) {
  if (!size) return INVALID;
  if (used() + (int64_t)size > *fake_setting("bytes")) return NO_MEMORY;
  object *it = new_block(size);
  it->device = here();
  memcpy(address, &it->data, sizeof it->data);
  return 0;
}

/* Commands: they wait in one queue until `drain`; a wait of a stream for another one is always kept by that. */

static uint64_t hashed(uint64_t hash, const void *data, size_t size) { /* Fowler, Noll and Vo */
  for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001B3;
  return hash;
}

static uint64_t hash_of_reads(const command *it, const description *said) {
  uint64_t hash = hashed(0xCBF29CE484222325, said->name, strlen(said->name));
  for (int i = 0; i < said->count; i++)
    if (fits_on(it->device, it->operands[i], said->read[i])) hash = hashed(hash, it->operands[i], said->read[i]);
  return hash;
}

static void fill(const command *it, const description *said, int operand, uint64_t hash) {
  unsigned char *target = it->operands[operand];
  if (!fits_on(it->device, target, said->written[operand])) return;
  for (int64_t i = 0; i < said->written[operand]; i++) {
    hash = hashed(hash + i, &operand, sizeof operand);
    target[i] = hash >> (said->written[operand] == 1 ? 62 : 56); /* low bits forget what comes a power of two times */
  }
}

/* At its begin it leaves in its scratch memory what it has read, at its end it finds that there: what another kernel
 * does to either of them between shows in its results. */
static void run_described(const command *it, const description *said) {
  int last = said->count - 1;
  if (it->state != ENDED) fill(it, said, last, hash_of_reads(it, said));
  if (it->state == BEGUN) return;
  uint64_t hash = hashed(hash_of_reads(it, said), it->operands[last], said->written[last]);
  for (int i = 0; i < last; i++) fill(it, said, i, hash);
}

static int is_host_memory(const void *address) {
#ifdef HAS_HOST_MEMORY
  for (object *it = objects; it; it = it->before)
    if (it->kind == HOST && it->is_live && it->data == address) return 1;
#endif
  return 0;
}

static void set_conditions(const command *it); /* fake_graphs.h */
static void run_nodes(command *nodes, const void *stream, int device);

static void run(command *it) {
  const description *said = description_of(it->it->text);
  if (said) run_described(it, said);
  else if (!strcmp(it->it->text, SETTER)) set_conditions(it);
  else if (!strncmp(it->it->text, "sum", 3)) {
    const float *a = it->operands[0], *b = it->operands[1];
    int all = fits_on(it->device, a, 4 * it->size) && fits_on(it->device, b, 4 * it->size);
    if (all && fits_on(it->device, it->operands[2], 4 * it->size))
      for (size_t i = 0; i < it->size; i++) ((float *)it->operands[2])[i] = a[i] + b[i];
  } else if (fits_on(it->device, it->operands[0], 4 * it->size)) {
    for (size_t i = 0; i < it->size; i++) ((int32_t *)it->operands[0])[i]++;
  }
}

static void execute(command *it) {
  if (it->kind == ALL) { /* its nodes count */
    run_nodes(it->nodes, it->source, it->device);
    return;
  }
  if (it->state == BEGUN) { /* its end counts */
    if (!corrupt[it->device]) run(it);
    return;
  }
  int status = begun("execute"), *fault = &corrupt[it->device];
  if (is_sticky(status)) *fault = status;
  if (it->kind == MARK) it->it->status = *fault;
  else if (it->kind == FREE) end_block(it->target);
  else if (!*fault && it->kind == COPY && fits_on(it->device, it->target, it->size) &&
           fits_on(it->from, it->source, it->size))
    memmove(it->target, it->source, it->size);
  else if (!*fault && it->kind == RUN) run(it);
  else if (!*fault && it->kind == CALL) it->call(it);
  ended(0);
}

static int drain(void) {
  while (first) {
    command *it = first;
    first = it->next;
    execute(it);
    free(it);
  }
  return corrupt[here()];
}

static int enqueued_from(int status, const void *stream, command it, int is_peer) {
  if (!status && !is_stream(stream)) status = BAD_HANDLE;
  if (!status) {
    command **last = &first;
    while (*last) last = &(*last)->next;
    it.device = here();
    if (!is_peer) it.from = it.device;
    *last = memcpy(malloc(sizeof it), &it, sizeof it);
  }
  return ended(status);
}

static int enqueued(int status, const void *stream, command it) { return enqueued_from(status, stream, it, 0); }

/* Events. */

static int waiting(int status, const void *stream, const void *event) {
  if (!status && (!holds(event, EVENT) || !is_stream(stream))) status = BAD_HANDLE;
  if (!status) {
    waits[0] = (intptr_t)stream;
    waits[1] = (intptr_t)((const object *)event)->stream;
  }
  return ended(status);
}

static int recorded(int status, void *event, const void *stream) {
  if (!status && !holds(event, EVENT)) status = BAD_HANDLE;
  if (!status) {
    ((object *)event)->status = RUNNING;
    ((object *)event)->polls = 0;
    ((object *)event)->stream = stream;
  }
  return enqueued(status, stream, (command){.kind = MARK, .it = event});
}

/* Work gets done while somebody asks again and again whether it is. */
static int asked(int status, void *event) {
  object *it = event;
  if (!status && !holds(it, EVENT)) status = BAD_HANDLE;
  if (!status && it->status == RUNNING && ++it->polls == 3) drain();
  return ended(status ? status : it->status);
}

/* Where it ends with an error, nothing is under way either. */
static int waited(int status) {
  int fault = drain();
  return ended(status ? status : fault);
}

/* Kernels, which live as long as their module. */

static object *kernel_of(void *module, const char *name) {
  object *it = calloc(1, sizeof *it);
  it->text = strdup(name);
  it->kernels = module;
  return it;
}

/* A launch as a command. */
static int launch_of(void *function, const unsigned int *blocks, const unsigned int *threads, unsigned int shared,
                     void **parameters, void **extra, command *it) {
  object *kernel = function;
  if (!kernel || !holds_here(kernel->kernels, MODULE)) return BAD_HANDLE;
  int is_setter = !strcmp(kernel->text, SETTER); /* of one thread, with parameters one by one */
  if (is_setter && (!parameters || extra || blocks[0] != 1 || threads[0] != 1 || shared)) return INVALID;
  if ((!is_setter && (parameters || !extra)) || blocks[1] != 1 || blocks[2] != 1 || threads[1] != 1 || threads[2] != 1 || !blocks[0] ||
      !threads[0] || threads[0] > 1024)
    return INVALID;
  /* *_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END */
  if (!is_setter && ((uintptr_t)extra[0] != 1 || (uintptr_t)extra[2] != 2 || (uintptr_t)extra[4] != LAUNCH_END)) return INVALID;
  size_t bytes = is_setter ? 5 * sizeof(void *) : *(size_t *)extra[3];
  *it = (command){.kind = RUN, .size = (size_t)blocks[0] * threads[0], .it = kernel, .device = here()};
  for (int i = 0; is_setter && i < 5; i++) it->operands[i] = *(void **)parameters[i];
  if (!is_setter) memcpy(it->operands, extra[1], bytes < sizeof it->operands ? bytes : sizeof it->operands);
  int64_t numbers[] = {blocks[0], threads[0], shared, 0, bytes};
  memcpy(it->numbers, numbers, sizeof numbers);
  return 0;
}

static void note(command *it, const void *stream) {
  it->numbers[3] = (intptr_t)stream;
  if (it->kind != RUN || launched == 256) return;
  strncpy(launches[launched].name, it->it->text, 63);
  memcpy(launches[launched++].numbers, it->numbers, sizeof it->numbers);
}
