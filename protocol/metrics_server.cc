// SPDX-License-Identifier: Apache-2.0
#include "protocol/metrics_server.h"

#include <fcntl.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "protocol/metrics_text.h"

namespace bellows::protocol {
namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kAcceptPause = std::chrono::seconds(1);  // after a failure, as of descriptors

// They must not keep the port, or a connection, when this process dies.
void keep_from_children(int descriptor) { fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

tcp::acceptor listen(asio::io_context& io, const MetricsAddress& where) {
  try {
    tcp::acceptor acceptor(io, {asio::ip::make_address(where.address), where.port});
    keep_from_children(acceptor.native_handle());
    return acceptor;
  } catch (const boost::system::system_error& failed) {
    throw std::runtime_error("cannot listen at " + where.address + ":" +
                             std::to_string(where.port) + ": " + failed.code().message());
  }
}

}  // namespace

MetricsAddress MetricsAddress::parse(std::string_view text) {
  const auto wrong = [&] {
    return std::invalid_argument(
        "must be ADDRESS:PORT or PORT, the address a number (127.0.0.1 if "
        "there is none, 0.0.0.0 for all interfaces), not '" +
        std::string(text) + "'");
  };
  MetricsAddress where;
  const std::size_t colon = text.rfind(':');
  std::string_view port = text;
  if (colon != std::string_view::npos) {
    port = text.substr(colon + 1);
    std::string_view address = text.substr(0, colon);
    if (address.starts_with('[') && address.ends_with(']')) {
      address = address.substr(1, address.size() - 2);
    } else if (address.find(':') != std::string_view::npos) {
      throw wrong();
    }
    if (!address.empty()) where.address = address == "localhost" ? "127.0.0.1" : address;
  }
  const auto [end, failed] = std::from_chars(port.data(), port.data() + port.size(), where.port);
  error_code bad;
  asio::ip::make_address(where.address, bad);
  if (failed != std::errc() || end != port.data() + port.size() || bad) throw wrong();
  return where;
}

class MetricsServer::Desk : public std::enable_shared_from_this<Desk> {
 public:
  Desk(asio::io_context& io, const MetricsAddress& where, std::function<std::string()> text,
       MetricsLimits limits)
      : acceptor_(listen(io, where)), pause_(io), text_(std::move(text)), limits_(limits) {}

  void accept() {
    acceptor_.async_accept(
        [desk = shared_from_this()](const error_code& failed, tcp::socket socket) {
          if (desk->closed_) return;
          if (failed) {
            desk->pause_.expires_after(kAcceptPause);
            desk->pause_.async_wait([desk](const error_code& ended) {
              if (!ended) desk->accept();
            });
            return;
          }
          if (desk->visits_.size() < desk->limits_.clients) {
            keep_from_children(socket.native_handle());
            const auto visit = std::make_shared<Visit>(std::move(socket));
            desk->visits_.insert(visit);
            desk->read(visit);
          }
          desk->accept();
        });
  }

  void close() {
    closed_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    for (const auto& visit : visits_) visit->stream.close();
  }

  tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

 private:
  struct Visit {
    explicit Visit(tcp::socket socket) : stream(std::move(socket)) {}
    boost::beast::tcp_stream stream;
    boost::beast::flat_buffer buffer;
    http::request_parser<http::empty_body> parser;
    http::response<http::string_body> answer;
  };

  // The request, then the answer: each within its time, or the connection ends.
  void read(const std::shared_ptr<Visit>& visit) {
    visit->parser.header_limit(static_cast<std::uint32_t>(limits_.request_bytes));
    visit->parser.body_limit(0);
    visit->buffer.max_size(limits_.request_bytes);
    visit->stream.expires_after(limits_.patience);
    http::async_read_header(
        visit->stream, visit->buffer, visit->parser,
        [desk = shared_from_this(), visit](const error_code& failed, std::size_t) {
          if (desk->closed_) return;
          if (failed == http::error::header_limit || failed == http::error::buffer_overflow) {
            desk->write(visit, http::status::request_header_fields_too_large,
                        "the request is too large\n");
          } else if (failed &&
                     failed.category() ==
                         http::make_error_code(http::error::bad_method).category() &&
                     failed != http::error::end_of_stream &&
                     failed != http::error::partial_message) {
            desk->write(visit, http::status::bad_request, "not HTTP\n");
          } else if (failed) {
            desk->visits_.erase(visit);
          } else {
            desk->answer(visit);
          }
        });
  }

  void answer(const std::shared_ptr<Visit>& visit) {
    const auto& request = visit->parser.get();
    const bool only_head = request.method() == http::verb::head;
    const std::string_view target(request.target().data(), request.target().size());
    if (request.method() != http::verb::get && !only_head) {
      visit->answer.set(http::field::allow, "GET, HEAD");
      write(visit, http::status::method_not_allowed, "GET only\n");
    } else if (target.substr(0, target.find('?')) != "/metrics") {
      write(visit, http::status::not_found, "the metrics are at /metrics\n");
    } else {
      visit->answer.set(http::field::content_type, kMetricsContentType);
      write(visit, http::status::ok, current(), only_head);
    }
  }

  void write(const std::shared_ptr<Visit>& visit, http::status status, std::string body,
             bool only_head = false) {
    auto& answer = visit->answer;
    answer.result(status);
    answer.version(11);
    answer.keep_alive(false);
    if (!answer.count(http::field::content_type)) {
      answer.set(http::field::content_type, "text/plain; charset=utf-8");
    }
    answer.content_length(body.size());
    if (!only_head) answer.body() = std::move(body);
    visit->stream.expires_after(limits_.patience);
    http::async_write(visit->stream, answer,
                      [desk = shared_from_this(), visit](const error_code&, std::size_t) {
                        error_code ignored;
                        visit->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
                        desk->visits_.erase(visit);
                      });
  }

  const std::string& current() {
    const auto now = Clock::now();
    if (!made_ || now - *made_ > limits_.fresh) {
      made_ = now;
      cached_ = text_();
    }
    return cached_;
  }

  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::function<std::string()> text_;
  MetricsLimits limits_;
  std::set<std::shared_ptr<Visit>> visits_;
  std::optional<Clock::time_point> made_;
  std::string cached_;
  bool closed_ = false;
};

MetricsServer::MetricsServer(asio::io_context& io, const MetricsAddress& where,
                             std::function<std::string()> text, MetricsLimits limits)
    : desk_(std::make_shared<Desk>(io, where, std::move(text), limits)) {
  desk_->accept();
}

MetricsServer::~MetricsServer() { desk_->close(); }

std::uint16_t MetricsServer::port() const { return desk_->endpoint().port(); }

std::string MetricsServer::url() const {
  const tcp::endpoint at = desk_->endpoint();
  const std::string address = at.address().to_string();
  return "http://" + (at.address().is_v6() ? "[" + address + "]" : address) + ":" +
         std::to_string(at.port()) + "/metrics";
}

}  // namespace bellows::protocol
