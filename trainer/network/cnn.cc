// SPDX-License-Identifier: Apache-2.0
// Two convolutions with pooling and two linear layers, for small images.
#include "trainer/errors.h"
#include "trainer/network/model.h"

namespace bellows::trainer {

namespace {

constexpr std::int64_t kHidden = 128;

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
}

class Cnn : public Model {
 public:
  Cnn(const SampleShape& shape, std::int64_t width, double rate)
      : conv1_(register_module("conv1", convolution(shape.input[0], width))),
        conv2_(register_module("conv2", convolution(width, 2 * width))),
        hidden_(register_module(
            "hidden",
            torch::nn::Linear(2 * width * (shape.input[1] / 4) * (shape.input[2] / 4), kHidden))),
        output_(register_module("output", torch::nn::Linear(kHidden, shape.classes))),
        dropout_(make_dropout(rate)) {}

  torch::Tensor forward(torch::Tensor x) override {
    // Channels last is what oneDNN's convolutions are fast with.
    x = x.contiguous(at::MemoryFormat::ChannelsLast);
    x = torch::max_pool2d(torch::relu(conv1_(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2_(x)), 2);
    x = torch::relu(hidden_(x.flatten(1)));
    return output_(dropout_(x));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear hidden_;
  torch::nn::Linear output_;
  Dropout dropout_;
};

}  // namespace

std::shared_ptr<Model> make_cnn(const Options& options, const SampleShape& shape) {
  if (shape.input.size() != 3 || shape.input[1] < 4 || shape.input[2] < 4)
    throw UsageError("--model cnn: needs images of at least 4 x 4 pixels");
  return std::make_shared<Cnn>(shape, options.width > 0 ? options.width : 32, options.dropout);
}

}  // namespace bellows::trainer
