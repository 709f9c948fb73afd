// SPDX-License-Identifier: Apache-2.0
// bellows-ckpt as a user runs it, and checkpoints in the hands of HDF5's own tools and of h5py.
#include <sys/wait.h>

#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>

#include "checkpoint/store.h"
#include "checkpoint/values.h"
#include "tests/unit/checkpoint_fixture.h"

namespace bellows::checkpoint {
namespace {

namespace json = boost::json;

struct Outcome {
  int status = -1;
  std::string output;
};

Outcome shell(const std::string& command) {
  Outcome outcome;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
    outcome.output += static_cast<char>(c);
  outcome.status = WEXITSTATUS(::pclose(pipe));
  return outcome;
}

class CheckpointToolTest : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    const auto tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    tool_ = (tests.parent_path() / "bin" / "bellows-ckpt").string();
  }
  // In the test's folder.
  Outcome run(const std::string& arguments) const {
    std::string command = "cd " + folder_.string() + " && " + tool_ + " " + arguments + " 2>&1";
    return shell(command);
  }
  static State small_state(float second) {
    const float weights[] = {1, second, -4};
    State state;
    state.set("parameters/w", Tensor::copy(Element::f32, {3}, weights));
    state.set("buffers/count", Tensor::copy(Element::f32, {0, 2}, nullptr));
    state.set("progress/step", std::int64_t{7});
    state.set("options/model", std::string("cnn"));
    return state;
  }
  std::string tool_;
};

TEST_F(CheckpointToolTest, UsageIsExplainedAndMistakesEndWith2) {
  for (const char* help : {"--help", "ls --help", "show -h", "verify --help", "diff --help"}) {
    EXPECT_EQ(run(help).status, 0) << help;
    EXPECT_NE(run(help).output.find("usage: bellows-ckpt ls"), std::string::npos) << help;
  }
  EXPECT_EQ(run("--version").output.find("bellows-ckpt "), 0U);
  for (const char* wrong : {"", "frob", "ls", "show", "verify", "diff a", "diff a b c",
                            "ls --frob x", "diff -t x a b", "diff -t -1 a b", "show --values=-1 a"})
    EXPECT_EQ(run(wrong).status, 2) << wrong;
}

TEST_F(CheckpointToolTest, ListsNewestFirstAndMarksWhatIsNoCheckpoint) {
  Store store(folder_);
  store.save(small_state(2), 5);
  store.save(small_state(2), 6);
  write_bytes(path("other.h5"), "something else");
  const Outcome text = run("ls .");
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(text.output.find("6\t"), 0U);
  EXPECT_LT(text.output.find("\n5\t"), text.output.find("\n-\t-\t-\tforeign\t./other.h5"));
  const json::array array = json::parse(run("ls --json .").output).as_array();
  ASSERT_EQ(array.size(), 3U);
  EXPECT_EQ(array[0].at("step"), 6);
  EXPECT_EQ(array[2].at("status"), "foreign");
  EXPECT_EQ(run("ls nowhere").status, 1);
}

TEST_F(CheckpointToolTest, ShowsProgressOptionsAndTensors) {
  write(path("a.h5"), small_state(2), 7);
  const Outcome text = run("show a.h5");
  EXPECT_EQ(text.status, 0);
  for (const char* line :
       {"step\t7\n", "options/model\t\"cnn\"\n", "progress/step\t7\n",
        "buffers/count\tf32\t[0,2]\tnorm=0\tmin=-\tmax=-\tmean=-\n",
        "parameters/w\tf32\t[3]\tnorm=4.58257569\tmin=-4\tmax=2\tmean=-0.333333333\n"})
    EXPECT_NE(text.output.find(line), std::string::npos) << line << text.output;
  EXPECT_NE(run("show --values 2 a.h5 parameters/w").output.find("\n1\n2\n"), std::string::npos);
  const json::value shown = json::parse(run("show --json a.h5").output);
  EXPECT_EQ(shown.at("attributes").at("options/model"), "cnn");
  EXPECT_EQ(shown.at("tensors").at("parameters/w").at("max"), 2.0);
  EXPECT_EQ(run("show a.h5 parameters/none").status, 1);
}

