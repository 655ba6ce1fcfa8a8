#include "daemon/process/log_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using Catch::Contains;

LogConfig to_file(const std::string& path, LogFormat format = LogFormat::text) {
  LogConfig config;
  config.format = format;
  config.file = path;
  return config;
}

// Returns the text that `write` writes to stderr, which is a file meanwhile. For the journal, its
// device and inode are in the variable that systemd sets.
template <typename Write>
std::string said_on_stderr(bool is_journal, Write write) {
  const TemporaryDirectory folder;
  const int file = ::open((folder / "err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const int before = ::dup(STDERR_FILENO);
  REQUIRE((file >= 0 && before >= 0 && ::dup2(file, STDERR_FILENO) >= 0));
  struct stat info {};
  ::fstat(file, &info);
  ::setenv("JOURNAL_STREAM", cat(info.st_dev, ":", info.st_ino + (is_journal ? 0 : 1)).c_str(), 1);
  write();
  ::unsetenv("JOURNAL_STREAM");
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(file);
  return contents_of(folder / "err");
}

TEST_CASE("lines to the journal say how grave they are, and no time") {
  const auto write = [] {
    const ManualClock clock;
    const auto output = LogOutput::open({}, clock);
    const Logger log("master", LogLevel::debug, *output);
    log.debug("a");
    log.info("b");
    log.warning("c");
    log.error("d");
  };
  CHECK(said_on_stderr(true, write) == "<7>master: a\n<6>master: b\n<4>master: c\n<3>master: d\n");
  CHECK_THAT(said_on_stderr(false, write), Contains(" warning master: c\n") && !Contains("<"));
}

TEST_CASE("a log of JSON has one object a line") {
  const TemporaryDirectory folder;
  const ManualClock clock;  // an hour after the epoch
  const auto output = LogOutput::open(to_file(folder / "log", LogFormat::json), clock);
  REQUIRE(output.status().message() == "");
  const Logger log("master", LogLevel::info, *output);
  log.named("rpc").warning("a \"quote\"\nand a line");
  CHECK(contents_of(folder / "log") ==
        R"({"time": "1970-01-01T01:00:00.000Z", "level": "warning", "who": "master/rpc", )"
        R"("text": "a \"quote\"\\nand a line"})"
        "\n");
}

TEST_CASE("a log that is opened again goes on under its name") {
  const TemporaryDirectory folder;
  const RealClock clock;
  const auto output = LogOutput::open(to_file(folder / "log"), clock);
  REQUIRE(output.ok());
  const Logger log("master", LogLevel::info, *output);
  log.info("before");
  std::filesystem::rename(folder / "log", folder / "log.1");
  log.info("between");
  REQUIRE((*output)->reopen().ok());
  log.info("after");
  CHECK_THAT(contents_of(folder / "log.1"), Contains("before") && Contains("between"));
  CHECK_THAT(contents_of(folder / "log"), Contains(" info master: after\n"));
  CHECK_THAT(contents_of(folder / "log"), !Contains("between"));
}

TEST_CASE("a log that cannot be opened again goes on where it was") {
  const TemporaryDirectory folder;
  const RealClock clock;
  std::filesystem::create_directory(folder / "sub");
  const auto output = LogOutput::open(to_file(folder / "sub/log"), clock);
  REQUIRE(output.ok());
  std::filesystem::rename(folder / "sub", folder / "moved");
  CHECK_THAT((*output)->reopen().message(), Contains("sub/log': No such file"));
  Logger("master", LogLevel::info, *output).info("after");
  CHECK_THAT(contents_of(folder / "moved/log"), Contains("after"));
}

}  // namespace
}  // namespace leat
