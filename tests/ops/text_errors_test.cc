// The text form refuses each of these with the message of the check for it.
#include <string>
#include <utility>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/ops/text_catalogue.h"

namespace leat {
namespace {

struct Refused {
  std::string text, why;
};

void check_refused(const std::vector<Refused>& cases) {
  const Catalogue ops = text_catalogue();
  for (const auto& [text, why] : cases) {
    CAPTURE(text.substr(0, 200), why);
    const Status status = parse_graph(text, ops, "g.onnxtxt").status();
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(), Catch::Contains(why));
  }
}

std::string with_attribute(const std::string& attribute) {
  return "g () => () { y = leat.Anything <" + attribute + "> () }";
}

std::string with_input(const std::string& type) { return "g (" + type + " x) => () {}"; }

std::string with_constant(const std::string& constant) {
  return "g () => () <" + constant + "> {}";
}

std::string with_bounds(const std::string& bounds) {
  return "<metadata_props: [\"leat.bounds\": \"" + bounds + "\"]> g () => () {}";
}

TEST_CASE("a size in text is a number, a name, or a multiple of one") {
  const std::string multiple = "expected a size such as \"2*N\", got ";
  const std::string name = "expected a size's name of 1 to 1024 bytes without '*'";
  check_refused({{with_input("float[\"x*N\"]"), multiple + "\"x*N\""},
                 {with_input("float[\"0*N\"]"), multiple + "\"0*N\""},
                 {with_input("float[\"99999999999999999999*N\"]"), multiple},
                 {with_input("float[\"2*\"]"), name},
                 {with_input("float[\"2*N*M\"]"), name},
                 {with_input("float[]"), "expected the sizes (a value's rank must be known)"}});
}

TEST_CASE("a type in text is one of those that there are") {
  check_refused({{with_input("optional(string)"), "expected an element type (float, double"},
                 {with_input("opaque(leat.other)"), "expected 'leat.token', the only opaque type"},
                 {with_input("opaque(other)"), "expected 'leat.token', the only opaque type"}});
}

TEST_CASE("a constant in text is a tensor with all of its elements") {
  check_refused(
      {{with_constant("float[N] w = {1}"), "expected a tensor whose sizes are all numbers"},
       {with_constant("optional(float[1]) w = {1}"), "expected a tensor's type"},
       {with_constant("float[1] w = [\"location\": \"f\"]"),
        "expected '{' (external data is for ONNX files)"},
       {with_constant("float[1] w = {1, 2}"), "expected '}' after 1 elements"}});
}

TEST_CASE("bounds in text are names and numbers") {
  const std::string why = "expected bounds such as \"N<=128, T<=64\"";
  const std::string name(limits::kNameLength + 1, 'N');
  check_refused({{with_bounds("N"), why},
                 {with_bounds("<=3"), why},
                 {with_bounds("N<=x"), why},
                 {with_bounds("N<=-1"), why},
                 {with_bounds("N<=3 4"), why},
                 {with_bounds(name + "<=3"), why}});
}

TEST_CASE("an attribute in text has a name of its own and a value of its kind") {
  const std::string name(limits::kNameLength + 1, 'a');
  check_refused(
      {{with_attribute(name + " = 1"), "expected an attribute's name of at most 1024"},
       {with_attribute("a = 1, a = 2"), "the attribute 'a' is given twice"},
       {with_attribute("a: int = 1.5"), "expected a value of kind int, got float"},
       {with_attribute("a: ints = [1.5]"), "expected a value of kind ints, got floats"},
       {with_attribute("a = 1e999"), "expected a number that fits a double"},
       {with_attribute("a = -1e5000"), "expected a number that fits a double"},
       {with_attribute("source = -1"), "the attribute 'source': expected 0 to "},
       {with_attribute("source = 4294967295"), "the attribute 'source': expected 0 to "}});
}

TEST_CASE("a header in text has versions that are known") {
  check_refused({{"<opset_import: [\"\" : \"7\"]> g () => () {}", "expected a version, got"},
                 {"<opset_import: [leat : 1]> g () => () {}", "expected an opset's domain, got"},
                 {"<opset_import: [\"leat\" : 2]> g () => () {}", "expected version 1 of leat"}});
}

TEST_CASE("names in text are there") {
  check_refused({{"g (float[1] x) => (\"\") {}", "expected a name, got \"\""},
                 {"g (float[1] x) => (y) { y = Loop () <captures = 1, body = b () => (v) "
                  "{ v = Relu (x) }> }",
                  "for its node counts its captures; got 'x'"}});
}

TEST_CASE("an unexpected token in text is named") {
  const std::string many =
      cat("expected a tensor of at most ", limits::kTextBytes / 2, " elements");
  check_refused(
      {{with_attribute("a = [0.5, x]"), "expected a number, got 'x'"},
       {with_attribute("a: nonsense = 1"), "expected an attribute's kind (float, int, string"},
       {with_attribute("5 = 1"), "expected an attribute's name, got '5'"},
       {"g () => () { y = 5 () }", "expected an op's name, got '5'"},
       {"g () => () { y = leat.5 () }", "expected an op's name, got '5'"},
       {"g () => () { y = Relu:over () }", "expected '(' (overloads are not supported), got ':'"},
       {with_constant("float[1] c = {x}"), "expected an element of type float, got 'x'"},
       {with_constant("double[2] c = {1, 1e999}"),
        "expected an element of type double, got '1e999'"},
       {with_constant("float[999999999] c = {1}"), many},
       {with_constant("float[9223372036854775807, 3] c = {1}"), many},
       {with_constant("float[1,1,1,1,1,1,1,1,2] c = {1, 2}"), "expected at most 8 dimensions"}});
  CHECK(parse_graph(with_input("float[1,1,1,1,1,1,1,2]"), text_catalogue(), "g").ok());
}

TEST_CASE("a constant in text needs the op of constants") {
  const Status status =
      parse_graph(with_constant("float[1] c = {1}"), Catalogue(), "g.onnxtxt").status();
  CHECK_THAT(status.message(),
             Catch::StartsWith("g.onnxtxt:1:22: ") && Catch::Contains("Constant"));
}

TEST_CASE("a text that is too long is not read") {
  check_refused({{std::string(limits::kTextBytes + 1, ' '), "expected at most 256.0 MiB of text"}});
}

}  // namespace
}  // namespace leat
