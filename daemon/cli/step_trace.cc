#include "daemon/cli/step_trace.h"

#include <algorithm>
#include <span>
#include <utility>

#include "daemon/traces/chrome_trace.h"
#include "daemon/traces/critical_path.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kWarmUp = 10;  // steps

}  // namespace

Status write_trace(const StepRecording& recording, const std::string& path) {
  const std::string text = chrome_trace(recording);
  return write_file_atomically(real_files(), path, std::as_bytes(std::span(text)));
}

StepTrace::StepTrace(std::string path, uint64_t steps)
    : path_(std::move(path)), steps_(steps), recorded_(std::make_shared<RecordedSteps>()) {}

void StepTrace::begin(uint64_t first, uint64_t last) {
  const uint64_t left = last - std::min(first, last);
  after_ = first + std::min(kWarmUp, left - std::min(left, steps_));
  recorded_->want(after_, steps_);
}

Result<std::string> StepTrace::finish(const std::string& job) {
  StepRecording recording = recorded_->take();
  recording.job = job;
  if (recording.partitions.empty() || recording.first() >= recording.end())
    return failed_precondition(
        cat("--trace: expected a training that goes on after step ", after_, ", it ended before"));
  LEAT_RETURN_IF_ERROR(write_trace(recording, path_));
  std::string text = cat("Trace ", path_, "\n");
  const auto explanation = explain(recording);
  return explanation.ok() ? text + explanation_text(*explanation) : text;
}

}  // namespace leat