TEST_F(CheckpointToolTest, VerifyNamesTheDamagedOnes) {
  write(path("good.h5"), small_state(2), 7);
  EXPECT_EQ(run("verify .").status, 0);
  std::string bytes = bytes_of(path("good.h5"));
  bytes.back() ^= 1;
  write_bytes(path("bad.h5"), bytes);
  write_bytes(path("short.h5"), bytes.substr(0, 700));
  const Outcome text = run("verify .");
  EXPECT_EQ(text.status, 1);
  EXPECT_NE(text.output.find("./good.h5: ok, step 7\n"), std::string::npos);
  EXPECT_NE(text.output.find("./bad.h5: damaged: "), std::string::npos);
  EXPECT_NE(text.output.find("./short.h5: truncated: "), std::string::npos);
  const json::array array = json::parse(run("verify --json bad.h5").output).as_array();
  EXPECT_EQ(array.at(0).at("status"), "damaged");
  EXPECT_EQ(run("verify nowhere.h5").status, 1);
}

TEST_F(CheckpointToolTest, DiffTellsHowFarApartTheyAre) {
  write(path("a.h5"), small_state(2), 7);
  write(path("same.h5"), small_state(2), 7);
  write(path("near.h5"), small_state(2.25), 7);
  EXPECT_EQ(run("diff a.h5 same.h5").status, 0);
  const Outcome far = run("diff a.h5 near.h5");
  EXPECT_EQ(far.status, 1);
  EXPECT_EQ(far.output, "parameters/w\tmax-abs=0.25\tmax-rel=0.111111111\n");
  EXPECT_EQ(run("diff --tolerance 0.25 a.h5 near.h5").status, 0);
  EXPECT_EQ(run("diff --tolerance 0.24 a.h5 near.h5").status, 1);
  EXPECT_EQ(run("diff --relative 0.12 a.h5 near.h5").status, 0);
  EXPECT_EQ(run("diff --ignore parameters/ a.h5 near.h5").status, 0);
  EXPECT_EQ(run("diff --only progress/ a.h5 near.h5").status, 0);
  EXPECT_EQ(run("diff --only nothing/ a.h5 near.h5").status, 2);
  EXPECT_EQ(run("diff a.h5 missing.h5").status, 2);
  const json::value parsed = json::parse(run("diff --json a.h5 near.h5").output);
  EXPECT_EQ(parsed.at("same"), false);
  EXPECT_EQ(parsed.at("differences").at(0).at("max_abs"), 0.25);

  State other = small_state(2);
  other.set("options/model", std::string("mlp"));
  other.set("parameters/extra", Tensor());
  write(path("other.h5"), other, 7);
  const Outcome mixed = run("diff -t 100 a.h5 other.h5");
  EXPECT_EQ(mixed.status, 1);
  EXPECT_EQ(
      mixed.output,
      "parameters/extra\tonly in the second\noptions/model\tattributes of different values\n");
}

TEST_F(CheckpointToolTest, DiffIsNotFooledByNotANumber) {
  write(path("a.h5"), small_state(2), 7);
  write(path("nan.h5"), small_state(std::numeric_limits<float>::quiet_NaN()), 7);
  write(path("inf.h5"), small_state(std::numeric_limits<float>::infinity()), 7);
  EXPECT_EQ(run("diff -t 1e300 -r 10 a.h5 nan.h5").status, 1);
  EXPECT_EQ(run("diff -t 1e300 -r 10 a.h5 inf.h5").status, 1);
  EXPECT_EQ(run("diff -r 10 nan.h5 nan.h5").status, 0);
}

TEST_F(CheckpointToolTest, NumbersOfAllTypesAreRead) {
  const std::uint16_t half[] = {0x3C00, 0xC000, 0x0001, 0x7C00, 0x7BFF};
  const Tensor f16 = Tensor::view(Element::f16, {5}, half);
  EXPECT_EQ(value_at(f16, 0), 1);
  EXPECT_EQ(value_at(f16, 1), -2);
  EXPECT_EQ(value_at(f16, 2), 0x1p-24);
  EXPECT_EQ(value_at(f16, 4), 65504);
  EXPECT_EQ(summarize(f16).not_finite, 1);
  const std::uint16_t brain[] = {0x3F80, 0xC040};
  EXPECT_EQ(value_at(Tensor::view(Element::bf16, {2}, brain), 1), -3);
  const std::int64_t large = -5;
  EXPECT_EQ(value_at(Tensor::view(Element::i64, {}, &large), 0), -5);
  const std::uint8_t byte = 255;
  EXPECT_EQ(value_at(Tensor::view(Element::u8, {}, &byte), 0), 255);
  EXPECT_EQ(value_at(Tensor::view(Element::i8, {}, &byte), 0), -1);
}

