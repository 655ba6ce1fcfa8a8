#include "tests/daemon/status/status_testing.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "tests/catch.h"
#include "transport/io/handshake.h"

namespace leat {
namespace {

constexpr int64_t kStart = 1'769'860'800'000;  // 2026-01-31 12:00:00 UTC

JobView running_job() {
  JobView job;
  job.number = 2;
  job.id = "fashion-mnist-cnn-7f3a";
  job.name = "fashion-mnist-cnn";
  job.num_workers = 2;
  job.submitted_ms = kStart + 1'000;
  job.condition.state = JobState::running;
  job.condition.since_ms = kStart + 5'250;
  job.condition.restarts = 1;
  job.condition.epoch = 2;
  job.condition.workers = {"worker-1", "worker-2"};
  job.progress.last = {250, 1000, 1, 4, 128, 0.5, 0.875, 0.625, 0.75};
  job.progress.steps_per_second = 12.5;
  job.progress.samples_per_second = 1600;
  job.progress.eta_seconds = 60;
  job.history.put({1, 1, "worker 'worker-2' was lost", "worker-2", "", kStart + 2'000,
                   kStart + 5'000, 250, -1, 70, 64, GoesOnFrom::checkpoint});
  job.version = 17;
  return job;
}

JobView ended_job() {
  JobView job;
  job.number = 1;
  job.id = "fashion-mnist-mlp-0c41";
  job.name = "fashion-mnist-mlp";
  job.submitted_ms = kStart;
  job.condition.state = JobState::succeeded;
  job.condition.since_ms = kStart + 4'000;
  job.condition.result = std::string(64, 'a');
  return job;
}

JobView waiting_job() {
  JobView job;
  job.number = 3;
  job.id = "gpt-0001";
  job.name = "gpt";
  job.num_workers = 8;
  job.submitted_ms = kStart + 9'000;
  job.condition.state = JobState::queued;
  job.condition.reason = "waits for 8 workers, 0 are free";
  job.condition.since_ms = kStart + 9'000;
  return job;
}

NodeView node(const std::string& name, WorkerState state, const std::string& job) {
  NodeView node;
  node.worker.info.worker = {name, 0xfedcba9876543210};
  node.worker.info.address = "10.0.0.2:17463";
  node.worker.info.machine = "boot-1";
  node.worker.info.devices = {{"cpu", "cpu:0", uint64_t{16} << 30, 8, "A processor"}};
  node.worker.info.datasets = {"fashion-mnist"};
  node.worker.info.version = "0.1.0";
  node.worker.state = state;
  node.worker.since_ms = kStart;
  node.worker.silent = 125ms;
  node.worker.progress = 250;
  node.job = job;
  return node;
}

// Not Catch's, which belongs to one thread.
void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.to_string());
}

}  // namespace

ExampleSource::ExampleSource() {
  cluster_ = {"leat",
              "0123456789abcdef0123456789abcdef",
              "0.1.0",
              3,
              4,
              kStart,
              kStart + 65'000,
              "127.0.0.1:17461",
              "127.0.0.1:17460",
              {}};
  jobs_ = {ended_job(), running_job(), waiting_job()};
  nodes_ = {node("worker-1", WorkerState::ready, jobs_[1].id),
            node("worker-2", WorkerState::stuck, jobs_[1].id),
            node("worker-3", WorkerState::lost, "")};
  nodes_[2].worker.reason = "no heartbeat for 3.0 s";
  for (int i = 0; i < 5; ++i)
    lines_.push_back({kStart + 1000 * i, "worker-1", "line " + std::to_string(i)});
}

Result<JobView> ExampleSource::job(std::string_view id) const {
  std::vector<JobView> found;
  for (const JobView& job : jobs_)
    if (job.id.starts_with(id)) found.push_back(job);
  if (found.empty()) return failed_precondition(cat("there is no job '", id, "'"));
  if (found.size() > 1) return invalid_argument(cat("'", id, "' begins the ids of ", found.size()));
  return found[0];
}

Result<LogPage> ExampleSource::log(std::string_view id, uint64_t from, size_t most) const {
  LEAT_RETURN_IF_ERROR(job(id).status());
  LogPage page;
  page.end = lines_.size();
  page.first = std::min<uint64_t>(from, page.end);
  for (uint64_t i = page.first; i < page.end && page.lines.size() < most; ++i)
    page.lines.push_back(lines_[i]);
  return page;
}

HttpClient::HttpClient(const std::string& address) : host_(address) {
  auto connected = connect_socket(address, std::chrono::steady_clock::now() + 30s);
  must(connected.status());
  socket_ = std::move(*connected);
}

void HttpClient::send(std::string_view bytes) {
  must(send_all(socket_.get(), std::as_bytes(std::span(bytes)),
                std::chrono::steady_clock::now() + 30s, "sending"));
}

bool HttpClient::receive() {
  must(wait_ready(socket_.get(), POLLIN, std::chrono::steady_clock::now() + 30s, "receiving"));
  char bytes[4096];
  const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes, 0);
  if (n > 0) read_.append(bytes, static_cast<size_t>(n));
  return n > 0;
}

HttpReply HttpClient::reply(bool head) {
  size_t end;
  while ((end = read_.find("\r\n\r\n")) == std::string::npos)
    if (!receive()) return {};
  HttpReply reply;
  reply.status = std::stoi(read_.substr(9, 3));
  for (size_t at = read_.find("\r\n") + 2; at < end + 2;) {
    const size_t colon = read_.find(':', at), line_end = read_.find("\r\n", at);
    std::string name = read_.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    reply.headers[name] = read_.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  read_.erase(0, end + 4);
  if (head) return reply;
  const size_t size = std::stoul(reply.headers.at("content-length"));
  while (read_.size() < size)
    if (!receive()) return {};
  reply.body = read_.substr(0, size);
  read_.erase(0, size);
  return reply;
}

HttpReply HttpClient::get(const std::string& path, const std::string& headers) {
  send("GET " + path + " HTTP/1.1\r\nHost: " + host_ + "\r\n" + headers + "\r\n");
  return reply();
}

bool HttpClient::is_closed() { return read_.empty() && !receive() && read_.empty(); }

StatusHost::StatusHost(HttpOptions options) {
  auto opened = open_status_server(reactor, "127.0.0.1:0", source, std::move(options));
  REQUIRE(opened.ok());
  server = std::move(*opened);
}

HttpReply StatusHost::get(const std::string& path, const std::string& headers) {
  return HttpClient(server->address()).get(path, headers);
}

}  // namespace leat
