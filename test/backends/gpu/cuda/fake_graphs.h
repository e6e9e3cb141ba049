/* Graphs of the driver for tests (fake_driver.c): nodes in the order in which they were added, each behind the one
 * before it. What is made of a graph has copies of them. */

#ifndef CUDA_VERSION
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUarray_st *CUarray;
typedef struct CUkern_st *CUkernel;
typedef struct {
  CUfunction func;
  unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void **kernelParams, **extra;
  CUkernel kern;
  CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;
typedef struct {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  int srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  void *reserved0;
  size_t srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD;
  int dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  void *reserved1;
  size_t dstPitch, dstHeight, WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
#endif

static int is_node(const object *graph, const command *node) {
  for (const command *it = graph->nodes; it; it = it->next)
    if (it == node) return 1;
  misuses++;
  return 0;
}

static int added(int status, CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, command it) {
  object *of = (object *)graph;
  if (!status && !holds_here(of, GRAPH)) status = BAD_HANDLE;
  if (!status) {
    command **last = &of->nodes, *previous = 0;
    while (*last) previous = *last, last = &previous->next;
    if (count != !!previous || (count && (command *)*before != previous)) return ended(INVALID);
    *last = memcpy(malloc(sizeof it), &it, sizeof it);
    *node = (CUgraphNode)*last;
  }
  return ended(status);
}

static int node_of_launch(const CUDA_KERNEL_NODE_PARAMS *p, command *it) {
  if (p->kern || p->ctx) return INVALID;
  return launch_of(p->func, &p->gridDimX, &p->blockDimX, p->sharedMemBytes, p->kernelParams, p->extra, it);
}

static int node_of_copy(const CUDA_MEMCPY3D *p, CUcontext context, command *it) {
  size_t others = p->srcXInBytes | p->srcY | p->srcZ | p->srcLOD | p->srcPitch | p->srcHeight | p->dstXInBytes |
                  p->dstY | p->dstZ | p->dstLOD | p->dstPitch | p->dstHeight;
  if (others || p->srcHost || p->srcArray || p->dstHost || p->dstArray || p->reserved0 || p->reserved1) return INVALID;
  if ((int)p->srcMemoryType != 2 || (int)p->dstMemoryType != 2 || p->Height != 1 || p->Depth != 1) return INVALID;
  if (!p->WidthInBytes || (int *)context != &contexts[here()]) return INVALID;
  void *target = (void *)(uintptr_t)p->dstDevice, *source = (void *)(uintptr_t)p->srcDevice;
  *it = (command){.kind = COPY, .target = target, .source = source, .size = p->WidthInBytes, .device = here()};
  return 0;
}

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned int flags) {
  int status = entered("cuGraphCreate");
  if (!status && flags) status = INVALID;
  if (!status) *graph = (CUgraph)made_here(GRAPH);
  return ended(status);
}

EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS *parameters) {
  int status = entered("cuGraphAddKernelNode");
  command it = {0};
  if (!status) status = node_of_launch(parameters, &it);
  return added(status, node, graph, before, count, it);
}

EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                     const CUDA_MEMCPY3D *parameters, CUcontext context) {
  int status = entered("cuGraphAddMemcpyNode");
  command it = {0};
  if (!status) status = node_of_copy(parameters, context, &it);
  return added(status, node, graph, before, count, it);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  int status = entered("cuGraphInstantiate");
  if (!status && !holds_here(graph, GRAPH)) status = BAD_HANDLE;
  if (!status && flags) status = INVALID;
  if (!status) {
    object *it = made_here(EXEC);
    command **last = &it->nodes;
    it->graph = (object *)graph;
    for (command *node = it->graph->nodes; node; node = node->next) {
      *last = memcpy(malloc(sizeof *node), node, sizeof *node);
      (*last)->original = node;
      last = &(*last)->next;
    }
    *last = 0;
    *exec = (CUgraphExec)it;
  }
  return ended(status);
}

/* From now on a node of what was made of a graph is another command: of the same kind, and the same kernel. */
static int changed(int status, CUgraphExec exec, CUgraphNode node, command now) {
  object *it = (object *)exec;
  if (!status && (!holds_here(it, EXEC) || !holds(it->graph, GRAPH) || !is_node(it->graph, (command *)node)))
    status = BAD_HANDLE;
  for (command *each = status ? 0 : it->nodes; each; each = each->next)
    if (each->original == (command *)node) {
      if (each->kind != now.kind || each->it != now.it || each->size != now.size) status = INVALID;
      now.next = each->next, now.original = each->original;
      if (!status) *each = now;
    }
  return ended(status);
}

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS *parameters) {
  int status = entered("cuGraphExecKernelNodeSetParams");
  command it = {0};
  if (!status) status = node_of_launch(parameters, &it);
  return changed(status, exec, node, it);
}

EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *parameters,
                                               CUcontext context) {
  int status = entered("cuGraphExecMemcpyNodeSetParams");
  command it = {0};
  if (!status) status = node_of_copy(parameters, context, &it);
  return changed(status, exec, node, it);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  int status = entered("cuGraphLaunch");
  object *it = (object *)exec;
  if (!status && !holds_here(it, EXEC)) status = BAD_HANDLE;
  for (command *node = status ? 0 : it->nodes; node && !status; node = node->next) {
    command now = *node;
    now.next = 0;
    note(&now, stream);
    pthread_mutex_lock(&mutex);
    status = enqueued(0, stream, now);
  }
  return ended(status);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  int status = entered("cuGraphExecDestroy");
  return ended(status ? status : released_handle(exec, EXEC));
}

EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  int status = entered("cuGraphDestroy");
  return ended(status ? status : released_handle(graph, GRAPH));
}
