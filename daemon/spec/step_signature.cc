#include "daemon/spec/step_signature.h"

namespace leat {

Signature signature_of(const Feeds& feeds, const std::vector<std::string>& fetches,
                       const std::vector<std::string>& targets, std::vector<Tensor>& tensors) {
  Signature out;
  for (const auto& [name, tensor] : feeds) {
    out.feeds.push_back(name);
    tensors.push_back(tensor);
  }
  out.fetches = fetches;
  out.targets = targets;
  return out;
}

}  // namespace leat
