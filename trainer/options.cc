// SPDX-License-Identifier: Apache-2.0
#include "trainer/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "trainer/errors.h"

namespace bellows::trainer {

namespace po = boost::program_options;

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names{"mlp", "cnn", "resnet18", "transformer"};
  return names;
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names{"sgd", "adam", "adamw"};
  return names;
}

namespace {

const std::vector<std::string> kSchedules{"constant", "step", "cosine"};
const std::vector<std::string> kNorms{"group", "batch"};
const std::vector<std::string> kPrecisions{"single", "double"};
const std::vector<std::string> kDevices{"cpu", "cuda"};

/// The tables that both the parser and --help are made from.
struct Table {
  po::options_description what{"What to train"};
  po::options_description how{"How to train"};
  po::options_description limits{"When to stop (the first limit reached; default: --passes 5)"};
  po::options_description checkpoints{"Checkpoints"};
  po::options_description output{"Machine and output"};
  std::string checkpoint_every;
  std::string config;

  explicit Table(Options& o) {
    what.add_options()("model", po::value(&o.model), "mlp, cnn, resnet18 or transformer")(
        "data", po::value(&o.data),
        "fashion-mnist[:DIR], cifar10[:DIR], hdf5:FILE or text:FILE (transformer)")(
        "dropout", po::value(&o.dropout)->default_value(o.dropout, "0.25"),
        "share of activations that are dropped (mlp, cnn, transformer)")(
        "norm", po::value(&o.norm)->default_value(o.norm),
        "resnet18: group, or batch (statistics of each rank's share)")(
        "width", po::value(&o.width)->default_value(o.width, "the model's"),
        "channels of the first convolution, or features of a layer")(
        "length", po::value(&o.length)->default_value(o.length), "transformer: context in bytes")(
        "layers", po::value(&o.layers)->default_value(o.layers), "transformer: blocks")(
        "heads", po::value(&o.heads)->default_value(o.heads), "transformer: attention heads")(
        "precision", po::value(&o.precision)->default_value(o.precision),
        "of parameters and gradients: single, or double (to tell rounding from mistakes)");
    how.add_options()("batch", po::value(&o.batch)->default_value(o.batch),
                      "samples per step, over all ranks together")(
        "micro-batch", po::value(&o.micro_batch)->default_value(o.micro_batch, "all"),
        "samples a rank works on at once; more are accumulated")(
        "logical-ranks", po::value(&o.logical_ranks)->default_value(o.logical_ranks, "off"),
        "sum the gradients of this many parts of the batch in a fixed order: the same bits on any "
        "number of ranks, but slower")(
        "optimizer", po::value(&o.optimizer)->default_value(o.optimizer), "sgd, adam or adamw")(
        "lr", po::value(&o.lr)->default_value(o.lr, "sgd 0.05, adam 0.001"), "learning rate")(
        "lr-schedule", po::value(&o.lr_schedule)->default_value(o.lr_schedule),
        "constant, step or cosine (to zero at the limit of --passes or --steps)")(
        "lr-step", po::value(&o.lr_step)->default_value(o.lr_step), "step: passes between steps")(
        "lr-gamma", po::value(&o.lr_gamma)->default_value(o.lr_gamma, "0.1"),
        "step: factor of each step")("warmup", po::value(&o.warmup)->default_value(o.warmup),
                                     "steps over which the learning rate rises to its value")(
        "momentum", po::value(&o.momentum)->default_value(o.momentum, "0.9"), "of sgd")(
        "nesterov", po::bool_switch(&o.nesterov), "Nesterov's form of momentum")(
        "beta1", po::value(&o.beta1)->default_value(o.beta1, "0.9"), "of adam and adamw")(
        "beta2", po::value(&o.beta2)->default_value(o.beta2, "0.999"), "of adam and adamw")(
        "epsilon", po::value(&o.epsilon)->default_value(o.epsilon, "1e-8"), "of adam and adamw")(
        "weight-decay", po::value(&o.weight_decay)->default_value(o.weight_decay, "0"),
        "L2 penalty (sgd, adam) or decoupled decay (adamw)")(
        "clip", po::value(&o.clip)->default_value(o.clip, "off"),
        "largest norm of the gradient; longer ones are scaled down")(
        "seed", po::value(&o.seed)->default_value(o.seed),
        "of the initial parameters, the order of the data and all other draws");
    limits.add_options()("passes", po::value(&o.passes),
                         "passes over the training data (also --epochs)")(
        "steps", po::value(&o.steps), "updates")("train-seconds", po::value(&o.train_seconds),
                                                 "seconds of training in this run");
    checkpoints.add_options()("checkpoint-dir", po::value(&o.checkpoint_dir),
                              "where checkpoints are kept")(
        "checkpoint-every", po::value(&checkpoint_every)->default_value("", "every pass"),
        "N steps, or Ns for N seconds")("keep", po::value(&o.keep)->default_value(o.keep),
                                        "how many checkpoints to keep")(
        "resume", po::value(&o.resume)->default_value(o.resume),
        "auto (the newest good one in --checkpoint-dir, if any), none, or a file")(
        "accept-changes", po::bool_switch(&o.accept_changes),
        "resume although options that change the result differ")(
        "requeue-code", po::value(&o.requeue_code)->default_value(o.requeue_code),
        "exit code after a checkpoint because of SIGTERM or SIGUSR1");
    output.add_options()("device", po::value(&o.device)->default_value(o.device), "cpu or cuda")(
        "threads",
        po::value(&o.threads)
            ->default_value(o.threads, "OMP_NUM_THREADS, else cores / ranks on the node"),
        "threads per rank")("bucket-mb", po::value(&o.bucket_mb)->default_value(o.bucket_mb, "4"),
                            "megabytes of gradients that are reduced in one piece")(
        "metrics", po::value(&o.metrics), "write JSON lines to this file")(
        "timeline", po::value(&o.timeline),
        "write what each rank does when to this file, for Perfetto or chrome://tracing")(
        "timeline-mb", po::value(&o.timeline_mb)->default_value(o.timeline_mb, "256"),
        "megabytes that it may take")(
        "record-samples", po::value(&o.record_samples),
        "write which samples each step used to FILE.PID, of each rank")(
        "log-every", po::value(&o.log_every)->default_value(o.log_every),
        "steps between lines of output and metrics")(
        "evaluate-every", po::value(&o.evaluate_every)->default_value(o.evaluate_every),
        "passes between evaluations on the test data; 0: only at the end")(
        "config", po::value(&config), "file with lines NAME = VALUE, # comments")(
        "help,h", po::bool_switch(&o.help), "show this")("version", po::bool_switch(&o.version),
                                                         "show the version");
  }

