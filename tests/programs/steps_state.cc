// SPDX-License-Identifier: Apache-2.0
#include "tests/programs/steps_state.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <string>
#include <system_error>

namespace bellows::steps {

namespace {

constexpr double kModulus = 2147483648.0;
constexpr std::size_t kClasses = 251;  // element i gets what all with the same i mod 251 get

// One integer of the batch, below 1000.
std::uint64_t sample(std::int64_t step, std::int64_t batch, std::int64_t index) {
  auto x = static_cast<std::uint64_t>(step * batch + index) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9U;
  return (x ^ (x >> 32)) % 1000;
}

double advance(double value, double sum) {
  const double next = value * 5 + sum;
  return next - std::floor(next / kModulus) * kModulus;
}

// Transfers all bytes with `call`, which is write() or read().
template <typename Call, typename Byte>
void transfer(Call call, int file, Byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t done = call(file, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw std::system_error(errno, std::generic_category(), "saved state");
    data += done;
    size -= static_cast<std::size_t>(done);
  }
}

}  // namespace

State first_state(std::int64_t bytes) {
  State state;
  state.step = 0;
  state.values.resize(static_cast<std::size_t>(bytes) / sizeof(double), 0);
  return state;
}

void share_of_step(std::int64_t step, std::int64_t batch, std::int64_t first, std::int64_t last,
                   double* elements, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::int64_t i = first; i < last; ++i) sum += sample(step, batch, i);
  const auto samples = static_cast<std::uint64_t>(last - first);
  for (std::size_t i = 0; i < count; ++i)
    elements[i] = static_cast<double>(sum + samples * (i % kClasses));
}

void apply_step(State& state, const double* sums) {
  for (std::size_t i = 0; i < state.values.size(); ++i)
    state.values[i] = advance(state.values[i], sums[i]);
  ++state.step;
}

void check_content(const State& state, std::int64_t batch) {
  State expected = first_state(kClasses * sizeof(double));
  std::vector<double> sums(kClasses);
  while (expected.step < state.step) {
    share_of_step(expected.step + 1, batch, 0, batch, sums.data(), kClasses);
    apply_step(expected, sums.data());
  }
  for (std::size_t i = 0; i < state.values.size(); ++i) {
    const double should = expected.values[i % kClasses];
    if (state.values[i] == should) continue;
    throw WrongContent("step " + std::to_string(state.step) + ", element " + std::to_string(i) +
                       ": " + std::to_string(state.values[i]) + " instead of " +
                       std::to_string(should));
  }
}

std::uint64_t checksum(const State& state) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const double value : state.values)
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3U;
  return hash;
}

void save(const State& state, int file) {
  const std::int64_t head[] = {state.step, static_cast<std::int64_t>(state.values.size()),
                               state.ending ? 1 : 0};
  transfer(::write, file, reinterpret_cast<const char*>(head), sizeof(head));
  transfer(::write, file, reinterpret_cast<const char*>(state.values.data()),
           state.values.size() * sizeof(double));
}

State restore(int file) {
  std::int64_t head[3];
  transfer(::read, file, reinterpret_cast<char*>(head), sizeof(head));
  State state;
  state.step = head[0];
  state.values.resize(static_cast<std::size_t>(head[1]));
  state.ending = head[2] != 0;
  transfer(::read, file, reinterpret_cast<char*>(state.values.data()),
           state.values.size() * sizeof(double));
  return state;
}

}  // namespace bellows::steps
