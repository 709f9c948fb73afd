// SPDX-License-Identifier: Apache-2.0
// The options by name, with their defaults and what --help says of them.
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "trainer/options/options.h"

namespace bellows::trainer {

/// The tables that both the parser and --help are made from.
struct Table {
  boost::program_options::options_description what{"What to train"};
  boost::program_options::options_description how{"How to train"};
  boost::program_options::options_description optimizer{"The optimizer"};
  boost::program_options::options_description adapt{
      "How batch and learning rate follow the allocation"};
  boost::program_options::options_description limits{
      "When to stop (the first limit reached; default: --passes 5)"};
  boost::program_options::options_description checkpoints{"Checkpoints"};
  boost::program_options::options_description output{"Machine and output"};
  boost::program_options::options_description tests{"Evaluations"};
  boost::program_options::options_description self{"This program"};
  std::string checkpoint_every;
  std::string micro_batch_bounds;
  std::string no_decay;
  std::string lr_factors;
  std::string config;

  explicit Table(Options& o);

  /// Of a training in a program of somebody's, which makes model, data and optimizer itself.
  boost::program_options::options_description of_programs() const;

  boost::program_options::options_description all() const;
};

}  // namespace bellows::trainer
