// SPDX-License-Identifier: Apache-2.0
// The order of the data is a permutation, the same for any number of ranks; the options are what
// they say.
#include <algorithm>
#include <numeric>
#include <set>

#include "tests/unit/trainer_fixture.h"
#include "trainer/data/sampler.h"
#include "trainer/errors.h"
#include "trainer/options/options.h"

namespace bellows::trainer {
namespace {

std::vector<std::uint64_t> values_of(const Permutation& order) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < order.size(); ++i) values.push_back(order.at(i));
  return values;
}

TEST(PermutationTest, VisitsEachValueOnce) {
  std::vector<std::uint64_t> sizes(130);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (const std::uint64_t extra : {255, 256, 257, 1000, 4095, 4097, 60000}) sizes.push_back(extra);
  for (const std::uint64_t size : sizes) {
    std::vector<std::uint64_t> values = values_of(Permutation(7, 3, size));
    std::ranges::sort(values);
    for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(values[i], i) << "size " << size;
  }
}

TEST(PermutationTest, DependsOnSeedAndPass) {
  const auto first = values_of(Permutation(1, 0, 1000));
  EXPECT_EQ(first, values_of(Permutation(1, 0, 1000)));
  EXPECT_NE(first, values_of(Permutation(2, 0, 1000)));
  EXPECT_NE(first, values_of(Permutation(1, 1, 1000)));
}

// Of random permutations about one value stays in place and neighbours are as often up as down;
// the mean of |value - position| is size / 3.
TEST(PermutationTest, LooksRandom) {
  constexpr std::uint64_t kSize = 60000;
  std::uint64_t fixed = 0;
  std::uint64_t rising = 0;
  double distance = 0;
  for (std::uint64_t pass = 0; pass < 4; ++pass) {
    const auto values = values_of(Permutation(11, pass, kSize));
    for (std::uint64_t i = 0; i < kSize; ++i) {
      fixed += values[i] == i;
      if (i > 0) rising += values[i] > values[i - 1];
      distance += std::abs(static_cast<double>(values[i]) - static_cast<double>(i));
    }
  }
  EXPECT_LT(fixed, 30U);
  EXPECT_NEAR(static_cast<double>(rising) / (4 * kSize), 0.5, 0.01);
  EXPECT_NEAR(distance / (4 * kSize), kSize / 3.0, kSize / 100.0);
}

TEST(PermutationTest, RefusesAPositionBehindTheEnd) {
  EXPECT_THROW(Permutation(1, 0, 10).at(10), std::out_of_range);
}

TEST(ShareTest, SharesCoverTheBatchExactlyAndEvenly) {
  for (const std::uint64_t size : {0, 1, 2, 7, 31, 128, 1000}) {
    for (int ranks = 1; ranks <= 40; ++ranks) {
      const Range whole{100, 100 + size};
      std::uint64_t at = whole.begin;
      std::set<std::uint64_t> sizes;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range part = share(whole, rank, ranks);
        EXPECT_EQ(part.begin, at);
        at = part.end;
        sizes.insert(part.size());
      }
      EXPECT_EQ(at, whole.end);
      EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1U);
    }
  }
}

TEST(ShareTest, DoesNotOverflow) {
  const Range whole{0, ~std::uint64_t{0}};
  EXPECT_EQ(share(whole, 6, 7).end, whole.end);
}

TEST(SamplerTest, EachPassUsesEachSampleOnce) {
  Sampler sampler(5, 103);
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<std::uint64_t> seen;
    bool ended = false;
    while (!ended) {
      const Range batch = sampler.next(10);
      for (const std::uint64_t id : sampler.samples(batch)) seen.push_back(id);
      ended = sampler.advance(batch);
    }
    std::ranges::sort(seen);
    ASSERT_EQ(seen.size(), 103);
    for (std::uint64_t i = 0; i < 103; ++i) EXPECT_EQ(seen[i], i);
  }
  EXPECT_EQ(sampler.position(), (Position{3, 0}));
}

