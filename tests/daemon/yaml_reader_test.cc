#include "daemon/base/yaml_reader.h"

#include "tests/catch.h"

namespace leat {
namespace {

YamlDocument document(const std::string& text) {
  auto parsed = YamlDocument::parse(text, "f.yaml");
  REQUIRE(parsed.status().message() == "");
  return std::move(parsed).value();
}

YamlType type_of(const std::string& text) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = text;
  return yaml_type(node);
}

TEST_CASE("a plain scalar is resolved by the core schema alone") {
  for (const char* text : {"0", "7", "-12", "+3", "0x1F", "0o17"}) {
    INFO(text);
    CHECK(type_of(text) == YamlType::integer);
  }
  for (const char* text : {"0.5", ".5", "5.", "1e3", "-1.5E-7", "+.1e+2"}) {
    INFO(text);
    CHECK(type_of(text) == YamlType::real);
  }
  for (const char* text : {"true", "True", "TRUE", "false"}) {
    INFO(text);
    CHECK(type_of(text) == YamlType::boolean);
  }
  for (const char* text : {"no", "yes", "on", "y", "tRue", "1_000", "0b1", "1e", ".", "-", "1.2.3",
                           "0x", "0o8", "1:30", "0x1p3", "+0x1", "2020-01-01"}) {
    INFO(text);
    CHECK(type_of(text) == YamlType::string);
  }
  CHECK(type_of("012") == YamlType::ambiguous);
  CHECK(type_of("-00") == YamlType::ambiguous);
  CHECK(type_of(".inf") == YamlType::not_finite);
  CHECK(type_of("-.INF") == YamlType::not_finite);
  CHECK(type_of(".nan") == YamlType::not_finite);
}

TEST_CASE("integers are read in the bases of the core schema, to the last one that fits") {
  const auto doc =
      document("a: 0x10\nb: 0o17\nc: +5\nd: -9223372036854775808\ne: 9223372036854775808");
  YamlReader reader(doc);
  YamlMap top = reader.top();
  int64_t value = 0;
  CHECK((top.get_int("a", Need::required, {}, value) && value == 16));
  CHECK((top.get_int("b", Need::required, {}, value) && value == 15));
  CHECK((top.get_int("c", Need::required, {}, value) && value == 5));
  CHECK((top.get_int("d", Need::required, {}, value) &&
         value == std::numeric_limits<int64_t>::min()));
  CHECK_FALSE(top.get_int("e", Need::required, {}, value));
  CHECK(value == std::numeric_limits<int64_t>::min());
  CHECK(reader.status().message() ==
        "f.yaml:5:4: e: expected an integer, received the integer 9223372036854775808, which does "
        "not fit in 64 bits");
}

TEST_CASE("the first error by place is reported, and a missing key last") {
  const auto doc = document("sead: 1\nepochs: x\n");
  YamlReader reader(doc);
  YamlMap top = reader.top();
  int64_t value = 4;
  CHECK_FALSE(top.get_int("seed", Need::required, {}, value));
  CHECK_FALSE(top.get_int("epochs", Need::required, {.min = 1}, value));
  CHECK(reader.status().message() ==
        "f.yaml:2:9: epochs: expected an integer of at least 1, received the string 'x'");
  top.finish();
  CHECK(reader.status().message() == "f.yaml:1:1: sead: unknown key (did you mean 'seed'?)");
  CHECK(value == 4);
}

TEST_CASE("the getters of an absent map do nothing") {
  const auto doc = document("a: 1\n");
  YamlReader reader(doc);
  YamlMap absent = reader.top().get_map("b", Need::optional);
  CHECK_FALSE(absent.present());
  int64_t value = 4;
  CHECK_FALSE(absent.get_int("seed", Need::required, {}, value));
  CHECK_FALSE(absent.has("seed"));
  absent.finish();
  CHECK(reader.ok());
}

TEST_CASE("control characters and endless keys are refused") {
  const auto refused = [](const std::string& text) {
    return YamlDocument::parse(text, "f.yaml").status().message();
  };
  CHECK(refused("a: \"x\\u0001\"") == "f.yaml:1:4: expected text, received a control character");
  CHECK(YamlDocument::parse(std::string(200, 'k') + ": 1", "f.yaml").ok());
  const std::string why = "expected a key of at most 200 bytes on one line";
  CHECK_THAT(refused(std::string(201, 'k') + ": 1"), Catch::Contains(why));
  CHECK_THAT(refused("\"two\\tparts\": 1"), Catch::Contains(why));
}

TEST_CASE("a string is quoted exactly when it would read back as something else") {
  for (const char* plain : {"abc", "/a/b.c", "a-b_c", "no", "x1"}) {
    CHECK(yaml_string(plain) == plain);
  }
  for (const char* quoted : {"", "1", "true", "null", "1.5", "012", ".nan", "- a", "a: b", "*x",
                             "...", "a b", "-", "~"}) {
    CHECK(yaml_string(quoted) == "\"" + std::string(quoted) + "\"");
  }
  CHECK(yaml_string("a\"b\\c") == R"("a\"b\\c")");
}

}  // namespace
}  // namespace leat
