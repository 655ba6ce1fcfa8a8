// Files of stores: ranges, the cache, faults of servers, signatures and lists of S3.
#include <atomic>
#include <barrier>
#include <thread>

#include "devices/base/text.h"
#include "ops/data/dataset.h"
#include "ops/data/guess.h"
#include "ops/data/sources/mixture.h"
#include "ops/data/stores/block_cache.h"
#include "ops/data/stores/s3_list.h"
#include "ops/data/stores/s3_signature.h"
#include "ops/data/stores/store_address.h"
#include "ops/data/stores/store_files.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/http_store.h"
#include "tests/must.h"
#include "tests/sample_files.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

// Small blocks, and no time to wait between requests.
StoreOptions quick_options(std::map<std::string, std::string> variables = {}) {
  StoreOptions options;
  options.block_bytes = 100;
  options.cache_bytes = 1000;
  options.most_at_once = 400;
  options.request = milliseconds(2000);
  options.patience = milliseconds(2000);
  options.pause = milliseconds(1);
  options.variable = [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return options;
}

std::string numbered_content(size_t bytes) {
  std::string out;
  for (size_t i = 0; out.size() < bytes; ++i) out += cat(i, ",");
  return out.substr(0, bytes);
}

std::string read_part_of(const ReadableFile& file, uint64_t offset, size_t size) {
  Bytes bytes(size);
  must(file.read(offset, bytes));
  return text_of_bytes(bytes);
}

// A server whose answers a test changes one by one: `fault` gets the number of the request, from 0,
// and the right answer.
class FaultyStore {
 public:
  using Fault = std::function<void(int, StoreAnswer&)>;
  FaultyStore(std::string content, Fault fault)
      : content_(std::move(content)),
        fault_(std::move(fault)),
        server_([this](const StoreRequest& request) {
          StoreAnswer answer = HttpStore::range_of(request, content_, "\"v1\"");
          fault_(number_++, answer);
          return answer;
        }) {}
  std::string file() const { return server_.url() + "/data/a.bin"; }
  size_t requests() const { return server_.requests().size(); }

 private:
  const std::string content_;
  const Fault fault_;
  int number_ = 0;
  HttpStore server_;  // last: its thread uses the rest
};

TEST_CASE("a file of a server is read by position, in blocks that are kept") {
  const std::string content = numbered_content(1234);
  const HttpStore server(
      [&](const StoreRequest& request) { return HttpStore::range_of(request, content, "\"v1\""); });
  const auto files = make_store_files(real_files(), quick_options());
  const auto file = must(files->open(server.url() + "/data/a b.bin"));
  CHECK(file->size() == 1234);
  CHECK(server.requests().at(0).target == "/data/a%20b.bin");
  CHECK(read_part_of(*file, 10, 20) == content.substr(10, 20));
  CHECK(server.requests().size() == 1);  // the first block came when the file was opened
  CHECK(read_part_of(*file, 950, 284) == content.substr(950, 284));
  CHECK(server.requests().size() == 2);
  CHECK(server.requests().at(1).headers.at("range") == "bytes=900-1233");
  CHECK(server.requests().at(1).headers.at("if-match") == "\"v1\"");
  CHECK(read_part_of(*file, 1001, 1) == content.substr(1001, 1));
  CHECK(server.requests().size() == 2);
  // More than one request may have, and more than the cache has.
  CHECK(read_part_of(*file, 0, 1234) == content);
  Bytes five(5);
  const Status behind = file->read(1230, five);
  CHECK(behind.message().find("expected 5 bytes at byte 1230, it has 1234") != std::string::npos);
  // A reader that goes forward gets more and more at once.
  const auto again = must(files->open(server.url() + "/data/b.bin"));
  const size_t before = server.requests().size();
  std::string all;
  for (uint64_t at = 0; at < 1234; at += 50)
    all += read_part_of(*again, at, std::min<size_t>(50, 1234 - at));
  CHECK(all == content);
  CHECK(server.requests().size() - before <= 5);
}

TEST_CASE("threads that want the same part of a file share one request") {
  constexpr size_t kThreads = 8, kRounds = 20;
  const std::string content = numbered_content(100 * (kRounds + 1));
  const HttpStore server(
      [&](const StoreRequest& request) { return HttpStore::range_of(request, content, "\"v1\""); });
  StoreOptions options = quick_options();
  options.cache_bytes = 100 * (kRounds + 1);
  options.most_at_once = 100;
  const auto files = make_store_files(real_files(), options);
  const auto file = must(files->open(server.url() + "/a"));
  for (size_t round = 1; round <= kRounds; ++round) {
    std::barrier start(kThreads);
    std::atomic<size_t> right = 0;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        Bytes bytes(100);
        start.arrive_and_wait();
        const Status read = file->read(100 * round, bytes);
        if (read.ok() && text_of_bytes(bytes) == content.substr(100 * round, 100)) ++right;
      });
    }
    for (std::thread& each : threads) each.join();
    CHECK(right == kThreads);
    CHECK(server.requests().size() == round + 1);
  }
}

