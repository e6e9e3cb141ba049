/* Graphs of drivers with streams, for tests: nodes with those that each one is behind. What is made of a graph has
 * copies of them. Whatever the edges permit may happen: a launch takes the nodes in an order of which chance decides (the
 * setting "seed"), and others begin and end between the begin and the end of one. What is launched is what it is then; it
 * works when somebody waits. */

static command *node_in(command *nodes, const void *original) {
  for (; nodes; nodes = nodes->next)
    if (nodes == original || nodes->original == original) return nodes;
  return 0;
}

/* The same in bodies too. */
static command *node_anywhere(command *nodes, const void *original) {
  command *found = node_in(nodes, original);
  for (; nodes && !found; nodes = nodes->next) found = node_anywhere(nodes->nodes, original);
  return found;
}

/* A condition of a graph, which one node of that graph runs its body by. */
typedef struct condition {
  object *graph;
  int is_used, value;
  struct condition *before;
} condition;
static condition *conditions;

static condition *condition_of(uint64_t handle) {
  for (condition *it = conditions; it; it = it->before)
    if ((uintptr_t)it == handle) return it;
  return 0;
}

static int is_every_condition_used(const object *graph) {
  for (condition *it = conditions; it; it = it->before)
    if (it->graph == graph && !it->is_used) return 0;
  for (command *node = graph->nodes; node; node = node->next)
    if (node->body && (!node->body->nodes || !is_every_condition_used(node->body))) return 0; /* drivers crash there */
  return 1;
}

/* The operands: a scalar, its bytes, conditions, the table of these, the address of what ends loops. */
static void set_conditions(const command *it) {
  const uint64_t *row = it->operands[3];
  uint64_t bytes = (uintptr_t)it->operands[1], count = (uintptr_t)it->operands[2], number = 0;
  if (!fits_on(it->device, it->operands[0], bytes) || !fits_on(it->device, row, 24 * count)) return;
  int is_host = is_host_memory(it->operands[4]);
  if (it->operands[4] && !is_host) misuses++;
  int stops = is_host && *(uint32_t *)it->operands[4];
  memcpy(&number, it->operands[0], bytes);
  for (; count--; row += 3) {
    condition *set = condition_of(row[0]);
    if (!set || !set->graph->is_live) misuses++;
    else set->value = !stops && (number < row[2] ? number : row[2]) == row[1];
  }
}

/* A node, behind `count` others of the same graph, none of which is named twice. */
static int added(int status, void *node, void *graph, const void *before, size_t count, command it) {
  object *of = graph;
  command *const *last = before, **place;
  if (!status && !holds_here(of, GRAPH)) status = BAD_HANDLE;
  for (size_t i = 0; i < count && !status; i++) {
    if (!node_in(of->nodes, last[i])) status = INVALID;
    for (size_t j = 0; j < i; j++)
      if (last[i] == last[j]) status = INVALID;
  }
  if (!status) {
    for (place = &of->nodes; *place; place = &(*place)->next) {}
    it.count = count;
    it.before = memcpy(malloc(count * sizeof *last + 1), last, count * sizeof *last);
    *place = memcpy(malloc(sizeof it), &it, sizeof it);
    memcpy(node, place, sizeof *place);
  }
  return ended(status);
}

static int created(int status, void *graph, unsigned int flags) {
  if (!status && flags) status = INVALID;
  if (!status) {
    object *it = made_here(GRAPH);
    memcpy(graph, &it, sizeof it);
  }
  return ended(status);
}

/* Copies of nodes, of those in bodies too. */
static command *copies(command *nodes) {
  command *first = 0, **last = &first;
  for (; nodes; nodes = nodes->next) {
    *last = memcpy(malloc(sizeof *nodes), nodes, sizeof *nodes);
    if (!nodes->original) (*last)->original = nodes;
    if (nodes->kind == CONDITIONAL) (*last)->nodes = copies(nodes->nodes ? nodes->nodes : nodes->body->nodes);
    (*last)->body = 0;
    last = &(*last)->next;
    *last = 0;
  }
  return first;
}

static int instantiated(int status, void *exec, void *graph, unsigned long long flags) {
  if (!status && !holds_here(graph, GRAPH)) status = BAD_HANDLE;
  if (!status && (flags || !is_every_condition_used(graph))) status = INVALID;
  if (!status) {
    object *it = made_here(EXEC);
    it->graph = graph;
    it->nodes = copies(it->graph->nodes);
    memcpy(exec, &it, sizeof it);
  }
  return ended(status);
}

/* From now on a node of what was made of a graph is another command: of the same kind, and the same kernel. */
static int changed(int status, void *exec, const void *node, command now) {
  object *it = exec;
  command *each = 0;
  if (!status && (!holds_here(it, EXEC) || !holds(it->graph, GRAPH) || !(each = node_anywhere(it->nodes, node)))) {
    misuses++;
    status = BAD_HANDLE;
  }
  if (!status && (each->kind != now.kind || each->it != now.it || each->size != now.size)) status = INVALID;
  if (!status) {
    now.next = each->next, now.original = each->original, now.before = each->before, now.count = each->count;
    *each = now;
  }
  return ended(status);
}

/* A number below `count` (Steele, Lea and Flood, 2014: SplitMix64). */
static size_t by_chance(size_t count) {
  uint64_t z = *fake_setting("seed") += 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return (z ^ z >> 31) % count;
}

static int may_go_on(command *nodes, const command *it) {
  if (it->state != WAITS) return it->state == BEGUN;
  for (size_t i = 0; i < it->count; i++)
    if (node_in(nodes, it->before[i])->state != ENDED) return 0;
  return 1;
}

/* Of the nodes that may begin or end, one, which does; null once all have ended. */
static command *gone_on(command *nodes) {
  size_t count = 0;
  for (command *it = nodes; it; it = it->next) count += may_go_on(nodes, it);
  if (!count) return 0;
  size_t chosen = by_chance(count);
  command *it = nodes;
  while (!may_go_on(nodes, it) || chosen--) it = it->next;
  it->state++;
  return it;
}

static void run_nodes(command *nodes, const void *stream, int device) {
  for (command *node = nodes; node; node = node->next) node->state = WAITS;
  for (command *node; (node = gone_on(nodes));) {
    command now = *node;
    now.next = 0, now.device = now.from = device;
    if (now.kind == CONDITIONAL) {
      if (now.state == BEGUN)
        while (now.condition->value && !corrupt[device]) {
          run_nodes(now.nodes, stream, device);
          if (!now.is_loop) break;
        }
      continue;
    }
    if (now.state == BEGUN && (now.kind != RUN || !description_of(now.it->text))) continue; /* it has no begin */
    if (now.state == ENDED) note(&now, stream);
    execute(&now);
  }
}

static int started(int status, void *exec, const void *stream) {
  object *it = exec;
  if (!status && !holds_here(it, EXEC)) status = BAD_HANDLE;
  if (status) return ended(status);
  return enqueued(0, stream, (command){.kind = ALL, .nodes = copies(it->nodes), .source = stream});
}
