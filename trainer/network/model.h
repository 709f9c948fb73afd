// SPDX-License-Identifier: Apache-2.0
// What a network is to the trainer, and the networks there are, by name.
#pragma once

#include <memory>
#include <utility>

#include "trainer/data/dataset.h"
#include "trainer/network/batch_norm.h"
#include "trainer/network/dropout.h"
#include "trainer/options/options.h"
#include "trainer/state/named_tensors.h"
#include "trainer/torch_headers.h"

namespace bellows::trainer {

class Model : public torch::nn::Module {
 public:
  /// `input` is {samples, SampleShape::input...}; gives logits {samples, classes}, or for tokens
  /// {samples, length, classes}.
  virtual torch::Tensor forward(torch::Tensor input) = 0;
  /// The sum over the targets of what is to be minimised, for logits {targets, classes}: the
  /// cross-entropy (natural logarithm) unless the network has a loss of its own.
  virtual torch::Tensor loss(const torch::Tensor& logits, const torch::Tensor& targets);
  /// What is trained, and what else belongs to the network's state, by name.
  virtual NamedTensors trained() const;
  virtual NamedTensors others() const;
  /// Of inputs that are no tokens.
  virtual at::ScalarType input_type() const { return parameters().front().scalar_type(); }
  /// What the random draws of the next forward are made from. Set before each training forward.
  virtual void draw_for(Draws draws) { *draws_ = std::move(draws); }
  const Draws& draws() const { return *draws_; }
  /// Likewise, whose samples its batch statistics are of.
  BatchScope& batch_scope() { return *scope_; }

 protected:
  Dropout make_dropout(double rate);
  std::shared_ptr<const BatchScope> scope() const { return scope_; }

 private:
  std::shared_ptr<Draws> draws_ = std::make_shared<Draws>();
  std::shared_ptr<BatchScope> scope_ = std::make_shared<BatchScope>();
  int dropouts_ = 0;
};

/// Makes the model that options.model names for samples of `shape`, with initial parameters that
/// depend on options.seed alone. Throws UsageError when the shape does not suit the model.
std::shared_ptr<Model> make_model(const Options& options, const SampleShape& shape);

std::shared_ptr<Model> make_mlp(const Options& options, const SampleShape& shape);
std::shared_ptr<Model> make_cnn(const Options& options, const SampleShape& shape);
std::shared_ptr<Model> make_resnet18(const Options& options, const SampleShape& shape);
/// From the file that options.model names.
std::shared_ptr<Model> make_script_model(const Options& options, const SampleShape& shape);
std::shared_ptr<Model> make_transformer(const Options& options, const SampleShape& shape);

}  // namespace bellows::trainer
