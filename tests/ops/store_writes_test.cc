// Files that are written to S3: whole or not at all, in parts, through faults of the store.
#include <chrono>
#include <thread>

#include "devices/base/text.h"
#include "ops/data/stores/store_files.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/s3_store.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

// Small parts, and no time to wait between requests.
StoreOptions writing_options(const S3Store& store) {
  StoreOptions options;
  options.request = options.upload = milliseconds(5000);
  options.patience = options.upload_patience = milliseconds(5000);
  options.pause = milliseconds(1);
  options.part_bytes = 100;
  options.writes = true;
  options.variable = store.variable();
  return options;
}

Status append_text(WritableFile& file, const std::string& text) {
  return file.append(std::as_bytes(std::span(text)));
}

Status write_text(Files& files, const std::string& path, const std::string& text) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.create(path));
  LEAT_RETURN_IF_ERROR(append_text(*file, text));
  return file->close();
}

std::string digits(size_t count) {
  std::string out;
  for (size_t i = 0; out.size() < count; ++i) out += cat(i, ",");
  return out.substr(0, count);
}

TEST_CASE("a file of S3 is there, whole, when it is closed") {
  const S3Store store;
  const auto files = make_store_files(real_files(), writing_options(store));
  for (const size_t size : {0u, 1u, 99u, 100u, 101u, 200u, 1234u}) {
    INFO(size);
    const std::string key = cat("runs/a+b/", size), content = digits(size);
    const auto file = must(files->create("s3://bucket/" + key));
    for (size_t at = 0; at < size; at += 33) must(append_text(*file, content.substr(at, 33)));
    CHECK(!store.objects().contains(key));
    CHECK(file->sync().code() == Code::unimplemented);
    must(file->close());
    CHECK(store.objects().at(key) == content);
    CHECK(text_of_bytes(must(read_file(*files, "s3://bucket/" + key, 1 << 20))) == content);
  }
  CHECK(store.uploads() == 0);
  // One that is written again has the new content.
  must(write_text(*files, "s3://bucket/runs/a+b/1", "new"));
  CHECK(store.objects().at("runs/a+b/1") == "new");
}

TEST_CASE("an upload without an end is given up, and leaves nothing") {
  const S3Store store;
  const auto files = make_store_files(real_files(), writing_options(store));
  {
    const auto file = must(files->create("s3://bucket/x"));
    must(append_text(*file, digits(250)));
    CHECK(store.uploads() == 1);
  }
  CHECK(store.uploads() == 0);
  CHECK(store.objects().empty());
}

TEST_CASE("folders of S3 are there while they have files") {
  const S3Store store;
  const auto files = make_store_files(real_files(), writing_options(store));
  CHECK(!must(files->exists("s3://bucket/runs")));
  must(files->make_directories("s3://bucket/runs"));
  must(files->sync_directory("s3://bucket/runs"));
  must(write_text(*files, "s3://bucket/runs/a/b", "x"));
  CHECK(must(files->exists("s3://bucket/runs")));
  CHECK(must(files->exists("s3://bucket/runs/a")));
  CHECK(must(files->list("s3://bucket/runs")) == std::vector<std::string>{"a"});
  must(files->remove("s3://bucket/runs/a/b"));
  must(files->remove("s3://bucket/runs/a/b"));
  CHECK(!must(files->exists("s3://bucket/runs")));
}

TEST_CASE("any one failure of a store that may pass changes no byte of what is written") {
  const std::string content = digits(950);
  // Each request fails once, in each of three ways; the last number has no fault.
  for (int way = 0; way < 3; ++way) {
    int fault = 0;
    for (bool done = false; !done; ++fault) {
      INFO("way " << way << ", request " << fault);
      std::atomic<bool> failed = false;
      S3Store store([&](int number, const StoreRequest&) -> std::optional<StoreAnswer> {
        if (number != fault) return std::nullopt;
        failed = true;
        if (way == 0) return StoreAnswer{503};
        if (way == 1) return StoreAnswer{0};  // no answer
        return StoreAnswer{500, {}, "<Error><Message>try again</Message></Error>"};
      });
      const auto files = make_store_files(real_files(), writing_options(store));
      must(write_text(*files, "s3://bucket/x", content));
      CHECK(store.objects().at("x") == content);
      done = !failed;
    }
    CHECK(fault == 13);  // begin, 10 parts, end, and the one without a fault
  }
}

