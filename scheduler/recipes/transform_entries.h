// The functions that make the nodes of each transform, and the arguments of each. Private to the
// table of transforms.
#pragma once

#include <vector>

#include "scheduler/recipes/transform_builder.h"

namespace leat::transforms {

// Of images: the last two dimensions of a row are height and width.
Status color_jitter(TransformBuilder& b, const Transform& t);
Status crop(TransformBuilder& b, const Transform& t);
Status decode(TransformBuilder& b, const Transform& t);
Status flip(TransformBuilder& b, const Transform& t);
Status pad(TransformBuilder& b, const Transform& t);
Status rand_augment(TransformBuilder& b, const Transform& t);
Status random_crop(TransformBuilder& b, const Transform& t);
Status random_resized_crop(TransformBuilder& b, const Transform& t);
Status random_erasing(TransformBuilder& b, const Transform& t);
Status resize(TransformBuilder& b, const Transform& t);

// Of rows of any shape.
Status cast(TransformBuilder& b, const Transform& t);
Status cutmix(TransformBuilder& b, const Transform& t);
Status mixup(TransformBuilder& b, const Transform& t);
Status normalize(TransformBuilder& b, const Transform& t);
Status one_hot(TransformBuilder& b, const Transform& t);

// True with this probability, from uniform numbers.
inline ValueId with_probability(TransformBuilder& b, ValueId draws, double probability) {
  return b.op("Less", {draws, b.graph().scalar(DType::f32, probability)});
}

// Points of the quantile function of Beta(alpha, alpha), at 0, 1/(n-1), ..., 1.
std::vector<double> beta_quantiles(double alpha, int n);

}  // namespace leat::transforms
