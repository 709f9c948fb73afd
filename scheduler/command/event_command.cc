// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/event_command.h"

#include <signal.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <chrono>
#include <thread>

#include "protocol/control_socket.h"
#include "protocol/job_event.h"
#include "scheduler/command/control_client.h"
#include "scheduler/command/event_file.h"
#include "scheduler/command/remote.h"
#include "scheduler/command/status_text.h"

namespace bellows::scheduler {
using protocol::JobEvent;
using protocol::Message;
using Clock = std::chrono::steady_clock;

namespace {

// bellows-run answers a follower after 20 s at the latest.
constexpr ControlClient::Milliseconds kAnswerLimit{10'000}, kNewsLimit{40'000};
// For another bellows-run to take over the job of one that has died: as long as its ranks wait,
// unless told otherwise (--launcher-grace).
constexpr auto kTakeOver = std::chrono::seconds(60);
constexpr auto kLook = std::chrono::milliseconds(500);

/// Prints what is wanted of the events.
class Printer {
 public:
  Printer(const Command& command, std::ostream& out) : command_(command), out_(out) {
    if (!command_.json) out_ << event_heading();
    out_.flush();
  }
  void print(const JobEvent& event) {
    ended_ = event.kind == "end";
    if (command_.since && event.time < *command_.since) return;
    if (command_.json) {
      out_ << boost::json::serialize(to_json(event)) << '\n';
    } else {
      out_ << event_line(event);
    }
    out_.flush();  // somebody watches
  }
  /// The last event was the job's end.
  bool ended() const { return ended_; }

 private:
  const Command& command_;
  std::ostream& out_;
  bool ended_ = false;
};

/// What one bellows-run has to tell, from the first event that it still knows.
class Source {
 public:
  explicit Source(const std::string& socket) : client_(socket) {}

  /// Prints what is new. False when there is more of it. `wait`: for something to come, for a
  /// while. Throws NoAnswer.
  bool ask(bool wait, Printer& printer) {
    Message request("events");
    request.head["after"] = after_;
    request.head["launcher"] = launcher_;
    request.head["wait"] = wait;
    const Message answer = client_.ask(request, wait ? kNewsLimit : kAnswerLimit);
    if (answer.type() == "refused") throw NoAnswer(answer.text("reason"));
    if (answer.type() != "events") throw NoAnswer("bellows-run gave an answer that is none");
    const std::int64_t launcher = answer.number("launcher");
    if (std::exchange(launcher_, launcher) != launcher) after_ = 0;  // it counts anew
    for (const boost::json::value& value : answer.array("events")) {
      if (!value.is_object()) throw protocol::ProtocolError("an event is no object");
      const JobEvent event = protocol::job_event_from_json(value.get_object());
      after_ = event.number;
      printer.print(event);
    }
    return after_ >= answer.number("newest");
  }

 private:
  ControlClient client_;
  std::int64_t after_ = 0, launcher_ = 0;
};

bool exists(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

// Nobody answers: the job has ended and its socket is gone, or bellows-run was killed. True when
// another has taken its place.
bool await_another(const std::string& socket) {
  for (const auto end = Clock::now() + kTakeOver; Clock::now() < end;) {
    if (!exists(socket)) return false;
    if (protocol::is_listening(socket)) return true;
    std::this_thread::sleep_for(kLook);
  }
  throw NoAnswer("the bellows-run that listened at " + socket + " is gone, and within " +
                 std::to_string(kTakeOver.count()) + " s no other has taken the job over");
}

}  // namespace

int show_events(const Command& command, const std::string& socket, std::ostream& out,
                std::ostream& err) {
  // What Slurm sends to all steps is meant for the ranks, and this one is to tell what comes of it.
  if (command.follow && came_by_step()) signal(SIGTERM, SIG_IGN);
  Source source(socket);
  Printer printer(command, out);
  while (!source.ask(false, printer)) continue;
  while (command.follow && !printer.ended() && out) {
    try {
      source.ask(true, printer);
    } catch (const Overdue&) {
      throw;  // it is stopped, say
    } catch (const NoAnswer&) {
      if (await_another(socket)) continue;
      err << "bellows: the job has ended\n";
      return 0;
    }
  }
  return 0;
}

int show_event_file(const Command& command, std::ostream& out, std::ostream& err) {
  Printer printer(command, out);
  std::size_t events = 0, notes = 0;
  read_event_file(
      *command.file,
      [&](const JobEvent& event) {
        ++events;
        printer.print(event);
      },
      [&](const std::string& note) {
        ++notes;
        err << "bellows: " << printable(note) << '\n';
      });
  if (events == 0 && notes > 0)
    throw std::runtime_error(*command.file + " has no event of a job (bellows-run --events)");
  return 0;
}

}  // namespace bellows::scheduler
