// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds: tensors and scalar attributes, each under a path "group/name".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace bellows::checkpoint {

/// Type of a tensor's elements. Little-endian in memory and in the file.
enum class Element : std::uint8_t { f16, bf16, f32, f64, i8, u8, i16, i32, i64, boolean };

/// Bytes per element. A boolean is one byte, 0 or 1, as in libtorch.
std::size_t element_size(Element element);
/// "f16", "bf16", "f32", "f64", "i8", "u8", "i16", "i32", "i64", "bool".
std::string_view element_name(Element element);
std::optional<Element> element_from_name(std::string_view name);

using Shape = std::vector<std::int64_t>;

/// A dense tensor in row-major order: a view of the caller's memory, or a share in memory that it
/// keeps alive. Copies are cheap and share the elements. Read-only, so safe to share over threads.
class Tensor {
 public:
  Tensor() = default;

  /// Looks at the caller's elements, which must be contiguous, stay where they are and not change
  /// until the last use (for saving: until write() or Store::save() has returned). `data` may be
  /// null when the tensor has no elements.
  /// Throws std::invalid_argument for a negative extent, a size beyond 2^63 or more than 32
  /// dimensions (HDF5's limit).
  static Tensor view(Element element, Shape shape, const void* data);
  /// The same, and keeps `owner` (for example a torch::Tensor in a shared_ptr) alive.
  static Tensor share(Element element, Shape shape, const void* data,
                      std::shared_ptr<const void> owner);
  /// Own copy of the elements, aligned to 64 bytes.
  static Tensor copy(Element element, Shape shape, const void* data);
  /// Own memory, aligned to 64 bytes, and where to write its elements before it is shared.
  /// Throws std::bad_alloc.
  static std::pair<Tensor, std::byte*> allocate(Element element, Shape shape);

  Element element() const { return element_; }
  /// Empty for a tensor of no dimensions (one element).
  const Shape& shape() const { return shape_; }
  std::int64_t elements() const { return elements_; }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(data_),
            static_cast<std::size_t>(elements_) * element_size(element_)};
  }
  const void* data() const { return data_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  Element element_ = Element::f32;
  Shape shape_{0};
  std::int64_t elements_ = 0;
  const void* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

using Attribute = std::variant<std::int64_t, double, std::string, bool>;

/// Tensors and attributes by path. A path is "group/name": the group is all before the first slash,
/// of letters, digits, '_' and '-'; the name is any other non-empty UTF-8 text, further slashes,
/// dots and ".." included. By convention the groups are
///   parameters, buffers   the model's, by its own names     ("parameters/conv1.weight")
///   optimizer             its state by parameter            ("optimizer/conv1.weight.momentum")
///   rng, data             generators' states, the data's position and order
///   progress              attributes step, pass, sample     ("progress/step")
///   options               attributes: how the run was set   ("options/model")
/// A group may hold both, and a tensor and an attribute may have the same path.
class State {
 public:
  /// Replaces what was there. Throws std::invalid_argument for a path or string that is not as
  /// described above (strings must be UTF-8).
  void set(std::string path, Tensor tensor);
  void set(std::string path, Attribute value);

  /// Null when there is none. Valid until the state changes.
  const Tensor* find_tensor(std::string_view path) const;
  const Attribute* find_attribute(std::string_view path) const;
  /// Throws std::out_of_range naming the path when there is none.
  const Tensor& tensor(std::string_view path) const;
  /// T is std::int64_t, double, std::string or bool. Throws std::out_of_range naming the path when
  /// there is none or it has another type.
  template <class T>
  const T& get(std::string_view path) const {
    const Attribute* attribute = find_attribute(path);
    if (attribute == nullptr) throw std::out_of_range("no attribute " + std::string(path));
    const T* value = std::get_if<T>(attribute);
    if (value == nullptr)
      throw std::out_of_range("attribute " + std::string(path) + " has another type");
    return *value;
  }
  template <class T>
  T get_or(std::string_view path, T fallback) const {
    const Attribute* attribute = find_attribute(path);
    const T* value = attribute == nullptr ? nullptr : std::get_if<T>(attribute);
    return value == nullptr ? fallback : *value;
  }

  /// Sorted by path (bytewise).
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, Attribute, std::less<>>& attributes() const { return attributes_; }

 private:
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::map<std::string, Attribute, std::less<>> attributes_;
};

}  // namespace bellows::checkpoint
