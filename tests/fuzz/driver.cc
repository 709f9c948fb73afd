// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target where there is no libFuzzer: what of it our tests use, on g++'s
// -fsanitize-coverage=trace-pc. It keeps inputs that reach new code, and changes those further.
//
//   TARGET [-max_total_time=SECONDS] [-runs=N] [-seed=N] [-dict=FILE] FILE|FOLDER…
//
// Without a time or a number of runs it only plays the given inputs. An input that ends the program
// is left in crash-PID in the current folder; to play it again, name it.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" void __sanitizer_set_death_callback(void (*callback)());

namespace {

namespace fs = std::filesystem;
using Input = std::string;
using Random = std::mt19937_64;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestInput = 4096;
constexpr unsigned kSecondsPerInput = 10;

/// How often each place in the code was passed by the input in hand.
std::array<std::uint8_t, 1 << 16> passed;
/// For each place, which orders of magnitude any input has reached.
std::array<std::uint8_t, 1 << 16> reached;

const Input* current = nullptr;

void keep_current() {
  if (current == nullptr) return;
  const std::string name = "crash-" + std::to_string(getpid());
  const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = write(fd, current->data(), current->size());
  close(fd);
  std::fprintf(stderr, "the input is in %s\n", name.c_str());
}

void on_signal(int number) {
  if (number == SIGALRM)
    std::fprintf(stderr, "an input takes longer than %u s\n", kSecondsPerInput);
  keep_current();
  current = nullptr;
  signal(SIGABRT, SIG_DFL);
  std::abort();
}

std::uint8_t magnitude(std::uint8_t count) {
  std::uint8_t bit = 1;
  for (const int limit : {1, 2, 3, 7, 15, 31, 127}) {
    if (count <= limit) return bit;
    bit = static_cast<std::uint8_t>(bit << 1);
  }
  return bit;
}

/// Plays an input; whether it reached something new.
bool play(const Input& input) {
  passed.fill(0);
  current = &input;
  alarm(kSecondsPerInput);
  // A copy of its exact size, so that reading past its end is noticed.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  alarm(0);
  current = nullptr;
  bool found = false;
  for (std::size_t i = 0; i < passed.size(); ++i) {
    if (passed[i] == 0) continue;
    const std::uint8_t bit = magnitude(passed[i]);
    found = found || (reached[i] & bit) == 0;
    reached[i] |= bit;
  }
  return found;
}

std::size_t below(Random& random, std::size_t limit) { return limit == 0 ? 0 : random() % limit; }

void change_once(Input& input, const std::vector<Input>& corpus, const std::vector<Input>& words,
                 Random& random) {
  const std::size_t at = below(random, input.size() + 1);
  const std::size_t some = 1 + below(random, 8);
  switch (random() % 9) {
    case 0:
      if (at < input.size()) input[at] ^= static_cast<char>(1 << (random() % 8));
      break;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(random());
      break;
    case 2:
      input.insert(at, some, static_cast<char>(random()));
      break;
    case 3:
      input.erase(at, some);
      break;
    case 4:
      input.insert(below(random, input.size() + 1), input.substr(at, 4 * some));
      break;
    case 5: {  // a length, as the wire has it
      const std::uint32_t length =
          random() % 2 == 0 ? static_cast<std::uint32_t>(below(random, 2 * input.size() + 2))
                            : 0xffffffffU >> (random() % 32);
      for (std::size_t i = 0; i < 4 && at + i < input.size(); ++i)
        input[at + i] = static_cast<char>(length >> (24 - 8 * i));
      break;
    }
    case 6:
      if (!words.empty()) input.insert(at, words[below(random, words.size())]);
      break;
    case 7: {
      const Input& other = corpus[below(random, corpus.size())];
      input = input.substr(0, at) + other.substr(below(random, other.size() + 1));
      break;
    }
    default:
      if (at < input.size()) input[at] = "0123456789+-=:,;[]{}\"/ \0"[random() % 25];
  }
}

/// What is between the quotes of each line, \xNN being a byte.
std::vector<Input> read_words(const std::string& path) {
  std::vector<Input> words;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find('"');
    const std::size_t last = line.rfind('"');
    if (line.starts_with('#') || first == line.npos || first == last) continue;
    Input word;
    for (std::size_t i = first + 1; i < last; ++i) {
      if (line.compare(i, 2, "\\x") == 0 && i + 3 < last) {
        word += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        if (line[i] == '\\') ++i;
        word += line[i];
      }
    }
    words.push_back(word);
  }
  return words;
}

Input read_input(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Input(std::istreambuf_iterator<char>(file), {});
}

struct Settings {
  std::uint64_t seconds = 0;
  std::uint64_t runs = 0;
  std::uint64_t seed = std::random_device{}();
  std::vector<Input> words;
  std::vector<fs::path> inputs;
};

bool number(std::string_view word, std::string_view name, std::uint64_t& value) {
  if (!word.starts_with(name)) return false;
  word.remove_prefix(name.size());
  const auto [after, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
  return failed == std::errc() && after == word.data() + word.size();
}

Settings parse(int count, char* words[]) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (number(word, "-max_total_time=", settings.seconds) ||
        number(word, "-runs=", settings.runs) || number(word, "-seed=", settings.seed))
      continue;
    if (word.starts_with("-dict=")) {
      settings.words = read_words(std::string(word.substr(6)));
    } else if (word.starts_with('-')) {
      std::fprintf(stderr, "unknown option %s\n", words[i]);
      std::exit(2);
    } else if (fs::is_directory(word)) {
      for (const auto& entry : fs::directory_iterator(word))
        settings.inputs.push_back(entry.path());
    } else if (fs::exists(word)) {
      settings.inputs.emplace_back(word);
    } else {
      std::fprintf(stderr, "no file %s\n", words[i]);
      std::exit(2);
    }
  }
  return settings;
}

}  // namespace

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  std::uint8_t& count = passed[(place ^ (place >> 16)) % passed.size()];
  if (count < 255) ++count;
}

int main(int count, char* words[]) {
  const Settings settings = parse(count, words);
  __sanitizer_set_death_callback(keep_current);
  signal(SIGABRT, on_signal);
  signal(SIGALRM, on_signal);
  std::vector<Input> corpus;
  for (const fs::path& path : settings.inputs) {
    corpus.push_back(read_input(path));
    play(corpus.back());
  }
  if (corpus.empty()) corpus.emplace_back();
  const std::size_t given = corpus.size();
  Random random(settings.seed);
  const auto end = Clock::now() + std::chrono::seconds(settings.seconds);
  std::uint64_t played = 0;
  const auto goes_on = [&] {
    if (settings.runs != 0 && played >= settings.runs) return false;
    if (settings.seconds != 0) return played % 256 != 0 || Clock::now() < end;
    return settings.runs != 0;
  };
  for (; goes_on(); ++played) {
    Input input = corpus[below(random, corpus.size())];
    for (std::size_t changes = 1 + below(random, 6); changes > 0; --changes)
      change_once(input, corpus, settings.words, random);
    input.resize(std::min(input.size(), kLongestInput));
    if (play(input)) corpus.push_back(input);
  }
  std::size_t places = 0;
  for (const std::uint8_t bits : reached) places += bits != 0 ? 1 : 0;
  std::printf("seed %llu: %llu runs, %zu inputs given, %zu found, %zu places reached\n",
              static_cast<unsigned long long>(settings.seed),
              static_cast<unsigned long long>(played), given, corpus.size() - given, places);
  return 0;
}
