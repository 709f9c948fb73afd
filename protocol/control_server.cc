// SPDX-License-Identifier: Apache-2.0
#include "protocol/control_server.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include "protocol/channel.h"
#include "protocol/control_socket.h"
#include "protocol/fd.h"

namespace bellows::protocol {
namespace asio = boost::asio;
using asio::local::stream_protocol;
using boost::system::error_code;

namespace {

constexpr auto kLockLimit = std::chrono::seconds(5);
constexpr auto kLockRetry = std::chrono::milliseconds(10);
constexpr auto kAcceptRetry = std::chrono::milliseconds(100);

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

Message refusal(const std::string& reason) {
  Message refused("refused");
  refused.head["reason"] = reason;
  return refused;
}

// Two launchers that find the same dead socket must not both replace it. The lock is held for the
// few calls below only, but its holder may be stopped in the middle.
Fd lock(const std::string& folder) {
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) fail("cannot open " + folder, errno);
  const auto limit = std::chrono::steady_clock::now() + kLockLimit;
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail("cannot lock " + folder, errno);
    if (std::chrono::steady_clock::now() >= limit) {
      throw std::runtime_error("another process has held the lock of " + folder +
                               " for 5 seconds: is it stopped?");
    }
    std::this_thread::sleep_for(kLockRetry);
  }
  return fd;
}

void make_way(const std::string& path, const std::string& job) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    fail("cannot look at " + path, errno);
  }
  if (!S_ISSOCK(status.st_mode)) {
    throw std::runtime_error(path + " is in the way and is no socket: remove it");
  }
  if (is_listening(path)) {
    throw std::runtime_error("job " + job + " already has a bellows-run, which listens at " + path);
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) fail("cannot remove " + path, errno);
}

Fd listen_at(const std::string& folder, const std::string& path, const std::string& job) {
  const sockaddr_un address = unix_address(path);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail("cannot make " + folder, errno);
  check_control_folder(folder);
  const Fd locked = lock(folder);
  make_way(path, job);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) fail("no socket", errno);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fail("cannot make the socket " + path, errno);
  }
  if (chmod(path.c_str(), 0600) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    const int error = errno;
    unlink(path.c_str());
    fail("cannot listen at " + path, error);
  }
  return fd;
}

