// SPDX-License-Identifier: Apache-2.0
// One checkpoint file: everything comes back as it was; anything else is refused by name.
#include <hdf5.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/digest.h"
#include "checkpoint/file.h"
#include "checkpoint/seal.h"
#include "tests/unit/checkpoint_fixture.h"

namespace bellows::checkpoint {
namespace {

std::uint64_t xxh64(std::string_view text) {
  Xxh64 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.digest();
}

TEST_F(CheckpointTest, HashesAreThePublishedFunctions) {
  EXPECT_EQ(xxh64(""), 0xEF46DB3751D8E999ULL);
  EXPECT_EQ(xxh64("abc"), 0x44BC2CF5AD770999ULL);
  EXPECT_EQ(xxh64("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1ULL);
  const std::string check = "123456789";
  EXPECT_EQ(crc32_of(std::as_bytes(std::span(check))), 0xCBF43926U);
}

TEST_F(CheckpointTest, HashDoesNotDependOnThePieces) {
  std::mt19937_64 random(7);
  std::string text(1000, ' ');
  std::ranges::generate(text, [&] { return static_cast<char>(random()); });
  for (int i = 0; i < 200; ++i) {
    Xxh64 pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = std::min<std::size_t>(random() % 100, text.size() - at);
      pieces.update(std::as_bytes(std::span(text)).subspan(at, size));
      at += size;
    }
    ASSERT_EQ(pieces.digest(), xxh64(text));
  }
}

TEST_F(CheckpointTest, EverythingComesBackBitForBit) {
  const State state = rich_state(1);
  const Info written = write(path("a.h5"), state, 42);
  const Contents contents = read(path("a.h5"));
  expect_equal(contents.state, state);
  EXPECT_EQ(contents.info.step, 42);
  EXPECT_EQ(contents.info.created, written.created);
  EXPECT_EQ(contents.info.size, std::filesystem::file_size(path("a.h5")));
  EXPECT_EQ(verify(path("a.h5")).step, 42);
  EXPECT_EQ(names(), std::vector<std::string>{"a.h5"});
}

TEST_F(CheckpointTest, NotANumberKeepsItsBits) {
  State state;
  state.set("progress/loss", std::numeric_limits<double>::quiet_NaN());
  write(path("a.h5"), state, 0);
  EXPECT_TRUE(std::isnan(read(path("a.h5")).state.get<double>("progress/loss")));
}

TEST_F(CheckpointTest, AnEmptyStateIsACheckpoint) {
  write(path("a.h5"), State(), -1);
  const Contents contents = read(path("a.h5"));
  EXPECT_TRUE(contents.state.tensors().empty());
  EXPECT_EQ(contents.info.step, -1);
}

TEST_F(CheckpointTest, LargeAndManyTensors) {
  std::mt19937_64 random(3);
  State state;
  state.set("parameters/large", random_tensor(Element::f32, {1000, 1000}, random));
  for (int i = 0; i < 700; ++i)
    state.set("optimizer/" + std::to_string(i) + ".exp_avg",
              random_tensor(Element::f32, {i % 17, 3}, random));
  for (int i = 0; i < 300; ++i) state.set("options/" + std::to_string(i), std::int64_t{i});
  write(path("a.h5"), state, 1);
  expect_equal(read(path("a.h5")).state, state);
}

TEST_F(CheckpointTest, EqualStatesMakeEqualFiles) {
  write(path("a.h5"), rich_state(5), 1, "2026-01-01T00:00:00.000000Z");
  write(path("b.h5"), rich_state(5), 1, "2026-01-01T00:00:00.000000Z");
  EXPECT_EQ(bytes_of(path("a.h5")), bytes_of(path("b.h5")));
}

TEST_F(CheckpointTest, SavesTheCallersMemoryAndLoadsItsOwn) {
  std::vector<float> weights{1, 2, 3};
  State state;
  state.set("parameters/w", Tensor::view(Element::f32, {3}, weights.data()));
  weights[1] = 20;  // a view: what counts is what is there when it is written
  write(path("a.h5"), state, 1);
  weights.assign(3, 0);
  const State loaded = read(path("a.h5")).state;
  const auto* values = static_cast<const float*>(loaded.tensor("parameters/w").data());
  EXPECT_EQ(std::vector<float>(values, values + 3), (std::vector<float>{1, 20, 3}));
}

TEST_F(CheckpointTest, ReadsThePartThatIsWanted) {
  write(path("a.h5"), rich_state(1), 1);
  const State part =
      read(path("a.h5"), [](std::string_view name) { return name.starts_with("rng/"); }).state;
  EXPECT_EQ(part.tensors().size(), 1U);
  EXPECT_EQ(part.get<std::string>("options/model"), "cnn");
}

TEST_F(CheckpointTest, StateRefusesWhatAFileCannotHold) {
  State state;
  const Tensor tensor;
  for (const char* bad : {"", "weight", "/weight", "parameters/", "para meters/w", "../x/w",
                          "parameters/\xC3", "parameters/\xED\xA0\x80"})
    EXPECT_THROW(state.set(bad, tensor), std::invalid_argument) << bad;
  EXPECT_THROW(state.set("parameters/" + std::string(5000, 'x'), tensor), std::invalid_argument);
  EXPECT_THROW(state.set("options/x", std::string("\xFF")), std::invalid_argument);
  const float one = 1;
  EXPECT_THROW(Tensor::view(Element::f32, {-1}, &one), std::invalid_argument);
  EXPECT_THROW(Tensor::view(Element::f32, {2}, nullptr), std::invalid_argument);
  EXPECT_THROW(Tensor::view(Element::f32, Shape(33, 1), &one), std::invalid_argument);
  EXPECT_THROW(Tensor::view(Element::f32, {1LL << 40, 1LL << 40}, &one), std::invalid_argument);
  EXPECT_EQ(Tensor::view(Element::f32, {1LL << 40, 1LL << 40, 0}, nullptr).elements(), 0);
}

TEST_F(CheckpointTest, GetNamesWhatIsMissing) {
  State state;
  state.set("progress/step", std::int64_t{3});
  EXPECT_EQ(state.get<std::int64_t>("progress/step"), 3);
  EXPECT_EQ(state.get_or<std::int64_t>("progress/pass", 8), 8);
  EXPECT_THROW(state.get<double>("progress/step"), std::out_of_range);
  EXPECT_THROW(state.get<double>("progress/loss"), std::out_of_range);
  EXPECT_THROW(state.tensor("parameters/w"), std::out_of_range);
}

// 1,000 files that differ from a good one in a random way: never a crash, a hang or other content.
TEST_F(CheckpointTest, DamageIsRefusedOrHarmless) {
  const State state = rich_state(11);
  write(path("good.h5"), state, 3);
  const std::string good = bytes_of(path("good.h5"));
  std::mt19937_64 random(20260101);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bad = good;
    // Every other damage strikes the first 4 kB, where the seal and HDF5's superblock are.
    const std::size_t reach = i % 2 == 0 ? good.size() : std::size_t{4096};
    switch (i % 5) {
      case 0:
        bad[below(reach)] ^= static_cast<char>(1U << below(8));
        break;
      case 1: {
        const std::size_t at = below(reach);
        std::fill_n(bad.begin() + static_cast<std::ptrdiff_t>(at),
                    std::min(1 + below(600), bad.size() - at), i % 3 == 0 ? '\xFF' : '\0');
        break;
      }
      case 2:
        bad.resize(below(reach));
        break;
      case 3:
        for (std::size_t n = 1 + below(600); n > 0; --n) bad += static_cast<char>(random());
        break;
      default:
        std::swap_ranges(bad.begin(), bad.begin() + 512,
                         bad.begin() + static_cast<std::ptrdiff_t>(512 + below(reach - 512) / 2));
    }
    write_bytes(path("bad.h5"), bad);
    const auto error = error_of([&] { expect_equal(read(path("bad.h5")).state, state); });
    const auto verified = error_of([&] { verify(path("bad.h5")); });
    ASSERT_EQ(error.has_value(), verified.has_value()) << "damage " << i;
    ASSERT_EQ(error.has_value(), bad != good) << "damage " << i;
    if (!error) continue;
    ++refused;
    EXPECT_TRUE(error->is_refusal()) << error->what();
    EXPECT_EQ(error->file(), path("bad.h5"));
    if (i % 5 == 2 && bad.size() > 19) {
      EXPECT_EQ(error->reason(), Reason::kTruncated) << error->what();
    }
  }
  EXPECT_GT(refused, 900);
}

TEST_F(CheckpointTest, EveryByteOfTheSealCounts) {
  write(path("good.h5"), State(), 3);
  const std::string good = bytes_of(path("good.h5"));
  for (std::size_t i = 0; i < kSealSize; ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] + 1);
    write_bytes(path("bad.h5"), bad);
    const auto error = error_of([&] { peek(path("bad.h5")); });
    ASSERT_TRUE(error) << "byte " << i;
    EXPECT_EQ(error->reason(), Reason::kDamaged) << error->what();
  }
}

