#include "daemon/status/metrics_text.h"

#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "daemon/status/status_metrics.h"
#include "tests/catch.h"
#include "tests/daemon/status/status_testing.h"

using namespace leat;

namespace {

// Reads the format as its specification has it; "name{labels}" to the value's text.
std::map<std::string, std::string> parsed(const std::string& text) {
  static const std::regex kMeta(R"(# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))");
  static const std::regex kSample(
      R"(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(\\[\\n"]|[^\\"\n])*")"
      R"((,[a-zA-Z_][a-zA-Z0-9_]*="(\\[\\n"]|[^\\"\n])*")*\})? (-?[0-9.e+-]+|NaN|[+-]Inf))");
  std::map<std::string, std::string> samples;
  std::set<std::string> helped, typed;
  std::string open, line;  // the metric whose lines go on
  std::istringstream in(text);
  REQUIRE((text.empty() || text.back() == '\n'));
  while (std::getline(in, line)) {
    INFO(line);
    std::smatch match;
    if (std::regex_match(line, match, kMeta)) {
      CHECK((match[1] == "HELP" ? helped : typed).insert(match[2]).second);
      open = match[2];
      if (match[1] == "TYPE") CHECK((match[3] == "gauge" || match[3] == "counter"));
      if (match[1] == "TYPE" && match[3] == "counter")
        CHECK(open.ends_with("_total"));
      else if (match[1] == "TYPE")
        CHECK_FALSE(open.ends_with("_total"));
      continue;
    }
    REQUIRE(std::regex_match(line, match, kSample));
    CHECK(match[1] == open);
    CHECK((helped.contains(open) && typed.contains(open)));
    CHECK(samples.emplace(match[1].str() + match[2].str(), match[6]).second);
  }
  return samples;
}

}  // namespace

TEST_CASE("a metric has its help, its type and its samples") {
  const Metric metric = {"leat_x_bytes",
                         "Bytes of x",
                         MetricKind::gauge,
                         {{{{"a", "1"}, {"b", "2"}}, 1.5}, {{}, 1e300}}};
  CHECK(metrics_text({&metric, 1}) ==
        "# HELP leat_x_bytes Bytes of x\n"
        "# TYPE leat_x_bytes gauge\n"
        "leat_x_bytes{a=\"1\",b=\"2\"} 1.5\n"
        "leat_x_bytes 1e+300\n");
}

TEST_CASE("labels and help are escaped") {
  const Metric metric = {"leat_x", "a\\b\n\"c\"", MetricKind::gauge, {{{{"l", "a\\b\n\"c\""}}, 1}}};
  CHECK(metrics_text({&metric, 1}) ==
        "# HELP leat_x a\\\\b\\n\"c\"\n"
        "# TYPE leat_x gauge\n"
        "leat_x{l=\"a\\\\b\\n\\\"c\\\"\"} 1\n");
}

TEST_CASE("a label that is no text becomes text") {
  const Metric metric = {"leat_x", "\xff", MetricKind::gauge, {{{{"l", "a\xc3"}}, 1}}};
  CHECK(metrics_text({&metric, 1}) ==
        "# HELP leat_x \uFFFD\n# TYPE leat_x gauge\nleat_x{l=\"a\uFFFD\"} 1\n");
}

TEST_CASE("numbers that are none have their words") {
  const Metric metric = {"leat_x",
                         "x",
                         MetricKind::gauge,
                         {{{{"l", "a"}}, std::nan("")},
                          {{{"l", "b"}}, std::numeric_limits<double>::infinity()},
                          {{{"l", "c"}}, -std::numeric_limits<double>::infinity()}}};
  const auto samples = parsed(metrics_text({&metric, 1}));
  CHECK(samples.at("leat_x{l=\"a\"}") == "NaN");
  CHECK(samples.at("leat_x{l=\"b\"}") == "+Inf");
  CHECK(samples.at("leat_x{l=\"c\"}") == "-Inf");
}

TEST_CASE("a metric without samples is left out") {
  const Metric metric = {"leat_x", "x", MetricKind::gauge, {}};
  CHECK(metrics_text({&metric, 1}).empty());
}

