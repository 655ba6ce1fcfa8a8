#include "daemon/training/evaluation_rows.h"

#include <charconv>
#include <span>
#include <string_view>

#include "daemon/base/json_line.h"
#include "daemon/metrics/metrics_lines.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kMostRows = uint64_t{64} << 20;  // bytes of the file

}  // namespace

std::string evaluation_row(const ValidationResult& result, std::optional<int64_t> step) {
  JsonLine line;
  line.add("step", step);
  for (const auto& [name, value] : result.numbers) line.add(name, value);
  return line.text();
}

Status EvaluationRows::open() {
  LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(path_));
  if (!there) return {};
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files_, path_, kMostRows));
  text_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text_.erase(text_.rfind('\n') + 1);
  std::string_view rest = text_;
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    steps_.insert(MetricsLine::parse(rest.substr(0, end)).step);
    rest.remove_prefix(end + 1);
  }
  return {};
}

std::optional<double> EvaluationRows::last(std::string_view key) const {
  const size_t begin = text_.size() < 2 ? std::string::npos : text_.rfind('\n', text_.size() - 2);
  const std::string_view row =
      std::string_view(text_).substr(begin == std::string::npos ? 0 : begin + 1);
  const std::string name = cat("\"", key, "\": ");
  const size_t at = row.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view number = row.substr(at + name.size());
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

Status EvaluationRows::add(const ValidationResult& result) {
  const std::string text = text_ + evaluation_row(result, result.step);
  LEAT_RETURN_IF_ERROR(write_file_atomically(files_, path_, std::as_bytes(std::span(text))));
  text_ = text;
  steps_.insert(result.step);
  return {};
}

}  // namespace leat
