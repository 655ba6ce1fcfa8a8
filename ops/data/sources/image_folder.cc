// A folder of images, with a folder in it for each class: train/cat/1.jpg, train/dog/7.png. The
// columns are `image` and `labels`. Classes are numbered in the order of their names, and rows go
// by class and then by the name of the file.
#include <algorithm>

#include "devices/base/crc32c.h"
#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/image_column.h"

namespace leat {
namespace {

constexpr SourceOption kOwnFolderOptions[] = {kOnBadRecordOption};
constexpr auto kFolderOptions = with_image_options(kOwnFolderOptions);
constexpr size_t kLabelCell = 1;  // the column behind that of the images

// Passes the classes in the order of their names, each with its images. Files beside the folders of
// the classes, and folders without images, are none.
Status list_classes(Files& files, const std::string& folder,
                    const std::function<void(const std::string& name,
                                             const std::vector<std::string>& images)>& take) {
  LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.list(folder));
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;
    const auto inside = files.list(cat(folder, "/", name));
    if (!inside.ok()) {
      // A file beside the classes. Anything else is a folder that cannot be read.
      if (files.open(cat(folder, "/", name)).ok()) continue;
      return inside.status();
    }
    std::vector<std::string> images;
    std::copy_if(inside->begin(), inside->end(), std::back_inserter(images), is_image_name);
    if (!images.empty()) take(name, images);
  }
  return {};
}

class ImageFolder final : public Source {
 public:
  explicit ImageFolder(ImageColumn column) : column_(std::move(column)) {}

  static Result<std::unique_ptr<Source>> open(const SourceSetup& setup) {
    LEAT_ASSIGN_OR_RETURN(ImageColumn column, ImageColumn::make(setup.options));
    auto source = std::make_unique<ImageFolder>(std::move(column));
    const SourceFile& place = setup.places.at(0);
    source->folder_ = place.path;
    source->name_ = place.name;
    source->files_ = &setup.files;
    LEAT_RETURN_IF_ERROR(
        list_classes(setup.files, place.path,
                     [&](const std::string& name, const std::vector<std::string>& images) {
                       source->add_class(name, images);
                     }));
    if (setup.options.text("on_bad_record") == "skip") source->leave_out_bad();
    source->info_ = {static_cast<int64_t>(source->labels_.size()),
                     {source->column_.info("image"), {"labels", DType::i64, Shape{}}}};
    if (source->info_.count > 0) return std::unique_ptr<Source>(std::move(source));
    return invalid_argument(
        cat("'", place.name, "': expected a folder for each class, with images ",
            "named .jpg, .jpeg, .png or .webp, found none",
            source->skipped_ > 0 ? cat(" that is good; the first is ", source->first_skipped_)
                                 : std::string()));
  }

  uint64_t memory(const std::vector<bool>&) const override {
    return names_.size() + 8 * (begins_.size() + labels_.size());
  }
  Status attach(Files& files) override {
    files_ = &files;
    return {};
  }
  const std::byte* in_memory(size_t column, int64_t row) const override {
    if (column != kLabelCell) return nullptr;
    return reinterpret_cast<const std::byte*>(&labels_[static_cast<size_t>(row)]);
  }
  std::string row_name(int64_t row) const override {
    return cat("'", name_, "/", path_in_folder(row), "'");
  }

  Status read(int64_t row, std::span<const RowPart> parts) const override {
    return read_drawn(row, RowKey{0, static_cast<uint64_t>(row)}, parts);
  }
  Status read_drawn(int64_t row, const RowKey& key, std::span<const RowPart> parts) const override {
    for (const RowPart& part : parts) {
      if (part.column == kLabelCell) {
        std::copy_n(in_memory(kLabelCell, row) + part.offset, part.out.size(), part.out.data());
        continue;
      }
      const Status read = read_image(row, key, part);
      if (!read.ok()) return Status(read.code(), cat(row_name(row), ": ", read.message()));
    }
    return {};
  }

  void advise(int64_t row, std::span<const size_t> columns, ReadAdvice advice) const override {
    if (std::all_of(columns.begin(), columns.end(), [](size_t c) { return c == kLabelCell; }))
      return;
    const auto path = resolve_below(folder_, path_in_folder(row));
    if (!path.ok()) return;
    const auto file = files_->open(*path);
    if (file.ok()) (*file)->advise(0, (*file)->size(), advice);
  }

  bool takes_advice() const override { return true; }

