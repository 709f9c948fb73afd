// SPDX-License-Identifier: Apache-2.0
// The readers give what the files hold, and name file and place when a file is not what it should
// be.
#include <hdf5.h>

#include <array>
#include <cmath>

#include "tests/unit/trainer_fixture.h"
#include "trainer/data/dataset.h"
#include "trainer/data/idx.h"
#include "trainer/errors.h"

namespace bellows::trainer {
namespace {

std::string pixels(std::size_t count) {
  std::string data;
  for (std::size_t i = 0; i < count; ++i) data += static_cast<char>(i * 37 % 251);
  return data;
}

using IdxTest = TrainerTest;

TEST_F(IdxTest, ReadsPlainAndCompressedFiles) {
  const std::string data = pixels(3 * 4 * 5);
  for (const std::string& file : {write("plain", idx_bytes({3, 4, 5}, data)),
                                  write_gzip("packed.gz", idx_bytes({3, 4, 5}, data))}) {
    const Idx idx = read_idx(file, 3);
    EXPECT_EQ(idx.sizes, (std::vector<std::uint32_t>{3, 4, 5}));
    EXPECT_EQ(std::string(idx.bytes.begin(), idx.bytes.end()), data);
  }
}

TEST_F(IdxTest, NamesFileAndOffsetOfATruncation) {
  const std::string whole = idx_bytes({3, 4, 5}, pixels(60));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string file = write("cut", whole.substr(0, size));
    expect_error<DataError>([&] { read_idx(file, 3); }, {file, "truncated", "offset"});
  }
}

TEST_F(IdxTest, RefusesACompressedFileCutAnywhere) {
  write_gzip("whole.gz", idx_bytes({3, 4, 50}, pixels(600)));
  const std::string whole = read("whole.gz");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string file = write("cut.gz", whole.substr(0, size));
    expect_error<DataError>([&] { read_idx(file, 3); }, {file});
  }
}

TEST_F(IdxTest, RefusesDamagedCompression) {
  write_gzip("whole.gz", idx_bytes({3, 4, 50}, pixels(600)));
  std::string bytes = read("whole.gz");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  const std::string file = write("damaged.gz", bytes);
  expect_error<DataError>([&] { read_idx(file, 3); }, {file, "offset"});
}

TEST_F(IdxTest, RefusesAWrongMagic) {
  const std::string file = write("x", idx_bytes({60}, pixels(60)));
  expect_error<DataError>([&] { read_idx(file, 3); },
                          {file, "wrong magic 00000801", "offset 0", "00000803"});
  const std::string text = write("y", "This is no idx file at all.");
  expect_error<DataError>([&] { read_idx(text, 1); }, {text, "wrong magic"});
}

TEST_F(IdxTest, RefusesSizesThatMakeNoSense) {
  const std::string huge = write("huge", idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, "abc"));
  expect_error<DataError>([&] { read_idx(huge, 3); }, {huge, "makes no sense", "offset 8"});
  const std::string empty = write("empty", idx_bytes({0, 28, 28}, ""));
  expect_error<DataError>([&] { read_idx(empty, 3); }, {empty, "makes no sense", "offset 4"});
}

TEST_F(IdxTest, RefusesBytesLeftOver) {
  const std::string file = write("x", idx_bytes({4}, pixels(5)));
  expect_error<DataError>([&] { read_idx(file, 1); }, {file, "left over", "offset 12"});
}

TEST_F(IdxTest, NamesAMissingFile) {
  expect_error<DataError>([&] { read_idx(path("none"), 1); },
                          {path("none"), "No such file or directory"});
}

class FashionMnistTest : public TrainerTest {
 protected:
  void write_all(const std::string& train_labels = std::string("\0\1\2\3\4\5\6\7\x08\x09", 10)) {
    write("train-images-idx3-ubyte", idx_bytes({10, 4, 4}, pixels(160)));
    write_gzip("train-labels-idx1-ubyte.gz",
               idx_bytes({static_cast<std::uint32_t>(train_labels.size())}, train_labels));
    write_gzip("t10k-images-idx3-ubyte.gz", idx_bytes({2, 4, 4}, pixels(32)));
    write("t10k-labels-idx1-ubyte", idx_bytes({2}, "\7\3"));
  }
  std::unique_ptr<Dataset> open() const {
    return open_dataset("fashion-mnist:" + folder_.string(), 0);
  }
};

TEST_F(FashionMnistTest, ReadsImagesAndLabels) {
  write_all();
  const auto data = open();
  EXPECT_EQ(data->size(Split::kTrain), 10);
  EXPECT_EQ(data->size(Split::kTest), 2);
  EXPECT_EQ(data->shape().input, (std::vector<std::int64_t>{1, 4, 4}));
  EXPECT_EQ(data->shape().classes, 10);
  std::array<std::int64_t, 2> labels{};
  std::array<float, 32> values{};
  const std::array<std::uint64_t, 2> ids{1, 0};
  data->read(Split::kTest, ids, {values.data(), nullptr, labels.data()});
  EXPECT_EQ(labels[0], 3);
  EXPECT_EQ(labels[1], 7);
}

