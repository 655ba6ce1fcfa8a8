#include "daemon/status/event_streams.h"

#include <algorithm>
#include <utility>

#include "daemon/status/event_text.h"
#include "daemon/status/status_json.h"

namespace leat {
namespace {

constexpr size_t kLinesAtOnce = 1000;  // of a log
constexpr std::string_view kNoData = "{}";

// The events of a feed from the moment on when the stream began.
class FeedStream final : public HttpStream {
 public:
  FeedStream(std::shared_ptr<StatusFeed> feed, uint64_t seen)
      : feed_(std::move(feed)), seen_(seen) {}

  std::string next() override {
    feed_->update();
    std::string text;
    if (!began_ || next_ < feed_->first()) {
      // The stream begins, or its client was so slow that the feed has dropped its events.
      for (const StatusEvent& event : feed_->snapshot(std::exchange(seen_, 0))) text += event.text;
      next_ = feed_->end();
      began_ = true;
    }
    for (; next_ < feed_->end(); ++next_) text += feed_->at(next_).text;
    return text;
  }
  bool has_ended() const override { return false; }

 private:
  const std::shared_ptr<StatusFeed> feed_;
  uint64_t seen_;
  uint64_t next_ = 0;  // the event of the feed that this stream takes next
  bool began_ = false;
};

class JobStream final : public HttpStream {
 public:
  JobStream(std::shared_ptr<StatusFeed> feed, const StatusSource& source, std::string id)
      : feed_(std::move(feed)), source_(source), id_(std::move(id)) {}

  std::string next() override {
    feed_->update();
    bool changed = !began_ || next_ < feed_->first();
    for (next_ = std::max(next_, feed_->first()); next_ < feed_->end(); ++next_)
      changed = changed || feed_->at(next_).job == id_;
    began_ = true;
    if (!changed || ended_) return "";
    const auto job = source_.job(id_);
    ended_ = !job.ok() || leat::has_ended(job->condition.state);
    std::string text;
    if (job.ok()) text = event_text("job", std::to_string(job->version), job_json(*job));
    if (ended_) text += event_text("end", "", kNoData);
    return text;
  }
  bool has_ended() const override { return ended_; }

 private:
  const std::shared_ptr<StatusFeed> feed_;
  const StatusSource& source_;
  const std::string id_;
  uint64_t next_ = 0;  // the event of the feed to look at next
  bool began_ = false;
  bool ended_ = false;  // the job has ended, or was removed
};

class LogStream final : public HttpStream {
 public:
  LogStream(const StatusSource& source, std::string id, uint64_t from)
      : source_(source), id_(std::move(id)), from_(from) {}

  std::string next() override {
    const auto page = source_.log(id_, from_, kLinesAtOnce);
    std::string text;
    if (page.ok()) {
      from_ = page->first;
      for (const LogLine& line : page->lines) {
        // The id is where a client that comes back goes on: the number of the line.
        text += event_text("line", std::to_string(from_), log_line_json(line));
        ++from_;
      }
    }
    // After an error of the disk the client comes back, since the log has not ended. A job that was
    // removed has.
    const bool removed = !page.ok() && page.status().code() == Code::failed_precondition;
    const bool whole = page.ok() && page->complete && from_ >= page->end;
    if (removed || whole) text += event_text("end", "", kNoData);
    ended_ = !page.ok() || whole;
    return text;
  }
  bool has_ended() const override { return ended_; }

 private:
  const StatusSource& source_;
  const std::string id_;
  uint64_t from_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<HttpStream> stream_cluster(std::shared_ptr<StatusFeed> feed, uint64_t seen) {
  return std::make_unique<FeedStream>(std::move(feed), seen);
}

std::unique_ptr<HttpStream> stream_job(std::shared_ptr<StatusFeed> feed, const StatusSource& source,
                                       std::string id) {
  return std::make_unique<JobStream>(std::move(feed), source, std::move(id));
}

std::unique_ptr<HttpStream> stream_log(const StatusSource& source, std::string id, uint64_t from) {
  return std::make_unique<LogStream>(source, std::move(id), from);
}

}  // namespace leat
