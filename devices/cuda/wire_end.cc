#include "devices/cuda/wire_end.h"

#include <utility>

#include "devices/base/text.h"
#include "devices/cuda/cuda_device.h"
#include "devices/cuda/cuda_status.h"

namespace leat::cuda {
namespace {

using SteadyClock = std::chrono::steady_clock;

// While values are on their way, the thread spins this long after each that is done, and then looks
// again after each pause.
constexpr auto kWireSpin = std::chrono::microseconds(200);
constexpr auto kWirePause = std::chrono::microseconds(50);
// An end that has nothing to do looks so often whether the other one has failed.
constexpr auto kIdleLook = std::chrono::milliseconds(100);
// An end with values on their way looks far more often than this, unless its process is stopped.
constexpr auto kStoodStill = std::chrono::seconds(1);

// An end of either direction, `Base`, by what carries its values.
template <typename Base>
class CarriedEnd : public Base {
 public:
  explicit CarriedEnd(std::unique_ptr<WireEnd> end) : end_(std::move(end)) {}

  Status connect(SteadyClock::time_point deadline) override { return end_->connect(deadline); }
  Timeline& done() override { return end_->done(); }
  void stop(const Status& cause) override { end_->stop(cause); }

 protected:
  void give(const WireValue& value) { end_->give(value); }

 private:
  const std::unique_ptr<WireEnd> end_;
};

class CarriedSender final : public CarriedEnd<WireSender> {
 public:
  using CarriedEnd::CarriedEnd;
  void send(const void* from, size_t offset, size_t bytes) override { give({from, offset, bytes}); }
};

class CarriedReceiver final : public CarriedEnd<WireReceiver> {
 public:
  CarriedReceiver(std::unique_ptr<WireEnd> end, std::string offer)
      : CarriedEnd(std::move(end)), offer_(std::move(offer)) {}
  const std::string& offer() const override { return offer_; }
  void receive(size_t offset, size_t bytes) override { give({nullptr, offset, bytes}); }

 private:
  const std::string offer_;
};

}  // namespace

std::unique_ptr<WireSender> make_sender(std::unique_ptr<WireEnd> end) {
  return std::make_unique<CarriedSender>(std::move(end));
}

std::unique_ptr<WireReceiver> make_receiver(std::unique_ptr<WireEnd> end, std::string offer) {
  return std::make_unique<CarriedReceiver>(std::move(end), std::move(offer));
}

Status check_within(const WireValue& value, size_t memory_bytes, std::string_view subject) {
  if (value.bytes <= memory_bytes && value.offset <= memory_bytes - value.bytes) return {};
  return invalid_argument(cat(subject, ": expected a value within ", memory_bytes,
                              " bytes of memory, received ", value.bytes, " bytes at ",
                              value.offset));
}

Result<std::unique_ptr<WireEnd>> WireEnd::start(CudaDevice& device, std::string subject,
                                                std::unique_ptr<WireCarrier> carrier,
                                                std::chrono::milliseconds stall) {
  std::unique_ptr<WireEnd> end(new WireEnd(device, std::move(subject), std::move(carrier), stall));
  LEAT_RETURN_IF_ERROR(end->check(cudaStreamCreateWithFlags(&end->stream_, cudaStreamNonBlocking),
                                  "cudaStreamCreateWithFlags"));
  end->thread_ = std::thread([raw = end.get()] { raw->run(); });
  return end;
}

WireEnd::WireEnd(CudaDevice& device, std::string subject, std::unique_ptr<WireCarrier> carrier,
                 std::chrono::milliseconds stall)
    : device_(device), subject_(std::move(subject)), carrier_(std::move(carrier)), stall_(stall) {}

WireEnd::~WireEnd() {
  if (thread_.joinable()) {
    stop(cancelled(cat(subject_, ": it is closed")));
    thread_.join();
  }
  for (const Mark& mark : marks_) (void)cudaEventDestroy(mark.event);
  for (cudaEvent_t event : free_events_) (void)cudaEventDestroy(event);
  if (stream_) (void)cudaStreamDestroy(stream_);
}

Status WireEnd::connect(SteadyClock::time_point deadline) {
  {
    std::unique_lock lock(mutex_);
    connects_ = true;
    changed_.notify_all();
    if (changed_.wait_until(lock, deadline, [this] { return connected_ || ended_; }))
      return ended_ ? done_.status() : Status();
  }
  const Status late = deadline_exceeded(cat(subject_, ": the other end was not connected in time"));
  stop(late);
  return late;
}

void WireEnd::give(const WireValue& value) {
  {
    const std::lock_guard lock(mutex_);
    if (!cause_.ok() || ended_) return;
    given_.push_back(value);
  }
  changed_.notify_all();
}

void WireEnd::stop(const Status& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (cause_.ok()) cause_ = cause;
  }
  changed_.notify_all();
}

