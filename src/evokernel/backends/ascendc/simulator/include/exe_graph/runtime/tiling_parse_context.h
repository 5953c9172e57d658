// gert::TilingParseContext: the context of the function that runs once, before any tiling.
#pragma once
#include <memory>

#include "exe_graph/runtime/tiling_context.h"

namespace gert {

class TilingParseContext : public ExtendedKernelContext {
 public:
  TilingParseContext(const simulator::Node* node, std::shared_ptr<void>* kept) : ExtendedKernelContext(node), kept_(kept) {}
  const char* GetCompiledJson() const { return "{}"; }
  fe::PlatFormInfos* GetPlatformInfo() const { return simulator::platform(); }
  // Constructed at the first request, because only the parsing function knows the type.
  template <class T>
  T* GetCompiledInfo() const {
    if (!*kept_) *kept_ = std::make_shared<T>();
    return static_cast<T*>(kept_->get());
  }

 private:
  std::shared_ptr<void>* kept_;
};

using KernelContext = ExtendedKernelContext;

}  // namespace gert
