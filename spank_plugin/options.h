// SPDX-License-Identifier: Apache-2.0
// The options that the plugin adds to sbatch, salloc and srun: one table with what the user is
// told, the parser, and the variable in which a job finds the value.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "protocol/elastic_values.h"

namespace bellows::spank {

using namespace protocol;  // the values

enum class OptionId { elastic, mode, policy_args, grace, companions, resize, wait };
inline constexpr std::size_t kOptionCount = 7;

/// As Slurm (and getopt) number them.
enum class TakesValue { no = 0, yes = 1, maybe = 2 };

struct Option {
  OptionId id;
  const char* name;      ///< without the dashes
  const char* value;     ///< the form of its value
  const char* example;   ///< limits or good values, for error messages
  const char* help;      ///< a sentence or two
  TakesValue takes;      ///< whether a value must or may follow
  const char* variable;  ///< in the job's environment; null for a request, which is no job's
  std::string (*parse)(std::string_view);
};

/// All of them; row i is the one with OptionId i.
std::span<const Option> option_table();
const Option& option(OptionId id);

/// Parses the value of an option, null if none was given, into its normal form. Throws ValueError
/// with a message that names the option, the value, what is wrong, and the right form.
std::string parse_option(const Option& option, const char* value);

/// The values that were given; of an option that is there twice the last one counts, as for all
/// of Slurm's.
class GivenOptions {
 public:
  void set(OptionId id, std::string value) { at(id) = std::move(value); }
  const std::optional<std::string>& operator[](OptionId id) const {
    return values_[static_cast<std::size_t>(id)];
  }
  /// Whether one of those was given that describe a job.
  bool any_of_job() const;

 private:
  std::optional<std::string>& at(OptionId id) { return values_[static_cast<std::size_t>(id)]; }
  std::array<std::optional<std::string>, kOptionCount> values_;
};

}  // namespace bellows::spank