  // The labels are numbers of classes that are there: only their number matters.
  Status check_classes(Files&, const ClassCheck& check, size_t column,
                       const ColumnPart& view) override {
    if (column != kLabelCell) return invalid_argument(cat("'", view.info.name, "': no classes"));
    for (size_t row = 0; row < labels_.size(); ++row) {
      if (!check.allows(labels_[row]))
        return check.refuse(cat(row_name(static_cast<int64_t>(row)), ": label"), labels_[row]);
    }
    return {};
  }

  std::vector<std::string> class_names(size_t column) const override {
    return column == kLabelCell ? classes_ : std::vector<std::string>();
  }

 private:
  void add_class(const std::string& name, const std::vector<std::string>& images) {
    const auto label = static_cast<int64_t>(classes_.size());
    classes_.push_back(name);
    for (const std::string& image : images) {
      begins_.push_back(names_.size());
      names_ += image;
      labels_.push_back(label);
    }
  }

  std::string path_in_folder(int64_t row) const {
    const auto at = static_cast<size_t>(row);
    const uint64_t begin = begins_[at],
                   end = at + 1 < begins_.size() ? begins_[at + 1] : names_.size();
    return cat(classes_[static_cast<size_t>(labels_[at])], "/",
               std::string_view(names_).substr(begin, end - begin));
  }

  Result<Bytes> encoded(int64_t row) const {
    // A link may lead out of the folder, and another one may have taken the place of a file.
    LEAT_ASSIGN_OR_RETURN(const std::string path, resolve_below(folder_, path_in_folder(row)));
    return read_file(*files_, path, kEncodedImage);
  }

  Status read_image(int64_t row, const RowKey& key, const RowPart& part) const {
    LEAT_ASSIGN_OR_RETURN(const Bytes bytes, encoded(row));
    return column_.read(bytes, key, part.offset, part.out);
  }

  // Classes keep their numbers, also those that lose all images.
  void leave_out_bad() {
    std::string names;
    std::vector<uint64_t> begins;
    std::vector<int64_t> labels;
    for (size_t row = 0; row < labels_.size(); ++row) {
      const auto bytes = encoded(static_cast<int64_t>(row));
      const Status good = bytes.ok() ? column_.check(*bytes) : bytes.status();
      if (!good.ok()) {
        if (skipped_++ == 0)
          first_skipped_ = cat(row_name(static_cast<int64_t>(row)), ": ", good.message());
        continue;
      }
      const uint64_t end = row + 1 < begins_.size() ? begins_[row + 1] : names_.size();
      begins.push_back(names.size());
      names += std::string_view(names_).substr(begins_[row], end - begins_[row]);
      labels.push_back(labels_[row]);
    }
    names_ = std::move(names);
    begins_ = std::move(begins);
    labels_ = std::move(labels);
  }

  const ImageColumn column_;
  Files* files_ = nullptr;
  std::string folder_, name_;         // to open, and for messages
  std::vector<std::string> classes_;  // by label
  std::string names_;                 // of all files, one after the other
  std::vector<uint64_t> begins_;      // by row, in names_
  std::vector<int64_t> labels_;       // by row
};

class ImageFolderFormat final : public SourceFormat {
 public:
  std::string_view name() const override { return "image_folder"; }
  FilesForm files_form() const override { return FilesForm::one; }
  std::span<const SourceOption> options() const override { return kFolderOptions; }
  Status check(const DatasetFiles&, const SourceOptions& options) const override {
    return ImageColumn::make(options).status();
  }
  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    return ImageFolder::open(setup);
  }
  // The names of all images. Their contents would take as long as a pass over the data.
  Result<std::string> print(Files& files, const std::string& path) const override {
    uint32_t checksum = 0;
    uint64_t count = 0;
    const auto add = [&](const std::string& text) {
      checksum = crc32c(std::as_bytes(std::span(text.c_str(), text.size() + 1)), checksum);
    };
    LEAT_RETURN_IF_ERROR(list_classes(
        files, path, [&](const std::string& name, const std::vector<std::string>& images) {
          add(name);
          for (const std::string& image : images) add(image);
          count += images.size();
        }));
    char digits[16];
    std::snprintf(digits, sizeof digits, "%08x", checksum);
    return cat(count, " images, crc32c of their names ", digits);
  }
};

}  // namespace

const SourceFormat& image_folder_source() {
  static const ImageFolderFormat format;
  return format;
}

}  // namespace leat
