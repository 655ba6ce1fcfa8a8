// A step of a session, described by names. Sessions in this process and sessions on a cluster share
// these types.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "devices/core/tensor.h"

namespace leat {

// The inputs and outputs of a step. Values have the names that the graph gives them; a target is a
// node's name, or the name of one of its outputs.
struct Signature {
  std::vector<std::string> feeds, fetches, targets;
  // True: from its start to its end, no other step writes the variables that this step touches, and
  // none reads those that it writes. False: only each kernel is atomic, which asynchronous training
  // uses. A step that touches a queue is never isolated, because it might wait for a step that it
  // blocks.
  bool isolated = true;
};

// The values of a step's feeds, by name.
using Feeds = std::vector<std::pair<std::string, Tensor>>;

// Returns a signature with the names of `feeds`, and appends their tensors to `tensors` in the same
// order.
Signature signature_of(const Feeds& feeds, const std::vector<std::string>& fetches,
                       const std::vector<std::string>& targets, std::vector<Tensor>& tensors);

// The number of a signature that a session has resolved; counts from 1.
using CallableId = uint64_t;

}  // namespace leat