TEST_CASE("threads that share a request share its error, and the next one asks again") {
  constexpr size_t kThreads = 4;
  const std::string content = numbered_content(500);
  FaultyStore store(content, [](int number, StoreAnswer& answer) {
    if (number == 1) answer = {403};
  });
  const auto files = make_store_files(real_files(), quick_options());
  const auto file = must(files->open(store.file()));
  std::barrier start(kThreads);
  std::atomic<size_t> refused = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      Bytes bytes(10);
      start.arrive_and_wait();
      refused += file->read(200, bytes).ok() ? 0 : 1;
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(refused >= 1);
  CHECK(read_part_of(*file, 200, 10) == content.substr(200, 10));
}

TEST_CASE("a store tells whether a file exists, and a refusal is neither yes nor no") {
  const HttpStore server([](const StoreRequest& request) -> StoreAnswer {
    if (request.target == "/refused") return {403, {}, "there is no such file"};
    if (request.target == "/gone") return {410};
    if (request.target != "/there") return {404};
    return HttpStore::range_of(request, "x", "");
  });
  const auto files = make_store_files(real_files(), quick_options());
  CHECK(must(files->exists(server.url() + "/there")));
  CHECK(!must(files->exists(server.url() + "/none")));
  CHECK(!must(files->exists(server.url() + "/gone")));
  CHECK(files->exists(server.url() + "/refused").status().code() == Code::failed_precondition);
  CHECK(files->open(server.url() + "/gone").status().message() ==
        cat("'", server.url(), "/gone': there is no such file (status 410)"));
}

TEST_CASE("an empty file of a server has no bytes") {
  const HttpStore server(
      [](const StoreRequest& request) { return HttpStore::range_of(request, "", ""); });
  const auto files = make_store_files(real_files(), quick_options());
  CHECK(must(files->open(server.url() + "/empty"))->size() == 0);
}

TEST_CASE("a store that fails for a while is asked again") {
  const std::string content = numbered_content(500);
  FaultyStore store(content, [](int number, StoreAnswer& answer) {
    if (number == 0 || number == 3) answer = {503};
    if (number == 1) answer.status = 0;       // it hangs up
    if (number == 4) answer.body.resize(40);  // fewer bytes than it promised
    if (number == 4) answer.length = 100;
    if (number == 5) answer = {429};
  });
  const auto files = make_store_files(real_files(), quick_options());
  const auto file = must(files->open(store.file()));
  CHECK(read_part_of(*file, 320, 30) == content.substr(320, 30));
  CHECK(store.requests() == 7);
}

