#include "daemon/training/best_epoch.h"

#include <cmath>
#include <span>

#include "daemon/base/number_text.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {

bool BestEpoch::take(const EpochResult& result) {
  const double now = result.number(monitor_.metric);
  ++since_;
  if (std::isnan(now)) return false;
  if (best_) {
    const double before = best_->number(monitor_.metric);
    const bool better = monitor_.rises ? now > before + min_delta_ : now < before - min_delta_;
    if (!better) return false;
  }
  best_ = result;
  since_ = 0;
  return true;
}

EpochWatch::EpochWatch(const Job& job) {
  if (const auto& stopping = job.early_stopping) {
    stopping_.emplace(stopping->monitor, stopping->min_delta);
    patience_ = stopping->patience;
  }
  if (const auto monitor = job.best_by()) kept_.emplace(*monitor);
}

bool EpochWatch::take(const EpochResult& result) {
  if (stopping_) stopping_->take(result);
  return kept_ && kept_->take(result);
}

std::optional<EpochResult> EpochWatch::best() const { return kept_ ? kept_->best() : std::nullopt; }

std::string EpochWatch::reason() const {
  const std::string& metric = stopping_->metric();
  const auto& best = stopping_->best();
  if (!best) return cat("stopped early: ", metric, " was a number in no epoch");
  return cat("stopped early: ", metric, " was best in epoch ", best->epoch, ", ",
             number_text(best->number(metric)), ", and not better in the ",
             counted(stopping_->since(), "epoch"), " since");
}

Status write_confusion(Files& files, const std::string& folder, const EpochResult& result,
                       const std::vector<double>& matrix) {
  const auto classes = static_cast<size_t>(std::lround(std::sqrt(matrix.size())));
  std::vector<std::string> rows;
  for (size_t row = 0; row < classes; ++row) {
    std::vector<std::string> counts;
    for (size_t c = 0; c < classes; ++c)
      counts.push_back(std::to_string(std::llround(matrix[row * classes + c])));
    rows.push_back("[" + join(counts, ", ") + "]");
  }
  const std::string text =
      cat("{\"epoch\": ", result.epoch, ", \"step\": ", result.step, ", \"classes\": ", classes,
          ", \"matrix\": [", join(rows, ",\n  "), "]}\n");
  return write_file_atomically(files, cat(folder, "/", kConfusionMatrix),
                               std::as_bytes(std::span(text)));
}

}  // namespace leat
