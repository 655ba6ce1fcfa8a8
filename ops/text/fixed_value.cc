#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/graph/limits.h"
#include "ops/text/fix_inputs.h"

namespace leat {
namespace {

// Reads numbers and lists of them, and collects the elements in order.
class FixedValueParser {
 public:
  explicit FixedValueParser(std::string_view text) : rest_(text) {}

  Result<Tensor> run() {
    const bool read = value(0);
    skip();
    if (!read || !rest_.empty() || (bools_ > 0 && bools_ != reals_.size()))
      return invalid_argument(
          "expected a number, true, false, or equally long lists of them, as "
          "in [[1, 2], [3, 4]]");
    const Shape shape(sizes_);
    if (bools_ > 0) return filled<bool>(shape);
    return real_ ? filled<double>(shape) : filled<int64_t>(shape);
  }

 private:
  void skip() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  }
  bool accept(std::string_view token) {
    skip();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  bool value(size_t depth) {
    if (accept("[")) return list(depth);
    // A number among lists.
    if (depth < sizes_.size() || reals_.size() >= limits::kListLength) return false;
    if (depth > deepest_ && !reals_.empty()) return false;
    deepest_ = depth;
    for (const auto& [word, truth] : {std::pair("true", 1), std::pair("false", 0)}) {
      if (!accept(word)) continue;
      reals_.push_back(truth);
      ints_.push_back(truth);
      ++bools_;
      return true;
    }
    return number();
  }

  bool number() {
    skip();
    const size_t end = std::min(rest_.size(), rest_.find_first_of(",] "));
    const char *first = rest_.data(), *last = first + end;
    int64_t whole = 0;
    double real = 0;
    const auto [real_end, real_failure] = std::from_chars(first, last, real);
    if (end == 0 || real_failure != std::errc() || real_end != last) return false;
    const auto [whole_end, failure] = std::from_chars(first, last, whole);
    if (failure != std::errc() || whole_end != last) real_ = true;
    reals_.push_back(real);
    ints_.push_back(whole);
    rest_.remove_prefix(end);
    return true;
  }

  // The first list of a depth decides the size of all others.
  bool list(size_t depth) {
    if (depth >= static_cast<size_t>(limits::kRank)) return false;
    const bool first = depth == sizes_.size();
    if (first && !reals_.empty()) return false;
    if (first) sizes_.push_back(0);
    int64_t count = 0;
    if (!accept("]")) {
      do {
        if (!value(depth + 1)) return false;
        ++count;
      } while (accept(","));
      if (!accept("]")) return false;
    }
    if (!closed(depth)) {
      closed_.resize(std::max(closed_.size(), depth + 1), false);
      closed_[depth] = true;
      sizes_[depth] = count;
    }
    return sizes_[depth] == count;
  }
  bool closed(size_t depth) const { return depth < closed_.size() && closed_[depth]; }

  template <typename T>
  Tensor filled(const Shape& shape) const {
    Tensor out(DTypeOf<T>::value, shape);
    for (size_t i = 0; i < reals_.size(); ++i)
      out.data<T>()[i] =
          std::is_same_v<T, double> ? static_cast<T>(reals_[i]) : static_cast<T>(ints_[i]);
    return out;
  }

  std::string_view rest_;
  std::vector<double> reals_;
  std::vector<int64_t> ints_;
  std::vector<int64_t> sizes_;
  std::vector<bool> closed_;
  size_t bools_ = 0, deepest_ = 0;
  bool real_ = false;
};

}  // namespace

Result<Tensor> parse_fixed_value(std::string_view text) { return FixedValueParser(text).run(); }

}  // namespace leat