// Written by release 0.1.0: whatever comes later must read it.
TEST_F(CheckpointToolTest, FilesOfVersion1AreReadForEver) {
  const Contents contents = read(BELLOWS_SOURCE "/tests/unit/checkpoint_v1.h5");
  EXPECT_EQ(contents.info.format_version, 1);
  EXPECT_EQ(contents.info.step, 4200);
  EXPECT_EQ(contents.info.created, "2026-01-31T12:00:00.123456Z");
  State expected = small_state(2);
  const std::uint16_t brain[] = {0x3F80, 0xC040};
  expected.set("parameters/brain", Tensor::view(Element::bf16, {2}, brain));
  const std::uint16_t half[] = {0x3C00, 0xC000};
  expected.set("parameters/a/b.half", Tensor::view(Element::f16, {1, 2}, half));
  const std::uint8_t flag = 1;
  expected.set("buffers/flag", Tensor::view(Element::boolean, {}, &flag));
  expected.set("progress/loss", 0.1);
  expected.set("options/nesterov", true);
  expected.set("options/empty", std::string());
  expect_equal(contents.state, expected);
}

TEST_F(CheckpointToolTest, H5dumpShowsTheStructure) {
  if (shell("h5dump --version").status != 0) GTEST_SKIP() << "no h5dump";
  write(path("a.h5"), rich_state(1), 7);
  const Outcome dump = shell("h5dump -H " + path("a.h5").string() + " 2>&1");
  EXPECT_EQ(dump.status, 0) << dump.output;
  for (const char* part : {"GROUP \"parameters\"", "DATASET \"f32.weight\"", "H5T_IEEE_F32LE",
                           "( 3, 5, 2 ) / ( 3, 5, 2 )", "ATTRIBUTE \"format_version\"",
                           "DATASET \"manifest.json\"", "DATASET \"layer%2Fwith%2Fslashes\""})
    EXPECT_NE(dump.output.find(part), std::string::npos) << part;
}

// The example of docs/checkpoint-format.md, run as it stands there.
TEST_F(CheckpointToolTest, H5pyReadsItAsTheManualSays) {
  if (shell("python3 -c 'import h5py' 2>/dev/null").status != 0) GTEST_SKIP() << "no h5py";
  const std::string page = bytes_of(BELLOWS_SOURCE "/docs/checkpoint-format.md");
  const std::string opening = "```python\n";
  const std::size_t begin = page.find(opening);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t start = begin + opening.size();
  write_bytes(path("read.py"), page.substr(start, page.find("```", start) - start));
  State state = rich_state(1);
  const std::uint16_t brain[] = {0x3F80, 0xC040};
  state.set("parameters/brain", Tensor::view(Element::bf16, {2}, brain));
  const std::uint16_t half[] = {0x3C00, 0xC000};
  state.set("parameters/half", Tensor::view(Element::f16, {2}, half));
  write(path("a.h5"), state, 7);
  write_bytes(path("check.py"),
              "import sys, zlib, json, numpy\n"
              "sys.argv = ['read.py', 'a.h5']\n"
              "exec(open('read.py').read())\n"
              "assert step == 7 and options['model'] == 'cnn' and options['nesterov'] == True\n"
              "assert parameters['brain'].tolist() == [1.0, -3.0]\n"
              "assert parameters['half'].dtype == 'float16'\n"
              "assert parameters['half'].tolist() == [1.0, -2.0]\n"
              "assert parameters['f32.weight'].shape == (3, 5, 2)\n"
              "assert parameters['bool.weight'].dtype == bool\n"
              "manifest = json.loads(h5py.File('a.h5')['manifest.json'][()])\n"
              "for e in ('f16', 'f32', 'f64', 'i8', 'u8', 'i16', 'i32', 'i64', 'bool'):\n"
              "    entry = manifest['tensors']['parameters/' + e + '.weight']\n"
              "    assert zlib.crc32(parameters[e + '.weight'].tobytes()) == entry['crc32'], e\n"
              "assert 'α-β/日本語/🙂' in optimizer and 'new\\nline' in optimizer\n");
  const Outcome python = shell("cd " + folder_.string() + " && python3 check.py 2>&1");
  EXPECT_EQ(python.status, 0) << python.output;
}

}  // namespace
}  // namespace bellows::checkpoint
