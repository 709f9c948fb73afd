// SPDX-License-Identifier: Apache-2.0
// ResNet-18 for small images (He et al., CVPR 2016; the CIFAR variant: a 3 x 3 first convolution,
// no pooling before the blocks). Normalised by groups of channels (Wu and He, ECCV 2018) unless
// batch statistics are asked for: those depend on the share of a rank, groups do not.
#include <numeric>

#include "trainer/errors.h"
#include "trainer/network/model.h"

namespace bellows::trainer {

namespace {

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// Of the batch statistics; null: normalisation by groups.
using Scope = std::shared_ptr<const BatchScope>;

/// Either of the two normalisations.
class Norm : public torch::nn::Module {
 public:
  Norm(std::int64_t channels, const Scope& scope) {
    if (scope) {
      batch_ = register_module("batch", BatchNorm(channels, scope));
    } else {
      const std::int64_t groups = std::gcd(channels, std::int64_t{32});
      group_ = register_module("group",
                               torch::nn::GroupNorm(torch::nn::GroupNormOptions(groups, channels)));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) { return batch_ ? batch_(x) : group_(x); }

 private:
  BatchNorm batch_ = nullptr;
  torch::nn::GroupNorm group_ = nullptr;
};

class Block : public torch::nn::Module {
 public:
  Block(std::int64_t in, std::int64_t out, std::int64_t stride, const Scope& scope)
      : conv1_(register_module("conv1", convolution(in, out, 3, stride))),
        conv2_(register_module("conv2", convolution(out, out, 3, 1))),
        norm1_(register_module("norm1", std::make_shared<Norm>(out, scope))),
        norm2_(register_module("norm2", std::make_shared<Norm>(out, scope))) {
    if (stride == 1 && in == out) return;
    short_conv_ = register_module("short_conv", convolution(in, out, 1, stride));
    short_norm_ = register_module("short_norm", std::make_shared<Norm>(out, scope));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = torch::relu(norm1_->forward(conv1_(x)));
    y = norm2_->forward(conv2_(y));
    return torch::relu(y + (short_conv_ ? short_norm_->forward(short_conv_(x)) : x));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  std::shared_ptr<Norm> norm1_;
  std::shared_ptr<Norm> norm2_;
  torch::nn::Conv2d short_conv_ = nullptr;
  std::shared_ptr<Norm> short_norm_;
};

class ResNet18 : public Model {
 public:
  ResNet18(const SampleShape& shape, std::int64_t width, bool batch)
      : conv_(register_module("conv", convolution(shape.input[0], width, 3, 1))),
        norm_(register_module("norm", std::make_shared<Norm>(width, batch ? scope() : nullptr))) {
    std::int64_t in = width;
    for (int stage = 0; stage < 4; ++stage) {
      const std::int64_t out = width << stage;
      for (int i = 0; i < 2; ++i) {
        const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        blocks_.push_back(
            register_module("block" + std::to_string(2 * stage + i),
                            std::make_shared<Block>(in, out, stride, batch ? scope() : nullptr)));
        in = out;
      }
    }
    output_ = register_module("output", torch::nn::Linear(in, shape.classes));
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = x.contiguous(at::MemoryFormat::ChannelsLast);
    x = torch::relu(norm_->forward(conv_(x)));
    for (const auto& block : blocks_) x = block->forward(x);
    return output_(x.mean({2, 3}));
  }

 private:
  torch::nn::Conv2d conv_;
  std::shared_ptr<Norm> norm_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::Linear output_ = nullptr;
};

}  // namespace

std::shared_ptr<Model> make_resnet18(const Options& options, const SampleShape& shape) {
  if (shape.input.size() != 3 || shape.input[1] < 8 || shape.input[2] < 8)
    throw UsageError("--model resnet18: needs images of at least 8 x 8 pixels");
  return std::make_shared<ResNet18>(shape, options.width > 0 ? options.width : 64,
                                    options.norm == "batch");
}

}  // namespace bellows::trainer
