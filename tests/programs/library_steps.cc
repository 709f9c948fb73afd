// SPDX-License-Identifier: Apache-2.0
// A user's training with bellows.h for tests: a small regression, whose parameters are printed at
// the end in full.
//
//   library_steps [OPTION…] [those of Bellows]
//     optimizer=sgd|adam|adamw|rmsprop|adagrad|lbfgs
//     end=FILE          after the epoch in which FILE appears, the training is over
//     pause=SECONDS     in each step          test=SECONDS   in each test
//     log=FILE          rank 0 appends a line for each epoch begun and each test made
//     throw=RANK,STEP   a std::runtime_error  odd=RANK,STEP  an exception of another kind
//     stop=RANK,STEP    a SIGKILL to itself, in the test after this step
//     term=RANK,STEP    a SIGTERM to itself, in the step after this one
//     early=RANK,STEP   leaves the body after this step
//     more=RANK,STEP    one sum() more after it
//     between=RANK,STEP a sum() in the step after it, before backward()
//     longer=RANK,STEP  the sum() behind it has another length
//     leave=RANK,STEP   after this step rank 1 is asked to leave
//     swallow           catches everything, as no program should
//     misuse=next|backward|step|break|unused|unfreeze|stranger|twice|empty|outside|again
//                       a mistake in the use of the library
#include <bellows/bellows.h>
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

struct Points : torch::data::Dataset<Points> {
  torch::data::Example<> get(std::size_t index) override {
    const auto at = torch::arange(4, torch::kFloat64) + static_cast<double>(index);
    return {torch::sin(at * 0.7), torch::cos(at * 1.3).sum().reshape({1})};
  }
  std::optional<std::size_t> size() const override { return 90; }
};

struct Net : torch::nn::Module {
  Net() {
    register_module("first", first);
    register_module("second", second);
    register_module("unused", unused);
    frozen = register_parameter("frozen", torch::ones({1}), false);
    count = register_buffer("count", torch::zeros({1}));
    mask = register_buffer("mask", torch::ones({1}, torch::kBool));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    if (is_training()) count += 1;
    return second(torch::tanh(first(x))) * frozen * mask;
  }
  torch::nn::Linear first{4, 8};
  torch::nn::Linear second{8, 1};
  torch::nn::Linear unused{1, 1};
  torch::Tensor frozen, count, mask;
};

std::map<std::string, std::string> words_of(int argc, char** argv) {
  std::map<std::string, std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto equals = word.find('=');
    words[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
  }
  return words;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name,
                                                        const std::vector<torch::Tensor>& all) {
  using namespace torch::optim;
  if (name == "adam") return std::make_unique<Adam>(all, AdamOptions(0.01).amsgrad(true));
  if (name == "adamw") return std::make_unique<AdamW>(all, AdamWOptions(0.01));
  if (name == "rmsprop")
    return std::make_unique<RMSprop>(all, RMSpropOptions(0.01).momentum(0.5).centered(true));
  if (name == "adagrad") return std::make_unique<Adagrad>(all, AdagradOptions(0.05));
  if (name == "lbfgs") return std::make_unique<LBFGS>(all);
  return std::make_unique<SGD>(all, SGDOptions(0.05).momentum(0.9));
}

void pause(const std::string& seconds) {
  if (!seconds.empty())
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(seconds.c_str())));
}

}  // namespace

int main(int argc, char** argv) {
  bellows::Elastic elastic(argc, argv, {.epochs = 3, .batch = 30});
  auto words = words_of(argc, argv);
  const auto given = [&](const char* name) { return words.contains(name); };
  const auto is_now = [&](const char* name) {
    return given(name) &&
           words[name] == std::to_string(elastic.rank()) + "," + std::to_string(elastic.steps());
  };
  const std::string misuse = words["misuse"];

  torch::manual_seed(static_cast<std::uint64_t>(getpid()));  // rank 0's beginning is everyone's
  Net model;
  model.to(torch::kFloat64);
  if (misuse != "unused")
    for (auto& parameter : model.unused->parameters()) parameter.set_requires_grad(false);
  auto parameters = model.parameters();
  if (misuse == "stranger") parameters.push_back(torch::zeros({1}).set_requires_grad(true));
  const auto optimizer = make_optimizer(words["optimizer"], parameters);
  auto loader = elastic.loader(Points().map(torch::data::transforms::Stack<>()));
  if (misuse == "outside") elastic.sum({1});
  if (misuse == "twice") elastic.loader(Points().map(torch::data::transforms::Stack<>()));
  const auto log = [&](const std::string& text) {
    if (given("log") && elastic.first()) std::ofstream(words["log"], std::ios::app) << text << "\n";
  };

  const auto train = [&] {
    for (const std::size_t epoch : elastic.epochs()) {
      log("epoch " + std::to_string(epoch));
      model.train();
      for (auto& batch : loader) {
        if (misuse == "next") continue;
        auto loss = torch::mse_loss(model.forward(batch.data), batch.target);
        pause(words["pause"]);
        if (is_now("between")) elastic.sum({1});
        if (is_now("term")) std::raise(SIGTERM);
        if (is_now("throw")) throw std::runtime_error("the sky is falling");
        if (is_now("odd")) throw 7;
        elastic.backward(misuse == "backward" ? loss.repeat({2}) : loss);
        if (misuse == "step") continue;
        elastic.step();
        if (misuse == "break") break;
        if (is_now("early")) return;
        if (is_now("more")) elastic.sum({1});
        if (misuse == "unfreeze") model.unused->weight.set_requires_grad(true);
        if (is_now("leave")) {
          if (std::system("timeout 20 bellows leave --ranks 1 >/dev/null 2>&1 &") != 0) return;
          pause("1.5");
        }
      }
      model.eval();
      const torch::NoGradGuard no_grad;
      pause(words["test"]);
      if (is_now("stop")) std::raise(SIGKILL);
      const auto [begin, end] = elastic.share(*Points().size());
      double loss = 0;
      for (std::size_t i = begin; i < end; ++i) {
        const auto point = Points().get(i);
        loss += torch::mse_loss(model.forward(point.data), point.target).item<double>();
      }
      if (misuse == "empty") elastic.evaluated(0, 0);
      const auto all = elastic.evaluated(loss, static_cast<double>(end - begin));
      log("tested " + std::to_string(epoch) + " " + std::to_string(all.samples));
      const double ends = given("end") && std::filesystem::exists(words["end"]) ? 1 : 0;
      if (elastic.sum(is_now("longer") ? std::vector{ends, 0.} : std::vector{ends}).front() > 0)
        return;
    }
  };
  const int code = elastic.run(model, *optimizer, [&] {
    if (given("swallow")) {
      try {
        train();
      } catch (...) {
        elastic.sum({1});  // throws again
      }
    } else {
      train();
    }
    log("done");
    if (!elastic.first()) return;
    std::printf("count %g\n", model.count.item<double>());
    std::printf("steps %lld", static_cast<long long>(elastic.steps()));
    for (const auto& parameter : model.parameters()) {
      const auto flat = parameter.detach().reshape({-1});
      for (std::int64_t i = 0; i < flat.numel(); ++i) std::printf(" %.15g", flat[i].item<double>());
    }
    std::printf("\n");
    std::fflush(stdout);
  });
  if (misuse == "again") return elastic.run(model, *optimizer, train);
  return code;
}
