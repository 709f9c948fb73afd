// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/hdf5_dataset.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

/// An HDF5 identifier and the function that closes it.
class Handle {
 public:
  Handle() = default;
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept { *this = std::move(other); }
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0 && close_ != nullptr) close_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor): as HDF5 takes it
  bool valid() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

/// Our messages name the file and the reason; HDF5's own trace is for its developers.
class QuietHdf5 {
 public:
  QuietHdf5() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;
  ~QuietHdf5() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

// Files up to this size are held in memory as floats.
constexpr std::uint64_t kInMemory = std::uint64_t{1} << 30;

/// The inputs of one split.
struct Inputs {
  Handle dataset;
  std::vector<hsize_t> sizes;
  float scale = 1;
  std::vector<float> memory;
  std::vector<std::int64_t> labels;
  std::uint64_t first = 0;  // number of the split's first sample in the dataset
  std::uint64_t count = 0;
};

class Hdf5Dataset : public Dataset {
 public:
  explicit Hdf5Dataset(const std::string& path) : path_(path) {
    const QuietHdf5 quiet;
    if (!std::filesystem::exists(path)) throw DataError(path + ": no such file");
    file_ = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    if (!file_.valid()) throw DataError(path + ": not an HDF5 file, or damaged or unreadable");
    open_split(train_, "x", "y");
    if (H5Lexists(file_, "x_test", H5P_DEFAULT) > 0) {
      open_split(test_, "x_test", "y_test");
      if (!std::equal(train_.sizes.begin() + 1, train_.sizes.end(), test_.sizes.begin() + 1,
                      test_.sizes.end()))
        throw DataError(path + ": samples of x and x_test differ in shape");
    } else {
      split_off_test();
    }
    std::int64_t largest = 0;
    for (const Inputs* split : {&train_, &test_})
      for (const std::int64_t label : split->labels) largest = std::max(largest, label);
    shape_.classes = largest + 1;
    shape_.input.assign(train_.sizes.begin() + 1, train_.sizes.end());
    if (shape_.input.size() == 2) shape_.input.insert(shape_.input.begin(), 1);
  }

  SampleShape shape() const override { return shape_; }
  std::uint64_t size(Split split) const override { return inputs(split).count; }
  void read(Split split, std::span<const std::uint64_t> ids,
            const SampleBuffers& out) const override {
    const Inputs& from = inputs(split);
    const auto sample = static_cast<std::uint64_t>(shape_.input_size());
    float* value = out.values;
    std::int64_t* target = out.targets;
    for (const std::uint64_t id : ids) {
      *target++ = from.labels[id];
      if (!from.memory.empty()) {
        value = std::copy_n(from.memory.data() + id * sample, sample, value);
      } else {
        const Inputs& source = from.dataset.valid() ? from : train_;
        read_rows(source, from.first + id, 1, value);
        value += sample;
      }
    }
  }

 private:
  const Inputs& inputs(Split split) const { return split == Split::kTrain ? train_ : test_; }