// The owner, and root.
bool may_ask(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

// To a client of which nothing is kept: a short answer fits into the socket's buffer, or is lost.
void turn_away(int socket, const std::string& reason) {
  const std::string frame = encode(refusal(reason));
  [[maybe_unused]] const auto sent =
      ::send(socket, frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

// Outlives the server for as long as handlers of the io_context are under way: these hold it
// weakly.
class ControlServer::Desk : public std::enable_shared_from_this<Desk> {
 public:
  Desk(asio::io_context& io, const std::string& job, Handler handler, ControlLimits limits,
       std::string_view ending)
      : limits_(limits), handler_(std::move(handler)), acceptor_(io), pause_(io) {
    const std::string folder = control_folder();
    path_ = control_socket(folder, job, ending);
    Fd fd = listen_at(folder, path_, job);
    if (lstat(path_.c_str(), &socket_) != 0) fail("cannot look at " + path_, errno);
    acceptor_.assign(stream_protocol(), fd.get());
    fd.release();
  }

  const std::string& path() const { return path_; }

  void accept() {
    acceptor_.async_accept(
        [weak = weak_from_this()](const error_code& failed, stream_protocol::socket socket) {
          const auto self = weak.lock();
          if (!self || self->closed_) return;
          if (failed) {
            self->accept_later();
          } else {
            self->admit(std::move(socket));
            self->accept();
          }
        });
  }

  void close() {
    if (std::exchange(closed_, true)) return;
    error_code ignored;
    std::ignore = acceptor_.close(ignored);
    pause_.cancel();
    remove_socket();
    const auto clients = std::exchange(clients_, {});
    for (const auto& [id, client] : clients) {
      // What the socket's buffer does not take at once is lost: nobody here waits for a client.
      if (client.state == State::waiting) client.channel->send(refusal("the job is ending"));
      client.channel->close();
    }
  }

 private:
  enum class State { asking, waiting, answered };
  struct Client {
    std::shared_ptr<Channel> channel;
    asio::steady_timer patience;
    State state = State::asking;
  };
  using Id = std::uint64_t;

  // The process has no descriptor left, say: at once it would fail again.
  void accept_later() {
    pause_.expires_after(kAcceptRetry);
    pause_.async_wait([weak = weak_from_this()](const error_code& cancelled) {
      const auto self = weak.lock();
      if (self && !cancelled && !self->closed_) self->accept();
    });
  }

  void admit(stream_protocol::socket socket) {
    fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    if (!may_ask(socket.native_handle())) {
      turn_away(socket.native_handle(), "only the job's owner and root may ask");
      return;
    }
    if (clients_.size() >= limits_.clients) {
      turn_away(socket.native_handle(),
                "too many requests are open (" + std::to_string(clients_.size()) + ")");
      return;
    }
    const Id id = next_++;
    const auto channel = std::make_shared<Channel>(Channel::Socket(std::move(socket)));
    channel->limit(limits_.request_bytes);
    clients_.emplace(id, Client{channel, asio::steady_timer(acceptor_.get_executor())});
    limit(id);
    channel->start(
        [weak = weak_from_this(), id](const Message& request) {
          if (const auto self = weak.lock()) self->receive(id, request);
        },
        [weak = weak_from_this(), id](const std::string&) {
          if (const auto self = weak.lock()) self->clients_.erase(id);
        });
  }

  void limit(Id id) {
    asio::steady_timer& patience = clients_.at(id).patience;
    patience.expires_after(limits_.patience);
    patience.async_wait([weak = weak_from_this(), id](const error_code& cancelled) {
      const auto self = weak.lock();
      if (!self || cancelled) return;
      // A request may have come between the timer's end and this call.
      const auto client = self->clients_.find(id);
      if (client == self->clients_.end()) return;
      if (client->second.patience.expiry() <= asio::steady_timer::clock_type::now()) self->drop(id);
    });
  }

  void drop(Id id) {
    const auto client = clients_.extract(id);
    if (!client.empty()) client.mapped().channel->close();
  }

  void receive(Id id, const Message& request) {
    const auto client = clients_.find(id);
    if (client == clients_.end()) return;
    if (client->second.state != State::asking) {  // one request for each connection
      drop(id);
      return;
    }
    client->second.state = State::waiting;
    client->second.patience.expires_at(asio::steady_timer::time_point::max());
    try {
      if (request.number("version") != kVersion) {
        throw std::runtime_error("the request has version " +
                                 std::to_string(request.number("version")) +
                                 " of the protocol, this job speaks version " +
                                 std::to_string(kVersion) + ": use the same Bellows");
      }
      handler_(request, [weak = weak_from_this(), id](const Message& answer) {
        if (const auto self = weak.lock()) self->answer(id, answer);
      });
    } catch (const std::exception& failed) {
      answer(id, refusal(failed.what()));
    }
  }

  void answer(Id id, const Message& answer) {
    const auto client = clients_.find(id);
    if (client == clients_.end() || client->second.state != State::waiting) return;
    client->second.state = State::answered;
    limit(id);
    try {
      client->second.channel->send(answer);
    } catch (const ProtocolError& too_long) {
      client->second.channel->send(refusal(too_long.what()));
    }
  }

  // Only what is still ours: the user may have removed the socket and started another job.
  void remove_socket() const {
    struct stat now{};
    if (lstat(path_.c_str(), &now) == 0 && now.st_dev == socket_.st_dev &&
        now.st_ino == socket_.st_ino) {
      unlink(path_.c_str());
    }
  }

  ControlLimits limits_;
  Handler handler_;
  std::string path_;
  struct stat socket_{};
  stream_protocol::acceptor acceptor_;
  asio::steady_timer pause_;
  std::map<Id, Client> clients_;
  Id next_ = 0;
  bool closed_ = false;
};

ControlServer::ControlServer(asio::io_context& io, const std::string& job, Handler handler,
                             ControlLimits limits, std::string_view ending)
    : desk_(std::make_shared<Desk>(io, job, std::move(handler), limits, ending)) {
  desk_->accept();
}

ControlServer::~ControlServer() { desk_->close(); }

const std::string& ControlServer::path() const { return desk_->path(); }

void ControlServer::close() { desk_->close(); }

}  // namespace bellows::protocol
