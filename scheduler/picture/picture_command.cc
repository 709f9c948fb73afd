// SPDX-License-Identifier: Apache-2.0
#include "scheduler/picture/picture_command.h"

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "scheduler/command/status_text.h"
#include "scheduler/picture/picture_log.h"
#include "scheduler/picture/picture_page.h"

namespace bellows::scheduler {
namespace json = boost::json;

namespace {

// A line for each bar.
void print_bars(const Picture& picture, std::ostream& out) {
  for (const PictureBar& bar : picture.bars) {
    const PictureJob& job = picture.jobs.at(bar.job);
    out << json::serialize(json::object{{"node", bar.node},
                                        {"job", bar.job},
                                        {"name", job.name},
                                        {"user", job.user},
                                        {"elastic", job.elastic},
                                        {"from", bar.from},
                                        {"to", bar.to},
                                        {"open", bar.open},
                                        {"why", bar.why}})
        << '\n';
  }
}

}  // namespace

int show_picture(const Command& command, std::ostream& out, std::ostream& err) {
  std::vector<std::string> notes;
  const Picture picture =
      read_picture(command.files, [&](const std::string& note) { notes.push_back(note); });
  for (const std::string& note : notes) err << "bellows: " << printable(note) << '\n';
  if (command.json) {
    print_bars(picture, out);
    return 0;
  }
  const std::string page = picture_page(picture, notes);
  if (command.output.empty() || command.output == "-") {
    out << page;
    return 0;
  }
  std::ofstream file(command.output, std::ios::binary | std::ios::trunc);
  file << page;
  file.close();
  if (!file) throw std::runtime_error(command.output + ": " + std::strerror(errno));
  return 0;
}

}  // namespace bellows::scheduler
