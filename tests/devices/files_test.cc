#include "devices/base/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "devices/base/failpoint.h"
#include "devices/base/file_stream.h"
#include "devices/base/forwarding_files.h"
#include "tests/catch.h"
#include "tests/gzip.h"
#include "tests/memory_files.h"
#include "tests/temporary_directory.h"

using namespace leat;

namespace {

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const Result<Bytes>& bytes) {
  if (!bytes.ok()) return bytes.status().to_string();
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

Status write(const std::string& path, std::string_view text) {
  return write_file_atomically(real_files(), path, std::as_bytes(std::span(text)));
}

Bytes gzip(const std::string& text) { return bytes_of(gzipped(text)); }

// The content of a file with these bytes, as its stream gives it.
Result<Bytes> streamed(std::span<const std::byte> bytes) {
  MemoryFiles files(bytes);
  LEAT_ASSIGN_OR_RETURN(const auto stream, open_stream(files, "f"));
  Bytes out(static_cast<size_t>(stream->most_bytes()) + 1);
  LEAT_ASSIGN_OR_RETURN(const size_t read, stream->read(out));
  out.resize(read);
  LEAT_RETURN_IF_ERROR(stream->read({}).status());
  return out;
}

std::string cut_message(const std::string& path, size_t at) {
  return "'" + path + "': expected more compressed data at byte " + std::to_string(at) +
         ", but the file ends there";
}

// A disk that has room for `room` more bytes.
class FullDisk final : public ForwardingFiles {
 public:
  explicit FullDisk(size_t room) : ForwardingFiles(real_files()), room_(room) {}
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    LEAT_ASSIGN_OR_RETURN(auto file, files_.create(path));
    return std::unique_ptr<WritableFile>(std::make_unique<File>(std::move(file), room_));
  }

 private:
  class File final : public ForwardingFile {
   public:
    File(std::unique_ptr<WritableFile> file, size_t& room)
        : ForwardingFile(std::move(file)), room_(room) {}
    Status append(std::span<const std::byte> bytes) override {
      const size_t fits = std::min(bytes.size(), room_);
      room_ -= fits;
      LEAT_RETURN_IF_ERROR(file_->append(bytes.first(fits)));
      return fits == bytes.size() ? Status() : resource_exhausted("No space left on device");
    }

   private:
    size_t& room_;
  };
  size_t room_;
};

}  // namespace

TEST_CASE("a file is written and read back") {
  const TemporaryDirectory dir;
  REQUIRE(write(dir / "a", "one").ok());
  CHECK(text_of(read_file(real_files(), dir / "a", 3)) == "one");
  REQUIRE(write(dir / "a", "").ok());
  CHECK(text_of(read_file(real_files(), dir / "a", 0)) == "");
  CHECK(*real_files().list(dir.path()) == std::vector<std::string>{"a"});
}

TEST_CASE("a file that is there is written on at its end, if it ends where it should") {
  const TemporaryDirectory dir;
  const std::string path = dir / "file";
  REQUIRE(write(path, "one").ok());
  CHECK(real_files().append_to(path, 2).status().code() == Code::failed_precondition);
  CHECK(real_files().append_to(path, 4).status().code() == Code::failed_precondition);
  CHECK_FALSE(real_files().append_to(dir / "none", 0).ok());
  const auto file = real_files().append_to(path, 3);
  REQUIRE(file.ok());
  const std::string_view more = ", two";
  CHECK((*file)->append(std::as_bytes(std::span(more))).ok());
  CHECK((*file)->sync().ok());
  CHECK(text_of(read_file(real_files(), path, 100)) == "one, two");
}

TEST_CASE("pieces are written one after the other") {
  const TemporaryDirectory dir;
  const Bytes a = bytes_of("ab"), b = bytes_of(""), c = bytes_of("cde");
  const std::vector<std::span<const std::byte>> pieces = {a, b, c};
  REQUIRE(write_file_atomically(real_files(), dir / "x", pieces).ok());
  CHECK(text_of(read_file(real_files(), dir / "x", 100)) == "abcde");
}

TEST_CASE("a file is written as its pieces come, and its writer's own error keeps the old file") {
  const TemporaryDirectory dir;
  const std::string path = dir / "x", other = dir / "x.tmp";
  REQUIRE(write(other, "of the user").ok());
  REQUIRE(write_file_atomically(real_files(), path, [](const TakeBytes& take) -> Status {
            for (const char* each : {"ab", "", "cde"}) LEAT_RETURN_IF_ERROR(take(bytes_of(each)));
            return {};
          }).ok());
  CHECK(text_of(read_file(real_files(), path, 100)) == "abcde");
  const Status failed =
      write_file_atomically(real_files(), path, [](const TakeBytes& take) -> Status {
        LEAT_RETURN_IF_ERROR(take(bytes_of("new")));
        return invalid_argument("no more");
      });
  CHECK(failed.code() == Code::invalid_argument);
  CHECK(failed.message() == "no more");
  CHECK(text_of(read_file(real_files(), path, 100)) == "abcde");
  CHECK(text_of(read_file(real_files(), other, 100)) == "of the user");
  CHECK(*real_files().list(dir.path()) == std::vector<std::string>{"x", "x.tmp"});
}

