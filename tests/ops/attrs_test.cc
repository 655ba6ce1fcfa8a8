#include "ops/graph/attrs.h"

#include "tests/catch.h"

namespace leat {
namespace {

int64_t number(const Attrs& attrs, std::string_view name) { return attr_int(attrs, name, -1); }

}  // namespace

TEST_CASE("copies of attributes share them until one is written to") {
  const Attrs first{{"axis", int64_t{1}}, {"mode", std::string("linear")}};
  Attrs second = first;
  Attrs third;
  third = second;
  CHECK(second.shares(first));
  CHECK(third.shares(first));
  second["axis"] = int64_t{2};
  CHECK_FALSE(second.shares(first));
  CHECK(third.shares(first));
  CHECK(number(first, "axis") == 1);
  CHECK(number(second, "axis") == 2);
  CHECK(attr_string(second, "mode") == "linear");
}

TEST_CASE("every way to write attributes leaves copies as they are") {
  const Attrs first{{"axis", int64_t{1}}, {"group", int64_t{4}}};
  const auto written = [&](auto&& write) {
    Attrs copy = first;
    write(copy);
    CHECK(first.size() == 2);
    CHECK(number(first, "axis") == 1);
    CHECK(number(first, "group") == 4);
    return copy;
  };
  CHECK(number(written([](Attrs& a) { a["axis"] = int64_t{7}; }), "axis") == 7);
  CHECK(number(written([](Attrs& a) { CHECK(a.emplace("new", int64_t{7})); }), "new") == 7);
  CHECK(number(written([](Attrs& a) { a.insert_or_assign("axis", int64_t{7}); }), "axis") == 7);
  CHECK(written([](Attrs& a) { CHECK(a.erase("axis") == 1); }).size() == 1);
  CHECK(written([](Attrs& a) { a.erase(a.find("group")); }).size() == 1);
  CHECK(written([](Attrs& a) { a.clear(); }).empty());
}

TEST_CASE("a call that changes no attribute leaves them shared") {
  const Attrs first{{"axis", int64_t{1}}};
  Attrs copy = first;
  CHECK_FALSE(copy.emplace("axis", int64_t{2}));
  CHECK(copy.erase("group") == 0);
  CHECK(copy.shares(first));
  CHECK(number(copy, "axis") == 1);
}

TEST_CASE("attributes go on after they were moved from") {
  Attrs first{{"axis", int64_t{1}}};
  const Attrs second = std::move(first);
  CHECK(first.empty());  // NOLINT(bugprone-use-after-move): this is what is tested
  first["axis"] = int64_t{3};
  CHECK(number(first, "axis") == 3);
  CHECK(number(second, "axis") == 1);
}

}  // namespace leat
