/* Functions for graphs of the driver for tests (fake_driver.c). */
#include "../fake_graphs.h"

#ifndef HIP_VERSION
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphNode *hipGraphNode_t;
typedef struct hipGraphExec *hipGraphExec_t;
typedef struct { unsigned int x, y, z; } dim3;
typedef struct {
  dim3 blockDim;
  void **extra;
  void *func;
  dim3 gridDim;
  void **kernelParams;
  unsigned int sharedMemBytes;
} hipKernelNodeParams;
#endif

static int node_of_launch(const hipKernelNodeParams *p, command *it) {
  return launch_of(p->func, &p->gridDim.x, &p->blockDim.x, p->sharedMemBytes, p->kernelParams, p->extra, it);
}

static int node_of_copy(void *target, const void *source, size_t size, hipMemcpyKind kind, command *it) {
  if ((int)kind != 3 || !target || !source || !size || target == source) return INVALID;
  *it = (command){.kind = COPY, .target = target, .source = source, .size = size, .device = here()};
  return 0;
}

EXPORT hipError_t hipGraphCreate(hipGraph_t *graph, unsigned int flags) {
  return created(entered("hipGraphCreate"), graph, flags);
}

EXPORT hipError_t hipGraphAddKernelNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before,
                                        size_t count, const hipKernelNodeParams *parameters) {
  int status = entered("hipGraphAddKernelNode");
  command it = {0};
  if (!status) status = node_of_launch(parameters, &it);
  return added(status, node, graph, before, count, it);
}

EXPORT hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before,
                                          size_t count, void *target, const void *source, size_t size,
                                          hipMemcpyKind kind) {
  int status = entered("hipGraphAddMemcpyNode1D");
  command it = {0};
  if (!status) status = node_of_copy(target, source, size, kind, &it);
  return added(status, node, graph, before, count, it);
}

EXPORT hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags) {
  return instantiated(entered("hipGraphInstantiateWithFlags"), exec, graph, flags);
}

EXPORT hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                  const hipKernelNodeParams *parameters) {
  int status = entered("hipGraphExecKernelNodeSetParams");
  command it = {0};
  if (!status) status = node_of_launch(parameters, &it);
  return changed(status, exec, node, it);
}

EXPORT hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec, hipGraphNode_t node, void *target,
                                                    const void *source, size_t size, hipMemcpyKind kind) {
  int status = entered("hipGraphExecMemcpyNodeSetParams1D");
  command it = {0};
  if (!status) status = node_of_copy(target, source, size, kind, &it);
  return changed(status, exec, node, it);
}

EXPORT hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  return started(entered("hipGraphLaunch"), exec, stream);
}

EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t exec) { return given_back("hipGraphExecDestroy", exec, EXEC); }

EXPORT hipError_t hipGraphDestroy(hipGraph_t graph) { return given_back("hipGraphDestroy", graph, GRAPH); }
