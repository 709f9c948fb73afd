// SPDX-License-Identifier: Apache-2.0
// The commands of bellows-ckpt: ls, show, verify, diff.
#include "checkpoint/commands.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <system_error>

#include "checkpoint/disk.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/store.h"

namespace bellows::checkpoint {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

std::string number(const std::optional<double>& value) { return value ? number(*value) : "-"; }

// JSON has no word for the others.
json::value json_number(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(number(value));
}

json::value json_number(const std::optional<double>& value) {
  return value ? json_number(*value) : json::value(nullptr);
}

json::object json_info(const Info& info) {
  return {{"format_version", info.format_version},
          {"step", info.step},
          {"created", info.created},
          {"size", info.size}};
}

// A line stays a line and a column a column, whatever a name holds.
std::string printable(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F && c != '\\')
      line += c;
    else if (c == '\\')
      line += "\\\\";
    else
      line += std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
  }
  return line;
}

// A folder stands for the files in it that are named *.h5.
Paths files_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  Paths files;
  fs::directory_iterator entries(path, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error))
    if (entries->path().extension() == ".h5") files.push_back(entries->path());
  if (error) throw system_error(path, "cannot list the folder", error.value());
  std::ranges::sort(files);
  return files;
}

// What a look at one file gave.
struct Result {
  fs::path file;
  std::optional<Info> info;
  std::optional<Error> error;
};

std::vector<Result> look(const Paths& paths, Info (*at)(const fs::path&)) {
  std::vector<Result> results;
  for (const fs::path& path : paths) {
    const Paths files = files_of(path);
    if (files.empty())
      results.push_back({path, {}, Error(path, Reason::kIo, "no checkpoints in this folder")});
    for (const fs::path& file : files) {
      try {
        results.push_back({file, at(file), {}});
      } catch (const Error& error) {
        results.push_back({file, {}, error});
      }
    }
  }
  return results;
}

json::object json_result(const Result& result) {
  json::object object{{"file", result.file.string()}};
  if (result.error) {
    object["status"] = reason_name(result.error->reason());
    object["detail"] = result.error->detail();
    object["advice"] = result.error->advice();
  } else {
    object["status"] = "ok";
    for (const auto& [key, value] : json_info(*result.info)) object[key] = value;
  }
  return object;
}

void print_json(const json::value& value) { std::cout << json::serialize(value) << '\n'; }

void print_json(const std::vector<Result>& results) {
  json::array array;
  for (const Result& result : results) array.push_back(json_result(result));
  print_json(json::value(std::move(array)));
}

std::string to_text(const Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return '"' + printable(*text) + '"';
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* real = std::get_if<double>(&value)) return number(*real);
  return std::to_string(std::get<std::int64_t>(value));
}

json::value to_json(const Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return json::value(*text);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* real = std::get_if<double>(&value)) return json_number(*real);
  return std::get<std::int64_t>(value);
}

json::object to_json(const Tensor& tensor, std::int64_t values) {
  const Summary summary = summarize(tensor);
  json::object object{
      {"element", element_name(tensor.element())}, {"shape", json::value_from(tensor.shape())},
      {"norm", json_number(summary.norm)},         {"min", json_number(summary.minimum)},
      {"max", json_number(summary.maximum)},       {"mean", json_number(summary.mean)},
      {"not_finite", summary.not_finite}};
  if (values == 0) return object;
  json::array array;
  for (std::int64_t i = 0; i < std::min(values, tensor.elements()); ++i)
    array.push_back(json_number(value_at(tensor, i)));
  object["values"] = std::move(array);
  return object;
}

void show_as_json(const fs::path& file, const Contents& contents, std::int64_t values) {
  json::object attributes;
  for (const auto& [path, value] : contents.state.attributes()) attributes[path] = to_json(value);
  json::object tensors;
  for (const auto& [path, tensor] : contents.state.tensors())
    tensors[path] = to_json(tensor, values);
  json::object object{{"file", file.string()}};
  for (const auto& [key, value] : json_info(contents.info)) object[key] = value;
  object["attributes"] = std::move(attributes);
  object["tensors"] = std::move(tensors);
  print_json(object);
}

void print_tensor(const std::string& path, const Tensor& tensor) {
  const Summary summary = summarize(tensor);
  std::cout << printable(path) << '\t' << element_name(tensor.element()) << '\t'
            << shape_text(tensor.shape()) << "\tnorm=" << number(summary.norm)
            << "\tmin=" << number(summary.minimum) << "\tmax=" << number(summary.maximum)
            << "\tmean=" << number(summary.mean);
  if (summary.not_finite > 0) std::cout << "\tnot-finite=" << summary.not_finite;
  std::cout << '\n';
}

void show_as_text(const fs::path& file, const Contents& contents) {
  std::cout << "file\t" << printable(file.string()) << "\nformat\t" << contents.info.format_version
            << "\nstep\t" << contents.info.step << "\ncreated\t" << contents.info.created
            << "\nsize\t" << contents.info.size << '\n';
  for (const auto& [path, value] : contents.state.attributes())
    std::cout << printable(path) << '\t' << to_text(value) << '\n';
  for (const auto& [path, tensor] : contents.state.tensors()) print_tensor(path, tensor);
}

