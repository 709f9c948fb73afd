// SPDX-License-Identifier: Apache-2.0
// The C functions by which the PMIx server library asks its host for something. They run on the
// library's thread: each copies its arguments and posts the request to the host's io_context.
#pragma once

#include <pmix_server.h>

#include <boost/asio/io_context.hpp>

namespace bellows::elastic {

class HostUpcalls;

/// The library's callbacks carry no user data, so there is one host per process. Returns the table
/// to pass to PMIx_server_init.
pmix_server_module_t* attach_upcalls(boost::asio::io_context& io, HostUpcalls& upcalls);
/// Requests that arrive from now on are refused.
void detach_upcalls();

}  // namespace bellows::elastic
