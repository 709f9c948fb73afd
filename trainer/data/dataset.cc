// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/dataset.h"

#include <cstdlib>
#include <functional>
#include <numeric>

#include "trainer/data/cifar10.h"
#include "trainer/data/fashion_mnist.h"
#include "trainer/data/hdf5_dataset.h"
#include "trainer/data/text_dataset.h"
#include "trainer/errors.h"

namespace bellows::trainer {

std::int64_t SampleShape::input_size() const {
  return std::accumulate(input.begin(), input.end(), std::int64_t{1}, std::multiplies<>());
}

namespace {

std::string default_directory(const char* name) {
  const char* root = std::getenv("BELLOWS_DATA");
  return std::string(root != nullptr && *root != '\0' ? root : "/usr/share/datasets") + "/" + name;
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::string& spec, std::int64_t length) {
  const auto colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (kind == "fashion-mnist")
    return open_fashion_mnist(path.empty() ? default_directory("fashion-mnist") : path);
  if (kind == "cifar10") return open_cifar10(path.empty() ? default_directory("cifar10") : path);
  if (kind != "hdf5" && kind != "text")
    throw UsageError("--data " + spec + ": unknown kind of data \"" + kind +
                     "\"; use fashion-mnist[:DIR], cifar10[:DIR], hdf5:FILE or text:FILE");
  if (path.empty()) throw UsageError("--data " + spec + ": needs a file, as in " + kind + ":FILE");
  if (kind == "hdf5") return open_hdf5_dataset(path);
  return open_text_dataset(path, length);
}

}  // namespace bellows::trainer