void show_tensors(const Contents& contents, std::int64_t values) {
  for (const auto& [path, tensor] : contents.state.tensors()) {
    print_tensor(path, tensor);
    for (std::int64_t i = 0; i < std::min(values, tensor.elements()); ++i)
      std::cout << number(value_at(tensor, i)) << '\n';
  }
}

// A folder stands for its newest good checkpoint.
Contents contents_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return read(path);
  auto newest = Store(path).newest_good(
      [](const Error& refused) { std::cerr << "bellows-ckpt: " << refused.what() << '\n'; });
  if (!newest) throw Error(path, Reason::kIo, "no good checkpoint in this folder");
  return *std::move(newest);
}

bool has_prefix(std::string_view path, const std::vector<std::string>& prefixes) {
  return std::ranges::any_of(prefixes, [&](const auto& p) { return path.starts_with(p); });
}

json::object to_json(const Difference& difference) {
  return {{"path", difference.path},
          {"what", difference.what.empty() ? "value" : difference.what},
          {"max_abs", json_number(difference.absolute)},
          {"max_rel", json_number(difference.relative)},
          {"tolerated", difference.tolerated}};
}

void print(const Difference& difference) {
  std::cout << printable(difference.path) << '\t';
  if (difference.what.empty())
    std::cout << "max-abs=" << number(difference.absolute)
              << "\tmax-rel=" << number(difference.relative)
              << (difference.tolerated ? "\ttolerated" : "") << '\n';
  else
    std::cout << difference.what << '\n';
}

}  // namespace

int list_command(const Paths& paths, bool json) {
  std::vector<Result> results = look(paths, peek);
  std::ranges::stable_sort(results, [](const Result& a, const Result& b) {
    return (a.info ? a.info->created : "") > (b.info ? b.info->created : "");
  });
  if (json)
    print_json(results);
  else
    for (const Result& result : results) {
      if (result.info)
        std::cout << result.info->step << '\t' << result.info->created << '\t' << result.info->size
                  << "\tok\t";
      else
        std::cout << "-\t-\t-\t" << reason_name(result.error->reason()) << '\t';
      std::cout << printable(result.file.string()) << '\n';
    }
  for (const Result& result : results) {
    if (!result.error || result.error->is_refusal()) continue;
    std::cerr << "bellows-ckpt: " << result.error->what() << '\n';
    return 1;
  }
  return 0;
}

int show_command(const fs::path& file, const std::vector<std::string>& tensors, std::int64_t values,
                 bool json) {
  const Contents contents = tensors.empty() ? read(file) : read(file, [&](std::string_view path) {
    return std::ranges::find(tensors, path) != tensors.end();
  });
  for (const std::string& path : tensors)
    if (contents.state.find_tensor(path) == nullptr)
      throw Error(file, Reason::kIo, "has no tensor " + path, "'bellows-ckpt show' lists them");
  if (json)
    show_as_json(file, contents, tensors.empty() ? 0 : values);
  else if (tensors.empty())
    show_as_text(file, contents);
  else
    show_tensors(contents, values);
  return 0;
}

int verify_command(const Paths& paths, bool json) {
  const std::vector<Result> results = look(paths, verify);
  if (json) print_json(results);
  bool good = true;
  for (const Result& result : results) {
    good = good && !result.error;
    if (json) continue;
    std::cout << printable(result.file.string()) << ": ";
    if (result.error)
      std::cout << reason_name(result.error->reason()) << ": " << result.error->detail() << '\n';
    else
      std::cout << "ok, step " << result.info->step << '\n';
  }
  return good ? 0 : 1;
}

int diff_command(const fs::path& first, const fs::path& second, const DiffOptions& options) {
  const Contents a = contents_of(first);
  const Contents b = contents_of(second);
  const auto wanted = [&](std::string_view path) {
    return (options.only.empty() || has_prefix(path, options.only)) &&
           !has_prefix(path, options.ignore);
  };
  const auto any = [&](const State& state) {
    const auto path_wanted = [&](const auto& entry) { return wanted(entry.first); };
    return std::ranges::any_of(state.tensors(), path_wanted) ||
           std::ranges::any_of(state.attributes(), path_wanted);
  };
  if (!any(a.state) && !any(b.state))
    throw Error(first, Reason::kIo, "nothing to compare is left by --only and --ignore");
  const auto differences = compare(a.state, b.state, options.tolerance, wanted);
  const bool same = std::ranges::all_of(differences, &Difference::tolerated);
  if (options.json) {
    json::array array;
    for (const Difference& difference : differences) array.push_back(to_json(difference));
    print_json(json::object{{"same", same}, {"differences", std::move(array)}});
  } else {
    for (const Difference& difference : differences) print(difference);
  }
  return same ? 0 : 1;
}

}  // namespace bellows::checkpoint
