/* What drivers without a device have in common, for tests: settings, faults that a test asks for, and objects, of which
 * those that live are counted, and what is used after its end is noticed. Before it is included, a driver defines
 *   KINDS_OF_OBJECTS: X(NAME, "what live ones are called") for each kind; BLOCK, memory, is one;
 *   SETTINGS: X("name", usual value) for each;
 *   OBJECT: members of an object beside those here. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

#define X(kind, name) kind,
typedef enum { KINDS_OF_OBJECTS KINDS } kind;
#undef X
#define X(kind, name) name,
static const char *const kinds[] = {KINDS_OF_OBJECTS};
#undef X

/* Objects, and addresses of blocks, stay for ever: so a use after the end is seen, and harms nothing. */
typedef struct object {
  kind kind;
  int is_live;         /* references */
  unsigned char *data; /* of a block */
  size_t size;
  struct object *before;
  OBJECT
} object;

typedef struct { const char *name; int64_t value, usual; } setting;
#define X(name, usual) {name, usual, usual},
static setting settings[] = {SETTINGS};
#undef X
static struct { char name[64]; int nth, status; } faults[16];
static struct { char name[64]; int64_t count; } calls[128];
static object *objects;
static int64_t live[KINDS], misuses;
static pthread_mutex_t mutex;
__attribute__((constructor)) static void make_mutex(void) {
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&mutex, &recursive);
}

/* What a test says and asks. */

EXPORT int64_t *fake_setting(const char *name) {
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    if (!strcmp(settings[i].name, name)) return &settings[i].value;
  return 0;
}

/* The nth call of a function from now on ends with a status; that of "execute", the nth command. */
EXPORT void fake_fail(const char *name, int nth, int status) {
  int i = 0;
  while (faults[i].nth) i++;
  strcpy(faults[i].name, name);
  faults[i].nth = nth;
  faults[i].status = status;
}

EXPORT void fake_forgive(void) { memset(faults, 0, sizeof faults); }

EXPORT int64_t fake_calls(const char *name) {
  for (int i = 0; calls[i].name[0]; i++)
    if (!strcmp(calls[i].name, name)) return calls[i].count;
  return 0;
}

static int64_t living(const char *name) {
  for (int i = 0; i < KINDS; i++)
    if (!strcmp(kinds[i], name)) return live[i];
  return -1;
}

static void forget(void) {
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) settings[i].value = settings[i].usual;
  fake_forgive();
  memset(calls, 0, sizeof calls);
  memset(live, 0, sizeof live);
  objects = 0;
  misuses = 0;
}

/* Functions of the driver: `begun` says how a test wants one to end, and keeps others out until `ended`. */

static int begun(const char *name) {
  pthread_mutex_lock(&mutex);
  int i = 0, status = 0;
  while (calls[i].name[0] && strcmp(calls[i].name, name)) i++;
  strcpy(calls[i].name, name);
  calls[i].count++;
  for (i = 0; i < 16; i++)
    if (faults[i].nth && !strcmp(faults[i].name, name) && !--faults[i].nth) status = faults[i].status;
  return status;
}

static int ended(int status) {
  pthread_mutex_unlock(&mutex);
  return status;
}

/* Objects. */

static int holds(const void *handle, kind expected) {
  const object *it = handle;
  if (it && it->kind == expected && it->is_live) return 1;
  misuses++;
  return 0;
}

static object *made(kind kind) {
  object *it = calloc(1, sizeof *it);
  it->kind = kind;
  it->is_live = 1;
  it->before = objects;
  objects = it;
  live[kind]++;
  return it;
}

static int released(void *handle, kind kind) {
  if (!holds(handle, kind)) return 0;
  if (!--((object *)handle)->is_live) live[kind]--;
  return 1;
}

static object *new_block(size_t size) {
  object *it = made(BLOCK);
  it->data = aligned_alloc(256, (size + 255) / 256 * 256);
  it->size = size;
  memset(it->data, 0xCC, size);
  return it;
}

static object *block_of(const void *address) {
  for (object *it = objects; it; it = it->before)
    if (it->kind == BLOCK && it->data <= (unsigned char *)address && (unsigned char *)address < it->data + it->size)
      return it;
  return 0; /* the host's */
}

static int fits(const void *address, size_t size) {
  object *block = block_of(address);
  if (!block || (block->is_live && (unsigned char *)address + size <= block->data + block->size)) return 1;
  misuses++;
  return 0;
}

/* What a block that has ended reads as. Of a large one only the first bytes: the machine gets the rest back, where zeros
 * are from then on. Addresses are never given twice. */
static void overwritten(const object *block) {
  size_t page = 1 << 16, kept = block->size < 2 * page ? block->size : page;
  memset(block->data, 0xDD, kept);
  uintptr_t from = ((uintptr_t)block->data + kept + page - 1) / page * page, to = (uintptr_t)block->data + block->size;
  if (from < to / page * page) madvise((void *)from, to / page * page - from, MADV_DONTNEED);
}

static int end_block(const void *address) {
  object *block = block_of(address);
  if (!block || !block->is_live || block->data != address) {
    misuses++;
    return 0;
  }
  overwritten(block);
  return released(block, BLOCK);
}
