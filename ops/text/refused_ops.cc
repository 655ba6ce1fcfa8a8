#include "ops/text/refused_ops.h"

#include <algorithm>

namespace leat {
namespace {

constexpr std::string_view kStrings = "tensors of strings";
constexpr std::string_view kOptional =
    "a value of the type optional; such values are supported where they fold away on import";
constexpr std::string_view kSequence =
    "a value of the type sequence; sequences are supported where they fold away on import";

constexpr RefusedOp kRefused[] = {
    {"ConcatFromSequence", kSequence}, {"Optional", kOptional},
    {"OptionalGetElement", kOptional}, {"OptionalHasElement", kOptional},
    {"RegexFullMatch", kStrings},      {"SequenceAt", kSequence},
    {"SequenceConstruct", kSequence},  {"SequenceEmpty", kSequence},
    {"SequenceErase", kSequence},      {"SequenceInsert", kSequence},
    {"SequenceLength", kSequence},     {"SequenceMap", kSequence},
    {"SplitToSequence", kSequence},    {"StringConcat", kStrings},
    {"StringNormalizer", kStrings},    {"StringSplit", kStrings},
};

}  // namespace

std::span<const RefusedOp> refused_ops() { return kRefused; }

std::string_view refusal_of(std::string_view name) {
  const auto* found = std::ranges::lower_bound(kRefused, name, {}, &RefusedOp::name);
  return found != std::end(kRefused) && found->name == name ? found->reason : std::string_view();
}

}  // namespace leat