TEST_F(FashionMnistTest, StandardisesByTheTrainingSplit) {
  write_all();
  const auto data = open();
  std::vector<std::uint64_t> ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<float> values(160);
  std::vector<std::int64_t> labels(10);
  data->read(Split::kTrain, ids, {values.data(), nullptr, labels.data()});
  double sum = 0;
  double squares = 0;
  for (const float v : values) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  EXPECT_NEAR(sum / 160, 0, 1e-5);
  EXPECT_NEAR(squares / 160, 1, 1e-5);
}

TEST_F(FashionMnistTest, NamesALabelOutOfRange) {
  write_all(std::string("\0\1\2\3\4\5\6\7\x08\x0a", 10));
  expect_error<DataError>([&] { open(); },
                          {path("train-labels-idx1-ubyte.gz"), "label 10", "offset 17", "0 to 9"});
}

TEST_F(FashionMnistTest, NamesCountsThatDisagree) {
  write_all(std::string("\0\1\2\3\4\5\6\7\x08", 9));
  expect_error<DataError>([&] { open(); },
                          {path("train-images-idx3-ubyte"), "10 images", "9 labels"});
}

TEST_F(FashionMnistTest, NamesAMissingFile) {
  write_all();
  std::filesystem::remove(path("t10k-labels-idx1-ubyte"));
  expect_error<DataError>([&] { open(); }, {path("t10k-labels-idx1-ubyte"), "no such file"});
}

class Cifar10Test : public TrainerTest {
 protected:
  static std::string records(std::size_t count, char label) {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) bytes += label + pixels(3072);
    return bytes;
  }
  std::unique_ptr<Dataset> open() const { return open_dataset("cifar10:" + folder_.string(), 0); }
};

TEST_F(Cifar10Test, ReadsAllBatchesInOrder) {
  write("data_batch_1.bin", records(2, 1));
  write("data_batch_2.bin", records(3, 2));
  write("test_batch.bin", records(1, 9));
  const auto data = open();
  EXPECT_EQ(data->size(Split::kTrain), 5);
  EXPECT_EQ(data->size(Split::kTest), 1);
  EXPECT_EQ(data->shape().input, (std::vector<std::int64_t>{3, 32, 32}));
  std::vector<float> values(2 * 3072);
  std::vector<std::int64_t> labels(2);
  const std::array<std::uint64_t, 2> ids{1, 2};
  data->read(Split::kTrain, ids, {values.data(), nullptr, labels.data()});
  EXPECT_EQ(labels, (std::vector<std::int64_t>{1, 2}));
}

TEST_F(Cifar10Test, NamesTheCutRecord) {
  write("data_batch_1.bin", records(2, 1).substr(0, 3073 + 100));
  write("test_batch.bin", records(1, 9));
  expect_error<DataError>(
      [&] { open(); }, {path("data_batch_1.bin"), "truncated", "offset 3073", "100 bytes of 3073"});
}

TEST_F(Cifar10Test, RefusesAnEmptyFile) {
  write("data_batch_1.bin", "");
  expect_error<DataError>([&] { open(); }, {path("data_batch_1.bin"), "truncated"});
}

TEST_F(Cifar10Test, NamesALabelOutOfRange) {
  write("data_batch_1.bin", records(1, 1) + records(1, 10));
  expect_error<DataError>([&] { open(); },
                          {path("data_batch_1.bin"), "label 10", "offset 3073", "0 to 9"});
}

TEST_F(Cifar10Test, NamesAMissingFile) {
  expect_error<DataError>([&] { open(); }, {path("data_batch_1.bin"), "No such file"});
}

using TextTest = TrainerTest;

TEST_F(TextTest, TargetsAreTheBytesThatFollow) {
  const std::string text = "abcdefghijklmnopqrstuvwxyz";
  const auto data = open_dataset("text:" + write("t", text), 4);
  EXPECT_EQ(data->size(Split::kTrain) + data->size(Split::kTest), 6);
  EXPECT_EQ(data->size(Split::kTest), 1);
  EXPECT_TRUE(data->shape().tokens);
  EXPECT_EQ(data->shape().targets(), 4);
  std::vector<std::int64_t> tokens(4);
  std::vector<std::int64_t> targets(4);
  const std::array<std::uint64_t, 1> ids{1};
  data->read(Split::kTrain, ids, {nullptr, tokens.data(), targets.data()});
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{'e', 'f', 'g', 'h'}));
  EXPECT_EQ(targets, (std::vector<std::int64_t>{'f', 'g', 'h', 'i'}));
  const std::array<std::uint64_t, 1> first{0};
  data->read(Split::kTest, first, {nullptr, tokens.data(), targets.data()});
  EXPECT_EQ(tokens[0], 'u');
}

TEST_F(TextTest, RefusesATextThatIsTooShort) {
  const std::string file = write("t", "abcdefgh");
  expect_error<DataError>([&] { open_dataset("text:" + file, 4); }, {file, "8 bytes", "too few"});
}

