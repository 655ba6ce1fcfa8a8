// An end of a wire of a GPU: a stream of its own, so that values wait for no other work, and a
// thread that gives the stream its work, looks how far it has come, and ends it.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/device.h"
#include "devices/core/device_wire.h"

namespace leat::cuda {

class CudaDevice;

// A value of a wire: where this end has it or wants it, and its offset in the receiver's memory.
struct WireValue {
  const void* from = nullptr;  // of the sending end
  size_t offset = 0, bytes = 0;
};

// Ok if the value lies within a memory of so many bytes, else invalid_argument.
Status check_within(const WireValue& value, size_t memory_bytes, std::string_view subject);

// The way in which the values of an end travel. Threads: that of its end.
class WireCarrier {
 public:
  virtual ~WireCarrier() = default;
  // Goes on with connecting, without waiting for the other end. True once both ends are connected.
  virtual Result<bool> connect() { return true; }
  // Begins to enqueue work in the stream that takes the value to the other end, or from it.
  virtual Status issue(const WireValue& value, cudaStream_t stream) = 0;
  // True once that work is in the stream. Asked until then, before the next value.
  virtual Result<bool> issued() { return true; }
  // The failure of the other end, if one is known.
  virtual Status look() { return {}; }
  // Whether look() can find anything.
  virtual bool looks() const { return false; }
  // Called once, when the wire ends: work in the stream waits for the other end no longer.
  virtual void abort() {}
};

// A value that is not done so long after its turn has come fails its wire: the other end may hang
// without a word from the library. On a working machine a value of 1 GiB takes a second even over a
// network of 10 Gbit/s.
inline constexpr std::chrono::milliseconds kWireStall = std::chrono::seconds(10);

// Threads: any, except that one thread at a time gives values.
class WireEnd {
 public:
  // `subject` begins messages: "gpu:0: the sending end of a wire by CUDA IPC".
  static Result<std::unique_ptr<WireEnd>> start(CudaDevice& device, std::string subject,
                                                std::unique_ptr<WireCarrier> carrier,
                                                std::chrono::milliseconds stall = kWireStall);
  ~WireEnd();

  // As DeviceWire has them.
  Status connect(std::chrono::steady_clock::time_point deadline);
  Timeline& done() { return done_; }
  void stop(const Status& cause);
  // Takes a value. Does not block.
  void give(const WireValue& value);

 private:
  WireEnd(CudaDevice& device, std::string subject, std::unique_ptr<WireCarrier> carrier,
          std::chrono::milliseconds stall);
  void run();
  // Does all that can be done at the moment. True if that was anything; or the wire's failure.
  Result<bool> step();
  Result<bool> issue_given();
  Result<bool> look_at_marks();
  Status look_for_stall();
  bool is_busy() const { return issuing_ || !marks_.empty(); }
  // Waits until there is something to do. False if the wire is to end.
  bool wait_for_more(bool moved);
  void end(const Status& failure);
  Status mark(size_t bytes);
  Status check(cudaError_t error, std::string_view call);

  CudaDevice& device_;
  const std::string subject_;
  const std::unique_ptr<WireCarrier> carrier_;
  const std::chrono::milliseconds stall_;
  cudaStream_t stream_ = nullptr;

  // Of the thread: values whose turn has not come, of which the first may be one that is issued and
  // not in the stream yet; and those in the stream, each with the event behind it.
  struct Mark {
    cudaEvent_t event;
    size_t bytes;
  };
  std::deque<WireValue> waiting_;
  bool issuing_ = false;
  std::deque<Mark> marks_;
  std::vector<cudaEvent_t> free_events_;
  uint64_t values_done_ = 0;
  std::chrono::steady_clock::time_point moved_;   // when the turn of the next value to be done came
  std::chrono::steady_clock::time_point looked_;  // for a stall, the last time
  bool ended_here_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WireValue> given_;
  bool connects_ = false, connected_ = false, ended_ = false;
  Status cause_;  // not ok: the wire is to end
  Timeline done_;
  std::thread thread_;  // last, because it uses the members above
};

// The sending end of a wire whose values `end` carries; and a receiving end that takes part in each
// transfer, with its offer.
std::unique_ptr<WireSender> make_sender(std::unique_ptr<WireEnd> end);
std::unique_ptr<WireReceiver> make_receiver(std::unique_ptr<WireEnd> end, std::string offer);

}  // namespace leat::cuda
