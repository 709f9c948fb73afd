// SPDX-License-Identifier: Apache-2.0
// What the tests of checkpoints share: a folder of their own, states to save, bytes of files.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/state.h"

namespace bellows::checkpoint {

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ckpt-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      found.push_back(entry.path().filename().string());
    std::ranges::sort(found);
    return found;
  }

  std::filesystem::path folder_;
};

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

/// Elements of random bits (a boolean: 0 or 1).
inline Tensor random_tensor(Element element, Shape shape, std::mt19937_64& random) {
  auto [tensor, memory] = Tensor::allocate(element, std::move(shape));
  for (std::size_t i = 0; i < tensor.bytes().size(); ++i)
    memory[i] = static_cast<std::byte>(element == Element::boolean ? random() & 1 : random());
  return tensor;
}

/// Something of everything: all element types in shapes of 0 to 4 dimensions, names that are hard
/// for a file format, attributes at their limits.
inline State rich_state(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  State state;
  for (int i = 0; i < 10; ++i) {
    const auto element = static_cast<Element>(i);
    const std::string name(element_name(element));
    state.set("parameters/" + name + ".weight", random_tensor(element, {3, 5, 2}, random));
    state.set("parameters/" + name + ".scalar", random_tensor(element, {}, random));
    state.set("buffers/" + name + ".empty", random_tensor(element, {4, 0, 2}, random));
  }
  for (const char* name : {"layer/with/slashes", "..", ".", "../../etc", "a%2Fb", "α-β/日本語/🙂",
                           " ", "new\nline", "crc32", "manifest.json"})
    state.set(std::string("optimizer/") + name, random_tensor(Element::f32, {7}, random));
  state.set("rng/cpu", random_tensor(Element::u8, {5056}, random));
  state.set("progress/step", std::int64_t{1234567890123});
  state.set("progress/pass", std::int64_t{-1});
  state.set("progress/loss", 0.1);
  state.set("progress/infinite", -std::numeric_limits<double>::infinity());
  state.set("options/model", std::string("cnn"));
  state.set("options/empty", std::string());
  state.set("options/nul", std::string("a\0b\0", 4));
  state.set("options/one-nul", std::string(1, '\0'));
  state.set("options/long", std::string(200000, 'x'));
  state.set("options/nesterov", true);
  state.set("options/α/β", false);
  return state;
}

inline void expect_equal(const State& got, const State& expected) {
  EXPECT_EQ(got.attributes(), expected.attributes());
  ASSERT_EQ(got.tensors().size(), expected.tensors().size());
  for (const auto& [name, tensor] : expected.tensors()) {
    const Tensor* other = got.find_tensor(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_EQ(other->element(), tensor.element()) << name;
    EXPECT_EQ(other->shape(), tensor.shape()) << name;
    EXPECT_TRUE(std::ranges::equal(other->bytes(), tensor.bytes())) << name;
  }
}

/// The error that `call` ends with, if it does.
template <class Call>
std::optional<Error> error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace bellows::checkpoint
