// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "bellows/bellows.h"
#include "mpi_elastic/timeline.h"
#include "trainer/elastic_training.h"
#include "trainer/errors.h"
#include "trainer/options/options.h"
#include "trainer/program/program_workload.h"
#include "trainer/signals.h"
#include "trainer/team/device.h"
#include "trainer/team/place.h"
#include "trainer/torch_error.h"

namespace bellows {

using trainer::Options;
using trainer::ProgramWorkload;

namespace {

Options defaults_for(const char* program, const Defaults& defaults) {
  Options options;
  const char* slash = std::strrchr(program, '/');
  options.program = options.model = slash != nullptr ? slash + 1 : program;
  options.data = "its data";
  options.optimizer.clear();
  options.passes = defaults.epochs;
  options.batch = defaults.batch;
  return options;
}

[[noreturn]] void end_with(const Options& options, const std::string& text) {
  trainer::complain_before_world(options.program, text);
  std::exit(trainer::kUsage);
}

}  // namespace

class Elastic::Impl {
 public:
  Impl(int& argc, char** argv, const Defaults& defaults)
      : options(defaults_for(argv[0], defaults)) {
    trainer::catch_stop_signals();
    try {
      options = trainer::take_program_options(argc, argv, options);
      if (options.help) {
        if (trainer::is_first_process())
          fmt::print("Options that Bellows takes:\n\n{}", trainer::program_help_text(options));
        std::exit(trainer::kSuccess);
      }
      if (!options.timeline.empty())
        Timeline::open(options.timeline,
                       static_cast<std::uint64_t>(options.timeline_mb * (1 << 20)));
    } catch (const trainer::UsageError& e) {
      end_with(options, e.what());
    } catch (const std::runtime_error& e) {
      end_with(options, std::string("--") + e.what());
    }
  }

  ProgramWorkload& workload() const {
    if (!program)
      end_with(
          options,
          "epochs(), the loader, backward(), step(), sum() and evaluated() are for the body of "
          "run() only");
    return *program;
  }

  Options options;
  std::uint64_t samples = 0;
  bool ran = false;
  std::unique_ptr<ProgramWorkload> program;
};

Elastic::Elastic(int& argc, char** argv, const Defaults& defaults)
    : impl_(std::make_unique<Impl>(argc, argv, defaults)) {}
Elastic::~Elastic() = default;

torch::Device Elastic::device() const {
  try {
    return trainer::make_device(impl_->options.device, trainer::local_rank());
  } catch (const trainer::UsageError& e) {
    end_with(impl_->options, e.what());
  }
}

void Elastic::set_samples(std::optional<std::size_t> samples) {
  if (!samples || *samples == 0)
    end_with(impl_->options, "loader(): the dataset must have a size above 0");
  if (impl_->samples != 0) end_with(impl_->options, "loader(): there is one already");
  impl_->samples = *samples;
}

int Elastic::run(torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                 const std::function<void()>& body) {
  Options& options = impl_->options;
  if (impl_->samples == 0) end_with(options, "run(): loader() has to be called before");
  if (std::exchange(impl_->ran, true)) end_with(options, "run() can be called once only");
  if (!trainer::has_launcher())
    end_with(options, fmt::format("not started by a launcher; use: bellows-run [-n RANKS] {} ...",
                                  options.program));
  try {
    impl_->program =
        std::make_unique<ProgramWorkload>(options, impl_->samples, model, optimizer, [&] {
          try {
            body();
          } catch (const WorldChanged&) {
            throw ProgramWorkload::Leave{};
          }
        });
  } catch (const trainer::UsageError& e) {
    end_with(options, e.what());
  }
  std::string text;
  try {
    const int code = trainer::ElasticTraining(options, *impl_->program).run();
    impl_->program.reset();
    return code;
  } catch (const std::exception& e) {
    text = trainer::text_of(e);
  } catch (...) {
    text = "an exception that is no std::exception";
  }
  // The others cannot know, and may be dead: end at once, so that the launcher deals with it.
  fmt::print(stderr, "{}: {} on {}: {}\n", options.program, impl_->program->place(),
             trainer::host_name(), text);
  std::fflush(stdout);
  std::fflush(stderr);
  Timeline::flush();
  _exit(trainer::kFailure);
}

namespace {

/// The program knows another name for it.
template <typename F>
auto translated(F f) {
  try {
    return f();
  } catch (const ProgramWorkload::Leave&) {
    throw Elastic::WorldChanged{};
  }
}

}  // namespace

std::vector<std::size_t> Elastic::next_samples() {
  return translated([&] { return impl_->workload().next_samples(); });
}
std::size_t Elastic::next_epoch() {
  return translated([&] { return impl_->workload().next_epoch(); });
}
void Elastic::samples_read() { impl_->workload().samples_read(); }
void Elastic::backward(const torch::Tensor& loss) {
  translated([&] { impl_->workload().backward(loss); });
}
bool Elastic::step() {
  return translated([&] { return impl_->workload().step(); });
}
std::vector<double> Elastic::sum(const std::vector<double>& values) {
  return translated([&] { return impl_->workload().sum(values); });
}

Evaluation Elastic::evaluated(double loss_sum, double samples, std::optional<double> correct) {
  const double right = correct.value_or(std::numeric_limits<double>::quiet_NaN());
  const trainer::Sums all =
      translated([&] { return impl_->workload().evaluated({loss_sum, right, samples}); });
  return {all.mean_loss(), all.accuracy(), all.targets};
}

int Elastic::rank() const { return impl_->program ? impl_->program->rank() : -1; }
int Elastic::size() const { return impl_->program ? impl_->program->size() : 0; }
std::int64_t Elastic::steps() const { return impl_->program ? impl_->program->steps() : 0; }

SampleRange Elastic::share(std::size_t samples) const {
  if (size() == 0) return {0, samples};
  const trainer::Range own = trainer::share({0, samples}, rank(), size());
  return {own.begin, own.end};
}

}  // namespace bellows