TEST_CASE("the metrics of a cluster can be read by Prometheus") {
  ExampleSource source;
  source.nodes_[1].worker.info.worker.name = "w\"\\\n{}";
  const auto samples = parsed(metrics_text(
      cluster_metrics(source.cluster(), source.jobs(), source.nodes(), source.ready())));
  std::map<std::string, std::set<bool>> kinds;  // has it samples with labels, and without?
  for (const auto& [name, value] : samples) {
    const size_t brace = name.find('{');
    kinds[name.substr(0, brace)].insert(brace != std::string::npos);
  }
  for (const auto& [name, kind] : kinds) {
    INFO(name);
    CHECK(kind.size() == 1);
  }
  CHECK_FALSE(samples.contains("leat_node_up"));
  CHECK(samples.at("leat_jobs{state=\"RUNNING\"}") == "1");
  CHECK(samples.at("leat_jobs{state=\"FAILED\"}") == "0");
  CHECK(samples.at("leat_nodes{state=\"LOST\"}") == "1");
  CHECK(samples.at("leat_node_up{node=\"worker-3\"}") == "0");
  CHECK(samples.at("leat_node_leased{node=\"w\\\"\\\\\\n{}\"}") == "1");
  CHECK(samples.at("leat_job_step{job=\"fashion-mnist-cnn-7f3a\"}") == "250");
  CHECK(samples.at("leat_job_state_start_time_seconds{job=\"gpt-0001\"}") == "1769860809");
  CHECK(samples.at("leat_node_bytes_sent_total{node=\"worker-1\"}") == "65536");
  CHECK(samples.at("leat_node_late_values_total{node=\"worker-1\"}") == "2");
  CHECK_FALSE(samples.contains("leat_node_bytes_sent_total{node=\"worker-3\"}"));
  CHECK(samples.at("leat_master_ready") == "1");
}

TEST_CASE("a job that has ended has no series, nor has a number that is not known") {
  const ExampleSource source;
  const auto samples = parsed(metrics_text(
      cluster_metrics(source.cluster(), source.jobs(), source.nodes(), source.ready())));
  for (const auto& [name, value] : samples)
    CHECK(name.find("fashion-mnist-mlp-0c41") == std::string::npos);
  CHECK(samples.contains("leat_job_step{job=\"gpt-0001\"}"));
  CHECK_FALSE(samples.contains("leat_job_loss{job=\"gpt-0001\"}"));
}

TEST_CASE("each named number of a job is a sample with its name") {
  ExampleSource source;
  for (JobView& job : source.jobs_) {
    if (job.id == "fashion-mnist-cnn-7f3a")
      job.progress.last.ended.more = {{"val_f1", 0.5}, {"loss_mse", 0.25}, {"val_auc", kNoNumber}};
  }
  const auto samples = parsed(metrics_text(
      cluster_metrics(source.cluster(), source.jobs(), source.nodes(), source.ready())));
  const std::string job = "leat_job_metric{job=\"fashion-mnist-cnn-7f3a\",metric=";
  CHECK(samples.at(job + "\"val_f1\"}") == "0.5");
  CHECK(samples.at(job + "\"loss_mse\"}") == "0.25");
  CHECK_FALSE(samples.contains(job + "\"val_auc\"}"));
  CHECK(samples.contains("leat_job_steps_per_second{job=\"fashion-mnist-cnn-7f3a\"}"));
}

TEST_CASE("a worker's memory has a sample for each kind, on the host and on accelerators") {
  ExampleSource source;
  source.nodes_[0].worker.usage.host.variables = 4096;
  source.nodes_[0].worker.usage.accelerators.activations = 8192;
  source.nodes_[0].worker.step_seconds = 0.25;
  const auto samples = parsed(metrics_text(
      cluster_metrics(source.cluster(), source.jobs(), source.nodes(), source.ready())));
  const std::string memory = "leat_node_reserved_memory_bytes{node=\"worker-1\",on=";
  CHECK(samples.at(memory + "\"host\",kind=\"variables\"}") == "4096");
  CHECK(samples.at(memory + "\"host\",kind=\"data\"}") == "0");
  CHECK(samples.at(memory + "\"accelerators\",kind=\"activations\"}") == "8192");
  CHECK(samples.at("leat_node_step_seconds{node=\"worker-1\"}") == "0.25");
}

TEST_CASE("a process tells of its memory, descriptors and time") {
  const auto samples = parsed(metrics_text(process_metrics()));
  CHECK(std::stod(samples.at("process_resident_memory_bytes")) > 1e6);
  CHECK(std::stod(samples.at("process_open_fds")) >= 3);
  CHECK(std::stod(samples.at("process_cpu_seconds_total")) > 0);
}
