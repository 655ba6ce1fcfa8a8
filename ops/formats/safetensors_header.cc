#include "ops/formats/safetensors_header.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "devices/base/text.h"
#include "ops/formats/elements.h"

namespace leat {
namespace {

using Json = nlohmann::json;
using Entry = SafeTensorsIndex::Entry;
using NamedTensor = std::pair<const std::string, Tensor>;

constexpr std::string_view kMetadata = "__metadata__";

// The type with this name in the format, such as "F32"; invalid if DType has none.
DType dtype_from_safetensors_name(std::string_view name) {
  if (name.empty()) return DType::invalid;
  for (int i = 1; i < kDTypeCount; ++i) {
    if (dtype_safetensors_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return DType::invalid;
}

// Characters of the header, with a count of those that the parser has read.
class CountedChars {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountedChars(const char* at, uint64_t* count) : at_(at), count_(count) {}
  const char& operator*() const { return *at_; }
  CountedChars& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  bool operator==(const CountedChars& other) const { return at_ == other.at_; }
  bool operator!=(const CountedChars& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  uint64_t* count_;
};

// Takes the parser's events one by one and builds only what the format has: a deeper nesting,
// another key or another type ends the parse at once.
class HeaderHandler final : public nlohmann::json_sax<Json> {
 public:
  HeaderHandler(std::string_view subject, const uint64_t& position)
      : subject_(subject), position_(position) {}

  const Status& status() const { return status_; }
  SafeTensorsIndex take() { return std::move(index_); }

  // The format has three kinds of objects: the file, the metadata, and the entry of a tensor.
  bool start_object(size_t) override {
    switch (place_) {
      case Place::start:
        return go(Place::file);
      case Place::entry:
        return name_ == kMetadata ? go(Place::metadata) : start_tensor();
      default:
        return wrong("an object");
    }
  }

  bool key(string_t& key) override {
    if (place_ == Place::file) return file_key(key);
    if (place_ == Place::metadata) return metadata_key(key);
    return tensor_key(key);
  }

  // An object ends where a key could follow. The end of a tensor's entry checks the entry.
  bool end_object() override {
    if (place_ == Place::file) return go(Place::end);
    if (place_ == Place::tensor && !end_tensor()) return false;
    return go(Place::file);
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata_value) {
      index_.metadata[metadata_name_] = std::move(value);
      return go(Place::metadata);
    }
    if (place_ != Place::dtype) return wrong("a string");
    entry_.dtype = dtype_from_safetensors_name(value);
    if (entry_.dtype != DType::invalid) return go(Place::tensor);
    status_ = unimplemented(cat("'", subject_, "': tensor '", name_.substr(0, 100),
                                "': expected an element type such as F32, received '",
                                value.substr(0, 40), "' near byte ", position()));
    return false;
  }

  bool start_array(size_t) override {
    if (place_ == Place::shape) return go(Place::shape_item);
    if (place_ == Place::offsets) return go(Place::offsets_item);
    return wrong("an array");
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape_item) return shape_item(value);
    if (place_ == Place::offsets_item) return offsets_item(value);
    return wrong("a number");
  }

  // The shape may have no sizes, which is a scalar. The offsets are always two.
  bool end_array() override {
    if (place_ == Place::offsets_item && offsets_ != 2) return refuse("expected two data_offsets");
    return go(Place::tensor);
  }

  bool null() override { return wrong("null"); }
  bool boolean(bool) override { return wrong("a boolean"); }
  bool number_integer(number_integer_t) override { return wrong("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return wrong("a fraction"); }
  bool binary(binary_t&) override { return wrong("binary data"); }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: what": only the end is
    // useful.
    const std::string_view what = error.what();
    const size_t colon = what.find(": ");
    status_ = invalid_argument(
        cat("'", subject_, "': expected JSON in the header, received an error near byte ",
            position(), ": ", what.substr(colon == std::string_view::npos ? 0 : colon + 2, 200)));
    return false;
  }

 private:
  // The place is what the parser expects next. `file`, `metadata` and `tensor` expect a key, and
  // the others the value after one.
  enum class Place {
    start,
    file,
    entry,
    metadata,
    metadata_value,
    tensor,
    dtype,
    shape,
    shape_item,
    offsets,
    offsets_item,
    end
  };

  bool go(Place place) {
    place_ = place;
    return true;
  }
  uint64_t position() const { return kSafeTensorsPrefix + position_; }

  // Ends the parse with an error: the parser stops when an event returns false. Names come from the
  // file, so a message shows their first 100 bytes only.
  bool refuse(std::string_view what) {
    const bool in_tensor = place_ != Place::start && place_ != Place::file;
    status_ = invalid_argument(
        cat("'", subject_, "': ", in_tensor ? cat("tensor '", name_.substr(0, 100), "': ") : "",
            what, " near byte ", position()));
    return false;
  }
  bool wrong(std::string_view received) {
    return refuse(cat("expected ", expected(), ", received ", received));
  }
  // The words of a message for what the place expects.
  std::string_view expected() const {
    switch (place_) {
      case Place::start:
      case Place::entry:
        return "an object";
      case Place::metadata_value:
      case Place::dtype:
        return "a string";
      case Place::shape:
      case Place::offsets:
        return "an array";
      case Place::shape_item:
      case Place::offsets_item:
        return "a number that is not negative";
      default:
        return "a key";
    }
  }

  bool file_key(const std::string& key) {
    if (key == kMetadata ? has_metadata_ : index_.entries.contains(key)) {
      return refuse(cat("expected every name once, received '", key.substr(0, 100), "' twice"));
    }
    // The limit counts while the header is read, so a hostile header cannot fill the memory first.
    if (index_.entries.size() == kSafeTensorsCount) {
      return refuse(cat("expected at most ", kSafeTensorsCount, " tensors"));
    }
    has_metadata_ |= key == kMetadata;
    name_ = key;
    return go(Place::entry);
  }

  bool metadata_key(const std::string& key) {
    if (index_.metadata.contains(key)) {
      return refuse(cat("expected every key once, received '", key.substr(0, 100), "' twice"));
    }
    metadata_name_ = key;
    return go(Place::metadata_value);
  }

  bool start_tensor() {
    entry_ = Entry();
    seen_ = {};
    rank_ = offsets_ = 0;
    return go(Place::tensor);
  }

  // The three keys of an entry may come in any order, each once.
  bool tensor_key(const std::string& key) {
    static constexpr std::array<std::string_view, 3> kKeys = {"dtype", "shape", "data_offsets"};
    static constexpr std::array<Place, 3> kPlaces = {Place::dtype, Place::shape, Place::offsets};
    const size_t which =
        static_cast<size_t>(std::find(kKeys.begin(), kKeys.end(), key) - kKeys.begin());
    if (which == kKeys.size()) {
      return refuse(
          cat("expected dtype, shape or data_offsets, received '", key.substr(0, 100), "'"));
    }
    if (seen_[which]) return refuse(cat("expected ", key, " once, received it twice"));
    seen_[which] = true;
    return go(kPlaces[which]);
  }

  bool shape_item(uint64_t value) {
    if (rank_ == kMaxRank) return refuse(cat("expected at most ", kMaxRank, " sizes"));
    if (value > uint64_t{1} << 62)
      return refuse(cat("expected a size of at most 2^62, received ", value));
    dims_[rank_++] = static_cast<int64_t>(value);
    return true;
  }

  bool offsets_item(uint64_t value) {
    if (offsets_ == 2) return refuse("expected two data_offsets");
    (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    return true;
  }

  // Takes the entry of a tensor. Its offsets are compared with its shape later, by check_offsets().
  bool end_tensor() {
    if (!seen_[0] || !seen_[1] || !seen_[2]) {
      return refuse("expected dtype, shape and data_offsets, one is missing");
    }
    const auto shape = Shape::checked({dims_.data(), rank_});
    if (!shape) return refuse("expected sizes whose product is at most 2^62");
    entry_.shape = *shape;
    index_.entries.emplace(name_, entry_);
    return true;
  }

  std::string_view subject_;
  const uint64_t& position_;
  Status status_;
  SafeTensorsIndex index_;
  Place place_ = Place::start;
  bool has_metadata_ = false;
  std::string name_, metadata_name_;
  Entry entry_;
  std::array<bool, 3> seen_{};
  std::array<int64_t, kMaxRank> dims_{};
  size_t rank_ = 0;
  int offsets_ = 0;
};

// Checks that the tensors, in order of offset, are contiguous from the first to the last byte of
// the data.
Status check_offsets(const SafeTensorsIndex& index, uint64_t data_bytes, std::string_view subject) {
  std::vector<const std::pair<const std::string, Entry>*> order;
  order.reserve(index.entries.size());
  for (const auto& item : index.entries) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t at = 0;
  for (const auto* item : order) {
    const auto& [name, entry] = *item;
    const auto bytes = bytes_of(entry.dtype, entry.shape);
    const auto refuse = [&, &name = name, &entry = entry](std::string_view expected) {
      return invalid_argument(cat("'", subject, "': tensor '", name.substr(0, 100), "' ",
                                  entry.dtype, entry.shape, ": expected ", expected,
                                  ", received data_offsets [", entry.begin, ",", entry.end, "]"));
    };
    // An empty tensor has equal offsets. The sort puts it before the tensor that begins there.
    if (!bytes || entry.end < entry.begin ||
        entry.end - entry.begin != static_cast<uint64_t>(*bytes)) {
      return refuse(bytes ? cat(*bytes, " bytes") : "fewer than 2^63 bytes");
    }
    if (entry.begin != at) {
      return refuse(cat("no ", entry.begin < at ? "overlap" : "hole", ": a start at ", at));
    }
    if (entry.end > data_bytes) return refuse(cat("an end within the ", data_bytes, " data bytes"));
    at = entry.end;
  }
  if (at == data_bytes) return {};
  return invalid_argument(cat("'", subject, "': expected ", at,
                              " data bytes, which is where the last tensor ends, received ",
                              data_bytes));
}

Status check_content(const SafeTensors& content) {
  for (const auto& [name, tensor] : content.tensors) {
    if (!tensor.valid()) {
      return invalid_argument(
          cat("tensor '", name, "': expected a tensor, received an invalid one"));
    }
  }
  return {};
}

// The text as a JSON string, with quotes. The library throws for text that is not UTF-8.
Result<std::string> json_text(std::string_view text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    return invalid_argument(cat("expected names and metadata in UTF-8, received '", text, "'"));
  }
}

// Formats "__metadata__":{...}, keys in order.
Result<std::string> format_metadata(const std::map<std::string, std::string>& metadata) {
  std::string json;
  for (const auto& [key, value] : metadata) {
    LEAT_ASSIGN_OR_RETURN(const std::string key_text, json_text(key));
    LEAT_ASSIGN_OR_RETURN(const std::string value_text, json_text(value));
    json += cat(json.empty() ? "" : ",", key_text, ":", value_text);
  }
  return cat("\"", kMetadata, "\":{", json, "}");
}

}  // namespace

Result<SafeTensorsIndex> parse_safetensors_header(std::string_view header, uint64_t data_bytes,
                                                  std::string_view subject) {
  // JSON would allow blanks before the object, but the format does not.
  if (!header.starts_with('{')) {
    return invalid_argument(cat("'", subject, "': expected '{' at byte 8, received ",
                                header.empty() ? "no header" : "something else"));
  }
  uint64_t position = 0;
  HeaderHandler handler(subject, position);
  const bool parsed =
      Json::sax_parse(CountedChars(header.data(), &position),
                      CountedChars(header.data() + header.size(), &position), &handler);
  if (!handler.status().ok()) return handler.status();
  if (!parsed)
    return internal_error(cat("'", subject, "': the header was refused without a reason"));
  SafeTensorsIndex index = handler.take();
  LEAT_RETURN_IF_ERROR(check_offsets(index, data_bytes, subject));
  // The header counts offsets from the data, the index from the beginning of the file.
  for (auto& [name, entry] : index.entries) {
    entry.begin += kSafeTensorsPrefix + header.size();
    entry.end += kSafeTensorsPrefix + header.size();
  }
  return index;
}

std::vector<size_t> safetensors_order(std::span<const ArrayEntry> entries) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    const ArrayEntry &a = entries[i], &b = entries[j];
    const size_t size_a = dtype_size(a.dtype), size_b = dtype_size(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  return order;
}

Result<std::string> format_safetensors_header(std::span<const ArrayEntry> entries,
                                              std::span<const size_t> order,
                                              const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    LEAT_ASSIGN_OR_RETURN(const std::string text, format_metadata(metadata));
    json += text;
  }
  uint64_t at = 0;
  for (const size_t index : order) {
    const ArrayEntry& entry = entries[index];
    if (entry.name == kMetadata) {
      return invalid_argument(
          "expected names of tensors, received '__metadata__', which is reserved");
    }
    if (dtype_safetensors_name(entry.dtype).empty()) {
      return invalid_argument(cat("tensor '", entry.name,
                                  "': expected a type that safetensors has, ", "received ",
                                  entry.dtype));
    }
    LEAT_ASSIGN_OR_RETURN(const std::string name_text, json_text(entry.name));
    json += cat(json.size() > 1 ? "," : "", name_text, ":{\"dtype\":\"",
                dtype_safetensors_name(entry.dtype), "\",\"shape\":", entry.shape,
                ",\"data_offsets\":[", at, ",", at + entry.bytes(), "]}");
    at += entry.bytes();
  }
  json += '}';
  // With spaces up to a multiple of 8, the data begin at one as well, since the prefix has 8 bytes.
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > kSafeTensorsHeaderBytes) {
    return invalid_argument(cat("expected a header of at most ", kSafeTensorsHeaderBytes,
                                " bytes, names and metadata make it ", json.size()));
  }
  const uint64_t size = json.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + json;
}

Result<FormattedSafeTensors> format_safetensors_header(const SafeTensors& content) {
  LEAT_RETURN_IF_ERROR(check_content(content));
  std::vector<ArrayEntry> entries;
  for (const auto& [name, tensor] : content.tensors)
    entries.push_back({name, tensor.dtype(), tensor.shape()});
  FormattedSafeTensors out;
  const std::vector<size_t> order = safetensors_order(entries);
  LEAT_ASSIGN_OR_RETURN(out.header, format_safetensors_header(entries, order, content.metadata));
  for (const size_t index : order)
    out.data.push_back(bytes_of(content.tensors.at(entries[index].name)));
  return out;
}

}  // namespace leat
