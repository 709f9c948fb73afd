// SPDX-License-Identifier: Apache-2.0
// The list of everything in a checkpoint.
#include "checkpoint/manifest.h"

#include <array>
#include <boost/json.hpp>
#include <cstring>
#include <stdexcept>

#include "checkpoint/digest.h"

namespace bellows::checkpoint {
namespace {

namespace json = boost::json;

std::uint32_t crc32_of_text(const std::string& text) {
  return crc32_of(std::as_bytes(std::span(text.data(), text.size())));
}

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

Manifest::TensorEntry tensor_entry(const json::object& entry) {
  const auto element = element_from_name(entry.at("element").as_string());
  if (!element) throw std::runtime_error("unknown element type in the manifest");
  return {*element, json::value_to<Shape>(entry.at("shape")),
          json::value_to<std::uint32_t>(entry.at("crc32"))};
}

}  // namespace

std::string attribute_bytes(const Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return {*flag ? '\1' : '\0'};
  if (const auto* real = std::get_if<double>(&value)) return raw(*real);
  return raw(std::get<std::int64_t>(value));
}

std::string_view attribute_type(const Attribute& value) {
  static constexpr std::array<std::string_view, 4> kNames{"int64", "double", "string", "bool"};
  return kNames.at(value.index());
}

Manifest::TensorEntry entry_of(const Tensor& tensor) {
  return {tensor.element(), tensor.shape(), crc32_of(tensor.bytes())};
}

Manifest::AttributeEntry entry_of(const Attribute& value) {
  const std::string bytes = attribute_bytes(value);
  return {std::string(attribute_type(value)), bytes.size(), crc32_of_text(bytes)};
}

std::string to_json(const Manifest& manifest) {
  json::object tensors;
  for (const auto& [path, entry] : manifest.tensors)
    tensors[path] = {{"element", element_name(entry.element)},
                     {"shape", json::value_from(entry.shape)},
                     {"crc32", entry.crc32}};
  json::object attributes;
  for (const auto& [path, entry] : manifest.attributes)
    attributes[path] = {{"type", entry.type}, {"length", entry.length}, {"crc32", entry.crc32}};
  return json::serialize(json::object{{"step", manifest.step},
                                      {"created", manifest.created},
                                      {"tensors", std::move(tensors)},
                                      {"attributes", std::move(attributes)}});
}

Manifest manifest_from_json(std::string_view text) {
  const json::value value = json::parse(text);
  const json::object& root = value.as_object();
  Manifest manifest{json::value_to<std::int64_t>(root.at("step")),
                    json::value_to<std::string>(root.at("created")),
                    {},
                    {}};
  for (const auto& [path, entry] : root.at("tensors").as_object())
    manifest.tensors[path] = tensor_entry(entry.as_object());
  for (const auto& [path, value_of] : root.at("attributes").as_object()) {
    const json::object& entry = value_of.as_object();
    manifest.attributes[path] = {json::value_to<std::string>(entry.at("type")),
                                 json::value_to<std::uint64_t>(entry.at("length")),
                                 json::value_to<std::uint32_t>(entry.at("crc32"))};
  }
  return manifest;
}

}  // namespace bellows::checkpoint
