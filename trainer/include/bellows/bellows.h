// SPDX-License-Identifier: Apache-2.0
// Makes a libtorch training elastic: it goes on while ranks join, leave and die, and batch and
// learning rate follow. See docs/library.md, and docs/examples/mnist.cc.
//
//   int main(int argc, char** argv) {
//     bellows::Elastic elastic(argc, argv, {.epochs = 10, .batch = 64});
//     Net model;
//     model.to(elastic.device());
//     torch::optim::SGD optimizer(model.parameters(), 0.01);
//     auto loader = elastic.loader(dataset);
//     return elastic.run(model, optimizer, [&] {
//       for (std::size_t epoch : elastic.epochs()) {
//         model.train();
//         for (auto& batch : loader) {
//           auto loss = torch::nll_loss(model.forward(batch.data), batch.target);
//           elastic.backward(loss);
//           elastic.step();
//         }
//         test(model);
//       }
//     });
//   }
//
// Built with mpicxx -std=c++20 and `pkg-config --cflags --libs bellows`; started by bellows-run.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bellows {

/// What a program says where the command line (--epochs, --batch) does not.
struct Defaults {
  std::int64_t epochs = 1;
  std::int64_t batch = 64;  // samples per step, over all ranks
};

/// Means over all samples that all ranks have looked at.
struct Evaluation {
  double loss = 0;
  double accuracy = 0;  // NaN where it is not counted how many are right
  double samples = 0;
};

/// Half-open range of sample numbers.
struct SampleRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

template <typename Dataset>
class DataLoader;
class Epochs;

/// One in a program, made before anything that takes long.
///
/// Methods that are called within run() and say "collective" are called by all ranks alike. When
/// the world changes meanwhile they do not return, but throw WorldChanged, which ends the body of
/// run(); it is called again in the new world, on the ranks of that. So do epochs() and the loader.
class Elastic {
 public:
  /// Takes the options of Bellows (--bellows-help lists them) out of the arguments, but none behind
  /// a lone "--". On a wrong one prints what is wrong and exits with 2.
  Elastic(int& argc, char** argv, const Defaults& defaults = {});
  Elastic(const Elastic&) = delete;
  Elastic& operator=(const Elastic&) = delete;
  ~Elastic();

  /// --device: the CPU, or this rank's GPU. Exits with 2 where there is none.
  torch::Device device() const;

  /// The training data, of which each step takes this rank's share: any dataset of torch::data with
  /// a size and get_batch(indices). Once, before run(). Each rank has the same data.
  template <typename Dataset>
  DataLoader<Dataset> loader(Dataset dataset);

  /// Trains: calls `body` in each world until it returns. All that `model` and `optimizer` hold
  /// (parameters, buffers, moments, learning rates of the groups' start) is the same on all ranks
  /// then, and where the training stands is known: epochs() and the loader go on from there. What
  /// `body` itself holds begins anew, so what must last belongs into the model's buffers.
  ///
  /// A process that is to join calls `body` before it does, to warm up, up to the first call of
  /// step(); rank() is -1 then.
  ///
  /// The optimizer is one of SGD (without dampening), Adam, AdamW, RMSprop and Adagrad. Parameters
  /// that require no gradient are left as they are; each other one has to take part in every loss.
  ///
  /// Gives the exit code for main(): 0, 1 after an error of all ranks, 2 for wrong options, 85
  /// (--requeue-code) after a signal and a checkpoint, 3 after a signal without one. An exception
  /// of `body` (other than WorldChanged) ends this process with 1 and a message that names the
  /// rank; others go on without it where the launcher can do so, and are ended by it where not.
  int run(torch::nn::Module& model, torch::optim::Optimizer& optimizer,
          const std::function<void()>& body);
  int run(const std::shared_ptr<torch::nn::Module>& model, torch::optim::Optimizer& optimizer,
          const std::function<void()>& body) {
    return run(*model, optimizer, body);
  }

  /// The epochs (passes over the data) that are left, from 1 on. The present one comes again after
  /// a change of the world, also when only what follows its last step is left of it.
  Epochs epochs();

