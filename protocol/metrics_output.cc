// SPDX-License-Identifier: Apache-2.0
#include "protocol/metrics_output.h"

#include <stdexcept>
#include <utility>

#include "protocol/metrics_text.h"

namespace bellows::protocol {
namespace {
constexpr auto kPause = std::chrono::seconds(5);
}

MetricsOutput::MetricsOutput(boost::asio::io_context& io, std::function<std::string()> text,
                             std::function<void(const std::string&)> warn)
    : io_(io), text_(std::move(text)), warn_(std::move(warn)), timer_(io) {}

std::string MetricsOutput::listen(const MetricsAddress& where, const std::string& option) {
  try {
    server_ = std::make_unique<MetricsServer>(io_, where, text_);
  } catch (const std::runtime_error& failed) {
    throw std::runtime_error(option + ": " + failed.what());
  }
  return server_->url();
}

void MetricsOutput::keep(const std::string& file, const std::string& option) {
  file_ = file;
  option_ = option;
  failed_ = false;
  timer_.cancel();
  if (file_.empty()) return;
  await();
  try {
    write_metrics_file(file_, text_());
  } catch (const std::runtime_error& failed) {
    failed_ = true;
    throw std::runtime_error(option_ + ": " + failed.what());
  }
}

void MetricsOutput::write() {
  if (file_.empty()) return;
  try {
    write_metrics_file(file_, text_());
    failed_ = false;
  } catch (const std::runtime_error& failed) {
    if (!std::exchange(failed_, true)) warn_(option_ + ": " + failed.what());
  }
}

void MetricsOutput::await() {
  timer_.expires_after(kPause);
  timer_.async_wait([this](const boost::system::error_code& aborted) {
    if (aborted) return;
    write();
    await();
  });
}

void MetricsOutput::close() {
  timer_.cancel();
  server_.reset();
  write();
}

}  // namespace bellows::protocol
