// SPDX-License-Identifier: Apache-2.0
#include "trainer/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "trainer/adaptation/lr_rule.h"
#include "trainer/adaptation/rules.h"
#include "trainer/adaptation/shares.h"
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

const std::vector<std::string> kSchedules{"constant", "step", "cosine", "polynomial", "one-cycle"};
const std::vector<std::string> kNorms{"group", "batch"};
const std::vector<std::string> kBatchNorms{"local", "sync"};
const std::vector<std::string> kPrecisions{"single", "double"};
const std::vector<std::string> kDevices{"cpu", "cuda"};

/// The tables that both the parser and --help are made from.
struct Table {
  po::options_description what{"What to train"};
  po::options_description how{"How to train"};
  po::options_description optimizer{"The optimizer"};
  po::options_description adapt{"How batch and learning rate follow the allocation"};
  po::options_description limits{"When to stop (the first limit reached; default: --passes 5)"};
  po::options_description checkpoints{"Checkpoints"};
  po::options_description output{"Machine and output"};
  po::options_description self{"This program"};
  std::string checkpoint_every;
  std::string micro_batch_bounds;
  std::string no_decay;
  std::string lr_factors;
  std::string config;

  explicit Table(Options& o) {
    what.add_options()("model", po::value(&o.model),
                       "mlp, cnn, resnet18 or transformer, or a file of torch.jit: FILE.pt")(
        "data", po::value(&o.data),
        "fashion-mnist[:DIR], cifar10[:DIR], hdf5:FILE or text:FILE (transformer)")(
        "dropout", po::value(&o.dropout)->default_value(o.dropout, "0.25"),
        "share of activations that are dropped (mlp, cnn, transformer)")(
        "norm", po::value(&o.norm)->default_value(o.norm),
        "resnet18: group, or batch (statistics of the batch)")(
        "batch-norm", po::value(&o.batch_norm)->default_value(o.batch_norm),
        "batch statistics: local (of what a rank works on at once), or sync (of all ranks "
        "together)")("width", po::value(&o.width)->default_value(o.width, "the model's"),
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
        "lr-schedule", po::value(&o.lr_schedule)->default_value(o.lr_schedule),
        "constant, step, or to the limit of --passes or --steps: cosine (to zero), polynomial (to "
        "zero), one-cycle")("lr-step", po::value(&o.lr_step)->default_value(o.lr_step),
                            "step: passes between steps")(
        "lr-gamma", po::value(&o.lr_gamma)->default_value(o.lr_gamma, "0.1"),
        "step: factor of each step")(
        "lr-power", po::value(&o.lr_power)->default_value(o.lr_power, "1"),
        "polynomial: its power")("lr-rise", po::value(&o.lr_rise)->default_value(o.lr_rise, "0.3"),
                                 "one-cycle: share of the steps in which the rate rises")(
        "warmup", po::value(&o.warmup)->default_value(o.warmup),
        "steps over which the learning rate rises to its value")(
        "clip", po::value(&o.clip)->default_value(o.clip, "off"),
        "largest norm of the gradient; longer ones are scaled down")(
        "seed", po::value(&o.seed)->default_value(o.seed),
        "of the initial parameters, the order of the data and all other draws");
    optimizer.add_options()("optimizer", po::value(&o.optimizer)->default_value(o.optimizer),
                            "sgd, adam or adamw")(
        "lr", po::value(&o.lr)->default_value(o.lr, "sgd 0.05, adam 0.001"), "learning rate")(
        "momentum", po::value(&o.momentum)->default_value(o.momentum, "0.9"), "of sgd")(
        "nesterov", po::bool_switch(&o.nesterov), "Nesterov's form of momentum")(
        "beta1", po::value(&o.beta1)->default_value(o.beta1, "0.9"), "of adam and adamw")(
        "beta2", po::value(&o.beta2)->default_value(o.beta2, "0.999"), "of adam and adamw")(
        "epsilon", po::value(&o.epsilon)->default_value(o.epsilon, "1e-8"), "of adam and adamw")(
        "weight-decay", po::value(&o.weight_decay)->default_value(o.weight_decay, "0"),
        "L2 penalty (sgd, adam) or decoupled decay (adamw)")(
        "no-decay", po::value(&no_decay)->default_value("", "none"),
        "parameters without weight decay: bias, norm (of normalisations), or bias,norm")(
        "lr-factors", po::value(&lr_factors)->default_value("", "none"),
        "PATTERN=FACTOR,...: factors on the learning rate of the parameters whose names match, as "
        "'output.*=0.1'; the first counts")(
        "ema", po::value(&o.ema)->default_value(o.ema, "off"),
        "evaluate with averages of the parameters, which a step of --batch samples decays by this");
    adapt.add_options()(
        "batch-rule", po::value(&o.batch_rule)->default_value(o.batch_rule),
        "fixed, per-rank (ranks x --rank-batch), hybrid (--batch while each rank has "
        "--rank-batch of it, then as per-rank), or adaptive (what makes the most "
        "progress per second)")(
        "rank-batch", po::value(&o.rank_batch)->default_value(o.rank_batch, "of the start"),
        "per-rank, hybrid: samples per rank and step; --batch stays the one that --lr belongs to")(
        "max-batch", po::value(&o.max_batch)->default_value(o.max_batch, "none"),
        "the largest batch")(
        "micro-batch-bounds", po::value(&micro_batch_bounds)->default_value("", "none"),
        "LEAST,MOST samples a rank works on at once; more are accumulated in equal parts")(
        "lr-rule", po::value(&o.lr_rule)->default_value(o.lr_rule),
        "factor on the rate, from scale = batch / --batch: none, linear, sqrt, adascale, adamscale "
        "or legw")("lr-ramp", po::value(&o.lr_ramp)->default_value(o.lr_ramp),
                   "linear, sqrt: steps in which the rate follows a change of the batch")(
        "measure-noise", po::bool_switch(&o.measure_noise),
        "measure and report the gradient noise scale also where no rule needs it")(
        "noise-interval", po::value(&o.noise_interval)->default_value(o.noise_interval),
        "steps from one measurement of gradient noise to the next")(
        "decide-every", po::value(&o.decide_every)->default_value(o.decide_every),
        "adaptive, --policy: steps from one decision to the next")(
        "policy", po::value(&o.policy),
        "shared library that decides on batch, learning rate and size, instead of --batch-rule")(
        "shares", po::value(&o.shares)->default_value(o.shares),
        "of the ranks in a batch: equal, or by their measured speed")(
        "drop-stragglers", po::bool_switch(&o.drop_stragglers),
        "a rank that stays less than half as fast as the others leaves");
    limits.add_options()("passes", po::value(&o.passes),
                         "passes over the training data (also --epochs)")(
        "steps", po::value(&o.steps),
        "progress in steps of --batch: updates, unless the batch is another one (training.md)")(
        "train-seconds", po::value(&o.train_seconds), "seconds of training in this run");
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
        "passes between evaluations on the test data; 0: only at the end");
    self.add_options()("config", po::value(&config), "file with lines NAME = VALUE, # comments")(
        "help,h", po::bool_switch(&o.help), "show this")("version", po::bool_switch(&o.version),
                                                         "show the version");
  }

  /// Of a training in a program of somebody's, which makes model, data and optimizer itself.
  po::options_description of_programs() const {
    po::options_description sum;
    sum.add(how).add(adapt).add(limits).add(checkpoints).add(output);
    return sum;
  }

  po::options_description all() const {
    po::options_description sum;
    sum.add(what).add(optimizer).add(of_programs()).add(self);
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

constexpr std::int64_t kMany = std::int64_t{1} << 40;

void parse_micro_batch_bounds(const std::string& text, Options& o) {
  if (text.empty()) return;
  std::istringstream in(text);
  char comma = 0;
  in >> o.micro_batch_least >> comma >> o.micro_batch_most;
  require(!in.fail() && in.peek() == EOF && comma == ',' && o.micro_batch_least >= 1 &&
              o.micro_batch_most >= o.micro_batch_least && o.micro_batch_most <= kMany,
          "--micro-batch-bounds " + text + ": use LEAST,MOST samples, such as 8,64");
  require(o.micro_batch == 0, "--micro-batch-bounds: not together with --micro-batch");
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

void parse_no_decay(const std::string& text, Options& o) {
  o.no_decay = parts_of(text);
  std::sort(o.no_decay.begin(), o.no_decay.end());
  for (const std::string& kind : o.no_decay)
    require(kind == "bias" || kind == "norm",
            "--no-decay " + text + ": use bias, norm or bias,norm");
}

void parse_lr_factors(const std::string& text, Options& o) {
  for (const std::string& part : parts_of(text)) {
    const auto sign = part.rfind('=');
    double factor = -1;
    char more = 0;
    std::istringstream in(sign == std::string::npos ? "" : part.substr(sign + 1));
    require(in >> factor && !(in >> more) && std::isfinite(factor) && factor >= 0 && sign > 0,
            "--lr-factors " + part +
                ": use PATTERN=FACTOR, such as 'output.*=0.1', with a factor of at least 0");
    o.lr_factors.emplace_back(part.substr(0, sign), factor);
  }
}

void check_adaptation(const Options& o) {
  require_name("batch-rule", o.batch_rule, batch_rule_names());
  require_name("lr-rule", o.lr_rule, lr_rule_names());
  require_range<std::int64_t>("rank-batch", o.rank_batch, 0, kMany);
  require_range<std::int64_t>("lr-ramp", o.lr_ramp, 0, kMany);
  const bool fixed = o.batch_rule == "fixed";
  const bool adaptive = o.batch_rule == "adaptive";
  require(!fixed || o.rank_batch == 0, "--rank-batch: needs a --batch-rule of per-rank or hybrid");
  require(!fixed || o.max_batch == 0 || !o.policy.empty(),
          "--max-batch: needs a --batch-rule other than fixed, or a --policy");
  require(fixed || o.policy.empty(), "--policy: takes the place of --batch-rule; use one of them");
  require(!adaptive || o.rank_batch == 0, "--rank-batch: not with --batch-rule adaptive");
  require(!adaptive || o.max_batch > 0,
          "--batch-rule adaptive: needs --max-batch, up to where the batch may grow");
  require(!o.adapts() || (o.micro_batch == 0 && o.logical_ranks == 0),
          "--micro-batch, --logical-ranks: not with --batch-rule adaptive or --policy; use "
          "--micro-batch-bounds");
  require_name("shares", o.shares, share_names());
  require(!times_ranks(o) || o.logical_ranks == 0,
          "--shares speed, --drop-stragglers: not with --logical-ranks");
  require_range<std::int64_t>("noise-interval", o.noise_interval, 1, 100000);
  require_range<std::int64_t>("decide-every", o.decide_every, 1, kMany);
  require(
      o.batch_rule != "hybrid" || o.rank_batch > 0,
      "--batch-rule hybrid: needs --rank-batch, the least samples with which a rank works well");
  require(
      o.max_batch == 0 || (o.max_batch >= o.batch && o.max_batch <= kMany),
      fmt::format("--max-batch {}: must be at least --batch, which is {}", o.max_batch, o.batch));
  require(o.lr_rule != "legw" || o.warmup > 0, "--lr-rule legw: needs --warmup");
}

void check_network(Options& o, const po::variables_map& given) {
  require(!o.model.empty(),
          "--model is missing: use one of " + fmt::format("{}", fmt::join(model_names(), ", ")));
  require(!o.data.empty(),
          "--data is missing: use fashion-mnist[:DIR], cifar10[:DIR], hdf5:FILE "
          "or text:FILE");
  if (!is_script(o.model)) require_name("model", o.model, model_names());
  require_name("optimizer", o.optimizer, optimizer_names());
  require_name("norm", o.norm, kNorms);
  require_name("batch-norm", o.batch_norm, kBatchNorms);
  require(
      o.batch_norm == "local" || o.model == "resnet18",
      "--batch-norm sync: is for --model resnet18; other models have none that could be shared");
  require(o.batch_norm == "local" || o.logical_ranks == 0,
          "--batch-norm sync: not with --logical-ranks, whose parts have statistics of their own");
  require_name("precision", o.precision, kPrecisions);
  const bool text = o.data.starts_with("text");
  require(is_script(o.model) || text == (o.model == "transformer"),
          "--model " + o.model + " --data " + o.data +
              ": the transformer reads text:FILE, the other models read images or vectors");

  require(o.dropout >= 0 && o.dropout < 1,
          fmt::format("--dropout {}: must be at least 0 and below 1", o.dropout));
  require_range<std::int64_t>("width", o.width, 0, 65536);
  require_range<std::int64_t>("length", o.length, 1, 1 << 20);
  require_range<std::int64_t>("layers", o.layers, 1, 1000);
  require_range<std::int64_t>("heads", o.heads, 1, 1000);
  if (given.count("lr") == 0 || given["lr"].defaulted()) o.lr = o.optimizer == "sgd" ? 0.05 : 0.001;
  require_positive("lr", o.lr);
  require_range("momentum", o.momentum, 0.0, 1.0);
  require(!o.nesterov || (o.optimizer == "sgd" && o.momentum > 0),
          "--nesterov: needs --optimizer sgd and a --momentum above 0");
  require_range("beta1", o.beta1, 0.0, 0.9999999);
  require_range("beta2", o.beta2, 0.0, 0.9999999);
  require_positive("epsilon", o.epsilon);
  require_range("weight-decay", o.weight_decay, 0.0, 1e6);
  require(o.no_decay.empty() || o.weight_decay > 0, "--no-decay: needs a --weight-decay");
  require(o.ema >= 0 && o.ema < 1, fmt::format("--ema {}: must be at least 0 and below 1", o.ema));
}

void check(Options& o, const po::variables_map& given) {
  require_name("lr-schedule", o.lr_schedule, kSchedules);
  require_name("device", o.device, kDevices);
  require_range<std::int64_t>("batch", o.batch, 1, kMany);
  require_range<std::int64_t>("micro-batch", o.micro_batch, 0, kMany);
  require_range<std::int64_t>("logical-ranks", o.logical_ranks, 0, 65536);
  require_range<std::int64_t>("lr-step", o.lr_step, 1, kMany);
  require_positive("lr-gamma", o.lr_gamma);
  require_range<std::int64_t>("warmup", o.warmup, 0, kMany);
  require(std::isfinite(o.clip) && o.clip >= 0, "--clip: must be a positive number");

  for (const char* limit : {"passes", "steps", "train-seconds"})
    if (given.count(limit) != 0)
      require(given.count(limit) != 0 &&
                  (std::string(limit) == "train-seconds"
                       ? std::isfinite(o.train_seconds) && o.train_seconds > 0
                       : (std::string(limit) == "passes" ? o.passes : o.steps) > 0),
              fmt::format("--{}: must be positive", limit));
  if (o.passes == 0 && o.steps == 0 && o.train_seconds == 0) o.passes = 5;
  const bool ends = o.lr_schedule != "constant" && o.lr_schedule != "step";
  require(!ends || o.passes > 0 || o.steps > 0,
          "--lr-schedule " + o.lr_schedule + ": needs a limit of --passes or --steps to end at");
  require(o.lr_schedule != "one-cycle" || o.warmup == 0,
          "--warmup: --lr-schedule one-cycle has its own");
  require(o.lr_power >= 0 && o.lr_power <= 100, "--lr-power: must be from 0 to 100");
  require(o.lr_rise >= 0 && o.lr_rise <= 1, "--lr-rise: must be from 0 to 1");
  check_adaptation(o);
  if (!o.optimizer.empty()) check_optimizer(o);

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

void finish(Options& o, const Table& table, const po::variables_map& given) {
  for (const auto& [name, value] : given) {
    if (value.defaulted()) continue;
    const auto* text = boost::any_cast<std::string>(&value.value());
    require(text == nullptr || !text->empty(), "--" + name + ": its value is empty");
  }
  parse_checkpoint_every(table.checkpoint_every, o);
  parse_micro_batch_bounds(table.micro_batch_bounds, o);
  parse_no_decay(table.no_decay, o);
  parse_lr_factors(table.lr_factors, o);
}

// PyTorch's users type --epochs.
std::pair<std::string, std::string> alias(const std::string& argument) {
  if (argument == "--epochs") return {"passes", ""};
  if (argument.starts_with("--epochs=")) return {"passes", argument.substr(9)};
  return {};
}

std::vector<std::string> arguments(int argc, const char* const* argv) {
  std::vector<std::string> all;
  for (int i = 1; i < argc; ++i) {
    const auto [name, value] = alias(argv[i]);
    all.push_back(name.empty() ? argv[i] : "--" + name + (value.empty() ? "" : "=" + value));
  }
  return all;
}

// Abbreviations would change their meaning when options are added.
constexpr int kStyle =
    po::command_line_style::default_style & ~po::command_line_style::allow_guessing;

std::string with_dashes(std::string name) { return name.starts_with("-") ? name : "--" + name; }

}  // namespace

void check_optimizer(const Options& o) {
  const bool adam = o.optimizer.starts_with("adam");
  require(o.lr_rule != "adamscale" || adam,
          "--lr-rule adamscale: is for adam and adamw; use adascale with sgd");
  require(o.lr_rule != "adascale" || o.optimizer == "sgd",
          "--lr-rule adascale: is for sgd; use adamscale with adam and adamw");
  require(!o.measures_noise() || adam || o.optimizer == "sgd",
          "gradient noise cannot be measured with " + o.optimizer +
              ": use sgd, adam or adamw with --measure-noise, --batch-rule adaptive and --policy");
}

Options parse_options(int argc, const char* const* argv) {
  Options o;
  Table table(o);
  po::variables_map given;
  std::string where;
  try {
    const po::positional_options_description none;
    const auto all = table.all();
    po::store(po::command_line_parser(arguments(argc, argv))
                  .options(all)
                  .positional(none)
                  .style(kStyle)
                  .run(),
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
  finish(o, table, given);
  check_network(o, given);
  check(o, given);
  return o;
}

Options take_program_options(int& argc, char** argv, const Options& defaults) {
  Options o = defaults;
  Table table(o);
  po::options_description help;
  help.add_options()("bellows-help", po::bool_switch(&o.help), "");
  po::variables_map given;
  int kept = 1;
  try {
    const auto known = table.of_programs().add(help);
    const int last =
        static_cast<int>(std::find_if(argv + 1, argv + argc,
                                      [](const char* a) { return std::strcmp(a, "--") == 0; }) -
                         argv);
    const auto parsed = po::command_line_parser(arguments(last, argv))
                            .options(known)
                            .style(kStyle)
                            .allow_unregistered()
                            .run();
    po::store(parsed, given);
    po::notify(given);
    int at = 1;
    for (const auto& option : parsed.options) {
      const auto tokens = static_cast<int>(option.original_tokens.size());
      const bool ours = !option.unregistered && option.position_key < 0;
      for (int i = 0; i < tokens; ++i, ++at)
        if (!ours) argv[kept++] = argv[at];
    }
    for (int i = last + 1; i < argc; ++i) argv[kept++] = argv[i];
  } catch (const po::error& e) {
    throw UsageError(e.what());
  }
  argv[argc = kept] = nullptr;
  if (o.help) return o;
  finish(o, table, given);
  require(o.logical_ranks == 0, "--logical-ranks: is for bellows-train's own networks");
  require(o.passes > 0, "--passes: must be positive");
  check(o, given);
  return o;
}

std::string program_help_text() {
  Options o;
  const Table table(o);
  std::ostringstream out;
  out << table.of_programs();
  return out.str();
}

std::string help_text() {
  Options o;
  const Table table(o);
  std::ostringstream out;
  out << "usage: bellows-run [-n RANKS] bellows-train --model NAME --data SPEC [OPTION...]\n"
         "Trains a network on all ranks together. See bellows-train(1).\n\n";
  for (const auto* group : {&table.what, &table.how, &table.optimizer, &table.adapt, &table.limits,
                            &table.checkpoints, &table.output, &table.self})
    out << *group << "\n";
  out << "exit codes: 0 done, 1 failure, 2 wrong options or data, 3 stopped by a signal without\n"
         "a checkpoint, 85 (--requeue-code) stopped by a signal after a checkpoint\n";
  return out.str();
}

}  // namespace bellows::trainer
