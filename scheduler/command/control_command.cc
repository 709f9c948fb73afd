// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/control_command.h"

#include <unistd.h>

#include <boost/json.hpp>

#include "config.h"
#include "protocol/control_socket.h"
#include "scheduler/command/command_line.h"
#include "scheduler/command/control_client.h"
#include "scheduler/command/daemon_client.h"
#include "scheduler/command/event_command.h"
#include "scheduler/command/jobs.h"
#include "scheduler/command/remote.h"
#include "scheduler/command/status_text.h"
#include "scheduler/live/top_command.h"
#include "scheduler/picture/picture_command.h"

namespace bellows::scheduler {
using protocol::Message;
using What = Command::What;

namespace {

enum ExitCode { kGranted = 0, kRefused = 1, kUsage = 2, kNoJob = 3 };

// What needs no change of the world is answered at once.
constexpr ControlClient::Milliseconds kAnswerLimit{10'000};

int complain(std::ostream& err, const std::string& what, ExitCode code) {
  err << "bellows: " << printable(what) << '\n';
  return code;
}

// Nobody may be waiting for the broker to roll a change back: it has this long beyond the limit.
constexpr ControlClient::Milliseconds kRollBack{30'000};

void print_json(std::ostream& out, const Message& answer) {
  boost::json::object members;
  for (const auto& [name, value] : answer.head) {
    if (name != "type") members[name] = value;
  }
  out << boost::json::serialize(members) << '\n';
}

int print_broker_answer(const Command& command, const Message& answer, const char* whose,
                        std::ostream& out, std::ostream& err) {
  if (answer.type() == "refused") return complain(err, answer.text("reason"), kRefused);
  if (answer.type() != "done") throw NoAnswer(std::string(whose) + " gave an answer that is none");
  if (command.json) {
    print_json(out, answer);
  } else {
    out << printable(answer.text("text")) << '\n';
  }
  return kGranted;
}

// bellowsd hands it on to the broker of a job of anybody's, if we may.
int ask_as_operator(const Command& command, std::ostream& out, std::ostream& err) {
  const std::unique_ptr<protocol::Sealer> sealer = protocol::munge_sealer();
  const Message answer = ask_daemon(read_daemon_settings(daemon_configuration()), *sealer,
                                    command.request, command.wait + kRollBack);
  return print_broker_answer(command, answer, "bellowsd", out, err);
}

// The allocation is its broker's business.
int ask_broker(const Command& command, const std::string& run_socket, std::ostream& out,
               std::ostream& err) {
  std::string socket = run_socket;
  if (socket.ends_with(protocol::kControlSocketEnding)) {
    socket.resize(socket.size() - protocol::kControlSocketEnding.size());
  }
  socket += protocol::kBrokerSocketEnding;
  if (!protocol::is_listening(socket)) {
    return complain(
        err,
        "the job has no bellows-broker, which would ask Slurm for nodes: it runs in Slurm "
        "jobs of bellows-run --elastic (nobody listens at " +
            socket + ")",
        kRefused);
  }
  const ControlClient client(socket);
  const bool waits = command.wait.count() > 0;
  const Message answer =
      client.ask(command.request, waits ? command.wait + kRollBack : kAnswerLimit);
  return print_broker_answer(command, answer, "bellows-broker", out, err);
}

// The cluster's elastic jobs.
int ask_for_jobs(const Command& command, std::ostream& out) {
  const std::unique_ptr<protocol::Sealer> sealer = protocol::munge_sealer();
  const Message answer = ask_daemon(read_daemon_settings(daemon_configuration()), *sealer,
                                    command.request, kAnswerLimit);
  if (answer.type() != "jobs") throw NoAnswer("bellowsd gave an answer that is none");
  if (command.json) {
    print_json(out, answer);
  } else {
    out << jobs_text(answer);
  }
  return kGranted;
}

// The change was asked for and is not complete: is the launcher alive at all?
int explain_delay(const ControlClient& client, const Overdue& overdue, std::ostream& err) {
  const Message status = client.ask(Message("status"), kAnswerLimit);
  const std::string state = status.type() == "status" ? status.text("state") : "ending";
  return complain(err,
                  std::string(overdue.what()) + "; the job is " + state +
                      ", and the change may still come: see 'bellows status'",
                  kRefused);
}

// Here; else the whole command goes to where the job's script runs.
std::string socket_of(const Command& command, const std::vector<std::string>& arguments) {
  try {
    return find_job(command.job).socket;
  } catch (const NoJob& none) {
    const auto job = slurm_job_meant(command.job);
    const auto node = job ? node_to_go_to(*job) : std::nullopt;
    if (!node && command.what == What::events) {
      throw NoJob(std::string(none.what()) +
                  "; of a job that is over, events are left where its bellows-run --events=FILE "
                  "wrote them: bellows events --file=FILE");
    }
    if (!node) throw;
    throw NoJob(std::string(none.what()) + "; its script runs on " + node->name + ", but " +
                go_to(*job, *node, arguments));
  }
}

int ask(const Command& command, const std::vector<std::string>& arguments, std::ostream& out,
        std::ostream& err) {
  const std::string socket = command.socket ? *command.socket : socket_of(command, arguments);
  if (command.what == What::events) return show_events(command, socket, out, err);
  if (command.to_broker) return ask_broker(command, socket, out, err);
  const ControlClient client(socket);
  try {
    const bool waits = command.wait.count() > 0;
    const Message answer = client.ask(command.request, waits ? command.wait : kAnswerLimit);
    if (answer.type() == "refused") return complain(err, answer.text("reason"), kRefused);
    if (command.what == What::status && answer.type() == "status") {
      if (command.json) {
        print_json(out, answer);
      } else {
        out << status_text(answer);
      }
    } else if (command.what != What::status && answer.type() == "done") {
      if (command.json) {
        print_json(out, answer);
      } else {
        out << printable(answer.text("text")) << '\n';
      }
    } else {
      throw NoAnswer("bellows-run gave an answer that is none: '" + std::string(answer.type()) +
                     "'");
    }
    return kGranted;
  } catch (const Overdue& overdue) {
    if (command.wait.count() == 0) throw;
    return explain_delay(client, overdue, err);
  }
}

// A single job that neither this machine nor bellowsd knows is asked where its script runs.
int top(const Command& command, const std::vector<std::string>& arguments, std::ostream& out) {
  if (command.jobs.size() == 1 && access(daemon_configuration().c_str(), F_OK) != 0) {
    Command one = command;
    one.job = command.jobs[0];
    socket_of(one, arguments);
  }
  return show_top(command, out);
}

int guarded(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  try {
    const Command command = parse_command(arguments);
    if (command.what == What::help) {
      out << help_text();
    } else if (command.what == What::version) {
      out << "bellows " BELLOWS_VERSION "\n";
    } else if (command.what == What::jobs) {
      return ask_for_jobs(command, out);
    } else if (command.what == What::top) {
      return top(command, arguments, out);
    } else if (command.what == What::picture) {
      return show_picture(command, out, err);
    } else if (command.file) {
      return show_event_file(command, out, err);
    } else if (command.as_operator) {
      return ask_as_operator(command, out, err);
    } else {
      return ask(command, arguments, out, err);
    }
    return kGranted;
  } catch (const UsageError& wrong) {
    return complain(err, std::string(wrong.what()) + " (see bellows --help)", kUsage);
  } catch (const ManyJobs& many) {
    return complain(err, many.what(), kUsage);
  } catch (const std::exception& failed) {
    return complain(err, failed.what(), kNoJob);
  }
}

}  // namespace

int control_command(const std::vector<std::string>& arguments, std::ostream& out,
                    std::ostream& err) {
  const int code = guarded(arguments, out, err);
  out.flush();
  if (out) return code;
  return complain(err, "cannot write the output", kRefused);
}

}  // namespace bellows::scheduler
