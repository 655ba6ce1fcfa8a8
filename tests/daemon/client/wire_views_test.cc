// A client refuses a master's answers that are impossible.
#include <capnp/message.h>

#include "daemon/wire/views.h"
#include "tests/catch.h"

namespace leat {
namespace {

Status read_page(uint64_t first, uint64_t end, uint32_t lines) {
  capnp::MallocMessageBuilder message;
  auto page = message.initRoot<wire::LogPage>();
  page.setFirst(first);
  page.setEnd(end);
  page.initLines(lines);
  return read_view(page.asReader()).status();
}

}  // namespace

TEST_CASE("a page of a log has no more lines than its numbers") {
  CHECK(read_page(3, 5, 2).ok());
  CHECK(read_page(3, 9, 2).ok());
  CHECK(read_page(5, 5, 0).ok());
  CHECK(read_page(3, 5, 3).to_string() ==
        "internal: a page of a log: expected lines below 5, received 3 from line 3");
  CHECK(read_page(6, 5, 0).to_string() ==
        "internal: a page of a log: expected lines below 5, received 0 from line 6");
}

}  // namespace leat