  /// Instead of loss.backward(): `loss` is the mean over the samples of the loader's batch. Adds
  /// its gradients, weighted; with the last part of the step they are summed over the ranks, so
  /// they must not be reset (no zero_grad()). Collective.
  void backward(const torch::Tensor& loss);
  /// Instead of optimizer.step(). Returns false where more of the loader's batches belong to the
  /// step (--micro-batch). Collective.
  bool step();

  /// Of the present world; -1 and 0 in a process that warms up.
  int rank() const;
  int size() const;
  /// Whether this rank is the one that prints.
  bool first() const { return rank() == 0; }
  /// Steps made, in this run and those that it has resumed.
  std::int64_t steps() const;

  /// Each value's sum over the ranks. Collective.
  std::vector<double> sum(const std::vector<double>& values);
  /// The part of `samples` that this rank looks at in a test.
  SampleRange share(std::size_t samples) const;
  /// What a test has found, as sums over samples that this rank has looked at (its share, or all of
  /// them): reported, and given back as means over all. Collective.
  Evaluation evaluated(double loss_sum, double samples, std::optional<double> correct = {});

  /// Not a std::exception, so that a body that catches these lets it pass. `catch (...)` must throw
  /// it on.
  struct WorldChanged {};

 private:
  template <typename Dataset>
  friend class DataLoader;
  friend class Epochs;

  void set_samples(std::optional<std::size_t> samples);
  /// The samples of the next pass of this rank; empty at the end of an epoch. Collective.
  std::vector<std::size_t> next_samples();
  void samples_read();
  /// The epoch that comes next, from 1 on; 0: none. Collective.
  std::size_t next_epoch();

  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// An input range over the numbers of epochs.
class Epochs {
 public:
  class Iterator {
   public:
    using value_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    std::size_t operator*() const { return epoch_; }
    Iterator& operator++() {
      epoch_ = elastic_->next_epoch();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return epoch_ == 0; }

   private:
    friend class Epochs;
    explicit Iterator(Elastic* elastic) : elastic_(elastic), epoch_(elastic->next_epoch()) {}
    Elastic* elastic_;
    std::size_t epoch_;
  };
  Iterator begin() { return Iterator(elastic_); }
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Elastic;
  explicit Epochs(Elastic* elastic) : elastic_(elastic) {}
  Elastic* elastic_;
};

/// An input range over the batches of what is left of an epoch. The batch of a step comes in one or
/// more parts (--micro-batch, --batch-rule); each is to be followed by backward() and step().
template <typename Dataset>
class DataLoader {
 public:
  using Batch = typename Dataset::BatchType;

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    Batch& operator*() const { return *loader_->batch_; }
    Batch* operator->() const { return &*loader_->batch_; }
    Iterator& operator++() {
      loader_->advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !loader_->batch_; }

   private:
    friend class DataLoader;
    explicit Iterator(DataLoader* loader) : loader_(loader) { loader_->advance(); }
    DataLoader* loader_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

  /// Itself, since torch::data::make_data_loader gives a pointer.
  DataLoader& operator*() { return *this; }
  DataLoader* operator->() { return this; }

  Dataset& dataset() { return dataset_; }

 private:
  friend class Elastic;
  DataLoader(Elastic* elastic, Dataset dataset) : elastic_(elastic), dataset_(std::move(dataset)) {}
  void advance() {
    batch_.reset();
    std::vector<std::size_t> samples = elastic_->next_samples();
    if (samples.empty()) return;
    batch_.emplace(dataset_.get_batch(std::move(samples)));
    elastic_->samples_read();
  }
  Elastic* elastic_;
  Dataset dataset_;
  std::optional<Batch> batch_;
};

template <typename Dataset>
DataLoader<Dataset> Elastic::loader(Dataset dataset) {
  set_samples(dataset.size());
  return DataLoader<Dataset>(this, std::move(dataset));
}

inline Epochs Elastic::epochs() { return Epochs(this); }

}  // namespace bellows
