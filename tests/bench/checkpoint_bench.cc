// SPDX-License-Identifier: Apache-2.0
// How long it takes to write, verify and read a checkpoint of about 100 MB, against torch.save and
// torch.load of the same tensors (with fsync) in turns on the same disk, and against a plain
// write() of as many bytes.
//
//   checkpoint_bench FOLDER PEER.py N COMMAND > results.json
//
// The results are a JSON list; ratio = value / peer, so below 1 is faster than the peer. COMMAND is
// what the results record as the way to repeat them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/digest.h"
#include "checkpoint/file.h"

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
namespace checkpoint = bellows::checkpoint;
using checkpoint::Element;
using checkpoint::State;
using checkpoint::Tensor;

// As a ResNet has them: a few large tensors, many small ones; parameters and momentum.
State make_state() {
  std::mt19937 random(1);
  State state;
  const auto add = [&](const std::string& path, const checkpoint::Shape& shape) {
    auto [tensor, memory] = Tensor::allocate(Element::f32, shape);
    auto* values = reinterpret_cast<float*>(memory);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::generate_n(values, tensor.elements(), [&] { return uniform(random); });
    state.set(path, tensor);
  };
  for (const char* group : {"parameters", "optimizer"})
    for (int i = 0; i < 40; ++i) {
      const std::string layer = std::string(group) + "/layer" + std::to_string(i);
      add(layer + ".weight",
          i % 8 == 0 ? checkpoint::Shape{512, 512, 3, 3} : checkpoint::Shape{64, 64, 3, 3});
      add(layer + ".bias", {512});
    }
  state.set("progress/step", std::int64_t{1});
  return state;
}

template <class Work>
double milliseconds(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

void plain_write(const fs::path& file, const State& state) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) throw std::runtime_error("cannot create " + file.string());
  for (const auto& [path, tensor] : state.tensors()) {
    const auto bytes = tensor.bytes();
    if (::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("cannot write " + file.string());
  }
  if (::fsync(fd) != 0 || ::close(fd) != 0)
    throw std::runtime_error("cannot write " + file.string());
}

// The Python process with the same tensors: told "save" or "load", answers with milliseconds.
class Peer {
 public:
  Peer(const fs::path& script, const fs::path& folder, const fs::path& tensors)
      : answers_(folder / "answers") {
    if (::mkfifo(answers_.c_str(), 0600) != 0) throw std::runtime_error("cannot make a pipe");
    const std::string command = "python3 '" + script.string() + "' '" + folder.string() + "' '" +
                                tensors.string() + "' > '" + answers_.string() + "'";
    orders_ = ::popen(command.c_str(), "w");
    in_ = std::fopen(answers_.c_str(), "r");
    if (orders_ == nullptr || in_ == nullptr) throw std::runtime_error("cannot start python3");
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    ::pclose(orders_);
    std::fclose(in_);
  }
  double time(const char* order) {
    std::fprintf(orders_, "%s\n", order);
    std::fflush(orders_);
    double value = 0;
    if (std::fscanf(in_, "%lf", &value) != 1) throw std::runtime_error("the peer gave no answer");
    return value;
  }

 private:
  fs::path answers_;
  FILE* orders_ = nullptr;
  FILE* in_ = nullptr;
};

double quantile(std::vector<double> samples, double q) {
  std::ranges::sort(samples);
  return samples[static_cast<std::size_t>(
      std::lround(q * static_cast<double>(samples.size() - 1)))];
}

using Samples = std::map<std::string, std::vector<double>>;

json::object row(const Samples& samples, const std::string& name, const std::string& peer,
                 const std::string& command) {
  const auto& own = samples.at(name);
  const double median = quantile(own, 0.5);
  json::object object{{"name", name},
                      {"value", median},
                      {"unit", "ms"},
                      {"n", own.size()},
                      {"median", median},
                      {"p25", quantile(own, 0.25)},
                      {"p75", quantile(own, 0.75)},
                      {"max", quantile(own, 1)},
                      {"peer", nullptr},
                      {"ratio", nullptr},
                      {"command", command}};
  if (!peer.empty()) {
    object["peer"] = quantile(samples.at(peer), 0.5);
    object["peer_name"] = peer;
    object["ratio"] = median / quantile(samples.at(peer), 0.5);
  }
  return object;
}

Samples measure(const fs::path& folder, const fs::path& script, int n) {
  const State state = make_state();
  const fs::path file = folder / "bellows.h5";
  checkpoint::write(file, state, 0);
  std::vector<std::byte> all;
  for (const auto& [path, tensor] : state.tensors())
    all.insert(all.end(), tensor.bytes().begin(), tensor.bytes().end());
  std::cerr << "checkpoint of " << fs::file_size(file) << " bytes, " << state.tensors().size()
            << " tensors\n";
  Peer peer(script, folder, file);
  peer.time("save");
  Samples samples;
  volatile std::uint64_t sink = 0;
  for (int i = 0; i < n; ++i) {
    const auto take = [&](const char* name, double value) { samples[name].push_back(value); };
    take("write", milliseconds([&] { checkpoint::write(file, state, i); }));
    take("torch.save+fsync", peer.time("save"));
    take("write()+fsync", milliseconds([&] { plain_write(folder / "plain", state); }));
    take("verify", milliseconds([&] { checkpoint::verify(file); }));
    take("read", milliseconds([&] { checkpoint::read(file); }));
    take("torch.load", peer.time("load"));
    take("peek", milliseconds([&] { checkpoint::peek(file); }));
    take("xxh64", milliseconds([&] {
           checkpoint::Xxh64 hash;
           hash.update(all);
           sink = sink + hash.digest();
         }));
    take("crc32", milliseconds([&] { sink = sink + checkpoint::crc32_of(all); }));
  }
  return samples;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: checkpoint_bench FOLDER PEER.py N COMMAND\n";
    return 2;
  }
  try {
    const Samples samples = measure(argv[1], argv[2], std::max(1, std::atoi(argv[3])));
    json::array rows;
    rows.push_back(row(samples, "write", "torch.save+fsync", argv[4]));
    rows.push_back(row(samples, "read", "torch.load", argv[4]));
    rows.push_back(row(samples, "verify", "torch.load", argv[4]));
    rows.push_back(row(samples, "write()+fsync", "torch.save+fsync", argv[4]));
    rows.push_back(row(samples, "peek", "", argv[4]));
    rows.push_back(row(samples, "xxh64", "crc32", argv[4]));
    std::cout << json::serialize(rows) << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "checkpoint_bench: " << error.what() << '\n';
    return 1;
  }
}