  Handle open(const char* name, std::vector<hsize_t>& sizes, H5T_class_t& type) const {
    Handle dataset(H5Dopen2(file_, name, H5P_DEFAULT), H5Dclose);
    if (!dataset.valid()) throw DataError(fmt::format("{}: has no dataset named {}", path_, name));
    const Handle space(H5Dget_space(dataset), H5Sclose);
    sizes.resize(static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space))));
    if (!sizes.empty()) H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
    const Handle stored(H5Dget_type(dataset), H5Tclose);
    type = H5Tget_class(stored);
    return dataset;
  }

  void open_split(Inputs& split, const char* x, const char* y) {
    H5T_class_t type{};
    split.dataset = open(x, split.sizes, type);
    if (split.sizes.size() < 2 || split.sizes.size() > 4)
      throw DataError(fmt::format("{}: {} has {} dimensions, expected samples and 1 to 3 more",
                                  path_, x, split.sizes.size()));
    for (const hsize_t size : split.sizes)
      if (size == 0) throw DataError(fmt::format("{}: {} is empty", path_, x));
    if (type != H5T_INTEGER && type != H5T_FLOAT)
      throw DataError(fmt::format("{}: {} holds no numbers", path_, x));
    const Handle stored(H5Dget_type(split.dataset), H5Tclose);
    if (type == H5T_INTEGER && H5Tget_size(stored) == 1) split.scale = 1.0F / 255;

    std::vector<hsize_t> label_sizes;
    const Handle labels = open(y, label_sizes, type);
    if (type != H5T_INTEGER)
      throw DataError(fmt::format("{}: {} holds no whole numbers (classes)", path_, y));
    std::uint64_t count = 1;
    for (const hsize_t size : label_sizes) count *= size;
    if (label_sizes.empty() || label_sizes[0] != split.sizes[0] || count != split.sizes[0])
      throw DataError(fmt::format("{}: {} has {} samples, but {} has {} labels", path_, x,
                                  split.sizes[0], y, count));
    split.count = count;
    split.labels.resize(count);
    if (H5Dread(labels, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, split.labels.data()) < 0)
      throw DataError(fmt::format("{}: {} cannot be read: damaged or truncated", path_, y));
    constexpr std::int64_t kMostClasses = 1 << 20;
    for (std::uint64_t i = 0; i < count; ++i)
      if (split.labels[i] < 0 || split.labels[i] >= kMostClasses)
        throw DataError(fmt::format("{}: label {} of sample {} in {} is out of range 0 to {}",
                                    path_, split.labels[i], i, y, kMostClasses - 1));

    std::uint64_t elements = 1;
    for (const hsize_t size : split.sizes) elements *= size;
    if (elements * sizeof(float) <= kInMemory) {
      split.memory.resize(elements);
      read_rows(split, 0, count, split.memory.data());
    }
  }

  void split_off_test() {
    if (train_.count < 2) throw DataError(path_ + ": x has one sample, none is left for testing");
    const std::uint64_t test = std::max<std::uint64_t>(1, train_.count / 10);
    const std::uint64_t train = train_.count - test;
    test_.first = train;
    test_.count = test;
    test_.labels.assign(train_.labels.begin() + static_cast<std::ptrdiff_t>(train),
                        train_.labels.end());
    if (!train_.memory.empty()) {
      const std::uint64_t sample = train_.memory.size() / train_.count;
      test_.memory.assign(train_.memory.begin() + static_cast<std::ptrdiff_t>(train * sample),
                          train_.memory.end());
      train_.memory.resize(train * sample);
    }
    train_.labels.resize(train);
    train_.count = train;
  }

  void read_rows(const Inputs& from, std::uint64_t first, std::uint64_t count, float* out) const {
    std::vector<hsize_t> start(from.sizes.size(), 0);
    std::vector<hsize_t> block = from.sizes;
    start[0] = first;
    block[0] = count;
    hsize_t elements = 1;
    for (const hsize_t size : block) elements *= size;
    const Handle file(H5Dget_space(from.dataset), H5Sclose);
    const Handle memory(H5Screate_simple(1, &elements, nullptr), H5Sclose);
    if (H5Sselect_hyperslab(file, H5S_SELECT_SET, start.data(), nullptr, block.data(), nullptr) <
            0 ||
        H5Dread(from.dataset, H5T_NATIVE_FLOAT, memory, file, H5P_DEFAULT, out) < 0)
      throw DataError(fmt::format("{}: samples {} to {} cannot be read: damaged or truncated",
                                  path_, first, first + count - 1));
    if (from.scale != 1)
      std::transform(out, out + elements, out, [&](float v) { return v * from.scale; });
  }

  std::string path_;
  Handle file_;
  Inputs train_;
  Inputs test_;
  SampleShape shape_;
};

}  // namespace

std::unique_ptr<Dataset> open_hdf5_dataset(const std::string& path) {
  return std::make_unique<Hdf5Dataset>(path);
}

}  // namespace bellows::trainer
