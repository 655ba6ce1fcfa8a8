#include "devices/base/log.h"

#include "devices/base/clock.h"
#include "tests/catch.h"

using namespace leat;
using namespace std::chrono_literals;

namespace {

class Lines final : public LogSink {
 public:
  void write(LogLevel level, std::string_view who, std::string_view text) override {
    lines.push_back(cat(log_level_name(level), " ", who, ": ", text));
  }
  std::vector<std::string> lines;
};

struct Loud {
  int& streamed;
};
std::ostream& operator<<(std::ostream& out, const Loud& loud) {
  ++loud.streamed;
  return out << "loud";
}

}  // namespace

TEST_CASE("a logger writes its level and above, under its name") {
  const auto sink = std::make_shared<Lines>();
  const Logger log("worker-2", LogLevel::info, sink);
  log.debug("no");
  log.info("step ", 17);
  log.named("rpc").error("gone");
  CHECK(sink->lines ==
        std::vector<std::string>{"info worker-2: step 17", "error worker-2/rpc: gone"});
}

TEST_CASE("a value that is not logged is not made into text") {
  int streamed = 0;
  const Loud loud{streamed};
  Logger().error(loud);
  Logger("a", LogLevel::off, std::make_shared<Lines>()).error(loud);
  CHECK(streamed == 0);
  Logger("a", LogLevel::error, std::make_shared<Lines>()).error(loud);
  CHECK(streamed == 1);
}

TEST_CASE("a text is one line whatever it holds") {
  const auto sink = std::make_shared<Lines>();
  Logger("a", LogLevel::debug, sink).info("x\ny\x1b[31m\tz\r\x7f é\xff");
  CHECK(sink->lines == std::vector<std::string>{"info a: x\\ny\\x1b[31m\tz\\x0d\\x7f é\\xff"});
}

TEST_CASE("levels are read by name, and a wrong name is told the right ones") {
  CHECK(*log_level_from_name("warning") == LogLevel::warning);
  CHECK(log_level_from_name("loud").status().message() ==
        "log level: expected one of debug, info, warning, error, off, it is 'loud'");
}

TEST_CASE("a manual clock stands still until it is advanced, and the date may jump alone") {
  ManualClock clock;
  const Clock& time = clock;
  const auto steady = time.steady();
  const auto date = time.now();
  CHECK(time.steady() == steady);
  clock.advance(1500ms);
  CHECK(time.steady() - steady == 1500ms);
  CHECK(time.now() - date == 1500ms);
  clock.jump_wall(-1h);
  CHECK(time.steady() - steady == 1500ms);
  CHECK(time.now() - date == 1500ms - 1h);
}

TEST_CASE("a real clock never goes back") {
  const RealClock clock;
  const auto before = clock.steady();
  CHECK(clock.steady() >= before);
  CHECK(clock.now() > Clock::Wall());
}
