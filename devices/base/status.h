// Errors as values. Every function at the border of a folder, and every completion, returns Status
// or Result<T>. Exceptions of libraries end in the file that called the library.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace leat {

// Eight codes, each named by what the caller can do about it. The numbers go over the wire and into
// files, so a number never changes.
enum class Code : uint8_t {
  ok = 0,
  invalid_argument,     // the request is wrong and stays wrong: change it
  failed_precondition,  // a right request in the wrong state: change the state first
  unimplemented,        // not built: choose another way
  resource_exhausted,   // no room: free something or ask for less
  unavailable,          // the other side is gone: retry elsewhere or later
  deadline_exceeded,    // took too long: it may or may not have happened
  cancelled,            // the caller, or its owner, ended it
  internal,             // a bug of this program: report it
};

// "invalid_argument"; "unknown" for a number that is no code.
std::string_view code_name(Code code);

// A code and a message. The message says subject, expectation and what was received. An object is
// one pointer, which is null for ok.
// Threads: a Status is a value; copies share an immutable message.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // Bytes of the message that are not UTF-8 are escaped. With Code::ok the message is dropped.
  Status(Code code, std::string message);

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::ok; }
  // Empty for ok.
  const std::string& message() const;
  // "invalid_argument: message", or "ok".
  std::string to_string() const;

  // The same error with "; while <what>" behind its message: each layer says once what it was
  // doing. Ok stays ok.
  Status while_doing(std::string_view what) const;

  // Callers write ok(), so that no reader has to guess which way a condition reads.
  explicit operator bool() const = delete;

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

std::ostream& operator<<(std::ostream& out, const Status& status);

// One function for each code.
Status invalid_argument(std::string message);
Status failed_precondition(std::string message);
Status unimplemented(std::string message);
Status resource_exhausted(std::string message);
Status unavailable(std::string message);
Status deadline_exceeded(std::string message);
Status cancelled(std::string message);
Status internal_error(std::string message);

// A T, or the Status that says why there is none. REQUIRES: the Status that it is made of is not
// ok.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT: implicit
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  // Ok if there is a value.
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  // The value. REQUIRES: ok(), which is not checked.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace leat

#define LEAT_CONCAT_INNER(a, b) a##b
#define LEAT_CONCAT(a, b) LEAT_CONCAT_INNER(a, b)

// Returns from the enclosing function if `expr`, a Status, is not ok.
#define LEAT_RETURN_IF_ERROR(expr)               \
  do {                                           \
    ::leat::Status leat_status_ = (expr);        \
    if (!leat_status_.ok()) return leat_status_; \
  } while (false)

// LEAT_ASSIGN_OR_RETURN(auto x, f()) declares x with the value of the Result of f(), or returns its
// error from the enclosing function.
#define LEAT_ASSIGN_OR_RETURN(declaration, expr) \
  LEAT_ASSIGN_OR_RETURN_INNER(LEAT_CONCAT(leat_result_, __LINE__), declaration, expr)
#define LEAT_ASSIGN_OR_RETURN_INNER(result, declaration, expr) \
  auto result = (expr);                                        \
  if (!result.ok()) return result.status();                    \
  declaration = std::move(result).value()
