#include "daemon/master/job_curves.h"

#include <filesystem>
#include <fstream>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

void append(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

std::vector<double> losses(const CurvesView& view) {
  return view.of_steps.empty() ? std::vector<double>() : view.of_steps[0].values;
}

TEST_CASE("the curves of a job follow its log") {
  const TemporaryDirectory directory;
  const JobFolders folders(directory.path());
  const std::string log = folders.path_of("job-1") + "/metrics.jsonl";
  append(log, "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"lo");
  JobCurves curves(real_files(), folders);
  CHECK_FALSE(curves.of("job-1").whole);
  REQUIRE(eventually([&] { return curves.of("job-1").whole; }));
  CHECK(losses(curves.of("job-1")) == std::vector<double>{3});
  append(log, "ss\": 2}\n");
  REQUIRE(eventually([&] { return losses(curves.of("job-1")).size() == 2; }));
  // A log that has become shorter is another one.
  std::filesystem::remove(log);
  append(log, "{\"step\": 1, \"loss\": 7}\n");
  REQUIRE(eventually([&] { return losses(curves.of("job-1")) == std::vector<double>{7}; }));
}

TEST_CASE("a job without a log has no curves") {
  const TemporaryDirectory directory;
  const JobFolders folders(directory.path());
  JobCurves curves(real_files(), folders);
  curves.of("none");
  REQUIRE(eventually([&] { return curves.of("none").whole; }));
  CHECK(curves.of("none").of_steps.empty());
  for (size_t i = 0; i < 3 * JobCurves::kMostJobs; ++i) curves.of(cat("job-", i));
  // The first one was forgotten, and is read again.
  CHECK_FALSE(curves.of("none").whole);
}

}  // namespace
}  // namespace leat