TEST_CASE("a file past the limit is refused before anything is allocated") {
  const TemporaryDirectory dir;
  const std::string path = dir / "huge";
  REQUIRE(write(path, "x").ok());
  REQUIRE(::truncate(path.c_str(), off_t{1} << 42) == 0);  // a hole uses no disk space
  const Status status = read_file(real_files(), path, 1000).status();
  CHECK(status.code() == Code::resource_exhausted);
  CHECK(status.message() == "'" + path + "': expected at most 1000 bytes, it has 4398046511104");
}

TEST_CASE("a path without a regular file is refused with the path and the system's words") {
  const TemporaryDirectory dir;
  const Status missing = read_file(real_files(), dir / "none", 10).status();
  CHECK(missing.code() == Code::failed_precondition);
  CHECK(missing.message() == "'" + (dir / "none") + "': cannot open it: No such file or directory");
  const Status directory = read_file(real_files(), dir.path(), 10).status();
  CHECK(directory.message() == "'" + dir.path() + "': expected a regular file, it is a directory");
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  const Status pipe = read_file(real_files(), dir / "pipe", 10).status();
  CHECK(pipe.message() ==
        "'" + (dir / "pipe") + "': expected a regular file, it is a special file");
  CHECK(read_file(real_files(), std::string(5000, 'x'), 10).status().code() ==
        Code::invalid_argument);
}

TEST_CASE("a file that shrank since it was opened is an error, not garbage") {
  const TemporaryDirectory dir;
  REQUIRE(write(dir / "a", "12345678").ok());
  const auto file = real_files().open(dir / "a");
  REQUIRE(file.ok());
  REQUIRE(::truncate((dir / "a").c_str(), 5) == 0);
  Bytes out(8);
  CHECK((*file)->read(0, out).message() == "'" + (dir / "a") +
                                               "': expected 3 more bytes at byte 5, but the file "
                                               "ends there");
}

TEST_CASE("a full disk leaves the old file and no temporary one") {
  const TemporaryDirectory dir;
  REQUIRE(write(dir / "a", "old").ok());
  for (size_t room = 0; room < 8; ++room) {
    FullDisk disk(room);
    const Status status = write_file_atomically(disk, dir / "a", bytes_of("new bytes"));
    CHECK(status.code() == Code::resource_exhausted);
    CHECK(status.message() == "No space left on device; while writing '" + (dir / "a") + "'");
    CHECK(text_of(read_file(real_files(), dir / "a", 100)) == "old");
    CHECK(*real_files().list(dir.path()) == std::vector<std::string>{"a"});
  }
}

TEST_CASE("a failure of any step before the rename leaves the old file and no temporary one") {
  const TemporaryDirectory dir;
  REQUIRE(write(dir / "a", "old").ok());
  for (const char* step : {"files/create", "files/append", "files/sync", "files/rename"}) {
    ScopedFailpoint failpoint(step, unavailable("injected"));
    const Status status = write(dir / "a", "new");
    CHECK(status.code() == Code::unavailable);
    CHECK(failpoint.passes() == 1);
    CHECK(text_of(read_file(real_files(), dir / "a", 100)) == "old");
    CHECK(*real_files().list(dir.path()) == std::vector<std::string>{"a"});
  }
}

TEST_CASE("a failed sync of the directory is an error although the new file is there") {
  const TemporaryDirectory dir;
  ScopedFailpoint failpoint("files/sync_directory", unavailable("injected"));
  CHECK(write(dir / "a", "new").code() == Code::unavailable);
  CHECK(text_of(read_file(real_files(), dir / "a", 100)) == "new");
}

TEST_CASE("writing where there is no directory fails and says where") {
  const TemporaryDirectory dir;
  const Status status = write(dir / "no/such/file", "x");
  CHECK(status.code() == Code::failed_precondition);
  CHECK(status.message().find("no/such/file") != std::string::npos);
}

TEST_CASE("directories are made with their parents, listed in order, and found") {
  const TemporaryDirectory dir;
  REQUIRE(real_files().make_directories(dir / "x/y//z/").ok());
  REQUIRE(real_files().make_directories(dir / "x/y/z").ok());
  REQUIRE(write(dir / "x/b", "").ok());
  REQUIRE(write(dir / "x/a", "").ok());
  CHECK(*real_files().list(dir / "x") == std::vector<std::string>{"a", "b", "y"});
  CHECK(*real_files().exists(dir / "x/y/z"));
  CHECK_FALSE(*real_files().exists(dir / "x/y/w"));
  CHECK_FALSE(*real_files().exists(dir / "x/a/b"));
  CHECK(real_files().make_directories(dir / "x/a").code() == Code::failed_precondition);
  CHECK(real_files().make_directories(dir / "x/a/b").code() == Code::failed_precondition);
  CHECK(real_files().list(dir / "none").status().code() == Code::failed_precondition);
  CHECK(real_files().remove(dir / "x/a").ok());
  CHECK_FALSE(*real_files().exists(dir / "x/a"));
}

