/* Calls any model through its tables: reads argument 0, 1, ... from files, writes result 0, 1, ... to files.
 *
 *   driver FOLDER THREADS own|callback|off [CONSTANTS] [symbol ...]
 *
 * Compiled with -DMODEL=name. Every buffer ends at a page that nobody may touch, and begins behind one. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "shlo_model.h"

#define JOIN(a, b) a##b
#define SYMBOL(a) JOIN(a, _model)
extern const shlo_model SYMBOL(MODEL);

static void fail(const char *what) {
  printf("%s\n", what);
  exit(1);
}

/* So many bytes in front of a page without access, as far as the alignment lets them; filled with a pattern. */
static void *guarded(int64_t bytes, int64_t alignment) {
  long page = sysconf(_SC_PAGESIZE);
  int64_t whole = (bytes + alignment - 1) / alignment * alignment, pages = (whole + page - 1) / page + 2;
  char *base = mmap(0, (size_t)(pages * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) fail("no memory");
  memset(base, 0xA5, (size_t)(pages * page));
  mprotect(base, (size_t)page, PROT_NONE);
  mprotect(base + (pages - 1) * page, (size_t)page, PROT_NONE);
  return base + (pages - 1) * page - whole;
}

static void *content(const char *path, int64_t *bytes, int64_t alignment) {
  FILE *file = fopen(path, "rb");
  void *data;
  if (!file) fail(path);
  fseek(file, 0, SEEK_END), *bytes = ftell(file), rewind(file);
  data = guarded(*bytes, alignment);
  if (fread(data, 1, (size_t)*bytes, file) != (size_t)*bytes) fail("short file");
  fclose(file);
  return data;
}

/* --- a caller's own threads: piece p is done by thread p % count ---------------------------------------------------- */

typedef struct { shlo_task task; void *context; int64_t iterations, chunk, count, thread; } job;
static int64_t lent = 1, jobs_done;

static void *work(void *argument) {
  job *j = argument;
  for (int64_t begin = j->thread * j->chunk; begin < j->iterations; begin += j->count * j->chunk)
    j->task(j->context, begin, begin + j->chunk < j->iterations ? begin + j->chunk : j->iterations, j->thread);
  return 0;
}

static void lend(void *own, shlo_task task, void *context, int64_t iterations, int64_t chunk) {
  job jobs[16];
  pthread_t threads[16];
  (void)own, jobs_done++;
  for (int64_t t = 0; t < lent; t++) {
    jobs[t] = (job){task, context, iterations, chunk, lent, t};
    if (t) pthread_create(&threads[t], 0, work, &jobs[t]);
  }
  work(&jobs[0]);
  for (int64_t t = 1; t < lent; t++) pthread_join(threads[t], 0);
}

int main(int count, char **words) {
  const shlo_model *model = &SYMBOL(MODEL);
  char path[4096];
  void *inputs[64], *outputs[64];
  int64_t bytes, symbols[16] = {0}, table[256] = {0};
  int own = count > 3 && !strcmp(words[3], "own"), callback = count > 3 && !strcmp(words[3], "callback");
  const char *folder = words[1], *constants = count > 4 && words[4][0] != '-' ? words[4] : 0;
  shlo_call call = {0};
  const shlo_error *error = 0;
  call.size = sizeof call;
  if (model->abi != SHLO_MODEL_ABI) fail("another ABI");
  for (int i = 0; i < model->argument_count; i++) {
    snprintf(path, sizeof path, "%s/argument%d", folder, i);
    inputs[i] = content(path, &bytes, 1);
    if (model->arguments[i].bytes >= 0 && model->arguments[i].bytes != bytes) fail("the size of an argument");
  }
  if (model->sizes) {
    for (int i = 5; i < count; i++) symbols[i - 5] = atoll(words[i]);
    model->sizes(symbols, table);
    if (table[model->table_slots - 1] != 1) fail(shlo_status_text(SHLO_SIZES));
    call.sizes = table;
  }
  for (int i = 0; i < model->result_count; i++) {
    const shlo_tensor *result = &model->results[i];
    int64_t size = result->bytes;
    if (size < 0) { /* 4 bytes an element: what the tests have */
      size = 4;
      for (int d = 0; d < result->rank; d++) size *= result->shape[d] < 0 ? table[-1 - result->shape[d]] : result->shape[d];
    }
    outputs[i] = result->alias >= 0 ? inputs[result->alias] : guarded(size, 1);
    snprintf(path, sizeof path, "%s/size%d", folder, i);
    FILE *file = fopen(path, "w");
    fprintf(file, "%lld", (long long)size), fclose(file);
  }
  call.inputs = (const void *const *)inputs, call.outputs = outputs, call.error = &error;
  int64_t needed = model->workspace_bytes < 0 ? table[-1 - model->workspace_bytes] : model->workspace_bytes;
  call.workspace = guarded(needed, model->workspace_alignment);
  if (model->constants) {
    const void **found = malloc(sizeof(void *) * (size_t)model->constant_count + 1);
    void *file = constants ? content(constants, &bytes, 64) : 0;
    int status = model->constants(file, constants ? bytes : 0, found);
    if (status) fail(shlo_status_text(status));
    call.constants = found;
  }
  lent = atoll(words[2]);
  void *pool = 0;
  if (own) {
    pool = guarded(SHLO_THREADS_BYTES, 64);
    memset(pool, 0, SHLO_THREADS_BYTES);
    if (model->threads_start(pool, lent) != (lent < model->threads ? lent : model->threads)) fail("threads");
    call.parallel_for = model->parallel_for, call.parallel_context = pool;
  } else if (callback) {
    call.parallel_for = lend;
  }
  int status = model->call(&call);
  if (status) fail(error ? error->message : shlo_status_text(status));
  if (own) model->threads_stop(pool);
  for (int i = 0; i < model->result_count; i++) {
    long long size;
    snprintf(path, sizeof path, "%s/size%d", folder, i);
    FILE *file = fopen(path, "r");
    if (fscanf(file, "%lld", &size) != 1) fail("size");
    fclose(file);
    snprintf(path, sizeof path, "%s/result%d", folder, i);
    file = fopen(path, "wb");
    fwrite(outputs[i], 1, (size_t)size, file), fclose(file);
  }
  printf("done %lld\n", (long long)jobs_done);
  return 0;
}
