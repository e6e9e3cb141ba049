/* Functions for graphs of the driver for tests (fake_driver.c). */
#include "../fake_graphs.h"

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
typedef unsigned long long CUgraphConditionalHandle;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct {
  int type, reserved0[3];
  union {
    long long reserved1[29];
    struct {
      CUgraphConditionalHandle handle;
      int type;
      unsigned int size;
      CUgraph *phGraph_out;
      CUcontext ctx;
    } conditional;
  };
  long long reserved2;
} CUgraphNodeParams;
#endif

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
  return created(entered("cuGraphCreate"), graph, flags);
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

EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context,
                                               unsigned int value, unsigned int flags) {
  int status = entered("cuGraphConditionalHandleCreate");
  if (!status && !holds_here(graph, GRAPH)) status = BAD_HANDLE;
  if (!status && ((int *)context != &contexts[here()] || value || flags)) status = INVALID;
  if (!status) {
    condition *it = calloc(1, sizeof *it);
    it->graph = (object *)graph, it->before = conditions;
    conditions = it;
    *handle = (uintptr_t)it;
  }
  return ended(status);
}

/* A node that runs a body under a condition: its graph is made here, and ends with the one that has the node. */
EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                  const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *p) {
  int status = entered("cuGraphAddNode");
  CUgraphNodeParams given = {0};
  given.type = 13;
  given.conditional = p->conditional;
  condition *set = condition_of(p->conditional.handle);
  if (!status && (memcmp(&given, p, sizeof given) || edges || !set || set->is_used || set->graph != (object *)graph ||
                  (unsigned)p->conditional.type > 1 || p->conditional.size != 1 || p->conditional.phGraph_out ||
                  (int *)p->conditional.ctx != &contexts[here()]))
    status = INVALID;
  command it = {.kind = CONDITIONAL, .condition = set, .is_loop = (int)p->conditional.type, .device = here()};
  if (!status) {
    set->is_used = 1;
    object **bodies = malloc(sizeof *bodies);
    it.body = bodies[0] = made_here(GRAPH);
    live[GRAPH]--; /* it is the driver's */
    p->conditional.phGraph_out = (CUgraph *)bodies;
  }
  return added(status, node, graph, before, count, it);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  return instantiated(entered("cuGraphInstantiateWithFlags"), exec, graph, flags);
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
  return started(entered("cuGraphLaunch"), exec, stream);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  int status = entered("cuGraphExecDestroy");
  return ended(status ? status : released_handle(exec, EXEC));
}

/* A graph, whose bodies end with it. */
static int destroyed(void *graph) {
  if (!released(graph, GRAPH)) return BAD_HANDLE;
  for (command *node = ((object *)graph)->nodes; node; node = node->next)
    if (node->body) live[GRAPH]++, destroyed(node->body);
  return 0;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  int status = entered("cuGraphDestroy");
  return ended(status ? status : destroyed(graph));
}