TEST_CASE("a second name of a file stays when the first one goes, and replaces no other file") {
  const TemporaryDirectory dir;
  REQUIRE(write(dir / "a", "one").ok());
  REQUIRE(::symlink((dir / "a").c_str(), (dir / "chain").c_str()) == 0);
  REQUIRE(real_files().link(dir / "chain", dir / "b").ok());
  CHECK(real_files().link(dir / "a", dir / "b").code() == Code::failed_precondition);
  CHECK(real_files().link(dir / "none", dir / "c").code() == Code::failed_precondition);
  REQUIRE(real_files().remove(dir / "a").ok());
  CHECK(text_of(read_file(real_files(), dir / "b", 100)) == "one");
}

TEST_CASE("a file is read in pieces, until one is refused") {
  const TemporaryDirectory dir;
  std::string text(2'500'000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 >> 4);
  REQUIRE(write(dir / "a", text).ok());
  const auto file = real_files().open(dir / "a");
  REQUIRE(file.ok());
  std::string read;
  const auto take = [&](std::span<const std::byte> piece) {
    CHECK(piece.size() <= 1 << 20);
    read.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return read.size() > 1'500'000 ? cancelled("enough") : Status();
  };
  CHECK(read_in_pieces(**file, take).code() == Code::cancelled);
  CHECK(read == text.substr(0, 2 << 20));
}

TEST_CASE("the directory of a path") {
  CHECK(directory_of("a/b/c") == "a/b");
  CHECK(directory_of("c") == ".");
  CHECK(directory_of("/c") == "/");
}

TEST_CASE("gzip data is decompressed, one member or more") {
  const std::string text(200000, 'q');
  const Bytes one = gzip(text);
  CHECK(text_of(streamed(one)) == text);
  Bytes two = gzip("ab");
  const Bytes second = gzip("cd");
  two.insert(two.end(), second.begin(), second.end());
  CHECK(text_of(streamed(two)) == "abcd");
  CHECK(text_of(streamed(gzip(""))) == "");
}

TEST_CASE("a stream gives a file's bytes in order, compressed or not, and its end once and again") {
  const TemporaryDirectory dir;
  std::string text(700'000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 7);
  for (const std::string& content :
       {text, gzipped(text), gzipped(text.substr(0, 300'000)) + gzipped(text.substr(300'000))}) {
    REQUIRE(write(dir / "f", content).ok());
    auto stream = open_stream(real_files(), dir / "f");
    REQUIRE(stream.ok());
    CHECK((*stream)->most_bytes() >= text.size());
    CHECK((*stream)->size().has_value() == (content == text));
    std::string read;
    for (size_t size = 1; read.size() < text.size(); size = size * 3 + 1) {
      Bytes piece(size);
      const auto got = (*stream)->read(piece);
      REQUIRE(got.ok());
      CHECK(*got == std::min(size, text.size() - read.size()));
      read.append(reinterpret_cast<const char*>(piece.data()), *got);
    }
    CHECK(read == text);
    Bytes more(1);
    for (int i = 0; i < 2; ++i) CHECK((*stream)->read(more).value() == 0);
  }
}

TEST_CASE("a stream that is damaged gives what comes before, and then the error") {
  const TemporaryDirectory dir;
  const std::string packed = gzipped("some text that is long enough to be compressed");
  REQUIRE(write(dir / "f", packed.substr(0, packed.size() - 4)).ok());
  auto stream = open_stream(real_files(), dir / "f");
  REQUIRE(stream.ok());
  Bytes bytes(1000);
  CHECK((*stream)->read(bytes).value() == 46);
  for (int i = 0; i < 2; ++i) {
    const auto damage = (*stream)->read(bytes);
    REQUIRE_FALSE(damage.ok());
    CHECK(damage.status().message() == cut_message(dir / "f", packed.size() - 4));
  }
}

TEST_CASE("gzip data cut anywhere or damaged anywhere is refused") {
  const std::string text = "some text that is long enough to be compressed, long enough";
  const Bytes good = gzip(text);
  for (size_t size = 2; size < good.size(); ++size) {  // with less, it is no gzip file
    const auto cut = std::span<const std::byte>(good).first(size);
    CHECK(streamed(cut).status().code() == Code::invalid_argument);
  }
  for (size_t at = 10; at < good.size(); ++at) {  // after the header, whose time and system vary
    Bytes bad = good;
    bad[at] ^= std::byte{0x10};
    const auto result = streamed(bad);
    const bool padding = at == good.size() - 9;  // the last byte of deflate has unused bits
    CHECK((padding ? text_of(result) == text : !result.ok()));
  }
  Bytes trailing = good;
  trailing.push_back(std::byte{'x'});
  CHECK_FALSE(streamed(trailing).ok());
}