class Hdf5Test : public TrainerTest {
 protected:
  template <typename T>
  void put(const char* name, hid_t type, const std::vector<hsize_t>& sizes,
           const std::vector<T>& values) const {
    const std::string file = path("d.h5");
    const hid_t id = std::filesystem::exists(file)
                         ? H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                         : H5Fcreate(file.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t set = H5Dcreate2(id, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Fclose(id);
  }
  std::unique_ptr<Dataset> open() const { return open_dataset("hdf5:" + path("d.h5"), 0); }
};

TEST_F(Hdf5Test, ReadsVectorsAndSplitsOffATest) {
  std::vector<float> x(20 * 3);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  std::vector<std::int64_t> y(20);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int64_t>(i % 4);
  put("x", H5T_NATIVE_FLOAT, {20, 3}, x);
  put("y", H5T_NATIVE_INT64, {20}, y);
  const auto data = open();
  EXPECT_EQ(data->size(Split::kTrain), 18);
  EXPECT_EQ(data->size(Split::kTest), 2);
  EXPECT_EQ(data->shape().classes, 4);
  std::vector<float> values(3);
  std::vector<std::int64_t> label(1);
  const std::array<std::uint64_t, 1> last{1};
  data->read(Split::kTest, last, {values.data(), nullptr, label.data()});
  EXPECT_EQ(values, (std::vector<float>{57, 58, 59}));
  EXPECT_EQ(label[0], 3);
}

TEST_F(Hdf5Test, ScalesBytesAndTakesTheGivenTest) {
  put("x", H5T_NATIVE_UINT8, {2, 4, 4}, std::vector<std::uint8_t>(32, 255));
  put("y", H5T_NATIVE_INT32, {2}, std::vector<std::int32_t>{0, 1});
  put("x_test", H5T_NATIVE_UINT8, {1, 4, 4}, std::vector<std::uint8_t>(16, 0));
  put("y_test", H5T_NATIVE_INT32, {1}, std::vector<std::int32_t>{2});
  const auto data = open();
  EXPECT_EQ(data->shape().input, (std::vector<std::int64_t>{1, 4, 4}));
  EXPECT_EQ(data->shape().classes, 3);
  EXPECT_EQ(data->size(Split::kTrain), 2);
  std::vector<float> values(16);
  std::vector<std::int64_t> label(1);
  const std::array<std::uint64_t, 1> first{0};
  data->read(Split::kTrain, first, {values.data(), nullptr, label.data()});
  EXPECT_FLOAT_EQ(values[0], 1);
}

TEST_F(Hdf5Test, RefusesWhatIsNoHdf5File) {
  write("d.h5", "hello");
  expect_error<DataError>([&] { open(); }, {path("d.h5"), "not an HDF5 file"});
}

TEST_F(Hdf5Test, RefusesATruncatedFile) {
  put("x", H5T_NATIVE_FLOAT, {1000, 3}, std::vector<float>(3000, 1));
  put("y", H5T_NATIVE_INT64, {1000}, std::vector<std::int64_t>(1000, 1));
  std::filesystem::resize_file(path("d.h5"), std::filesystem::file_size(path("d.h5")) / 2);
  expect_error<DataError>([&] { open(); }, {path("d.h5")});
}

TEST_F(Hdf5Test, NamesAMissingDataset) {
  put("x", H5T_NATIVE_FLOAT, {2, 3}, std::vector<float>(6, 1));
  expect_error<DataError>([&] { open(); }, {path("d.h5"), "no dataset named y"});
}

TEST_F(Hdf5Test, NamesCountsThatDisagree) {
  put("x", H5T_NATIVE_FLOAT, {4, 3}, std::vector<float>(12, 1));
  put("y", H5T_NATIVE_INT64, {3}, std::vector<std::int64_t>(3, 1));
  expect_error<DataError>([&] { open(); }, {path("d.h5"), "x has 4 samples", "3 labels"});
}

TEST_F(Hdf5Test, NamesANegativeLabel) {
  put("x", H5T_NATIVE_FLOAT, {3, 3}, std::vector<float>(9, 1));
  put("y", H5T_NATIVE_INT64, {3}, std::vector<std::int64_t>{0, -1, 1});
  expect_error<DataError>([&] { open(); }, {path("d.h5"), "label -1", "sample 1"});
}

TEST_F(Hdf5Test, RefusesLabelsThatAreNotWhole) {
  put("x", H5T_NATIVE_FLOAT, {3, 3}, std::vector<float>(9, 1));
  put("y", H5T_NATIVE_FLOAT, {3}, std::vector<float>{0, 1, 2});
  expect_error<DataError>([&] { open(); }, {path("d.h5"), "y", "whole numbers"});
}

TEST(DatasetTest, NamesTheKindsThereAre) {
  expect_error<UsageError>([] { open_dataset("imagenet:/x", 0); },
                           {"imagenet", "fashion-mnist", "cifar10", "hdf5", "text"});
  expect_error<UsageError>([] { open_dataset("hdf5", 0); }, {"needs a file"});
}

}  // namespace
}  // namespace bellows::trainer
