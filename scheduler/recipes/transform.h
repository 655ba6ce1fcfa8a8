// Transforms of a batch: what a job file's data.transforms lists. A transform becomes ordinary
// nodes between the reader and the model, so devices, shards and costs know nothing of it.
//
// Each entry of the table lists its arguments once: the job file, its printing and the nodes all
// read that list. Every argument is a list of numbers; one that is a word is the word's index.
//
// Random transforms draw numbers that are keyed by the job's seed, the transform's place in the
// list, the job's step and the row's index in the global batch (ops/definitions/random.h). They are
// used in training alone. Transforms that mix rows mix those of one shard, so the result depends on
// the shards and not on the workers.
//
// Threads: values and constants.
#pragma once

#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

enum class ArgumentKind : uint8_t { number, integer, word };

// One argument of an entry, its default and the values that it may have.
struct TransformArgument {
  std::string_view name;
  ArgumentKind kind = ArgumentKind::number;
  // The number of values. A job file writes one value without brackets.
  size_t least = 1, most = 1;
  std::span<const double> initial = {};  // without any: the argument is required
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;
  std::span<const std::string_view> words = {};  // of kind word
};

// A transform with its arguments, as a job asks for it.
struct Transform {
  std::string name;    // of an entry
  std::string column;  // of the data; empty: the default of the entry
  std::map<std::string, std::vector<double>, std::less<>> arguments;

  // REQUIRES, of these: the entry has an argument of that name, with a value.
  const std::vector<double>& list(std::string_view argument) const {
    return arguments.find(argument)->second;
  }
  double number(std::string_view argument) const { return list(argument).front(); }
  int64_t integer(std::string_view argument) const {
    return static_cast<int64_t>(number(argument));
  }
  bool operator==(const Transform&) const = default;
};

class TransformBuilder;

// An entry of the table.
struct TransformEntry {
  std::string_view name;
  bool random = false;     // in training alone
  bool of_labels = false;  // the default column is that of the labels
  // The argument that a job file may write without its name: {flip: horizontal}. The first.
  std::span<const TransformArgument> arguments;
  Status (*emit)(TransformBuilder& builder, const Transform& transform);
};

// All transforms, in the order of the alphabet.
std::span<const TransformEntry> all_transforms();
// The entry of this name; null if there is none.
const TransformEntry* find_transform(std::string_view name);

}  // namespace leat
