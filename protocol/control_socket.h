// SPDX-License-Identifier: Apache-2.0
// Where a running job can be talked to: a folder for each user of a machine, and in it a Unix
// socket for each job that was started there.
#pragma once

#include <sys/un.h>

#include <string>
#include <string_view>

namespace bellows::protocol {

/// $BELLOWS_CONTROL_DIR, else /tmp/bellows-ctl-UID. Throws std::runtime_error when the variable
/// holds no absolute path.
std::string control_folder();

/// Throws std::runtime_error, which says what to do, unless `folder` is a real folder (no link) of
/// this user's that nobody else may enter: another user could answer, or ask, in the job's name.
void check_control_folder(const std::string& folder);

/// Letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 64: "4711",
/// "4711.80", "local-123".
bool is_job_name(std::string_view name);

/// FOLDER/JOB.sock, bellows-run's, whose name can be told from other files by this ending; or with
/// another one, such as its broker's. Throws std::runtime_error when `job` is no job name.
inline constexpr std::string_view kControlSocketEnding = ".sock";
inline constexpr std::string_view kBrokerSocketEnding = ".broker";
/// FOLDER/JOB.job: what the bellows-run of an elastic job leaves to another.
inline constexpr std::string_view kJobFileEnding = ".job";
std::string control_socket(const std::string& folder, std::string_view job,
                           std::string_view ending = kControlSocketEnding);

/// The address of a Unix socket. Throws std::runtime_error when the path is too long for one.
sockaddr_un unix_address(const std::string& path);

/// Whether somebody listens there; a socket that a dead process left does not. Does not block.
/// Throws std::runtime_error when that cannot be found out.
bool is_listening(const std::string& path);

}  // namespace bellows::protocol
