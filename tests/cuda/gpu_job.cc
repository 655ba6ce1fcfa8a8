#include "tests/cuda/gpu_job.h"

#include "daemon/hosts/local_hosts.h"
#include "tests/cuda/gpu_under_test.h"

namespace leat::testing {

const char* const kMlp = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
mlp (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  h = leat.Dense <units = 24> (f)
  a = Relu (h)
  d = leat.Dropout <rate = 0.25> (a)
  logits = leat.Dense <units = 4> (d)
}
)";

const char* const kCnn = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
cnn (float[N,1,8,8] image) => (float[N,4] logits) {
  c = leat.Conv2D <filters = 8, kernel = 3> (image)
  a = Relu (c)
  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
  d = leat.Conv2D <filters = 8, kernel = 3> (p)
  b = Relu (d)
  f = Flatten (b)
  logits = leat.Dense <units = 4> (f)
}
)";

const char* const kNormedCnn = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
cnn (float[N,1,8,8] image) => (float[N,4] logits) {
  c = leat.Conv2D <filters = 16, kernel = 3, use_bias = 0> (image)
  b = leat.BatchNorm (c)
  a = Relu (b)
  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
  f = Flatten (p)
  logits = leat.Dense <units = 4> (f)
}
)";

// Four tokens, the quarters of an image, that attend to each other.
const char* const kTransformer =
    R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
transformer (float[N,1,8,8] image) => (float[N,4] logits)
<int64[3] tokens = {0, 4, 16}>
{
  t = Reshape (image, tokens)
  e = leat.Dense <units = 12> (t)
  n = leat.LayerNorm (e)
  q = leat.Dense <units = 12> (n)
  k = leat.Dense <units = 12> (n)
  v = leat.Dense <units = 12> (n)
  kt = Transpose <perm = [0, 2, 1]> (k)
  s = MatMul (q, kt)
  p = Softmax <axis = -1> (s)
  a = MatMul (p, v)
  r = Add (e, a)
  g = Gelu (r)
  f = Flatten (g)
  logits = leat.Dense <units = 4> (f)
}
)";

Result<GpuTraining> GpuJob::train(const Job& job, const std::string& folder,
                                  const GpuTrainingOptions& how) const {
  prepare_gpu(how.seed);
  Status opened;
  auto hosts = make_local_hosts(static_cast<int>(job.num_workers), 1, real_files(), [&] {
    std::vector<std::unique_ptr<Device>> devices;
    auto device = open_gpu();
    if (device.ok())
      devices.push_back(std::move(*device));
    else
      opened = device.status();
    return devices;
  });
  LEAT_RETURN_IF_ERROR(opened);
  if (how.once_open) how.once_open();
  TrainOptions options{small.path(folder), how.resume, 1};
  options.skip_checkpoints = how.skip_checkpoints;
  options.profile = how.profile;
  LEAT_ASSIGN_OR_RETURN(const auto trainer, Trainer::create(gpu_catalogue(), real_files(), job,
                                                            options, std::move(hosts)));
  Silent watch;
  GpuTraining training;
  LEAT_ASSIGN_OR_RETURN(training.outcome,
                        trainer->run(watch, [&] { return how.stop && how.stop(watch); }));
  training.losses = watch.losses;
  training.warnings = watch.warnings;
  return training;
}

}  // namespace leat::testing