TEST(SamplerTest, TheSequenceOfSamplesDoesNotDependOnBatchOrRanks) {
  const auto walk = [](std::uint64_t batch, int ranks) {
    Sampler sampler(5, 103);
    std::vector<std::uint64_t> seen;
    while (sampler.position().pass < 2) {
      const Range whole = sampler.next(batch);
      for (int rank = 0; rank < ranks; ++rank)
        for (const std::uint64_t id : sampler.samples(share(whole, rank, ranks)))
          seen.push_back(id);
      sampler.advance(whole);
    }
    return seen;
  };
  const auto expected = walk(10, 1);
  EXPECT_EQ(walk(10, 3), expected);
  EXPECT_EQ(walk(7, 5), expected);
  EXPECT_EQ(walk(1000, 8), expected);
}

TEST(SamplerTest, GoesOnWhereItWas) {
  Sampler sampler(5, 103);
  for (int i = 0; i < 15; ++i) sampler.advance(sampler.next(10));
  Sampler other(5, 103);
  other.seek(sampler.position());
  EXPECT_EQ(other.samples(other.next(10)), sampler.samples(sampler.next(10)));
  EXPECT_THROW(other.seek({0, 103}), std::out_of_range);
}

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "bellows-train");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

Options parse_good(std::vector<const char*> more) {
  more.insert(more.end(), {"--model", "cnn", "--data", "fashion-mnist"});
  return parse(std::move(more));
}

TEST(OptionsTest, HasSensibleDefaults) {
  const Options o = parse_good({});
  EXPECT_EQ(o.passes, 5);
  EXPECT_EQ(o.lr, 0.05);
  EXPECT_EQ(parse_good({"--optimizer", "adam"}).lr, 0.001);
  EXPECT_EQ(parse_good({"--steps", "10"}).passes, 0);
}

TEST(OptionsTest, EpochsArePasses) {
  EXPECT_EQ(parse_good({"--epochs", "7"}).passes, 7);
  EXPECT_EQ(parse_good({"--epochs=8"}).passes, 8);
}

TEST(OptionsTest, CheckpointsBySteps) {
  const Options o = parse_good({"--checkpoint-dir", "d", "--checkpoint-every", "100"});
  EXPECT_EQ(o.checkpoint_steps, 100);
  EXPECT_EQ(parse_good({"--checkpoint-dir", "d", "--checkpoint-every", "2.5s"}).checkpoint_seconds,
            2.5);
}

