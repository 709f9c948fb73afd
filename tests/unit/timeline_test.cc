// SPDX-License-Identifier: Apache-2.0
// What a timeline records, without a world; tests/scenarios/timeline.sh has those of real ranks.
#include "mpi_elastic/timeline.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace bellows {
namespace {

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// One timeline for the process, so one test.
TEST(Timeline, RecordsWhatIsNotPaused) {
  Timeline::pause(false);
  EXPECT_FALSE(Timeline::on()) << "it is not open";
  const std::string file = testing::TempDir() + "timeline_test.json";
  std::filesystem::remove(file);
  Timeline::open(file);
  {
    const TimelineSpan span("first");
  }
  Timeline::pause(true);
  {
    const TimelineSpan span("left out");
    EXPECT_FALSE(Timeline::on());
  }
  Timeline::flush();
  EXPECT_NE(text_of(file).find("\"first\""), std::string::npos) << "also while it is paused";
  Timeline::pause(false);
  {
    const TimelineSpan span("a \"last\" one", 17);
  }
  Timeline::flush();
  const std::string text = text_of(file);
  EXPECT_EQ(text.find("left out"), std::string::npos) << text;
  EXPECT_NE(text.find("a \\\"last\\\" one"), std::string::npos) << text;
  EXPECT_NE(text.find("\"args\":{\"bytes\":17}}"), std::string::npos) << text;
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace bellows
