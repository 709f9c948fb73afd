// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/table.h"

namespace bellows::trainer {

namespace po = boost::program_options;

Table::Table(Options& o) {
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
      "lr-power", po::value(&o.lr_power)->default_value(o.lr_power, "1"), "polynomial: its power")(
      "lr-rise", po::value(&o.lr_rise)->default_value(o.lr_rise, "0.3"),
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
  adapt.add_options()("batch-rule", po::value(&o.batch_rule)->default_value(o.batch_rule),
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
      "megabytes that it may take")("record-samples", po::value(&o.record_samples),
                                    "write which samples each step used to FILE.PID, of each rank")(
      "log-every", po::value(&o.log_every)->default_value(o.log_every),
      "steps between lines of output and metrics");
  tests.add_options()("evaluate-every",
                      po::value(&o.evaluate_every)->default_value(o.evaluate_every),
                      "passes between evaluations on the test data; 0: only at the end")(
      "evaluate-steps", po::value(&o.evaluate_steps)->default_value(o.evaluate_steps, "none"),
      "updates between further evaluations");
  self.add_options()("config", po::value(&config), "file with lines NAME = VALUE, # comments")(
      "help,h", po::bool_switch(&o.help), "show this")("version", po::bool_switch(&o.version),
                                                       "show the version");
}

po::options_description Table::of_programs() const {
  po::options_description sum;
  sum.add(how).add(adapt).add(limits).add(checkpoints).add(output);
  return sum;
}

po::options_description Table::all() const {
  po::options_description sum;
  sum.add(what).add(optimizer).add(of_programs()).add(tests).add(self);
  return sum;
}

}  // namespace bellows::trainer
