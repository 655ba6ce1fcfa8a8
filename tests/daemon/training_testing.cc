#include "tests/daemon/training_testing.h"

#include <fstream>

#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "tests/must.h"

namespace leat {
namespace {

const Catalogue& catalogue() {
  static const Catalogue catalogue = standard_catalogue();
  return catalogue;
}

}  // namespace

SmallJob::SmallJob(const std::string& graph) {
  std::ofstream(path("model.onnxtxt")) << graph;
  write("train", 200);
  write("val", 50);
}

Job SmallJob::job(const std::vector<std::string>& set) const {
  const std::string text =
      cat("version: 1\nname: small\nmodel: {graph: model.onnxtxt}\ndata:\n  root: ", path(),
          "\n  train: {format: npy, features: train-x.npy, labels: train-y.npy}\n"
          "  validation: {format: npy, features: val-x.npy, labels: val-y.npy}\n  rescale: "
          "0.00392156862745098\n"
          "loss: cross_entropy\nmetrics: [accuracy]\noptimizer: {name: sgd, learning_rate: 0.05, "
          "momentum: 0.9}\n"
          "lr_scheduler: {name: cosine, warmup_steps: 3}\nglobal_batch_size: 24\nsteps: "
          "30\nseed: 7\nshards: 4\n"
          "strategy: mirrored\nnum_workers: 1\ncheckpoint: {every_steps: 10, keep: 2}\n");
  JobOverrides overrides;
  overrides.set = set;
  return must(parse_job(text, path("job.yaml"), overrides));
}

Job SmallJob::with_endless_epoch(Job job) const {
  const int64_t records = 20'000 * job.global_batch_size;
  must(write_npy(real_files(), path("many-x.npy"), Tensor(DType::u8, Shape{records, 1, 8, 8})));
  must(write_npy(real_files(), path("many-y.npy"), Tensor(DType::u8, Shape{records})));
  job.data.train.files = {"features=many-x.npy", "labels=many-y.npy"};
  job.data.validation.reset();
  return job;
}

TrainOutcome SmallJob::train(const Job& job, const std::string& folder, Silent& watch, int threads,
                             bool resume, const std::function<bool()>& stop) const {
  TrainOptions options{path(folder), resume, threads};
  options.skip_checkpoints = false;  // so that the set of checkpoints is known
  const auto trainer = must(Trainer::create(catalogue(), real_files(), job, options));
  return must(trainer->run(watch, stop));
}

std::string SmallJob::hash(const Job& job, const std::string& folder, int threads) const {
  Silent watch;
  return train(job, folder, watch, threads).weights_sha256;
}

Result<std::unique_ptr<Trainer>> SmallJob::trainer(Job job, const TrainOptions& options) const {
  return Trainer::create(catalogue(), real_files(), std::move(job), options);
}

Result<std::unique_ptr<Trainer>> SmallJob::trainer(Job job, const TrainOptions& options,
                                                   std::unique_ptr<HostGroup> cluster) const {
  return Trainer::create(catalogue(), real_files(), std::move(job), options, std::move(cluster));
}

void SmallJob::write(const std::string& name, int64_t count) {
  Tensor x(DType::u8, Shape{count, 1, 8, 8}), y(DType::u8, Shape{count});
  uint32_t noise = 12345;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = i % 4;
    y.set(i, static_cast<double>(label));
    for (int64_t p = 0; p < 64; ++p) {
      noise = noise * 1664525 + 1013904223;
      const bool bright = (p / 8 < 4) == (label / 2 == 0) && (p % 8 < 4) == (label % 2 == 0);
      x.set(i * 64 + p, (noise >> 26) + (bright ? 150 : 20));
    }
  }
  must(write_npy(real_files(), path(name + "-x.npy"), x));
  must(write_npy(real_files(), path(name + "-y.npy"), y));
}

}  // namespace leat
