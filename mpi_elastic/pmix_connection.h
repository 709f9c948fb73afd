// SPDX-License-Identifier: Apache-2.0
// This process's connection to the PMIx server of its node.
#pragma once

namespace bellows::elastic {

/// Turns Nagle's algorithm off on the TCP connections to the server that PMIX_SERVER_URI* name, and
/// on no others. OpenPMIx (5.0) leaves it on and ends a session with two small messages in a row:
/// the second waits for the acknowledgement of the first, which the server's kernel delays by 40
/// ms. Returns the number of connections. Never fails: without it all is slower.
int send_to_pmix_server_at_once();

}  // namespace bellows::elastic
