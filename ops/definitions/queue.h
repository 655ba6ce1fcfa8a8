// The components of a queue, for the definitions of the queue ops and their kernels.
//
// A graph names a queue by attribute `name` of leat.Queue; all nodes of that name in the runs of a
// job share one QueueResource (ops/state/queue_resource.h). An element of the queue is a tuple of
// tensors, whose types are the components.
#pragma once

#include "devices/base/text.h"
#include "ops/graph/kernel.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/state/queue_resource.h"
#include "ops/state/resources.h"

namespace leat {

// The types that attribute `components` of leat.Queue or leat.Dequeue lists, such as
// ["float[2,3]", "int64[]"], in the order of the tuple. invalid_argument if the attribute is absent
// or empty, or if an entry is no type with constant sizes; the message has no subject, and callers
// add the node.
inline Result<std::vector<QueueComponent>> queue_components(const Attrs& attrs) {
  const auto it = attrs.find("components");
  const auto* texts =
      it == attrs.end() ? nullptr : std::get_if<std::vector<std::string>>(&it->second);
  return parse_components(texts ? *texts : std::vector<std::string>());
}

// The KernelFactory of a kernel class K whose constructor takes the setup alone and cannot fail.
// The check that the resource is a queue with the expected components belongs to the kernel's first
// run, because the queue's address is an operand and is not known when the kernel is made.
template <typename K>
Result<std::unique_ptr<Kernel>> make_queue_kernel(const KernelSetup& setup) {
  return std::unique_ptr<Kernel>(std::make_unique<K>(setup));
}

}  // namespace leat
