// SPDX-License-Identifier: Apache-2.0
// Tensors and attributes of a checkpoint, in memory.
#include "checkpoint/state.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>

#include "checkpoint/text.h"

namespace bellows::checkpoint {
namespace {

struct ElementTraits {
  std::string_view name;
  std::size_t size;
};
// In the order of Element.
constexpr std::array<ElementTraits, 10> kElements{{{"f16", 2},
                                                   {"bf16", 2},
                                                   {"f32", 4},
                                                   {"f64", 8},
                                                   {"i8", 1},
                                                   {"u8", 1},
                                                   {"i16", 2},
                                                   {"i32", 4},
                                                   {"i64", 8},
                                                   {"bool", 1}}};
constexpr std::size_t kMostDimensions = 32;
// What vector instructions and libtorch's own allocator want.
constexpr std::align_val_t kAlignment{64};

std::int64_t count_elements(Element element, const Shape& shape) {
  if (shape.size() > kMostDimensions)
    throw std::invalid_argument("a tensor of more than 32 dimensions");
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent < 0; }))
    throw std::invalid_argument("a tensor with a negative extent");
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t most =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(element_size(element));
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent > most / count) throw std::invalid_argument("a tensor of more than 2^63 bytes");
    count *= extent;
  }
  return count;
}

}  // namespace

std::size_t element_size(Element element) {
  return kElements.at(static_cast<std::size_t>(element)).size;
}

std::string_view element_name(Element element) {
  return kElements.at(static_cast<std::size_t>(element)).name;
}

std::optional<Element> element_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kElements.size(); ++i)
    if (kElements[i].name == name) return static_cast<Element>(i);
  return std::nullopt;
}

Tensor Tensor::share(Element element, Shape shape, const void* data,
                     std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.elements_ = count_elements(element, shape);
  if (data == nullptr && tensor.elements_ > 0)
    throw std::invalid_argument("a tensor with elements but no data");
  tensor.element_ = element;
  tensor.shape_ = std::move(shape);
  tensor.data_ = data;
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::view(Element element, Shape shape, const void* data) {
  return share(element, std::move(shape), data, nullptr);
}

std::pair<Tensor, std::byte*> Tensor::allocate(Element element, Shape shape) {
  const auto size =
      static_cast<std::size_t>(count_elements(element, shape)) * element_size(element);
  auto* memory =
      static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), kAlignment));
  std::shared_ptr<const void> owner(memory, [](std::byte* p) { ::operator delete(p, kAlignment); });
  return {share(element, std::move(shape), memory, std::move(owner)), memory};
}

Tensor Tensor::copy(Element element, Shape shape, const void* data) {
  auto [tensor, memory] = allocate(element, std::move(shape));
  if (tensor.elements_ > 0) {
    if (data == nullptr) throw std::invalid_argument("a tensor with elements but no data");
    std::memcpy(memory, data, tensor.bytes().size());
  }
  return tensor;
}

void State::set(std::string path, Tensor tensor) {
  split_path(path);
  tensors_.insert_or_assign(std::move(path), std::move(tensor));
}

void State::set(std::string path, Attribute value) {
  split_path(path);
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr && !is_utf8(*text))
    throw std::invalid_argument("checkpoint attribute '" + path + "' is not UTF-8");
  attributes_.insert_or_assign(std::move(path), std::move(value));
}

const Tensor* State::find_tensor(std::string_view path) const {
  const auto found = tensors_.find(path);
  return found == tensors_.end() ? nullptr : &found->second;
}

const Attribute* State::find_attribute(std::string_view path) const {
  const auto found = attributes_.find(path);
  return found == attributes_.end() ? nullptr : &found->second;
}

const Tensor& State::tensor(std::string_view path) const {
  const Tensor* found = find_tensor(path);
  if (found == nullptr) throw std::out_of_range("no tensor " + std::string(path));
  return *found;
}

}  // namespace bellows::checkpoint
