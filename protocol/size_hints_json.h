// SPDX-License-Identifier: Apache-2.0
// A training's size hints as they travel: from its rank 0 to bellows-run, on to those who ask for
// the job's status, and to bellowsd.
#pragma once

#include <boost/json.hpp>
#include <optional>

#include "protocol/size_hints.h"

namespace bellows::protocol {

boost::json::object to_json(const SizeHints& hints);
/// Throws ProtocolError when something is absent, of another type, or out of range.
SizeHints size_hints_from_json(const boost::json::value& value);
/// The member "hints" of a message; nothing where there is none, as from peers that know no hints.
std::optional<SizeHints> size_hints_in(const boost::json::object& head);

}  // namespace bellows::protocol
