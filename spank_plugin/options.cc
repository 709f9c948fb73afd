// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/options.h"

#include <algorithm>

namespace bellows::spank {
namespace {

constexpr const char* kDefaultWait = "60";

std::string bounds_text(std::string_view text) { return parse_bounds(text).text(); }
std::string mode_text(std::string_view text) { return protocol::text(parse_mode(text)); }
std::string companions_text(std::string_view text) {
  return protocol::text(parse_companions(text));
}
std::string grace_text(std::string_view text) {
  return std::to_string(parse_number(text, 0, kLongestGrace));
}
std::string wait_text(std::string_view text) {
  // "(null)" is what Slurm hands on for an option that was given without its optional value.
  if (text.empty() || text == "(null)") return kDefaultWait;
  return std::to_string(parse_number(text, 0, kLongestWait));
}

constexpr Option kOptions[kOptionCount] = {
    {OptionId::elastic, "elastic", "MIN-MAX[:STEP]", "1 <= MIN <= MAX: 1-8, 2-16:2 or just 4",
     "an elastic job: it may grow and shrink between MIN and MAX nodes while it runs",
     TakesValue::yes, "BELLOWS_ELASTIC", bounds_text},
    {OptionId::mode, "elastic-mode", "turbo|economic|manual", "",
     "who decides: turbo takes idle nodes, economic those that pay, manual waits for requests",
     TakesValue::yes, "BELLOWS_ELASTIC_MODE", mode_text},
    {OptionId::policy_args, "elastic-policy-args", "NAME=VALUE[,...]", "as gain=0.2,settle=60",
     "settings of the policy behind the mode", TakesValue::yes, "BELLOWS_ELASTIC_POLICY_ARGS",
     parse_policy_args},
    {OptionId::grace, "elastic-grace", "SECONDS", "0 to 86400",
     "how long before it loses a node the job wants to be told", TakesValue::yes,
     "BELLOWS_ELASTIC_GRACE", grace_text},
    {OptionId::companions, "elastic-het", "KEY=VALUE[,...][;...]",
     "as 'partition=spot,max=4;partition=gpu,gres=gpu:1'",
     "where the job may have companion allocations: partition, qos, features, gres, account, max "
     "(nodes)",
     TakesValue::yes, "BELLOWS_ELASTIC_HET", companions_text},
    {OptionId::resize, "elastic-resize", "N|+N|-N|NODELIST", "nodes: 6, +2, -2 or n[1-4]",
     "srun: have the running elastic job changed to N nodes, by N, or to have these nodes",
     TakesValue::yes, nullptr, parse_resize},
    {OptionId::wait, "elastic-wait", "SECONDS", "0 to 86400",
     "with --elastic-resize: until the change is complete, 60 seconds unless others are given",
     TakesValue::maybe, nullptr, wait_text},
};

}  // namespace

std::span<const Option> option_table() { return kOptions; }
const Option& option(OptionId id) { return kOptions[static_cast<std::size_t>(id)]; }

std::string parse_option(const Option& option, const char* value) {
  const std::string_view text = value == nullptr ? "" : value;
  try {
    if (text.size() > kLongestValue)
      throw ValueError("is longer than " + std::to_string(kLongestValue) + " characters");
    return option.parse(text);
  } catch (const ValueError& error) {
    const std::string dashed = "--" + std::string(option.name) + "=";
    const std::string example =
        *option.example == '\0' ? "" : " (" + std::string(option.example) + ")";
    throw ValueError(dashed + printable(text) + ": " + error.what() + "; use " + dashed +
                     option.value + example);
  }
}

bool GivenOptions::any_of_job() const {
  return std::ranges::any_of(option_table(), [this](const Option& option) {
    return option.variable != nullptr && (*this)[option.id].has_value();
  });
}

}  // namespace bellows::spank
