// The components of a queue, for the definitions of the queue ops and their kernels.
#pragma once

#include "devices/base/text.h"
#include "ops/graph/kernel.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/state/queue_resource.h"
#include "ops/state/resources.h"

namespace leat {

inline Result<std::vector<QueueComponent>> queue_components(const Attrs& attrs) {
  const auto it = attrs.find("components");
  const auto* texts =
      it == attrs.end() ? nullptr : std::get_if<std::vector<std::string>>(&it->second);
  return parse_components(texts ? *texts : std::vector<std::string>());
}

template <typename K>
Result<std::unique_ptr<Kernel>> make_queue_kernel(const KernelSetup& setup) {
  return std::unique_ptr<Kernel>(std::make_unique<K>(setup));
}

}  // namespace leat
