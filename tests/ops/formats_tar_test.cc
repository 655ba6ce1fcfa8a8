// Finds the files of tar archives. tests/peers/record_cases.py wrote those of other programs.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "devices/base/text.h"
#include "ops/formats/tar.h"
#include "tests/catch.h"
#include "tests/memory_files.h"
#include "tests/must.h"

namespace leat {
namespace {

Result<std::vector<TarMember>> members_of(std::span<const std::byte> bytes) {
  MemoryFiles files(bytes);
  const auto file = must(files.open("shard.tar"));
  std::vector<TarMember> out;
  LEAT_RETURN_IF_ERROR(read_tar(*file, [&](TarMember member) {
    out.push_back(std::move(member));
    return Status();
  }));
  return out;
}

std::string content_of(const Bytes& bytes, const TarMember& member) {
  return {reinterpret_cast<const char*>(bytes.data()) + member.offset, member.size};
}

// A header with a right checksum, and nothing behind it.
Bytes tar_header(std::string_view name, std::string_view size, char kind = '0') {
  Bytes block(512);
  const auto put = [&](size_t at, std::string_view text) {
    std::memcpy(block.data() + at, text.data(), text.size());
  };
  put(0, name);
  put(124, size);
  put(156, {&kind, 1});
  put(148, "        ");
  unsigned sum = 0;
  for (const std::byte byte : block) sum += static_cast<unsigned>(byte);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  put(148, {digits, 7});
  return block;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string tar_error(const Bytes& bytes) { return members_of(bytes).status().message(); }

TEST_CASE("archives of other programs have their files, with long names") {
  for (const char* name : {"gnu.tar", "pax.tar"}) {
    INFO(name);
    const Bytes bytes = must(read_file(
        real_files(), std::string(LEAT_SOURCE_DIR) + "/tests/ops/records/" + name, 1 << 20));
    const auto members = must(members_of(bytes));
    REQUIRE(members.size() == 6);
    std::string longest;
    for (int i = 0; i < 9; ++i) longest += "a-folder-with-a-long-name/";
    longest += "sample-000001";
    CHECK(members[0].name == "0000.jpg");
    CHECK(content_of(bytes, members[0]) == "picture 0");
    CHECK(content_of(bytes, members[1]) == "3");
    CHECK(members[2].name == longest + ".seg.png");
    CHECK(content_of(bytes, members[2]) == "picture 1");
    CHECK(members[3].name == longest + ".cls");
    CHECK(members[4].name == "empty.txt");
    CHECK(members[4].size == 0);
    // The folder and the link between them are left out.
    CHECK(members[5].name == "last.cls");
    CHECK(members[5].size == 513);
  }
}

TEST_CASE("an archive may end with its last file") {
  const Bytes bytes = tar_header("a.cls", "00000000003") + Bytes(3, std::byte{'7'});
  const auto members = must(members_of(bytes));
  REQUIRE(members.size() == 1);
  CHECK(content_of(bytes, members[0]) == "777");
  CHECK(must(members_of({})).empty());
}

TEST_CASE("a hostile header is one error that names its place") {
  CHECK(tar_error(tar_header("a", "00000000001")) ==
        "'shard.tar': header at byte 0: expected at most 0 bytes, which are left in the file, "
        "received 1");
  // 2^62, in octal and in bits; and -1.
  CHECK(tar_error(tar_header("a", "77777777777")).find("received 8589934591") != std::string::npos);
  CHECK(tar_error(tar_header("a", std::string_view("\x80\0\0\0\x40\0\0\0\0\0\0\0", 12)))
            .find("received 4611686018427387904") != std::string::npos);
  CHECK(tar_error(tar_header("a", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
            .find("a size that is no number") != std::string::npos);
  CHECK(tar_error(tar_header("a", std::string_view("\x80\xff\0\0\0\0\0\0\0\0\0\0", 12)))
            .find("a size that is no number") != std::string::npos);
  CHECK(tar_error(tar_header("a", "-0000000001")).find("no number") != std::string::npos);
  CHECK(tar_error(tar_header("a", "0000009")).find("no number") != std::string::npos);
  Bytes other = tar_header("a", "00000000000");
  other[3] = std::byte{'x'};
  CHECK(tar_error(other).find("expected a header with its checksum") != std::string::npos);
  CHECK(tar_error(Bytes(100, std::byte{1})).find("received 100 bytes") != std::string::npos);
  CHECK(members_of(tar_header("a", "0", 'S')).status().code() == Code::unimplemented);
  Bytes gzip(600);
  gzip[0] = std::byte{0x1f};
  gzip[1] = std::byte{0x8b};
  CHECK(members_of(gzip).status().code() == Code::unimplemented);
}

TEST_CASE("records of pax that are none are refused") {
  const auto with = [](std::string_view text) {
    char size[16];
    std::snprintf(size, sizeof size, "%011o", static_cast<unsigned>(text.size()));
    Bytes records(512);
    std::memcpy(records.data(), text.data(), text.size());
    return tar_error(tar_header("x", size, 'x') + records + tar_header("a", "00000000000"));
  };
  CHECK(with("12 path=abc\n") == "");
  CHECK(with("11 path=abc\n") != "");
  CHECK(with("999999 path=abc\n") != "");
  CHECK(with("3 \n") != "");
  CHECK(with("path=abc\n") != "");
  CHECK(with("12 pathXabc\n") != "");
  CHECK(with("28 size=4611686018427387904\n").find("received 4611686018427387904") !=
        std::string::npos);
  CHECK(with("11 size=-1\n") != "");
  CHECK(tar_error(tar_header("x", "00777777777", 'L') + Bytes(512)) != "");
}

TEST_CASE("an archive that is cut or changed anywhere is an error or fewer files") {
  const Bytes whole = must(read_file(
      real_files(), std::string(LEAT_SOURCE_DIR) + "/tests/ops/records/pax.tar", 1 << 20));
  for (size_t size = 0; size < whole.size(); size += 37) {
    const auto members = members_of(std::span(whole).first(size));
    if (members.ok()) CHECK(members->size() <= 6);
  }
  for (size_t at = 0; at < whole.size(); at += 3) {
    Bytes bytes = whole;
    bytes[at] ^= std::byte{0x81};
    const auto members = members_of(bytes);
    if (!members.ok()) continue;
    for (const TarMember& member : *members) CHECK(member.offset + member.size <= bytes.size());
  }
}

}  // namespace
}  // namespace leat
