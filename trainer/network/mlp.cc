// SPDX-License-Identifier: Apache-2.0
// A perceptron with two hidden layers, for images and vectors.
#include "trainer/network/model.h"

namespace bellows::trainer {

namespace {

class Mlp : public Model {
 public:
  Mlp(std::int64_t inputs, std::int64_t width, std::int64_t classes, double rate)
      : hidden1_(register_module("hidden1", torch::nn::Linear(inputs, width))),
        hidden2_(register_module("hidden2", torch::nn::Linear(width, width))),
        output_(register_module("output", torch::nn::Linear(width, classes))),
        dropout1_(make_dropout(rate)),
        dropout2_(make_dropout(rate)) {}

  torch::Tensor forward(torch::Tensor x) override {
    x = dropout1_(torch::relu(hidden1_(x.flatten(1))));
    x = dropout2_(torch::relu(hidden2_(x)));
    return output_(x);
  }

 private:
  torch::nn::Linear hidden1_;
  torch::nn::Linear hidden2_;
  torch::nn::Linear output_;
  Dropout dropout1_;
  Dropout dropout2_;
};

}  // namespace

std::shared_ptr<Model> make_mlp(const Options& options, const SampleShape& shape) {
  const std::int64_t width = options.width > 0 ? options.width : 256;
  return std::make_shared<Mlp>(shape.input_size(), width, shape.classes, options.dropout);
}

}  // namespace bellows::trainer
