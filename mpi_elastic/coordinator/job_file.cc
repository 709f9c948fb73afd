// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/job_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "mpi_elastic/common/process.h"
#include "protocol/control_socket.h"
#include "protocol/message.h"

namespace bellows::elastic {
namespace json = boost::json;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEnding = protocol::kJobFileEnding;

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

std::string path_of(const std::string& job) {
  if (!protocol::is_job_name(job)) throw NoSuchJob("'" + job + "' is no name of a job");
  return protocol::control_folder() + "/" + job + std::string(kEnding);
}

json::object to_json(const RunOptions& options) {
  return {{"least", options.elastic->first},
          {"most", options.elastic->second},
          {"per_node", options.ranks_per_node.value_or(1)},
          {"bind", options.bind},
          {"gpus_per_rank", options.gpus_per_rank},
          {"tag_output", options.tag_output},
          {"report_bindings", options.report_bindings},
          {"rank_silence", options.rank_silence_seconds},
          {"change", options.change_seconds},
          {"start", options.start_seconds},
          {"silence", options.silence_seconds},
          {"kill_wait", options.kill_wait_seconds},
          {"grace", options.grace_seconds},
          {"events", options.events},
          {"metrics", options.metrics ? json::value(json::array{options.metrics->address,
                                                                options.metrics->port})
                                      : json::value(nullptr)},
          {"metrics_file", options.metrics_file},
          {"standalone", options.standalone},
          {"agent", options.agent}};
}

RunOptions options_from_json(const json::object& object) {
  RunOptions options;
  options.on_failure = OnFailure::go_on;
  options.elastic = {json::value_to<int>(object.at("least")),
                     json::value_to<int>(object.at("most"))};
  options.ranks_per_node = json::value_to<int>(object.at("per_node"));
  options.bind = json::value_to<std::string>(object.at("bind"));
  options.gpus_per_rank = json::value_to<int>(object.at("gpus_per_rank"));
  options.tag_output = object.at("tag_output").as_bool();
  options.report_bindings = object.at("report_bindings").as_bool();
  options.rank_silence_seconds = object.at("rank_silence").to_number<double>();
  options.change_seconds = object.at("change").to_number<double>();
  options.start_seconds = object.at("start").to_number<double>();
  options.silence_seconds = object.at("silence").to_number<double>();
  options.kill_wait_seconds = object.at("kill_wait").to_number<double>();
  options.grace_seconds = object.at("grace").to_number<double>();
  options.standalone = object.at("standalone").as_bool();
  options.events = json::value_to<std::string>(object.at("events"));
  if (const json::value* where = object.if_contains("metrics"); where && where->is_array()) {
    const json::array& pair = where->get_array();
    options.metrics = {json::value_to<std::string>(pair.at(0)),
                       json::value_to<std::uint16_t>(pair.at(1))};
  }
  if (const json::value* file = object.if_contains("metrics_file")) {
    options.metrics_file = json::value_to<std::string>(*file);
  }
  options.agent = json::value_to<std::string>(object.at("agent"));
  return options;
}

json::object to_json(const JobRecord& record) {
  json::array allocated, nodes;
  for (const Node& node : record.allocation.nodes) {
    allocated.push_back(json::array{node.name, node.cpus, node.tasks, node.job, node.added});
  }
  for (const JobNode& node : record.nodes) {
    nodes.push_back(json::array{node.name, node.id, node.pid, node.started});
  }
  return {{"version", protocol::kVersion},
          {"name", record.name},
          {"secret", record.secret},
          {"port", record.port},
          {"addresses", json::value_from(record.addresses)},
          {"slurm", record.allocation.slurm},
          {"job", record.allocation.job},
          {"allocated", allocated},
          {"options", to_json(record.options)},
          {"program", to_json(record.program)},
          {"nodes", nodes},
          {"next_node", record.next_node}};
}

JobRecord record_from_json(const json::object& object) {
  if (object.at("version").to_number<int>() != protocol::kVersion) {
    throw std::runtime_error("it was written by another version of Bellows");
  }
  JobRecord record;
  record.name = json::value_to<std::string>(object.at("name"));
  record.secret = json::value_to<std::string>(object.at("secret"));
  record.port = json::value_to<std::uint16_t>(object.at("port"));
  record.addresses = json::value_to<std::vector<std::string>>(object.at("addresses"));
  record.allocation.slurm = object.at("slurm").as_bool();
  record.allocation.job = json::value_to<std::string>(object.at("job"));
  for (const json::value& value : object.at("allocated").as_array()) {
    const json::array& node = value.as_array();
    record.allocation.nodes.push_back(
        {json::value_to<std::string>(node.at(0)), json::value_to<int>(node.at(1)),
         json::value_to<int>(node.at(2)), json::value_to<std::string>(node.at(3)),
         node.at(4).as_bool()});
  }
  record.options = options_from_json(object.at("options").as_object());
  record.program = program_from_json(object.at("program").as_object());
  record.options.program = record.program.arguments;
  record.options.directory = record.program.directory;
  for (const json::value& value : object.at("nodes").as_array()) {
    const json::array& node = value.as_array();
    record.nodes.push_back(
        {json::value_to<std::string>(node.at(0)), json::value_to<std::uint32_t>(node.at(1)),
         json::value_to<std::int64_t>(node.at(2)), json::value_to<std::int64_t>(node.at(3))});
  }
  record.next_node = json::value_to<std::uint32_t>(object.at("next_node"));
  return record;
}

// The only file of that name, or of a launcher of that Slurm job.
std::string find(const std::string& job) {
  const std::string exact = path_of(job);
  const std::string folder = protocol::control_folder();
  struct stat status{};
  if (lstat(folder.c_str(), &status) == 0) {
    protocol::check_control_folder(folder);
    if (lstat(exact.c_str(), &status) == 0) return exact;
    std::vector<std::string> found;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(job + ".") && name.ends_with(kEnding)) {
        found.push_back(entry.path().string());
      }
    }
    if (found.size() == 1) return found[0];
    if (found.size() > 1) {
      throw std::runtime_error("job " + job + " has several launchers: give the name of one, as " +
                               fs::path(found[0]).stem().string());
    }
  }
  throw NoSuchJob("there is no elastic job " + job + " to take over; looked for " + exact);
}

