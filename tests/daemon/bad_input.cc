#include "tests/daemon/bad_input.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/catch.h"

namespace leat {
namespace {

constexpr const char* kGraph = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,4] x) => (float[N,3] y) {
  h = leat.Dense <activation = "relu", units = 5> (x)
  y = leat.Dense <units = 3> (h)
}
)";

constexpr const char* kJob = R"(version: 1
name: tiny
model: {graph: net.onnxtxt}
data:
  root: .
  train: {format: idx, features: x, labels: y}
  validation: {format: idx, features: x, labels: y}
  rescale: 0.004
loss: cross_entropy
metrics: [accuracy]
optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.9}
global_batch_size: 8
steps: 8
shards: 2
strategy: mirrored
num_workers: 2
checkpoint: {every_steps: 4, keep: 3}
)";

// Repeatable bytes below `limit`.
std::string numbers(size_t count, unsigned limit) {
  std::string out;
  unsigned state = 1;
  while (out.size() < count) {
    state = state * 1103515245 + 12345;
    out += static_cast<char>((state >> 16) % limit);
  }
  return out;
}

}  // namespace

TinyJob::TinyJob() {
  write("net.onnxtxt", kGraph);
  write("job.yaml", kJob);
  write("x", idx(8, {32, 4}, numbers(128, 256)));
  write("y", idx(8, {32}, numbers(32, 3)));
}

std::string TinyJob::read(const std::string& name) const {
  std::ifstream in(folder_ / name, std::ios::binary);
  REQUIRE(in.is_open());
  return {std::istreambuf_iterator<char>(in), {}};
}

void TinyJob::write(const std::string& name, const std::string& bytes) const {
  std::ofstream(folder_ / name, std::ios::binary) << bytes;
}

std::map<std::string, std::string> TinyJob::snapshot(const std::string& name) const {
  std::map<std::string, std::string> out;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_ / name)) {
    const auto path = std::filesystem::relative(file.path(), folder()).string();
    if (file.is_regular_file()) out[path] = read(path);
  }
  return out;
}

Finished TinyJob::leat(const std::vector<std::string>& arguments,
                       const std::string& failpoints) const {
  return run_leat(folder(), arguments, failpoints);
}

Finished TinyJob::train(const std::string& out, const Swaps& swaps,
                        const std::vector<std::string>& more, const std::string& failpoints) const {
  std::string text = kJob;
  for (const auto& [from, to] : swaps) text = with(text, from, to);
  write("job.yaml", text);
  std::vector<std::string> arguments{"train", "job.yaml", "--threads", "1", "--output", out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return leat(arguments, failpoints);
}

Finished TinyJob::train_in_vain(const Swaps& swaps, const std::vector<std::string>& more) const {
  Finished finished = train("vain", swaps, more);
  CHECK_FALSE(std::filesystem::exists(folder_ / "vain"));
  return finished;
}

std::string idx(char type, const std::vector<uint32_t>& sizes, const std::string& elements) {
  std::string out{'\0', '\0', type, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift);
  }
  return out + elements;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  INFO("looking for " << from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string flipped(std::string bytes, size_t at) {
  REQUIRE(at < bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
  return bytes;
}

std::string half(const std::string& bytes) { return bytes.substr(0, bytes.size() / 2); }

void check_refused(const Finished& finished, int exit_code, const std::vector<std::string>& parts) {
  INFO("stderr: " << finished.err);
  CHECK(finished.exit_code == exit_code);
  CHECK(finished.out == "");
  CHECK(finished.err.find("Sanitizer") == std::string::npos);
  CHECK(finished.err.find("runtime error") == std::string::npos);
  const auto errors = finished.errors();
  REQUIRE(errors.size() == 1);
  for (const std::string& part : parts) CHECK_THAT(errors[0], Catch::Contains(part));
}

void check_ok(const Finished& finished) {
  INFO("stderr: " << finished.err);
  CHECK(finished.exit_code == 0);
  CHECK(finished.errors().empty());
}

}  // namespace leat
