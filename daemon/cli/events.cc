#include "daemon/cli/events.h"

#include "daemon/base/json_line.h"

namespace leat {
namespace {

// The facts on which the hash of the weights depends, with the same keys in each event.
JsonLine& add_identity(JsonLine& line, const RunIdentity& identity) {
  return line.add("shards", identity.shards)
      .add("seed", identity.seed)
      .add("cpu", identity.cpu)
      .add("precision", identity.precision);
}

}  // namespace

std::string json_of(const StartedEvent& event) {
  JsonLine line;
  line.add("event", "started").add("api_version", "leat/v1");
  line.add("job", event.job).add("run", event.run);
  line.add("steps", event.steps).add("start_step", event.start_step);
  line.add("global_batch_size", event.global_batch_size).add("strategy", event.strategy);
  line.add("workers", event.workers).add("threads", event.threads);
  return add_identity(line, event.identity).text();
}

std::string json_of(const EpochEvent& event) {
  JsonLine line;
  line.add("event", "epoch").add("epoch", event.epoch).add("step", event.step);
  line.add("seconds", event.seconds).add("samples_per_second", event.samples_per_second);
  line.add("loss", event.loss).add("accuracy", event.accuracy);
  line.add("val_loss", event.val_loss).add("val_accuracy", event.val_accuracy);
  for (const NamedNumber& each : event.more) line.add(each.name, each.value);
  return line.text();
}

std::string json_of(const ValidationEvent& event) {
  JsonLine line;
  line.add("event", "validation").add("step", event.step);
  for (const auto& [name, value] : event.numbers) line.add(name, value);
  return line.text();
}

std::string json_of(const CheckpointEvent& event) {
  JsonLine line;
  return line.add("event", "checkpoint").add("step", event.step).add("path", event.path).text();
}

std::string json_of(const FinishedEvent& event) {
  JsonLine line;
  line.add("event", "finished").add("run", event.run);
  line.add("weights_sha256", event.weights_sha256);
  line.add("val_accuracy", event.val_accuracy).add("val_loss", event.val_loss);
  line.add("samples_per_second", event.samples_per_second).add("steps", event.steps);
  add_identity(line, event.identity).add("depends_on_timing", event.depends_on_timing);
  line.add("steps_skipped", event.steps_skipped);
  line.add("metrics_missing_rows", event.metrics_missing_rows);
  // 0 stands for no changed rows, which the event shows as null.
  const int64_t until = event.metrics_changed_until;
  line.add("metrics_changed_until", until > 0 ? std::optional(until) : std::nullopt);
  if (!event.gpu_kernels.empty()) line.add("gpu_kernels", event.gpu_kernels);
  for (const NamedNumber& each : event.more) line.add(each.name, each.value);
  return line.text();
}

std::string json_of(const InterruptedEvent& event) {
  JsonLine line;
  line.add("event", "interrupted").add("run", event.run).add("step", event.step);
  return line.add("checkpoint", event.checkpoint).text();
}

}  // namespace leat
