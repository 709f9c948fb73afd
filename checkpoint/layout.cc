// SPDX-License-Identifier: Apache-2.0
// How a state lies in an HDF5 file.
#include "checkpoint/layout.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/digest.h"
#include "checkpoint/h5.h"
#include "checkpoint/manifest.h"
#include "checkpoint/text.h"
#include "config.h"

namespace bellows::checkpoint {
namespace {

using h5::Handle;

constexpr const char* kFormat = "bellows-checkpoint";
constexpr const char* kManifest = "manifest.json";  // has a dot: no group can have that name
constexpr const char* kCrc = "crc32";

// Space, lists ---------------------------------------------------------------------------------

Handle scalar_space() { return {H5Screate(H5S_SCALAR), H5Sclose, "make a dataspace"}; }

Handle space_of(const Shape& shape) {
  if (shape.empty()) return scalar_space();
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  return {H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
          "make a dataspace"};
}

// Equal states give equal files: no times in the objects.
Handle creation_list(hid_t kind) {
  Handle list(H5Pcreate(kind), H5Pclose, "make a property list");
  h5::check(H5Pset_obj_track_times(list, false), "set a property");
  return list;
}

Handle group_for_writing(hid_t file, const std::string& name) {
  const Handle list = creation_list(H5P_GROUP_CREATE);
  return {H5Gcreate2(file, name.c_str(), H5P_DEFAULT, list, H5P_DEFAULT), H5Gclose,
          "make the group " + name};
}

// Attributes -----------------------------------------------------------------------------------

void put(hid_t object, const std::string& name, hid_t type, const void* value) {
  const Handle space = scalar_space();
  const Handle attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose, "make the attribute " + name);
  h5::check(H5Awrite(attribute, type, value), "write the attribute " + name);
}

Handle type_of(const Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return h5::text_type(text->size());
  if (std::holds_alternative<bool>(value)) return h5::bool_type();
  if (std::holds_alternative<double>(value)) return h5::element_type(Element::f64);
  return h5::element_type(Element::i64);
}

void put(hid_t object, const std::string& name, const Attribute& value) {
  const std::string bytes = attribute_bytes(value);
  put(object, name, type_of(value), bytes.c_str());  // c_str(): one zero byte for an empty text
}

void get(hid_t object, const std::string& name, hid_t type, void* value) {
  const std::string what = "read the attribute " + name;
  const Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, what);
  const Handle stored(H5Aget_type(attribute), H5Tclose, what);
  const Handle space(H5Aget_space(attribute), H5Sclose, what);
  if (H5Tequal(stored, type) <= 0 || H5Sget_simple_extent_type(space) != H5S_SCALAR)
    throw Mismatch("attribute " + name + " has another type than listed");
  h5::check(H5Aread(attribute, type, value), what);
}

Attribute empty_attribute(const Manifest::AttributeEntry& entry) {
  for (Attribute value : {Attribute(std::int64_t{0}), Attribute(0.0), Attribute(false),
                          Attribute(std::string(entry.length, '\0'))})
    if (attribute_type(value) == entry.type) return value;
  throw Mismatch("unknown attribute type " + entry.type);
}

Attribute get(hid_t object, const std::string& name, const Manifest::AttributeEntry& entry,
              std::uint64_t file_size) {
  if (entry.length > file_size) throw Mismatch("attribute " + name + " is larger than the file");
  Attribute value = empty_attribute(entry);
  if (attribute_bytes(value).size() != entry.length)
    throw Mismatch("attribute " + name + " is listed with a wrong length");
  const Handle type = type_of(value);
  std::string bytes = attribute_bytes(value);
  bytes.resize(std::max<std::size_t>(bytes.size(), H5Tget_size(type)));
  get(object, name, type, bytes.data());
  bytes.resize(entry.length);
  if (crc32_of(std::as_bytes(std::span(bytes))) != entry.crc32)
    throw Mismatch("the checksum of attribute " + name + " does not match");
  if (auto* text = std::get_if<std::string>(&value))
    *text = bytes;
  else if (auto* flag = std::get_if<bool>(&value))
    *flag = bytes.at(0) != '\0';
  else if (auto* real = std::get_if<double>(&value))
    std::memcpy(real, bytes.data(), sizeof *real);
  else
    std::memcpy(&std::get<std::int64_t>(value), bytes.data(), sizeof(std::int64_t));
  return value;
}

