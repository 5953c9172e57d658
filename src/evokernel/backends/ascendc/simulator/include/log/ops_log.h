// Log messages and checks of host code. The simulator discards messages; a failed check returns the given value.
#pragma once
#include <cstdio>

#ifndef OP_LOGE
#define OP_LOGE(...) (void)0
#endif
#ifndef OP_LOGW
#define OP_LOGW(...) (void)0
#endif
#ifndef OP_LOGI
#define OP_LOGI(...) (void)0
#endif
#ifndef OP_LOGD
#define OP_LOGD(...) (void)0
#endif
#define OPS_LOG_E(...) (void)0
#define OPS_LOG_W(...) (void)0
#define OPS_LOG_I(...) (void)0
#define OPS_LOG_D(...) (void)0
#define OPS_LOG_FULL(...) (void)0
#define D_OP_LOGE(...) (void)0

#ifndef OP_CHECK_IF
#define OP_CHECK_IF(condition, message, ...) \
  do {                                       \
    if (condition) {                         \
      message;                               \
      __VA_ARGS__;                           \
    }                                        \
  } while (0)
#endif
#ifndef OP_CHECK
#define OP_CHECK(condition, message, ...) OP_CHECK_IF(condition, message, __VA_ARGS__)
#endif
#ifndef OPS_CHECK
#define OPS_CHECK(condition, message, ...) OP_CHECK_IF(condition, message, __VA_ARGS__)
#endif
#ifndef OP_TILING_CHECK
#define OP_TILING_CHECK(condition, message, ...) OP_CHECK_IF(condition, message, __VA_ARGS__)
#endif
#define OPS_ERR_IF(condition, message, ...) OP_CHECK_IF(condition, message, __VA_ARGS__)
#define OP_LOGE_IF(condition, result, ...) OP_CHECK_IF(condition, (void)0, return result)
#define OPS_LOG_E_IF(condition, context, result, ...) OP_CHECK_IF(condition, (void)0, return result)

#ifndef OPS_CHECK_NULL_WITH_CONTEXT
#define OPS_CHECK_NULL_WITH_CONTEXT(context, pointer) OP_CHECK_IF((pointer) == nullptr, (void)0, return ge::GRAPH_FAILED)
#endif
#ifndef OP_CHECK_NULL_WITH_CONTEXT
#define OP_CHECK_NULL_WITH_CONTEXT(context, pointer) OP_CHECK_IF((pointer) == nullptr, (void)0, return ge::GRAPH_FAILED)
#endif
#define OPS_CHECK_NULL_WITH_CONTEXT_RET(context, pointer, result) OP_CHECK_IF((pointer) == nullptr, (void)0, return result)
#define OPS_LOG_E_IF_NULL(context, pointer, ...) OP_CHECK_IF((pointer) == nullptr, (void)0, __VA_ARGS__)
#define OPS_REPORT_VECTOR_INNER_ERR(...) (void)0
#define OPS_REPORT_CUBE_INNER_ERR(...) (void)0
#define VECTOR_INNER_ERR_REPORT_TILIING(...) (void)0
#define VECTOR_INFER_SHAPE_INNER_ERR_REPORT(...) (void)0
#define CUBE_INNER_ERR_REPORT(...) (void)0
