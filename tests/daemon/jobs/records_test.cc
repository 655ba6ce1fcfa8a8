#include "daemon/jobs/records.h"

#include <set>

#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {
namespace {

TEST_CASE("a job's id is made of its name") {
  CHECK(make_job_id("fashion-mnist-cnn", 0x7f3a, 4) == "fashion-mnist-cnn-7f3a");
  CHECK(make_job_id("My Model: v2!", 0x10000, 4) == "my-model-v2-0000");
  CHECK(make_job_id("../../etc", 1, 4) == "etc-0001");
  CHECK(make_job_id("\xc3\xa9", 1, 8) == "job-00000001");
  CHECK(make_job_id(std::string(100, 'a'), 1, 4).size() == 53);
}

TEST_CASE("the content of a submission is all of it but the request id") {
  Submission base = make_submission("r", "a", 1);
  base.files = {attach("g", "graph")};
  std::set<Sha256Digest> contents = {content_of(base)};
  const auto differs = [&](auto&& change) {
    Submission other = base;
    change(other);
    return contents.insert(content_of(other)).second;
  };
  CHECK(differs([](Submission& s) { s.name = "b"; }));
  CHECK(differs([](Submission& s) { s.text += " "; }));
  CHECK(differs([](Submission& s) { s.overrides = {"steps=1"}; }));
  CHECK(differs([](Submission& s) { s.overrides = {"steps", "=1"}; }));
  CHECK(differs([](Submission& s) { s.num_workers = 2; }));
  CHECK(differs([](Submission& s) { s.max_restarts = 2; }));
  CHECK(differs([](Submission& s) { s.terms.priority = 1; }));
  CHECK(differs([](Submission& s) { s.terms.user = "ann"; }));
  CHECK(differs([](Submission& s) { s.terms.paused = true; }));
  CHECK(differs([](Submission& s) { s.chaos = {"kill=master@step=3"}; }));
  CHECK(differs([](Submission& s) { s.files[0].name = "h"; }));
  CHECK(differs([](Submission& s) { s.files = {attach("g", "other")}; }));
  CHECK(differs([](Submission& s) { s.files.clear(); }));
  CHECK_FALSE(differs([](Submission& s) { s.request_id = "q"; }));
  CHECK_FALSE(differs([](Submission& s) { s.files[0].bytes.reset(); }));  // uploaded before
}

TEST_CASE("the terms of a job are printed and read back, and defaults are left out") {
  CHECK(print_terms({}).empty());
  CHECK(parse_terms("") == QueueTerms());
  QueueTerms terms;
  terms.priority = -100;
  terms.max_run_time = std::chrono::hours(2);
  terms.preemptible = terms.paused = true;
  terms.cpu = 2;
  terms.memory = uint64_t{1} << 40;
  terms.user = "ann = of the lab";
  CHECK(print_terms(terms) ==
        "priority=-100 max_run_ms=7200000 preemptible=1 cpu=2 memory=1099511627776 paused=1 "
        "user=ann = of the lab");
  CHECK(parse_terms(print_terms(terms)) == terms);
  CHECK(parse_terms("later=7 priority=3").priority == 3);
}

TEST_CASE("a submission that no master accepts is refused with what is wrong") {
  const auto message = [](auto&& change) {
    Submission submission = make_submission("r", "a", 1);
    change(submission);
    return check_submission(submission).message();
  };
  CHECK(message([](Submission&) {}) == "");
  CHECK(message([](Submission& s) { s.request_id = ""; }) ==
        "submit: expected a request id of 1 to 64 printable characters, received 0 bytes");
  CHECK(message([](Submission& s) { s.request_id = "a b"; }) != "");
  CHECK(message([](Submission& s) { s.request_id.assign(65, 'a'); }) != "");
  CHECK(message([](Submission& s) { s.name = ""; }) != "");
  CHECK(message([](Submission& s) { s.text.assign((1 << 20) + 1, 'a'); }) != "");
  CHECK(message([](Submission& s) { s.overrides.resize(257); }) != "");
  CHECK(message([](Submission& s) { s.num_workers = 0; }) ==
        "job 'a': expected num_workers from 1 to 4096, received 0");
  CHECK(message([](Submission& s) { s.min_workers = 2; }) ==
        "job 'a': expected at least 2 workers, received 1 at most");
  CHECK(message([](Submission& s) { s.chaos.assign(65, "kill=worker:0@step=1"); }) ==
        "job 'a': expected at most 64 entries of --chaos, received 65");
  CHECK(message([](Submission& s) { s.chaos.assign(64, "kill=worker:0@step=1"); }) == "");
  CHECK(message([](Submission& s) { s.files.assign(17, attach("g", "")); }) ==
        "job 'a': expected at most 16 attached files, and 4098 of a checkpoint, received 17 and 0");
  CHECK(message([](Submission& s) { s.files.assign(2, attach("g", "")); }) ==
        "job 'a': file 'g' is attached twice");
  CHECK(message([](Submission& s) {
          s.files = {attach("f/g/h", ""), attach("f/g", "")};
        }) == "job 'a': expected 'f/g' to be a file or a folder, 'f/g' and 'f/g/h' are attached");
  CHECK(message([](Submission& s) { s.files = {attach("f/g", ""), attach("f/gh", "")}; }) == "");
  CHECK(message([](Submission& s) { s.files = {attach("g", std::string((1 << 20) + 1, 'a'))}; }) !=
        "");
  for (const char* name : {"", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/"}) {
    INFO(name);
    CHECK(message([&](Submission& s) { s.files = {attach(name, "")}; }) != "");
  }
  CHECK(message([](Submission& s) { s.files = {attach("a/b..c/.d", "")}; }) == "");
}

TEST_CASE("a file of a submit that a master would decrypt with its key is refused") {
  Submission submission = make_submission("r", "a", 1);
  submission.files = {attach("weights", "leatseal\x01 and a stolen ciphertext")};
  CHECK(check_submission(submission).to_string() ==
        "invalid_argument: job 'a': file 'weights': expected a file that is not encrypted, "
        "received one that begins with 'leatseal'; export it first (leat checkpoint export)");
  for (const char* plain : {"leatsea", " leatseal", "Leatseal", ""}) {
    submission.files = {attach("weights", plain)};
    CHECK(check_submission(submission).ok());
  }
}

TEST_CASE("a job's result is printed and read back") {
  const JobResult result{std::string(64, 'a'), 4, 11, "AMD EPYC 9454P and Another cpu=1"};
  CHECK(print_result(result) ==
        std::string(64, 'a') + " shards=4 seed=11 cpu=AMD EPYC 9454P and Another cpu=1");
  CHECK(parse_result(print_result(result)) == result);
  JobResult asynchronous = result;
  asynchronous.depends_on_timing = true;
  CHECK(print_result(asynchronous) ==
        std::string(64, 'a') + " shards=4 seed=11 timing=1 cpu=" + asynchronous.cpu);
  CHECK(parse_result(print_result(asynchronous)) == asynchronous);
  JobResult narrow = asynchronous;
  narrow.precision = "bfloat16";
  CHECK(print_result(narrow) ==
        std::string(64, 'a') + " shards=4 seed=11 precision=bfloat16 timing=1 cpu=" + narrow.cpu);
  CHECK(parse_result(print_result(narrow)) == narrow);
  CHECK(precision_clause(narrow.precision) == ", precision bfloat16");
  CHECK(precision_clause(result.precision).empty());
  const JobResult alone{"abc", 0, 0, ""};
  for (const char* text : {"abc", "abc shards", "abc shards=4", "abc shards=x seed=1 cpu=y",
                           "abc shards=4 seed=99999999999999999999 cpu=y", "abc cpu=y"}) {
    CHECK(parse_result(text) == alone);
  }
  CHECK(print_result(alone) == "abc");
  CHECK(parse_result("").weights_sha256.empty());
}

}  // namespace
}  // namespace leat