TEST_CASE("the status of an answer counts, however long its body is") {
  const std::string content = numbered_content(500), page(100'000, 'x');
  FaultyStore store(content, [&](int number, StoreAnswer& answer) {
    if (number == 0 || number == 2) answer = {503, {}, page};
  });
  const auto files = make_store_files(real_files(), quick_options());
  const auto file = must(files->open(store.file()));
  CHECK(read_part_of(*file, 320, 30) == content.substr(320, 30));
  CHECK(store.requests() == 4);
  const auto error_of = [&](const StoreAnswer& answer) {
    const HttpStore server([&](const StoreRequest&) { return answer; });
    return files->open(server.url() + "/x").status().message();
  };
  CHECK(error_of({404, {}, page}).find("no such file (status 404)") != std::string::npos);
  CHECK(error_of({403, {}, page}).find("refuses the request (status 403)") != std::string::npos);
  CHECK(error_of({200, {}, page}).find("it knows no ranges") != std::string::npos);
}

TEST_CASE("a file that changes while it is read is an error that names it") {
  const std::string content = numbered_content(500);
  const auto refused = [&](const FaultyStore::Fault& fault) {
    FaultyStore store(content, fault);
    const auto files = make_store_files(real_files(), quick_options());
    const auto file = must(files->open(store.file()));
    Bytes ten(10);
    const Status read = file->read(200, ten);
    CHECK(read.code() == Code::failed_precondition);
    CHECK(store.requests() == 2);
    CHECK(read.message().find("/data/a.bin': it has changed") != std::string::npos);
    return read.message();
  };
  // The server compares, or else the client does.
  refused([](int number, StoreAnswer& answer) {
    if (number == 1) answer = {412};
  });
  const std::string why = refused([](int number, StoreAnswer& answer) {
    if (number == 1) answer.headers[0].second = "\"v2\"";
  });
  CHECK(why.find("expected 500 bytes and ETag \"v1\", received bytes 200-299/500 and \"v2\"") !=
        std::string::npos);
  refused([](int number, StoreAnswer& answer) {
    if (number == 1) answer.headers[1].second = "bytes 200-299/600";
  });
  refused([](int number, StoreAnswer& answer) {
    if (number == 1) answer = {416};
  });
}

TEST_CASE("answers that contradict the request are one error") {
  const std::string content = numbered_content(500);
  const auto error_of = [&](const FaultyStore::Fault& fault, Code code) {
    FaultyStore store(content, fault);
    const auto files = make_store_files(real_files(), quick_options());
    const auto opened = files->open(store.file());
    Status status = opened.status();
    Bytes ten(10);
    if (opened.ok()) status = (*opened)->read(200, ten);
    CHECK(status.code() == code);
    CHECK(status.message().find("'" + store.file() + "': ") == 0);
    return status.message();
  };
  const auto on = [](int wanted, std::function<void(StoreAnswer&)> change) {
    return [wanted, change](int number, StoreAnswer& answer) {
      if (number == wanted) change(answer);
    };
  };
  CHECK(error_of(on(1, [](StoreAnswer& a) { a.headers[1].second = "bytes 100-199/500"; }),
                 Code::invalid_argument)
            .find("expected the bytes 200-299, received the range 'bytes 100-199/500'") !=
        std::string::npos);
  CHECK(error_of(on(1, [](StoreAnswer& a) { a.body += "more"; }), Code::invalid_argument)
            .find("expected an answer of at most 100 bytes") != std::string::npos);
  CHECK(error_of(
            on(0, [](StoreAnswer& a) { a.headers[1].second = "bytes 0-99/99999999999999999999"; }),
            Code::invalid_argument)
            .find("expected a range that begins at byte 0") != std::string::npos);
  // A server that knows no ranges sends all of the file, however large it is.
  CHECK(error_of(
            [](int, StoreAnswer& a) {
              a = {200, {}, std::string(90, 'x')};
            },
            Code::failed_precondition)
            .find("it knows no ranges") != std::string::npos);
  CHECK(error_of([](int, StoreAnswer& a) { a = {404}; }, Code::failed_precondition)
            .find("there is no such file (status 404)") != std::string::npos);
  CHECK(error_of([](int, StoreAnswer& a) { a = {403}; }, Code::failed_precondition)
            .find("the store refuses the request (status 403)") != std::string::npos);
  CHECK(error_of([](int, StoreAnswer& a) { a = {301}; }, Code::failed_precondition)
            .find("expected status 206, received 301") != std::string::npos);
}

TEST_CASE("a data set of a store has the time of the store, not that of a disk") {
  Tensor rows(DType::f32, Shape{4, 2});
  const TemporaryDirectory folder;
  must(write_npy(real_files(), folder / "x.npy", rows));
  const Bytes bytes = must(read_file(real_files(), folder / "x.npy", 1 << 20));
  FaultyStore store(text_of_bytes(bytes), [](int number, StoreAnswer& answer) {
    if (number < 2) answer = {503};
  });
  DatasetFiles names;
  names.format = "npy";
  names.files = {"x=" + store.file()};
  ReadingLimits limits;
  limits.answer = milliseconds(5);  // far less than the store's pauses
  CHECK(must(report_dataset(real_files(), names, {}, limits)).info.count == 4);
  FaultyStore again(text_of_bytes(bytes), [](int number, StoreAnswer& answer) {
    if (number < 2) answer = {503};
  });
  names.files = {"x=" + again.file()};
  CHECK(must(Dataset::open(real_files(), names, limits))->info().count == 4);
}

TEST_CASE("a data set reads a store by its root, its files or the parts of a mixture") {
  const auto names_of = [](const std::string& format, const std::string& root,
                           const std::vector<std::string>& files) {
    DatasetFiles names;
    names.format = format;
    names.root = root;
    names.files = files;
    return names;
  };
  CHECK(reads_store(names_of("csv", "s3://bucket/x", {"a.csv"})));
  CHECK(reads_store(names_of("csv", "", {"b.csv", "https://host/a.csv"})));
  CHECK(reads_store(names_of("npy", "", {"x=http://host/x.npy"})));
  CHECK(!reads_store(names_of("npy", "", {"x=a=http"})));
  CHECK(!reads_store(names_of("npy", "/data", {"x=http://host/x.npy"})));  // a strange name
  DatasetFiles mixture = names_of("mixture", "", {});
  add_mixture_part({"one", 1, names_of("csv", "", {"a.csv"})}, mixture.options);
  CHECK(!reads_store(mixture));
  add_mixture_part({"two", 1, names_of("csv", "", {"s3://bucket/a.csv"})}, mixture.options);
  CHECK(reads_store(mixture));
  mixture.root = "/data";
  CHECK(!reads_store(mixture));
}

TEST_CASE("a store that does not answer well ends the read at its deadline") {
  StoreOptions options = quick_options();
  // Two requests, and no time for a third one, also on a machine that is busy.
  options.patience = milliseconds(1000);
  options.pause = milliseconds(400);
  const auto files = make_store_files(real_files(), options);
  // A port on which no process listens any more.
  std::string nobody;
  {
    const HttpStore gone([](const StoreRequest&) { return StoreAnswer{}; });
    nobody = gone.url();
  }
  Status status = files->open(nobody + "/x").status();
  CHECK(status.code() == Code::unavailable);
  CHECK(status.message().find("/x': ") != std::string::npos);
  CHECK(status.message().find(" requests") != std::string::npos);
  const HttpStore failing([](const StoreRequest&) { return StoreAnswer{500}; });
  status = files->open(failing.url() + "/x").status();
  CHECK(status.code() == Code::unavailable);
  CHECK(status.message().find("the store answers with status 500, after ") != std::string::npos);
}

TEST_CASE("paths that are no addresses of stores are those of the disk, and stores take no files") {
  const auto files = make_store_files(real_files(), quick_options());
  CHECK(must(files->exists("/dev")));
  const std::string path = "http://127.0.0.1:9/x";
  CHECK(files->create(path).status().message().find("stores are for reading") != std::string::npos);
  for (const Status& refused :
       {files->rename(path, "/x"), files->rename("/x", path), files->link(path, "/x"),
        files->link("/x", path), files->exchange(path, "/x"), files->exchange("/x", path),
        files->append_to(path, 0).status(), files->remove(path), files->remove_all(path)}) {
    CHECK(refused.code() == Code::failed_precondition);
    CHECK(refused.message().find(cat("'", path,
                                     "': expected a file of a disk: stores are for "
                                     "reading")) == 0);
  }
  CHECK(files->list(path).status().code() == Code::unimplemented);
  CHECK(files->open("https://me:secret@host/x")
            .status()
            .message()
            .find("expected none with a user") != std::string::npos);
  CHECK(files->open("https://me:secret@host/x").status().message().find("secret") ==
        std::string::npos);
  CHECK(!files->open("https:///x").ok());
  CHECK(!files->open("https://host/x?y=1").ok());
}

TEST_CASE("the address of a bucket is a host of its own, or a folder of the endpoint") {
  const auto url_of = [](const std::string& path, const std::string& endpoint) {
    const auto address =
        StoreAddress::make(path, [&](const std::string& name) -> std::optional<std::string> {
          if (name == "AWS_REGION") return "eu-north-1";
          return name == "AWS_ENDPOINT_URL" ? std::optional(endpoint) : std::nullopt;
        });
    return address.ok() ? address->get({}).url : address.status().message();
  };
  CHECK(url_of("s3://my-bucket/a/b", "") == "https://my-bucket.s3.eu-north-1.amazonaws.com/a/b");
  CHECK(url_of("s3://my.bucket/a/b", "") == "https://s3.eu-north-1.amazonaws.com/my.bucket/a/b");
  CHECK(url_of("s3://my_Bucket/a", "") == "https://s3.eu-north-1.amazonaws.com/my_Bucket/a");
  CHECK(url_of("s3://my.bucket/a", "http://h:90") == "http://h:90/my.bucket/a");
  CHECK(url_of("s3://bucket/a", "https://h//") == "https://h/bucket/a");
  for (const char* none : {"h", "localhost:9000", "https://", "https:", "://h", "ftp://h",
                           "https://h/path", "https://me:secret@h"}) {
    INFO(none);
    CHECK(url_of("s3://bucket/a", none).find("AWS_ENDPOINT_URL: expected https://HOST") == 0);
  }
  CHECK(url_of("s3://bucket/a", "https://me:secret@h").find("secret") == std::string::npos);
}

TEST_CASE("a folder of images of S3 is found with and without '/' behind its name") {
  const std::string image = png_of(3, 2, [](uint32_t, uint32_t, int) { return uint8_t{7}; });
  const HttpStore server([&](const StoreRequest& request) -> StoreAnswer {
    const auto list = [](const std::string& content) -> StoreAnswer {
      return {200, {}, cat("<ListBucketResult>", content, "</ListBucketResult>")};
    };
    if (request.target.ends_with("prefix=pics%2F"))
      return list("<CommonPrefixes><Prefix>pics/a/</Prefix></CommonPrefixes>");
    if (request.target.ends_with("prefix=pics%2Fa%2F"))
      return list("<Contents><Key>pics/a/1.png</Key></Contents>");
    if (request.target == "/bucket/pics/a/1.png") return HttpStore::range_of(request, image, "x");
    return {404};
  });
  const auto files =
      make_store_files(real_files(), quick_options({{"AWS_ENDPOINT_URL", server.url()}}));
  for (const char* path : {"s3://bucket/pics", "s3://bucket/pics/", "s3://bucket/pics//"}) {
    const GuessedData guess = must(guess_dataset(*files, path, 10));
    CHECK(guess.names.files == std::vector<std::string>{"s3://bucket/pics"});
    CHECK(guess.names.options == std::vector<std::string>{"size=2", "size=3"});
  }
  CHECK(must(resolve_below("", "s3://bucket/pics/")) == "s3://bucket/pics");
  CHECK(must(resolve_below("s3://bucket/pics/", "a/")) == "s3://bucket/pics/a");
  CHECK(must(resolve_below("s3://bucket/", ".")) == "s3://bucket");
}

TEST_CASE("a guess tells the error of a store that gives no list") {
  std::atomic<int> status = 403;
  const HttpStore server([&](const StoreRequest& request) -> StoreAnswer {
    if (status == 200 && request.target.ends_with("prefix=pics%2F"))
      return {
          200, {}, "<ListBucketResult><Contents><Key>pics/a</Key></Contents></ListBucketResult>"};
    return {status == 200 ? 503 : status.load()};
  });
  StoreOptions options = quick_options({{"AWS_ENDPOINT_URL", server.url()}});
  options.pause = 2 * options.patience;  // so the first failure is the last one
  const auto files = make_store_files(real_files(), options);
  const auto error_of = [&](const std::string& path) {
    return guess_dataset(*files, path, 10).status().message();
  };
  CHECK(error_of("s3://bucket/pics").find("refuses the request (status 403)") != std::string::npos);
  status = 503;
  CHECK(error_of("s3://bucket/pics").find("answers with status 503") != std::string::npos);
  status = 200;  // of the folder, and not of those in it
  CHECK(error_of("s3://bucket/pics").find("answers with status 503") != std::string::npos);
  // No list of HTTP could have been read.
  CHECK(error_of(server.url() + "/pics").find("a name that tells the format") != std::string::npos);
}

TEST_CASE("the cache forgets the block that was used the longest time ago") {
  BlockCache cache(250);
  const uint64_t file = cache.new_file();
  CHECK(cache.new_file() != file);
  for (uint64_t i = 0; i < 2; ++i) cache.put(file, i, std::make_shared<const Bytes>(100));
  CHECK(cache.find(file, 0));
  cache.put(file, 2, std::make_shared<const Bytes>(100));
  CHECK(cache.bytes() == 200);
  CHECK(cache.find(file, 0));
  CHECK(!cache.find(file, 1));
  cache.put(file, 9, std::make_shared<const Bytes>(1000));
  CHECK(!cache.find(file, 9));
  CHECK(cache.bytes() == 200);
}

// The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
TEST_CASE("requests to S3 have the signatures of Amazon's examples") {
  const S3Credentials credentials{"AKIAIOSFODNN7EXAMPLE",
                                  "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  const std::time_t noon = 1369353600;  // 2013-05-24 00:00:00 UTC
  const auto signature = [&](const S3Request& request) {
    const auto headers = sign_s3(request, credentials, "us-east-1", noon);
    const std::string text = headers.back().second;
    CHECK(headers.back().first == "authorization");
    CHECK(text.find("AWS4-HMAC-SHA256 "
                    "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request") == 0);
    return text.substr(text.rfind('=') + 1);
  };
  const std::string host = "examplebucket.s3.amazonaws.com";
  CHECK(signature({host, "/test.txt", {}, {{"range", "bytes=0-9"}}}) ==
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  CHECK(signature({host, "/", {{"max-keys", "2"}, {"prefix", "J"}}, {}}) ==
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  const std::string welcome = "Welcome to Amazon S3.";
  CHECK(signature({.host = host,
                   .path = "/test%24file.text",
                   .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                               {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                   .method = "PUT",
                   .body = std::as_bytes(std::span(welcome))}) ==
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  CHECK(signature({host, "/", {{"lifecycle", ""}}, {}}) ==
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST_CASE("the server finds the signature of the request that it got") {
  const std::string content = numbered_content(300);
  std::atomic<int> good = 0;
  const HttpStore server([&](const StoreRequest& request) -> StoreAnswer {
    // It signs the same request once more, by the time that the client gives.
    std::tm utc{};
    strptime(request.headers.at("x-amz-date").c_str(), "%Y%m%dT%H%M%SZ", &utc);
    S3Request same{request.headers.at("host"), request.target, {}, {}};
    if (const size_t mark = same.path.find('?'); mark != std::string::npos) {
      same.path.resize(mark);
      same.query = {{"delimiter", "/"}, {"list-type", "2"}, {"prefix", "my data/"}};
    }
    if (request.headers.contains("range"))
      same.headers.emplace_back("range", request.headers.at("range"));
    if (request.headers.contains("if-match"))
      same.headers.emplace_back("if-match", request.headers.at("if-match"));
    std::sort(same.headers.begin(), same.headers.end());
    const auto expected = sign_s3(same, {"id", "secret", "token"}, "eu-north-1", timegm(&utc));
    if (expected.back().second != request.headers.at("authorization")) return {403};
    if (request.headers.at("x-amz-security-token") != "token") return {403};
    ++good;
    if (!same.query.empty()) {
      return {200,
              {},
              "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><Contents><Key>my data/a&amp;b"
              ".tar</Key></Contents><Contents><Key>my data/</Key></Contents><CommonPrefixes>"
              "<Prefix>my data/cats/</Prefix></CommonPrefixes></ListBucketResult>"};
    }
    return HttpStore::range_of(request, content, "\"e\"");
  });
  const auto files =
      make_store_files(real_files(), quick_options({{"AWS_ENDPOINT_URL", server.url() + "/"},
                                                    {"AWS_REGION", "eu-north-1"},
                                                    {"AWS_ACCESS_KEY_ID", "id"},
                                                    {"AWS_SECRET_ACCESS_KEY", "secret"},
                                                    {"AWS_SESSION_TOKEN", "token"}}));
  const auto file = must(files->open("s3://bucket/my data/a+b.tar"));
  CHECK(read_part_of(*file, 150, 100) == content.substr(150, 100));
  CHECK(server.requests().at(0).target == "/bucket/my%20data/a%2Bb.tar");
  CHECK(must(files->list("s3://bucket/my data")) == std::vector<std::string>{"a&b.tar", "cats"});
  CHECK(good == 3);
  const auto wrong =
      make_store_files(real_files(), quick_options({{"AWS_ENDPOINT_URL", server.url()},
                                                    {"AWS_REGION", "eu-north-1"},
                                                    {"AWS_ACCESS_KEY_ID", "id"},
                                                    {"AWS_SECRET_ACCESS_KEY", "other"},
                                                    {"AWS_SESSION_TOKEN", "token"}}));
  const Status refused = wrong->open("s3://bucket/x").status();
  CHECK(refused.message().find("status 403); AWS_ACCESS_KEY_ID") != std::string::npos);
  CHECK(refused.message().find("other") == std::string::npos);
}

TEST_CASE("a list of S3 has pages, and damage in it is an error") {
  const HttpStore server([](const StoreRequest& request) -> StoreAnswer {
    const bool second = request.target.find("continuation-token=n%2F1") != std::string::npos;
    const std::string next = second ? "" : "<NextContinuationToken>n/1</NextContinuationToken>";
    return {200,
            {},
            cat("<ListBucketResult><Contents><Key>", second ? "p/a" : "p/b", "</Key></Contents>",
                next, "</ListBucketResult>")};
  });
  const auto files =
      make_store_files(real_files(), quick_options({{"AWS_ENDPOINT_URL", server.url()}}));
  CHECK(must(files->list("s3://bucket/p/")) == std::vector<std::string>{"a", "b"});
  CHECK(!server.requests().at(0).headers.contains("authorization"));
  const auto names_in = [](const std::string& key) {
    const std::string xml =
        cat("<ListBucketResult><Contents><Key>", key, "</Key></Contents></ListBucketResult>");
    return must(parse_s3_list(bytes_of_text(xml), "")).names.at(0);
  };
  CHECK(names_in("&lt;a&amp;b&gt;&quot;&apos;") == "<a&b>\"'");
  CHECK(names_in("a&#38;b&#x26;c&#xe9;&#x1F600;") == "a&b&c\xc3\xa9\xf0\x9f\x98\x80");
  // None of these is an entity.
  for (const char* key : {"a&b", "a&b;c", "&#;", "&#x;", "&#xd800;", "&#x110000;", "&#0;", "&#3a;"})
    CHECK(names_in(key) == key);
  const auto list_error = [](const std::string& xml) {
    return parse_s3_list(bytes_of_text(xml), "p/").status().message();
  };
  CHECK(list_error("<Error/>").find("received another text") != std::string::npos);
  CHECK(list_error("<ListBucketResult><Contents><Key>p/a").find("<Contents> has no end") !=
        std::string::npos);
  CHECK(list_error("<ListBucketResult><Contents><Key>q</Key></Contents>")
            .find("expected keys that begin with 'p/', received 'q'") != std::string::npos);
}

}  // namespace
}  // namespace leat