std::string read_private(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) fail("cannot open " + path, errno);
  struct stat status{};
  if (fstat(file.get(), &status) != 0) fail("cannot look at " + path, errno);
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
    throw std::runtime_error(path + " is not a file of this user's alone");
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t n = read(file.get(), text.data(), text.size());
  if (n < 0) fail("cannot read " + path, errno);
  text.resize(static_cast<std::size_t>(n));
  return text;
}

void write_all(const Fd& file, const std::string& text, const std::string& path) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("cannot write " + path, errno);
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace

JobFile::JobFile(const std::string& job) : path_(path_of(job)) {
  protocol::check_control_folder(protocol::control_folder());
}

JobFile::~JobFile() { unlink(path_.c_str()); }

void JobFile::write(const JobRecord& record) const {
  const std::string unnamed = path_ + ".new";
  unlink(unnamed.c_str());  // of a launcher that was killed as it wrote
  const Fd file(open(unnamed.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) fail("cannot make " + unnamed, errno);
  try {
    write_all(file, json::serialize(to_json(record)), unnamed);
    if (rename(unnamed.c_str(), path_.c_str()) != 0) fail("cannot rename " + unnamed, errno);
  } catch (const std::runtime_error&) {
    unlink(unnamed.c_str());
    throw;
  }
}

JobRecord read_job(const std::string& job) {
  const std::string path = find(job);
  const std::string text = read_private(path);
  try {
    return record_from_json(json::parse(text).as_object());
  } catch (const std::exception& wrong) {
    throw std::runtime_error("cannot use " + path + ": " + wrong.what());
  }
}

}  // namespace bellows::elastic
