// The models of configs/jobs and some well-known networks, as jobs on data that are made up, and
// their plans for a GPU.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/spec/job.h"
#include "ops/graph/op.h"
#include "scheduler/plan/plan.h"
#include "tests/temporary_directory.h"

namespace leat::testing {

// The folder configs of this tree, or that of a bundle, which LEAT_CONFIGS names.
std::string configs_folder();

// A column of a job's data: so many rows of this shape. Elements are 0 or 1, in no order.
struct DataColumn {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> row = {};
};

// Writes the columns as files of numpy's into `folder`, and returns the job's key `data` for them.
std::string write_data(const std::string& folder, const std::vector<DataColumn>& columns,
                       int64_t rows, bool validates);

class ShippedModels {
 public:
  // The name of each file in configs/jobs, and resnet50, mobilenet_v2 and gpt2.
  static std::vector<std::string> names();
  // The job, with one batch of data, which is written the first time. Entries of `set` replace its
  // own.
  Result<Job> job(const std::string& name, const std::vector<std::string>& set = {});

 private:
  // A job without the entries of a caller.
  struct Prepared {
    std::string path;
    std::vector<std::string> set;
  };
  Result<Prepared> prepare(const std::string& name) const;

  TemporaryDirectory directory_;
  std::map<std::string, Prepared> prepared_;  // by name
};

// The part of a plan that one GPU has.
struct GpuPart {
  std::shared_ptr<const Plan> plan;
  const Partition* partition = nullptr;
};
// Those of the job's training step on one worker with a GPU, as the kernels in `catalogue` allow.
Result<std::vector<GpuPart>> gpu_parts(const Catalogue& catalogue, const Job& job);

}  // namespace leat::testing