std::string get_text(hid_t object, const std::string& name) {
  const std::string what = "read the attribute " + name;
  const Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, what);
  const Handle stored(H5Aget_type(attribute), H5Tclose, what);
  if (H5Tget_class(stored) != H5T_STRING || H5Tis_variable_str(stored) != 0)
    throw Mismatch("attribute " + name + " has another type than expected");
  std::string value(H5Tget_size(stored), '\0');
  get(object, name, stored, value.data());
  return value;
}

// Tensors --------------------------------------------------------------------------------------

void put_dataset(hid_t group, const std::string& name, hid_t type, hid_t space, const void* data,
                 std::size_t bytes, std::uint32_t crc32) {
  const Handle list = creation_list(H5P_DATASET_CREATE);
  h5::check(H5Pset_fill_time(list, H5D_FILL_TIME_NEVER), "set a property");
  const Handle dataset(H5Dcreate2(group, name.c_str(), type, space, H5P_DEFAULT, list, H5P_DEFAULT),
                       H5Dclose, "make the dataset " + name);
  // Type in memory = type in the file: HDF5 writes from the caller's memory, unconverted.
  if (bytes > 0)
    h5::check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data),
              "write the dataset " + name);
  put(dataset, kCrc, H5T_STD_U32LE, &crc32);
}

Tensor get_tensor(hid_t group, const std::string& name, const Manifest::TensorEntry& entry,
                  std::uint64_t file_size) {
  const std::string what = "read the dataset " + name;
  // No elements yet: only to have the size checked before there is memory for it.
  const Tensor expected = Tensor::view(entry.element, entry.shape, &entry);
  if (expected.bytes().size() > file_size) throw Mismatch(name + " is larger than the file");
  const Handle dataset(H5Dopen2(group, name.c_str(), H5P_DEFAULT), H5Dclose, what);
  const Handle type = h5::element_type(entry.element);
  const Handle stored(H5Dget_type(dataset), H5Tclose, what);
  const Handle stored_space(H5Dget_space(dataset), H5Sclose, what);
  const Handle space = space_of(entry.shape);
  if (H5Tequal(stored, type) <= 0 || H5Sextent_equal(stored_space, space) <= 0)
    throw Mismatch("dataset " + name + " has another type or shape than listed");
  auto [tensor, memory] = Tensor::allocate(entry.element, entry.shape);
  if (tensor.elements() > 0)
    h5::check(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, memory), what);
  std::uint32_t attached = 0;
  get(dataset, kCrc, H5T_STD_U32LE, &attached);
  if (attached != entry.crc32 || crc32_of(tensor.bytes()) != entry.crc32)
    throw Mismatch("the checksum of " + name + " does not match");
  return tensor;
}

// The list -------------------------------------------------------------------------------------

void put_manifest(hid_t file, const Manifest& manifest) {
  const std::string text = to_json(manifest);
  const Handle type = h5::text_type(text.size());
  put_dataset(file, kManifest, type, scalar_space(), text.data(), text.size(),
              crc32_of(std::as_bytes(std::span(text))));
}

Manifest get_manifest(hid_t file, std::uint64_t file_size) {
  const std::string what = std::string("read the dataset ") + kManifest;
  const Handle dataset(H5Dopen2(file, kManifest, H5P_DEFAULT), H5Dclose, what);
  const Handle type(H5Dget_type(dataset), H5Tclose, what);
  const Handle space(H5Dget_space(dataset), H5Sclose, what);
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 ||
      H5Sget_simple_extent_type(space) != H5S_SCALAR || H5Tget_size(type) > file_size)
    throw Mismatch("the manifest is not one text");
  std::string text(H5Tget_size(type), '\0');
  h5::check(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), what);
  std::uint32_t attached = 0;
  get(dataset, kCrc, H5T_STD_U32LE, &attached);
  if (crc32_of(std::as_bytes(std::span(text))) != attached)
    throw Mismatch("the checksum of the manifest does not match");
  try {
    return manifest_from_json(text);
  } catch (const std::runtime_error& error) {
    throw Mismatch(std::string("the manifest cannot be read: ") + error.what());
  } catch (const std::out_of_range& error) {
    throw Mismatch(std::string("the manifest lacks something: ") + error.what());
  }
}