  po::options_description all() const {
    po::options_description sum;
    sum.add(what).add(how).add(limits).add(checkpoints).add(output);
    return sum;
  }
};

void require(bool good, const std::string& message) {
  if (!good) throw UsageError(message);
}

void require_name(const char* option, const std::string& value,
                  const std::vector<std::string>& allowed) {
  require(std::find(allowed.begin(), allowed.end(), value) != allowed.end(),
          fmt::format("--{} {}: use one of {}", option, value, fmt::join(allowed, ", ")));
}

template <typename T>
void require_range(const char* option, T value, T low, T high) {
  require(value >= low && value <= high,
          fmt::format("--{} {}: must be from {} to {}", option, value, low, high));
}

void require_positive(const char* option, double value) {
  // Arithmetic is in floats.
  require(value > 0 && value <= std::numeric_limits<float>::max(),
          fmt::format("--{} {}: must be a positive number", option, value));
}

void parse_checkpoint_every(const std::string& text, Options& o) {
  if (text.empty()) return;
  const bool seconds = text.back() == 's';
  std::istringstream in(seconds ? text.substr(0, text.size() - 1) : text);
  double value = 0;
  in >> value;
  require(!in.fail() && in.peek() == EOF && value > 0 && value <= 1e12 &&
              (seconds || value == std::floor(value)),
          "--checkpoint-every " + text + ": use a number of steps (100) or of seconds (600s)");
  if (seconds)
    o.checkpoint_seconds = value;
  else
    o.checkpoint_steps = static_cast<std::int64_t>(value);
}

void check(Options& o, const po::variables_map& given) {
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  require(!o.model.empty(),
          "--model is missing: use one of " + fmt::format("{}", fmt::join(model_names(), ", ")));
  require(!o.data.empty(),
          "--data is missing: use fashion-mnist[:DIR], cifar10[:DIR], hdf5:FILE "
          "or text:FILE");
  require_name("model", o.model, model_names());
  require_name("optimizer", o.optimizer, optimizer_names());
  require_name("lr-schedule", o.lr_schedule, kSchedules);
  require_name("norm", o.norm, kNorms);
  require_name("precision", o.precision, kPrecisions);
  require_name("device", o.device, kDevices);
  const bool text = o.data.starts_with("text");
  require(text == (o.model == "transformer"),
          "--model " + o.model + " --data " + o.data +
              ": the transformer reads text:FILE, the other models read images or vectors");

  require(o.dropout >= 0 && o.dropout < 1,
          fmt::format("--dropout {}: must be at least 0 and below 1", o.dropout));
  require_range<std::int64_t>("width", o.width, 0, 65536);
  require_range<std::int64_t>("length", o.length, 1, 1 << 20);
  require_range<std::int64_t>("layers", o.layers, 1, 1000);
  require_range<std::int64_t>("heads", o.heads, 1, 1000);
  require_range<std::int64_t>("batch", o.batch, 1, kMany);
  require_range<std::int64_t>("micro-batch", o.micro_batch, 0, kMany);
  require_range<std::int64_t>("logical-ranks", o.logical_ranks, 0, 65536);
  if (given.count("lr") == 0 || given["lr"].defaulted()) o.lr = o.optimizer == "sgd" ? 0.05 : 0.001;
  require_positive("lr", o.lr);
  require_range<std::int64_t>("lr-step", o.lr_step, 1, kMany);
  require_positive("lr-gamma", o.lr_gamma);
  require_range<std::int64_t>("warmup", o.warmup, 0, kMany);
  require_range("momentum", o.momentum, 0.0, 1.0);
  require(!o.nesterov || (o.optimizer == "sgd" && o.momentum > 0),
          "--nesterov: needs --optimizer sgd and a --momentum above 0");
  require_range("beta1", o.beta1, 0.0, 0.9999999);
  require_range("beta2", o.beta2, 0.0, 0.9999999);
  require_positive("epsilon", o.epsilon);
  require_range("weight-decay", o.weight_decay, 0.0, 1e6);
  require(std::isfinite(o.clip) && o.clip >= 0, "--clip: must be a positive number");

  for (const char* limit : {"passes", "steps", "train-seconds"})
    if (given.count(limit) != 0)
      require(given.count(limit) != 0 &&
                  (std::string(limit) == "train-seconds"
                       ? std::isfinite(o.train_seconds) && o.train_seconds > 0
                       : (std::string(limit) == "passes" ? o.passes : o.steps) > 0),
              fmt::format("--{}: must be positive", limit));
  if (o.passes == 0 && o.steps == 0 && o.train_seconds == 0) o.passes = 5;
  require(o.lr_schedule != "cosine" || o.passes > 0 || o.steps > 0,
          "--lr-schedule cosine: needs a limit of --passes or --steps to end at");

  require_range("keep", o.keep, 1, 1000000);
  require_range("requeue-code", o.requeue_code, 1, 125);
  require(o.checkpoint_dir.empty() ? o.checkpoint_steps == 0 && o.checkpoint_seconds == 0 : true,
          "--checkpoint-every: needs --checkpoint-dir");
  require_range("threads", o.threads, 0, 4096);
  require(std::isfinite(o.bucket_mb) && o.bucket_mb > 0 && o.bucket_mb <= 1024,
          fmt::format("--bucket-mb {}: must be above 0 and at most 1024", o.bucket_mb));
  require(o.timeline_mb > 0 && o.timeline_mb <= 1e9,
          fmt::format("--timeline-mb {}: must be a positive number", o.timeline_mb));
  require_range<std::int64_t>("log-every", o.log_every, 1, kMany);
  require_range<std::int64_t>("evaluate-every", o.evaluate_every, 0, kMany);
}

// PyTorch's users type --epochs.
std::pair<std::string, std::string> alias(const std::string& argument) {
  if (argument == "--epochs") return {"passes", ""};
  if (argument.starts_with("--epochs=")) return {"passes", argument.substr(9)};
  return {};
}

std::string with_dashes(std::string name) { return name.starts_with("-") ? name : "--" + name; }

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options o;
  Table table(o);
  po::variables_map given;
  std::string where;
  try {
    // Abbreviations would change their meaning when options are added.
    using po::command_line_style::allow_guessing;
    const int style = po::command_line_style::default_style & ~allow_guessing;
    const po::positional_options_description none;
    const auto all = table.all();
    std::vector<std::string> arguments;
    for (int i = 1; i < argc; ++i) {
      const auto [name, value] = alias(argv[i]);
      arguments.push_back(name.empty() ? argv[i]
                                       : "--" + name + (value.empty() ? "" : "=" + value));
    }
    po::store(po::command_line_parser(arguments).options(all).positional(none).style(style).run(),
              given);
    if (given.count("config") != 0) {
      where = given["config"].as<std::string>() + ": ";
      std::ifstream file(given["config"].as<std::string>());
      file.peek();  // opening a folder succeeds, reading it does not
      if (!file.is_open() || file.bad())
        throw UsageError("--config " + given["config"].as<std::string>() + ": cannot be read");
      po::store(po::parse_config_file(file, all), given);
    }
    po::notify(given);
  } catch (const po::unknown_option& e) {
    throw UsageError(where + with_dashes(e.get_option_name()) +
                     ": unknown option; --help lists all");
  } catch (const po::too_many_positional_options_error&) {
    throw UsageError("arguments without a name are not understood; --help lists all options");
  } catch (const po::error& e) {
    throw UsageError(where + e.what());
  }
  if (o.help || o.version) return o;
  parse_checkpoint_every(table.checkpoint_every, o);
  check(o, given);
  return o;
}

