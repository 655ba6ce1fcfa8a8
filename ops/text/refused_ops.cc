#include "ops/text/refused_ops.h"

#include <algorithm>

namespace leat {
namespace {

constexpr std::string_view kDynamic = "the size of its output depends on values";
constexpr std::string_view kStrings = "tensors of strings";
constexpr std::string_view kOptional = "values of the type optional";
constexpr std::string_view kSequence =
    "a value of the type sequence; sequences are supported where they fold away on import";

constexpr RefusedOp kRefused[] = {
    {"Compress", kDynamic},
    {"ConcatFromSequence", kSequence},
    {"ImageDecoder", "reads compressed images: decode them when the data set is made"},
    {"NonMaxSuppression", kDynamic},
    {"NonZero", kDynamic},
    {"Optional", kOptional},
    {"OptionalGetElement", kOptional},
    {"OptionalHasElement", kOptional},
    {"RegexFullMatch", kStrings},
    {"SequenceAt", kSequence},
    {"SequenceConstruct", kSequence},
    {"SequenceEmpty", kSequence},
    {"SequenceErase", kSequence},
    {"SequenceInsert", kSequence},
    {"SequenceLength", kSequence},
    {"SequenceMap", kSequence},
    {"SplitToSequence", kSequence},
    {"StringConcat", kStrings},
    {"StringNormalizer", kStrings},
    {"StringSplit", kStrings},
    {"TfIdfVectorizer", kStrings},
    {"Unique", kDynamic},
};

}  // namespace

std::span<const RefusedOp> refused_ops() { return kRefused; }

std::string_view refusal_of(std::string_view name) {
  const auto* found = std::ranges::lower_bound(kRefused, name, {}, &RefusedOp::name);
  return found != std::end(kRefused) && found->name == name ? found->reason : std::string_view();
}

}  // namespace leat