TEST(OptionsTest, NamesWhatIsWrongAndWhatIsAllowed) {
  const auto wrong = [](std::vector<const char*> arguments, std::vector<std::string> parts) {
    expect_error<UsageError>([&] { parse_good(arguments); }, parts);
  };
  wrong({"--colour", "red"}, {"--colour", "unknown option"});
  wrong({"--mod", "cnn"}, {"--mod", "unknown option"});
  wrong({"stray"}, {"without a name"});
  wrong({"--batch", "many"}, {"batch", "many"});
  wrong({"--batch", "0"}, {"--batch 0", "from 1"});
  wrong({"--batch", "-4"}, {"--batch -4", "from 1"});
  wrong({"--optimizer", "lion"}, {"--optimizer lion", "sgd, adam, adamw"});
  wrong({"--lr", "0"}, {"--lr 0", "positive"});
  wrong({"--lr", "nan"}, {"--lr", "positive"});
  wrong({"--lr", "1e300"}, {"--lr", "positive"});
  wrong({"--checkpoint-dir", "c", "--checkpoint-every", "1e30"}, {"--checkpoint-every 1e30"});
  wrong({"--passes", "0"}, {"--passes", "positive"});
  wrong({"--dropout", "1"}, {"--dropout 1"});
  wrong({"--device", "tpu"}, {"--device tpu", "cpu, cuda"});
  wrong({"--nesterov", "--optimizer", "adam"}, {"--nesterov"});
  wrong({"--checkpoint-every", "10"}, {"--checkpoint-every", "--checkpoint-dir"});
  wrong({"--checkpoint-dir", "d", "--checkpoint-every", "soon"}, {"--checkpoint-every soon"});
  wrong({"--checkpoint-dir", "d", "--checkpoint-every", "1.5"}, {"--checkpoint-every 1.5"});
  wrong({"--lr-schedule", "cosine", "--train-seconds", "5"}, {"cosine", "--passes"});
  wrong({"--lr-schedule", "one-cycle", "--train-seconds", "5"}, {"one-cycle", "--passes"});
  wrong({"--lr-schedule", "one-cycle", "--warmup", "5"}, {"--warmup", "one-cycle"});
  wrong({"--lr-schedule", "polynomial", "--lr-power", "-1"}, {"--lr-power"});
  wrong({"--batch-rule", "elastic"}, {"--batch-rule elastic", "fixed, per-rank, hybrid"});
  wrong({"--batch-rule", "hybrid"}, {"--batch-rule hybrid", "--rank-batch"});
  wrong({"--rank-batch", "16"}, {"--rank-batch", "per-rank"});
  wrong({"--batch-rule", "per-rank", "--max-batch", "100"}, {"--max-batch 100", "128"});
  for (const char* bounds : {"8", "8,", "9,8", "0,8", "8,16,", "8;16", "a,b"})
    wrong({"--micro-batch-bounds", bounds}, {"--micro-batch-bounds", bounds, "LEAST,MOST"});
  wrong({"--micro-batch-bounds", "8,16", "--micro-batch", "8"}, {"--micro-batch-bounds"});
  wrong({"--lr-rule", "cubic"}, {"--lr-rule cubic", "none, linear, sqrt, adascale"});
  wrong({"--lr-rule", "legw"}, {"--lr-rule legw", "--warmup"});
  wrong({"--lr-rule", "adamscale"}, {"--lr-rule adamscale", "adam", "adascale"});
  wrong({"--lr-rule", "adascale", "--optimizer", "adam"}, {"--lr-rule adascale", "adamscale"});
  wrong({"--config", "/none/at/all"}, {"--config", "/none/at/all"});
  expect_error<UsageError>([&] { parse({"--data", "fashion-mnist"}); },
                           {"--model", "mlp, cnn, resnet18, transformer"});
  expect_error<UsageError>([&] { parse({"--model", "vgg", "--data", "fashion-mnist"}); },
                           {"--model vgg", "mlp, cnn, resnet18, transformer"});
  expect_error<UsageError>([&] { parse({"--model", "transformer", "--data", "fashion-mnist"}); },
                           {"transformer", "text:FILE"});
}

TEST(OptionsTest, RulesAreAPartOfTheMathematicsWithWhatTheyGoBy) {
  const auto usual = parse_good({}).mathematics();
  EXPECT_EQ(usual.at("batch-rule"), "fixed");
  EXPECT_EQ(usual.at("lr-rule"), "none");
  EXPECT_EQ(usual.count("max-batch"), 0);
  const auto rules = parse_good({"--batch-rule", "hybrid", "--rank-batch", "32", "--max-batch",
                                 "512", "--micro-batch-bounds", "8,16", "--lr-rule", "linear"})
                         .mathematics();
  EXPECT_EQ(rules.at("batch-rule"), "hybrid");
  EXPECT_EQ(rules.at("rank-batch"), "32");
  EXPECT_EQ(rules.at("max-batch"), "512");
  EXPECT_EQ(rules.at("micro-batch-bounds"), "8,16");
  EXPECT_EQ(rules.at("lr-ramp"), "100");
}

using ConfigTest = TrainerTest;

TEST_F(ConfigTest, TheCommandLineWinsOverTheFile) {
  const std::string file =
      write("c", "model = mlp   # a comment\ndata = fashion-mnist\nbatch = 32\nseed = 9\n");
  const Options o = parse({"--config", file.c_str(), "--batch", "64"});
  EXPECT_EQ(o.model, "mlp");
  EXPECT_EQ(o.batch, 64);
  EXPECT_EQ(o.seed, 9);
}

TEST_F(ConfigTest, NamesAnUnknownLine) {
  const std::string file = write("c", "model = mlp\ncolour = red\n");
  expect_error<UsageError>([&] { parse({"--config", file.c_str()}); }, {file, "colour"});
}

}  // namespace
}  // namespace bellows::trainer