std::string help_text() {
  Options o;
  const Table table(o);
  std::ostringstream out;
  out << "usage: bellows-run [-n RANKS] bellows-train --model NAME --data SPEC [OPTION...]\n"
         "Trains a network on all ranks together. See bellows-train(1).\n\n";
  for (const auto* group :
       {&table.what, &table.how, &table.limits, &table.checkpoints, &table.output})
    out << *group << "\n";
  out << "exit codes: 0 done, 1 failure, 2 wrong options or data, 3 stopped by a signal without\n"
         "a checkpoint, 85 (--requeue-code) stopped by a signal after a checkpoint\n";
  return out.str();
}

std::map<std::string, std::string> Options::mathematics() const {
  const auto number = [](auto v) { return fmt::format("{}", v); };
  std::map<std::string, std::string> all{
      {"model", model},           {"data", data.substr(0, data.find(':'))},
      {"width", number(width)},   {"optimizer", optimizer},
      {"lr", number(lr)},         {"lr-schedule", lr_schedule},
      {"warmup", number(warmup)}, {"weight-decay", number(weight_decay)},
      {"clip", number(clip)},     {"batch", number(batch)},
      {"seed", number(seed)},
  };
  if (logical_ranks > 0) all["logical-ranks"] = number(logical_ranks);
  if (precision != "single") all["precision"] = precision;
  if (model != "resnet18") all["dropout"] = number(dropout);
  if (model == "resnet18") all["norm"] = norm;
  if (model == "transformer") {
    all["length"] = number(length);
    all["layers"] = number(layers);
    all["heads"] = number(heads);
  }
  if (optimizer == "sgd") {
    all["momentum"] = number(momentum);
    all["nesterov"] = number(nesterov);
  } else {
    all["beta1"] = number(beta1);
    all["beta2"] = number(beta2);
    all["epsilon"] = number(epsilon);
  }
  if (lr_schedule == "step") {
    all["lr-step"] = number(lr_step);
    all["lr-gamma"] = number(lr_gamma);
  }
  if (lr_schedule == "cosine") {
    all["passes"] = number(passes);
    all["steps"] = number(steps);
  }
  return all;
}

}  // namespace bellows::trainer