// A file whose seal is right but whose HDF5 part is not what the writer makes: the second line of
// defence, each tensor's own checksum and the list of all.
TEST_F(CheckpointTest, AnHonestSealOverWrongContentIsRefused) {
  State state;
  const std::vector<float> weights(1000, 1.5F);
  state.set("parameters/w", Tensor::view(Element::f32, {1000}, weights.data()));
  state.set("progress/step", std::int64_t{77});
  write(path("good.h5"), state, 3);
  const std::string good = bytes_of(path("good.h5"));
  const std::string pattern(reinterpret_cast<const char*>(weights.data()), 400);
  const auto resealed = [&](std::string bytes) {
    const Info info{1, 3, peek(path("good.h5")).created, bytes.size()};
    const auto seal = encode_seal({info, xxh64(std::string_view(bytes).substr(kSealSize))});
    std::memcpy(bytes.data(), seal.data(), seal.size());
    write_bytes(path("bad.h5"), bytes);
  };
  resealed(good);
  EXPECT_NO_THROW(read(path("bad.h5")));

  std::string bad = good;
  bad[good.find(pattern) + 100] ^= 1;
  resealed(bad);
  auto error = error_of([&] { read(path("bad.h5")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->reason(), Reason::kDamaged);
  EXPECT_NE(error->detail().find("checksum of w"), std::string::npos) << error->what();

  bad = good;
  bad[good.find("{\"step\"") + 8] ^= 1;
  resealed(bad);
  error = error_of([&] { read(path("bad.h5")); });
  ASSERT_TRUE(error);
  EXPECT_NE(error->detail().find("manifest"), std::string::npos) << error->what();

  resealed(good.substr(0, kSealSize) + std::string(3000, '\0'));
  error = error_of([&] { read(path("bad.h5")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->reason(), Reason::kDamaged) << error->what();
}

TEST_F(CheckpointTest, ANewerVersionIsCalledNewer) {
  write(path("a.h5"), State(), 3);
  std::string bytes = bytes_of(path("a.h5"));
  Info info = peek(path("a.h5"));
  info.format_version = 2;
  const auto seal = encode_seal({info, 0});
  std::memcpy(bytes.data(), seal.data(), seal.size());
  write_bytes(path("a.h5"), bytes);
  const auto error = error_of([&] { read(path("a.h5")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->reason(), Reason::kTooNew);
  EXPECT_NE(error->advice().find("newer release"), std::string::npos);
}

TEST_F(CheckpointTest, OtherFilesAreNamedForWhatTheyAre) {
  const auto reason = [&](const std::string& name) {
    const auto error = error_of([&] { read(path(name)); });
    EXPECT_TRUE(error) << name;
    return error ? error->reason() : Reason::kNoSpace;
  };
  write_bytes(path("empty.h5"), "");
  EXPECT_EQ(reason("empty.h5"), Reason::kTruncated);
  write_bytes(path("text.h5"), std::string(5000, 'x'));
  EXPECT_EQ(reason("text.h5"), Reason::kForeign);
  write_bytes(path("short.h5"), "bellows-check");
  EXPECT_EQ(reason("short.h5"), Reason::kTruncated);
  std::filesystem::create_directory(path("folder.h5"));
  EXPECT_EQ(reason("folder.h5"), Reason::kIo);
  EXPECT_EQ(reason("missing.h5"), Reason::kIo);
  ASSERT_EQ(::mkfifo(path("fifo.h5").c_str(), 0600), 0);
  EXPECT_EQ(reason("fifo.h5"), Reason::kForeign);

  const hid_t file = H5Fcreate(path("other.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  H5Fclose(file);
  const auto error = error_of([&] { read(path("other.h5")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->reason(), Reason::kForeign);
  EXPECT_NE(error->detail().find("HDF5"), std::string::npos);
}

}  // namespace
}  // namespace bellows::checkpoint