TEST_CASE("a store that refuses a file is an error with the store's words") {
  StoreAnswer answer;
  S3Store store([&](int, const StoreRequest&) { return std::optional(answer); });
  StoreOptions options = writing_options(store);
  options.upload_patience = milliseconds(300);
  const auto files = make_store_files(real_files(), options);
  answer = {403, {}, "<Error><Code>AccessDenied</Code><Message>not &lt;you&gt;</Message></Error>"};
  Status refused = write_text(*files, "s3://bucket/x", "1");
  CHECK(refused.code() == Code::failed_precondition);
  CHECK(refused.message().find("'s3://bucket/x': the store refuses the request (status 403); "
                               "AWS_ACCESS_KEY_ID") == 0);
  CHECK(refused.message().find(": not <you>") != std::string::npos);
  answer = {404, {}, "<Error><Message>The bucket is none</Message></Error>"};
  refused = write_text(*files, "s3://bucket/x", digits(300));
  CHECK(refused.message() ==
        "'s3://bucket/x': there is no such bucket (status 404): The bucket is none");
  answer = {200, {}, "<X></X>"};
  CHECK(write_text(*files, "s3://bucket/x", digits(300)).message().find("the id of an upload") !=
        std::string::npos);
  answer = {503};
  refused = write_text(*files, "s3://bucket/x", "1");
  CHECK(refused.code() == Code::unavailable);
  CHECK(refused.message().find("answers with status 503, after ") != std::string::npos);
}

TEST_CASE("parts that the store cannot put together are an error") {
  S3Store store([](int, const StoreRequest& request) -> std::optional<StoreAnswer> {
    const bool is_end = request.method == "POST" && !request.body.empty();
    if (!is_end) return std::nullopt;
    return StoreAnswer{200, {}, "<Error><Message>internal</Message></Error>"};
  });
  StoreOptions options = writing_options(store);
  options.upload_patience = milliseconds(100);
  const auto files = make_store_files(real_files(), options);
  const Status refused = write_text(*files, "s3://bucket/x", digits(300));
  CHECK(refused.code() == Code::unavailable);
  CHECK(refused.message().find("puts the parts together, received 'internal'") !=
        std::string::npos);
  CHECK(store.objects().empty());
  CHECK(store.uploads() == 0);
}

TEST_CASE("a writer that is told to stop waits for no store") {
  // It never answers a part.
  std::atomic<bool> stopped = false;
  S3Store store([&](int, const StoreRequest& request) -> std::optional<StoreAnswer> {
    if (request.method != "PUT") return std::nullopt;
    stopped = true;
    return StoreAnswer{503};
  });
  StoreOptions options = writing_options(store);
  options.pause = options.upload = options.upload_patience = std::chrono::hours(1);
  options.stopped = [&] { return stopped.load(); };
  const auto files = make_store_files(real_files(), options);
  const Status given_up = write_text(*files, "s3://bucket/x", digits(300));
  CHECK(given_up.code() == Code::cancelled);
  CHECK(given_up.message() == "'s3://bucket/x': the request was given up");
  CHECK(store.uploads() == 0);
}

TEST_CASE("only a store that is opened for writing takes files, and none of HTTP") {
  const S3Store store;
  StoreOptions options = writing_options(store);
  const auto writing = make_store_files(real_files(), options);
  options.writes = false;
  const auto reading = make_store_files(real_files(), options);
  for (const Status& refused :
       {reading->create("s3://bucket/x").status(), reading->remove("s3://bucket/x"),
        reading->make_directories("s3://bucket/x"), writing->create(store.url() + "/x").status(),
        writing->remove(store.url() + "/x"), writing->rename("s3://bucket/x", "s3://bucket/y"),
        writing->remove_all("s3://bucket/x"), writing->append_to("s3://bucket/x", 0).status()}) {
    CHECK(refused.code() == Code::failed_precondition);
  }
  CHECK(store.objects().empty());
  CHECK(check_writable_place("s3://bucket/x").ok());
  CHECK(check_writable_place("/x").ok());
  CHECK(check_writable_place("https://host/x").message().find("expected s3://BUCKET/PREFIX") !=
        std::string::npos);
  CHECK(!check_writable_place("s3:///x").ok());
}

}  // namespace
}  // namespace leat
