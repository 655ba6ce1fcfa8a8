// What a step of a session is asked for, in names: the words that a session in this process and one
// on a cluster share.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "devices/core/tensor.h"

namespace leat {

// Values go by the names that the graph gives them; a target is a node's name, or the name of one
// of its outputs.
struct Signature {
  std::vector<std::string> feeds, fetches, targets;
  // The step has the variables that it touches to itself (several readers at once) from its start
  // to its end. Without, only each kernel is atomic: what asynchronous training wants. A step that
  // touches a queue never has: it may wait for the step that it would keep out.
  bool isolated = true;
};

using Feeds = std::vector<std::pair<std::string, Tensor>>;

// The feeds' names as a signature, and their tensors in its order.
Signature signature_of(const Feeds& feeds, const std::vector<std::string>& fetches,
                       const std::vector<std::string>& targets, std::vector<Tensor>& tensors);

// A signature that a session has resolved; counts up from 1.
using CallableId = uint64_t;

}  // namespace leat
