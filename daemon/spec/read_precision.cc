#include "daemon/spec/read_precision.h"

#include <string>

#include "daemon/spec/names.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using namespace job_names;

// Times 2^-100, the least factor of a dynamic scale, and its inverse, it is still a float.
constexpr FloatRange kScale = {.min = 1e-6, .max = 16777216};

// `dynamic`, a number, or a map with the numbers of a dynamic scale.
void read_loss_scale(YamlMap& map, Job::LossScale& scale) {
  using Kind = Job::LossScale::Kind;
  if (map.is_map("loss_scale")) {
    YamlMap dynamic = map.get_map("loss_scale", Need::optional);
    scale.kind = Kind::dynamic;
    dynamic.get_float("initial", Need::optional, kScale, scale.initial);
    dynamic.get_int("growth_interval", Need::optional, {.min = 1, .max = 1'000'000},
                    scale.growth_interval);
    dynamic.finish();
    return;
  }
  std::string text;
  if (!map.get_scalar("loss_scale", Need::optional, "dynamic, or a number", text)) return;
  scale.kind = Kind::dynamic;
  if (text == "dynamic") return;
  scale.kind = Kind::fixed;
  map.get_float("loss_scale", Need::optional, kScale, scale.initial);
}

// The keys that go with what the step computes in.
void read_mixed(YamlMap& map, Job& job) {
  const std::string_view name = precision_name(job.precision);
  map.get_strings("float32", Need::optional, job.mixed.wide);
  if (job.computes_in_16_bits()) map.get_strings(name, Need::optional, job.mixed.narrow);
  for (const std::string_view key : {"float32", "bfloat16", "float16"}) {
    if (!map.has(key) || (job.computes_in_16_bits() && (key == "float32" || key == name))) continue;
    map.skip(key);
    map.fail(key, cat("is not a key beside compute: ", name));
  }
  if (map.has("loss_scale") && job.precision != DType::f16) {
    map.skip("loss_scale");
    return map.fail("loss_scale",
                    cat("is not a key beside compute: ", name, ", whose range is that of float32"));
  }
  read_loss_scale(map, job.mixed.loss_scale);
}

}  // namespace

void read_precision(YamlMap& top, Job& job) {
  size_t of_products = 0;
  top.get_choice("matmul_precision", Need::optional, kMatmulPrecisions, of_products);
  job.tf32 = kMatmulPrecisions[of_products] == "tf32";
  const bool steps_apart = job.asynchronous() || job.has_quorum();
  size_t index = 0;
  const bool is_map = top.is_map("precision");
  YamlMap map = is_map ? top.get_map("precision", Need::optional) : YamlMap(top);
  const bool known = is_map ? map.get_choice("compute", Need::required, kPrecisions, index)
                            : top.get_choice("precision", Need::optional, kPrecisions, index);
  job.precision = kPrecisionTypes[index];
  Job::LossScale& scale = job.mixed.loss_scale;
  const bool scales = job.precision == DType::f16 && !job.program;
  if (scales) scale.kind = Job::LossScale::Kind::dynamic;
  if (is_map) {
    if (known) read_mixed(map, job);
    if (known) map.finish();
    if (job.program && map.has("loss_scale"))
      map.fail("loss_scale", "expected none beside program, whose graph scales its own losses");
  }
  if (known && steps_apart && job.scales_loss_dynamically()) {
    top.fail("precision",
             "expected loss_scale: NUMBER with a strategy whose workers do not do each step "
             "together, so that they could not all skip it, received a dynamic one");
  }
}

std::string_view precision_name(DType precision) {
  for (size_t i = 0; i < kPrecisions.size(); ++i) {
    if (kPrecisionTypes[i] == precision) return kPrecisions[i];
  }
  return "";
}

std::string precision_of_weights(const Job& job) {
  // Products of doubles have no other precision, and neither have a CPU's.
  const bool tf32 = job.tf32 && job.gpus_per_worker > 0 && job.precision != DType::f64;
  return cat(precision_name(job.precision), tf32 ? "+tf32" : "");
}

}  // namespace leat