void WireEnd::run() {
  while (true) {
    const Result<bool> moved = step();
    if (!moved.ok()) return end(moved.status());
    if (!wait_for_more(*moved)) break;
  }
  Status cause;
  {
    const std::lock_guard lock(mutex_);
    cause = cause_;
  }
  end(cause);
}

Result<bool> WireEnd::step() {
  bool connects = false, connected = false;
  {
    const std::lock_guard lock(mutex_);
    connects = connects_;
    connected = connected_;
  }
  if (!connects) return false;
  if (!connected) {
    LEAT_ASSIGN_OR_RETURN(connected, carrier_->connect());
    if (!connected) return false;
    const std::lock_guard lock(mutex_);
    connected_ = true;
    changed_.notify_all();
  }
  LEAT_ASSIGN_OR_RETURN(const bool issued, issue_given());
  LEAT_ASSIGN_OR_RETURN(const bool reached, look_at_marks());
  LEAT_RETURN_IF_ERROR(carrier_->look());
  return issued || reached;
}

Result<bool> WireEnd::issue_given() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), given_.begin(), given_.end());
    given_.clear();
  }
  bool moved = false;
  while (!waiting_.empty()) {
    if (!issuing_) {
      if (marks_.empty()) moved_ = looked_ = SteadyClock::now();
      LEAT_RETURN_IF_ERROR(carrier_->issue(waiting_.front(), stream_));
      issuing_ = true;
    }
    LEAT_ASSIGN_OR_RETURN(const bool issued, carrier_->issued());
    if (!issued) break;
    issuing_ = false;
    LEAT_RETURN_IF_ERROR(mark(waiting_.front().bytes));
    waiting_.pop_front();
    moved = true;
  }
  return moved;
}

Status WireEnd::mark(size_t bytes) {
  cudaEvent_t event = nullptr;
  if (!free_events_.empty()) {
    event = free_events_.back();
    free_events_.pop_back();
  } else {
    LEAT_RETURN_IF_ERROR(check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                               "cudaEventCreateWithFlags"));
  }
  marks_.push_back({event, bytes});
  return check(cudaEventRecord(event, stream_), "cudaEventRecord");
}

Result<bool> WireEnd::look_at_marks() {
  uint64_t reached = 0;
  cudaError_t error = cudaSuccess;
  while (!marks_.empty() && (error = cudaEventQuery(marks_.front().event)) == cudaSuccess) {
    free_events_.push_back(marks_.front().event);
    marks_.pop_front();
    ++reached;
  }
  if (reached > 0) {
    values_done_ += reached;
    moved_ = SteadyClock::now();
    done_.signal(values_done_);
  }
  if (error != cudaSuccess && error != cudaErrorNotReady) return check(error, "cudaEventQuery");
  LEAT_RETURN_IF_ERROR(look_for_stall());
  return reached > 0;
}

Status WireEnd::look_for_stall() {
  const auto now = SteadyClock::now();
  const auto since = now - std::exchange(looked_, now);
  // A process that stood still itself says nothing of the other end.
  if (since > kStoodStill) moved_ += since;
  if (!is_busy() || now - moved_ <= stall_) return {};
  size_t bytes = 0;
  for (const Mark& mark : marks_) bytes += mark.bytes;
  for (const WireValue& value : waiting_) bytes += value.bytes;
  const size_t missing = marks_.size() + waiting_.size();
  return unavailable(cat(subject_, ": expected a value to be done within ", stall_.count(),
                         " ms, received none; ", missing, " of ", values_done_ + missing,
                         " values are missing, ", bytes, " bytes"));
}

bool WireEnd::wait_for_more(bool moved) {
  std::unique_lock lock(mutex_);
  if (moved) return cause_.ok();
  const auto stirs = [this] { return !cause_.ok() || !given_.empty(); };
  if (!connects_) {
    changed_.wait(lock, [this] { return !cause_.ok() || connects_; });
  } else if (connected_ && !is_busy()) {
    if (carrier_->looks())
      changed_.wait_for(lock, kIdleLook, stirs);
    else
      changed_.wait(lock, stirs);
  } else if (connected_ && SteadyClock::now() - moved_ < kWireSpin) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  } else {
    changed_.wait_for(lock, kWirePause, stirs);
  }
  return cause_.ok();
}

// The callbacks of the timeline may free memory: the stream reads and writes it no longer by then.
void WireEnd::end(const Status& failure) {
  if (std::exchange(ended_here_, true)) return;
  {
    const std::lock_guard lock(mutex_);
    if (cause_.ok()) cause_ = failure;
    given_.clear();
  }
  waiting_.clear();
  issuing_ = false;
  carrier_->abort();
  if (const cudaError_t error = cudaStreamSynchronize(stream_); error != cudaSuccess)
    (void)check(error, "cudaStreamSynchronize");
  done_.fail(failure);
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

// An error of a stream is one of the device.
Status WireEnd::check(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return {};
  const Status status = cuda_status(error, cat(subject_, ": ", call));
  device_.fail(status);
  return status;
}

}  // namespace leat::cuda