// Opens each group once; entries come sorted by group.
class Groups {
 public:
  using Open = Handle (*)(hid_t, const std::string&);
  Groups(hid_t file, Open open) : file_(file), open_(open) {}
  hid_t of(std::string_view path) {
    const std::string name(split_path(path).first);
    const auto found = groups_.find(name);
    return found != groups_.end() ? found->second
                                  : groups_.emplace(name, open_(file_, name)).first->second;
  }

 private:
  hid_t file_;
  Open open_;
  std::map<std::string, Handle> groups_;
};

Handle group_for_reading(hid_t file, const std::string& name) {
  return {H5Gopen2(file, name.c_str(), H5P_DEFAULT), H5Gclose, "open the group " + name};
}

std::string link_name(std::string_view path) { return escape_name(split_path(path).second); }

void check_root(hid_t file, const Info& info, const Manifest& manifest) {
  std::int64_t step = 0;
  std::int64_t version = 0;
  signed char complete = 0;
  get(file, "step", H5T_STD_I64LE, &step);
  get(file, "format_version", H5T_STD_I64LE, &version);
  get(file, "complete", h5::bool_type(), &complete);
  if (get_text(file, "format") != kFormat || version != info.format_version || complete != 1 ||
      step != info.step || manifest.step != info.step || manifest.created != info.created ||
      get_text(file, "created") != info.created)
    throw Mismatch("its parts tell different things about it");
}

}  // namespace

void write_layout(hid_t file, const State& state, const Info& info) {
  put(file, "format", Attribute(std::string(kFormat)));
  put(file, "format_version", Attribute(std::int64_t{info.format_version}));
  put(file, "writer", Attribute(std::string("bellows " BELLOWS_VERSION)));
  put(file, "created", Attribute(info.created));
  put(file, "step", Attribute(info.step));

  Manifest manifest{info.step, info.created, {}, {}};
  Groups groups(file, group_for_writing);
  for (const auto& [path, value] : state.attributes()) {
    manifest.attributes[path] = entry_of(value);
    put(groups.of(path), link_name(path), value);
  }
  // One by one, so that the disk works on one tensor while the next one's checksum is computed.
  for (const auto& [path, tensor] : state.tensors()) {
    const auto entry = entry_of(tensor);
    put_dataset(groups.of(path), link_name(path), h5::element_type(tensor.element()),
                space_of(tensor.shape()), tensor.data(), tensor.bytes().size(), entry.crc32);
    manifest.tensors[path] = entry;
  }
  put_manifest(file, manifest);
  put(file, "complete", Attribute(true));
}

State read_layout(hid_t file, const Info& info, bool keep,
                  const std::function<bool(std::string_view)>& wanted) {
  const Manifest manifest = get_manifest(file, info.size);
  check_root(file, info, manifest);
  State state;
  Groups groups(file, group_for_reading);
  try {
    for (const auto& [path, entry] : manifest.attributes)
      state.set(path, get(groups.of(path), link_name(path), entry, info.size));
    for (const auto& [path, entry] : manifest.tensors) {
      if (wanted && !wanted(path)) continue;
      Tensor tensor = get_tensor(groups.of(path), link_name(path), entry, info.size);
      if (keep) state.set(path, std::move(tensor));
    }
  } catch (const std::invalid_argument& error) {
    throw Mismatch(std::string("the manifest lists something impossible: ") + error.what());
  }
  return state;
}

}  // namespace bellows::checkpoint
