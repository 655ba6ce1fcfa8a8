#include "scheduler/recipes/transform.h"

#include <algorithm>
#include <array>

#include "scheduler/recipes/transform_entries.h"

namespace leat::transforms {
namespace {

constexpr double kSide = 65536;  // the largest height and width
constexpr double kZero[] = {0}, kOne[] = {1}, kHalf[] = {0.5};
constexpr std::string_view kFlag[] = {"false", "true"};

constexpr TransformArgument probability_of(std::span<const double> initial) {
  return {.name = "probability", .initial = initial, .min = 0, .max = 1};
}
constexpr TransformArgument strength(std::string_view name, double max) {
  return {.name = name, .initial = kZero, .min = 0, .max = max};
}
constexpr TransformArgument count_of(std::string_view name, std::span<const double> initial,
                                     double min, double max) {
  return {.name = name, .kind = ArgumentKind::integer, .initial = initial, .min = min, .max = max};
}
// One number for both sides, or height and width.
constexpr TransformArgument size_of(std::string_view name, std::span<const double> initial,
                                    double min) {
  return {.name = name,
          .kind = ArgumentKind::integer,
          .least = 1,
          .most = 2,
          .initial = initial,
          .min = min,
          .max = kSide};
}
constexpr TransformArgument word_of(std::string_view name, std::span<const std::string_view> words,
                                    std::span<const double> initial) {
  return {.name = name, .kind = ArgumentKind::word, .initial = initial, .words = words};
}

constexpr std::string_view kTypes[] = {"float32", "float64", "float16", "bfloat16",
                                       "uint8",   "int32",   "int64"};
constexpr std::string_view kAxes[] = {"horizontal", "vertical"};
constexpr std::string_view kPadModes[] = {"constant", "reflect", "edge"};
constexpr std::string_view kResizeModes[] = {"bilinear", "bicubic", "nearest", "area", "lanczos"};
constexpr std::string_view kColours[] = {"rgb", "gray"};
constexpr std::string_view kStatistics[] = {"none", "imagenet", "cifar10", "mnist"};

constexpr double kTwo[] = {2}, kNine[] = {9}, kBins[] = {31};
constexpr double kScale[] = {0.02, 0.33}, kRatio[] = {0.3, 3.3};
constexpr double kPartScale[] = {0.08, 1}, kPartRatio[] = {3.0 / 4, 4.0 / 3};

// The least and the most of a range of positive numbers.
constexpr TransformArgument range_of(std::string_view name, std::span<const double> initial,
                                     double max) {
  return {.name = name,
          .least = 2,
          .most = 2,
          .initial = initial,
          .min = 0,
          .max = max,
          .min_open = true};
}

constexpr TransformArgument kCast[] = {word_of("dtype", kTypes, {})};
constexpr TransformArgument kColorJitter[] = {strength("brightness", 100),
                                              strength("contrast", 100),
                                              strength("saturation", 100), strength("hue", 0.5)};
constexpr TransformArgument kCrop[] = {size_of("size", {}, 1)};
constexpr TransformArgument kDecode[] = {
    word_of("colours", kColours, kZero),
    size_of("size", kZero, 0),
    word_of("mode", kResizeModes, kZero),
};
constexpr TransformArgument kFlip[] = {word_of("axis", kAxes, kZero), probability_of(kHalf)};
// Of mixup and cutmix. Without classes, those of the model's output.
constexpr TransformArgument kMix[] = {
    {.name = "alpha", .min = 0.001, .max = 1000},
    probability_of(kOne),
    count_of("classes", kZero, 0, 1 << 24),
};
constexpr TransformArgument kNormalize[] = {
    word_of("statistics", kStatistics, kZero),
    {.name = "mean", .least = 1, .most = 4096, .initial = kZero},
    {.name = "std", .least = 1, .most = 4096, .initial = kOne, .min = 0, .min_open = true},
};
constexpr TransformArgument kOneHot[] = {count_of("classes", {}, 1, 1 << 24)};
constexpr TransformArgument kPad[] = {
    {.name = "padding",
     .kind = ArgumentKind::integer,
     .least = 1,
     .most = 4,
     .min = 0,
     .max = kSide},
    {.name = "fill", .initial = kZero},
    word_of("mode", kPadModes, kZero),
};
constexpr TransformArgument kRandAugment[] = {
    count_of("num_ops", kTwo, 1, 32),
    {.name = "magnitude", .initial = kNine, .min = 0, .max = 1000},
    count_of("num_magnitude_bins", kBins, 2, 1000),
};
constexpr TransformArgument kRandomCrop[] = {
    size_of("size", kZero, 0),
    size_of("padding", kZero, 0),
    {.name = "fill", .initial = kZero},
};
constexpr TransformArgument kRandomErasing[] = {
    probability_of(kHalf),
    range_of("scale", kScale, 1),
    range_of("ratio", kRatio, 1000),
    {.name = "value", .initial = kZero},
};
constexpr TransformArgument kRandomResizedCrop[] = {
    size_of("size", {}, 1),
    range_of("scale", kPartScale, 1),
    range_of("ratio", kPartRatio, 1000),
    word_of("mode", kResizeModes, kZero),
};
constexpr TransformArgument kResize[] = {
    size_of("size", {}, 1),
    word_of("mode", kResizeModes, kZero),
    word_of("antialias", kFlag, kOne),
    word_of("keep_bytes", kFlag, kZero),
};

constexpr auto kTransforms = std::to_array<TransformEntry>({
    {"cast", false, false, kCast, cast},
    {"color_jitter", true, false, kColorJitter, color_jitter},
    {"crop", false, false, kCrop, crop},
    {"cutmix", true, false, kMix, cutmix},
    {"decode", false, false, kDecode, decode},
    {"flip", true, false, kFlip, flip},
    {"mixup", true, false, kMix, mixup},
    {"normalize", false, false, kNormalize, normalize},
    {"one_hot", false, true, kOneHot, one_hot},
    {"pad", false, false, kPad, pad},
    {"rand_augment", true, false, kRandAugment, rand_augment},
    {"random_crop", true, false, kRandomCrop, random_crop},
    {"random_erasing", true, false, kRandomErasing, random_erasing},
    {"random_resized_crop", false, false, kRandomResizedCrop, random_resized_crop},
    {"resize", false, false, kResize, resize},
});

}  // namespace
}  // namespace leat::transforms

namespace leat {

using transforms::kTransforms;

std::span<const TransformEntry> all_transforms() { return kTransforms; }

const TransformEntry* find_transform(std::string_view name) {
  const auto found = std::find_if(kTransforms.begin(), kTransforms.end(),
                                  [&](const TransformEntry& entry) { return entry.name == name; });
  return found == kTransforms.end() ? nullptr : &*found;
}

}  // namespace leat
