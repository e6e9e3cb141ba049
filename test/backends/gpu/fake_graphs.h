/* Graphs of drivers with streams, for tests: nodes with those that each one is behind. What is made of a graph has
 * copies of them. Whatever the edges permit may happen: a launch takes the nodes in an order of which chance decides (the
 * setting "seed"), and others begin and end between the begin and the end of one. */

static command *node_in(command *nodes, const void *original) {
  for (; nodes; nodes = nodes->next)
    if (nodes == original || nodes->original == original) return nodes;
  return 0;
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

static int instantiated(int status, void *exec, void *graph, unsigned long long flags) {
  if (!status && !holds_here(graph, GRAPH)) status = BAD_HANDLE;
  if (!status && flags) status = INVALID;
  if (!status) {
    object *it = made_here(EXEC);
    command **last = &it->nodes;
    it->graph = graph;
    for (command *node = it->graph->nodes; node; node = node->next) {
      *last = memcpy(malloc(sizeof *node), node, sizeof *node);
      (*last)->original = node;
      last = &(*last)->next;
    }
    *last = 0;
    memcpy(exec, &it, sizeof it);
  }
  return ended(status);
}

/* From now on a node of what was made of a graph is another command: of the same kind, and the same kernel. */
static int changed(int status, void *exec, const void *node, command now) {
  object *it = exec;
  command *each = 0;
  if (!status && (!holds_here(it, EXEC) || !holds(it->graph, GRAPH) || !(each = node_in(it->nodes, node)))) {
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

static int started(int status, void *exec, const void *stream) {
  object *it = exec;
  if (!status && !holds_here(it, EXEC)) status = BAD_HANDLE;
  if (status) return ended(status);
  for (command *node = it->nodes; node; node = node->next) node->state = WAITS;
  for (command *node; !status && (node = gone_on(it->nodes));) {
    command now = *node;
    now.next = 0;
    if (now.state == BEGUN && (now.kind != RUN || !description_of(now.it->text))) continue; /* it has no begin */
    if (now.state == ENDED) note(&now, stream);
    pthread_mutex_lock(&mutex);
    status = enqueued(0, stream, now);
  }
  return ended(status);
}
