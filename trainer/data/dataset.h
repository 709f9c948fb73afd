// SPDX-License-Identifier: Apache-2.0
// A set of samples with random access, split into training and test. The readers behind it know
// files, not tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace bellows::trainer {

enum class Split { kTrain, kTest };

/// What one sample looks like.
struct SampleShape {
  /// Of the input: {channels, height, width} for images, {features} for vectors, {length} for
  /// tokens.
  std::vector<std::int64_t> input;
  /// Inputs are token numbers (read into `tokens`) and each has a target; otherwise inputs are
  /// floats (read into `values`) and the sample has one target.
  bool tokens = false;
  /// Targets are in [0, classes); so are tokens.
  std::int64_t classes = 0;

  std::int64_t input_size() const;
  std::int64_t targets() const { return tokens ? input_size() : 1; }
};

/// Where Dataset::read puts n samples: n * input_size() values or tokens, n * targets() targets.
struct SampleBuffers {
  float* values = nullptr;
  std::int64_t* tokens = nullptr;
  std::int64_t* targets = nullptr;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual SampleShape shape() const = 0;
  virtual std::uint64_t size(Split split) const = 0;
  /// Reads the samples `ids`, each below size(split), in that order. Throws DataError.
  virtual void read(Split split, std::span<const std::uint64_t> ids,
                    const SampleBuffers& out) const = 0;
};

/// Opens what `spec` names: fashion-mnist[:DIR], cifar10:DIR, hdf5:FILE, text:FILE. `length` is the
/// number of tokens of a text sample. Throws UsageError for a wrong spec, DataError for bad files.
std::unique_ptr<Dataset> open_dataset(const std::string& spec, std::int64_t length);

}  // namespace bellows::trainer
