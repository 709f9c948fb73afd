// SPDX-License-Identifier: Apache-2.0
#include "trainer/team/place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "mpi_elastic/elastic_world.h"
#include "trainer/signals.h"

namespace bellows::trainer {

bool has_launcher() {
  return std::getenv("PMIX_NAMESPACE") != nullptr || is_joiner() || saved_state().has_value();
}

bool is_first_process() {
  const char* rank = std::getenv("PMIX_RANK");
  return rank == nullptr || std::strcmp(rank, "0") == 0;
}

void complain_before_world(const std::string& program, const std::string& text) {
  constexpr std::chrono::seconds kDeference{3};
  std::string who;
  if (!is_first_process()) {
    for (const auto end = std::chrono::steady_clock::now() + kDeference;
         std::chrono::steady_clock::now() < end;
         std::this_thread::sleep_for(std::chrono::milliseconds(20)))
      if (stop_signal() != 0) return;
    who = fmt::format("rank {} on {}: ", std::getenv("PMIX_RANK"), host_name());
  }
  fmt::print(stderr, "{}: {}{}\n", program, who, text);
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

int local_rank() {
  const char* said = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  return said != nullptr ? std::max(0, std::atoi(said)) : 0;
}

}  // namespace bellows::trainer
