// SPDX-License-Identifier: Apache-2.0
// Which connections are told to send at once: those to the PMIx server, and no others.
#include "mpi_elastic/pmix_connection.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace bellows::test {
namespace {

using elastic::send_to_pmix_server_at_once;

/// A server on loopback, and a connection to it.
class Connection {
 public:
  Connection()
      : server_(socket(AF_INET, SOCK_STREAM, 0)), client_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(server_, generic, length), 0);
    EXPECT_EQ(listen(server_, 1), 0);
    EXPECT_EQ(getsockname(server_, generic, &length), 0);
    EXPECT_EQ(connect(client_, generic, length), 0);
    port_ = ntohs(address.sin_port);
  }
  ~Connection() {
    close(client_);
    close(server_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  std::string uri() const { return "agents.0;tcp4://127.0.0.1:" + std::to_string(port_); }
  bool sends_at_once() const {
    int on = 0;
    socklen_t length = sizeof on;
    EXPECT_EQ(getsockopt(client_, IPPROTO_TCP, TCP_NODELAY, &on, &length), 0);
    return on != 0;
  }

 private:
  int server_, client_, port_ = 0;
};

class PmixConnection : public testing::Test {
 protected:
  void TearDown() override { unsetenv("PMIX_SERVER_URI4"); }
};

TEST_F(PmixConnection, IsTheOneThatTheVariableNames) {
  const Connection server, other;
  setenv("PMIX_SERVER_URI4", server.uri().c_str(), 1);
  EXPECT_EQ(send_to_pmix_server_at_once(), 1);
  EXPECT_TRUE(server.sends_at_once());
  EXPECT_FALSE(other.sends_at_once());
}

TEST_F(PmixConnection, IsNoneWithoutAServer) {
  const Connection other;
  EXPECT_EQ(send_to_pmix_server_at_once(), 0);
  EXPECT_FALSE(other.sends_at_once());
}

TEST_F(PmixConnection, IsNoneForAVariableThatNamesNothing) {
  const Connection other;
  for (const char* text : {"", "agents.0", "agents.0;tcp4://", "tcp4://127.0.0.1", ":", "://:"}) {
    setenv("PMIX_SERVER_URI4", text, 1);
    EXPECT_EQ(send_to_pmix_server_at_once(), 0) << text;
  }
  EXPECT_FALSE(other.sends_at_once());
}

}  // namespace
}  // namespace bellows::test
