#include "daemon/cli/table.h"

#include "devices/base/counted.h"
#include "tests/catch.h"

namespace leat {
namespace {

const std::vector<std::string> kHeaders = {"ID", "NAME", "REASON", "STEP"};
const std::vector<std::vector<std::string>> kTableRows = {
    {"cnn-7f3a", "cnn", "waits for 2 workers, 1 there", "-"}, {"mlp-1", "mlp", "-", "9/10"}};

TEST_CASE("a table in a pipe has every cell whole") {
  CHECK(format_table(kHeaders, kTableRows, true) ==
        "ID        NAME  REASON                        STEP\n"
        "cnn-7f3a  cnn   waits for 2 workers, 1 there  -\n"
        "mlp-1     mlp   -                             9/10\n");
}

TEST_CASE("a table fits its terminal: columns give way in the order that was asked for") {
  const auto at = [](size_t columns) {
    return format_table(kHeaders, kTableRows, true, {columns, {{"REASON", 12}, {"NAME", 0}}});
  };
  CHECK(at(50) == format_table(kHeaders, kTableRows, true));
  CHECK(at(40) ==
        "ID        NAME  REASON              STEP\n"
        "cnn-7f3a  cnn   waits for 2 wor...  -\n"
        "mlp-1     mlp   -                   9/10\n");
  CHECK(at(30) ==
        "ID        REASON        STEP\n"
        "cnn-7f3a  waits for...  -\n"
        "mlp-1     -             9/10\n");
  CHECK(at(20) ==
        "ID        REASON ...\n"
        "cnn-7f3a  waits f...\n"
        "mlp-1     -      ...\n");
}

TEST_CASE("cells are cut between characters, and counted in them") {
  CHECK(format_table({"A", "B"}, {{"\xc3\xa9", "x"}, {"ab", "y"}}, false) ==
        "\xc3\xa9   x\nab  y\n");
}

TEST_CASE("one of a thing is not many") {
  CHECK(counted(1, "thread") == "1 thread");
  CHECK(counted(size_t{0}, "job") == "0 jobs");
  CHECK(counted(int64_t{2}, "worker") == "2 workers");
}

}  // namespace
}  // namespace leat
