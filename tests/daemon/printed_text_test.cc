// The output of `leat` about files is safe for a terminal, whatever bytes the files have.
#include "daemon/base/exit_code.h"
#include "daemon/base/json_line.h"
#include "daemon/status/page_parts.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"

namespace leat {
namespace {

using Catch::Contains;

bool is_text(const std::string& out) { return printable_lines(out) == out; }

void check_text(const Finished& finished) {
  INFO(printable_lines(finished.out) << printable_lines(finished.err));
  CHECK(is_text(finished.out));
  CHECK(is_text(finished.err));
}

TEST_CASE("output about a graph with any bytes in its names is text") {
  const TinyJob tiny;
  const std::string good = tiny.read("net.onnxtxt");
  for (const char* name :
       {"\"\xff\"", "\"\x1b[2J\"", "\"\xc3\"", "\"\xc2\x9b\"", "\xe4", "\x80x"}) {
    tiny.write("net.onnxtxt", with(good, "x)", cat(name, ")")));
    for (const char* command : {"show", "check"}) {
      const Finished done = tiny.leat({"graph", command, "net.onnxtxt"});
      check_text(done);
      CHECK(done.exit_code == kExitInvalid);
    }
  }
  // Output escapes control characters, but a file may have a name with them.
  tiny.write("net.onnxtxt", with(with(good, " x)", " \"\x1b[2J\")"), "(x)", "(\"\x1b[2J\")"));
  const Finished steered = tiny.leat({"graph", "show", "--expand", "net.onnxtxt"});
  check_text(steered);
  CHECK_THAT(steered.out, Contains("\\x1b[2J"));
  // A name that is not UTF-8 is refused at the check, before any weights are written.
  tiny.write("net.onnxtxt", with(with(good, " x)", " \"\xff\")"), "(x)", "(\"\xff\")"));
  check_refused(tiny.leat({"graph", "check", "net.onnxtxt"}), kExitInvalid,
                {"expected a value's name in UTF-8, received '\\xff'"});
}

TEST_CASE("output about files whose names are no text is text") {
  const TinyJob tiny;
  const std::string name = "w\xff\x1b.safetensors";
  tiny.write(name, "no weights");
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"graph", "check", name},
           {"train", name},
           {"train", "job.yaml", "--set", "model.weights=" + name},
           {"checkpoint", "verify", name},
           {"checkpoint", "ls", "\xfe/x"},
           {"predict", "\xfe", "--input", "x"},
           {"\xff"},
           {"train", "job.yaml", "--\xff"}}) {
    const Finished done = tiny.leat(arguments);
    check_text(done);
    CHECK(done.exit_code != kExitOk);
  }
}

TEST_CASE("JSON and HTML are text, whatever bytes they show") {
  CHECK(JsonLine().add("l\xff", "größe\xc3\n").text() == "{\"l\uFFFD\": \"größe\uFFFD\\u000a\"}\n");
  CHECK(html_escaped("<\xff>") == "&lt;\uFFFD&gt;");
}

}  // namespace
}  // namespace leat
