// Programs of the machine that read a text and write another one.
#include "daemon/cli/filter_program.h"

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFilterQuiet{60'000};

Result<std::string> run_shell(const std::string& text, const std::string& input,
                              milliseconds quiet = kFilterQuiet) {
  return run_filter({"sh", "-c", text}, input, quiet);
}

TEST_CASE("a filter gets its input and gives its output") {
  std::string long_text;
  for (int i = 0; i < 100'000; ++i) long_text += cat(i, "\n");
  CHECK(must(run_shell("cat", long_text)) == long_text);
  CHECK(must(run_shell("cat", "")).empty());
  CHECK(must(run_shell("exec <&-; echo done", long_text)) == "done\n");
}

TEST_CASE("the code of a filter's error says whether there is such a program") {
  const Status none = run_filter({"/nowhere/program"}, "", kFilterQuiet).status();
  CHECK(none.code() == Code::failed_precondition);
  CHECK(none.message().find("'/nowhere/program' cannot be started") != std::string::npos);
  const Status refused = run_shell("echo first >&2; echo last >&2; exit 3", "x").status();
  CHECK(refused.code() == Code::invalid_argument);
  CHECK(refused.message().find("ended with exit code 3: last") != std::string::npos);
  const Status killed = run_shell("kill -9 $$", "x").status();
  CHECK(killed.code() == Code::internal);
  CHECK(killed.message().find("ended with signal 9") != std::string::npos);
}

TEST_CASE("a filter that says nothing is killed, also behind the end of its output") {
  Status status = run_shell("kill -STOP $$", "", milliseconds(50)).status();
  CHECK(status.code() == Code::deadline_exceeded);
  CHECK(status.message().find("expected it to go on within 50 ms") != std::string::npos);
  status = run_shell("exec >&- 2>&-; kill -STOP $$", "", milliseconds(50)).status();
  CHECK(status.code() == Code::deadline_exceeded);
  CHECK(status.message().find("expected it to end within 50 ms after its output") !=
        std::string::npos);
}

TEST_CASE("a filter that reads on behind its output gets the end of its input") {
  // Its stdin is never full: the pipe has room for all of the text.
  CHECK(must(run_shell("echo out; exec >&- 2>&-; cat >/dev/null", "text")) == "out\n");
  // More than the pipe has room for.
  CHECK(must(run_shell("echo out; exec >&- 2>&-; cat >/dev/null", std::string(1 << 20, 'x'))) ==
        "out\n");
}

}  // namespace
}  // namespace leat
