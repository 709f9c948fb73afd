// SPDX-License-Identifier: Apache-2.0
// A small language model: a causal transformer with normalisation before each part (Radford et
// al., 2019) over the tokens of a window.
#include <fmt/format.h>

#include "trainer/errors.h"
#include "trainer/network/model.h"

namespace bellows::trainer {

namespace {

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

class Attention : public torch::nn::Module {
 public:
  Attention(std::int64_t width, std::int64_t heads)
      : heads_(heads),
        inputs_(register_module("inputs", torch::nn::Linear(width, 3 * width))),
        output_(register_module("output", torch::nn::Linear(width, width))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const std::int64_t samples = x.size(0);
    const std::int64_t length = x.size(1);
    const std::int64_t width = x.size(2);
    // {3, samples, heads, length, width / heads}
    const auto qkv =
        inputs_(x).reshape({samples, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
    const auto y = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, true);
    return output_(y.transpose(1, 2).reshape({samples, length, width}));
  }

 private:
  std::int64_t heads_;
  torch::nn::Linear inputs_;
  torch::nn::Linear output_;
};

class Transformer : public Model {
 public:
  Transformer(const Options& options, std::int64_t width, std::int64_t classes)
      : tokens_(register_module("tokens", torch::nn::Embedding(classes, width))),
        positions_(register_module("positions", torch::nn::Embedding(options.length, width))),
        norm_(register_module("norm", layer_norm(width))),
        output_(register_module("output", torch::nn::Linear(width, classes))) {
    torch::nn::init::normal_(tokens_->weight, 0, 0.02);
    torch::nn::init::normal_(positions_->weight, 0, 0.02);
    for (std::int64_t i = 0; i < options.layers; ++i) {
      const std::string name = "block" + std::to_string(i) + "_";
      blocks_.push_back(
          {register_module(name + "norm1", layer_norm(width)),
           register_module(name + "norm2", layer_norm(width)),
           register_module(name + "attention", std::make_shared<Attention>(width, options.heads)),
           register_module(name + "wide", torch::nn::Linear(width, 4 * width)),
           register_module(name + "narrow", torch::nn::Linear(4 * width, width)),
           make_dropout(options.dropout), make_dropout(options.dropout)});
    }
  }

  torch::Tensor forward(torch::Tensor input) override {
    const auto places = torch::arange(input.size(1), input.options());
    torch::Tensor x = tokens_(input) + positions_(places);
    for (auto& b : blocks_) {
      x = x + b.dropout1(b.attention->forward(b.norm1(x)));
      x = x + b.dropout2(b.narrow(torch::gelu(b.wide(b.norm2(x)))));
    }
    return output_(norm_(x));
  }

 private:
  struct Block {
    torch::nn::LayerNorm norm1;
    torch::nn::LayerNorm norm2;
    std::shared_ptr<Attention> attention;
    torch::nn::Linear wide;
    torch::nn::Linear narrow;
    Dropout dropout1;
    Dropout dropout2;
  };
  torch::nn::Embedding tokens_;
  torch::nn::Embedding positions_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear output_;
  std::vector<Block> blocks_;
};

}  // namespace

std::shared_ptr<Model> make_transformer(const Options& options, const SampleShape& shape) {
  if (!shape.tokens) throw UsageError("--model transformer: needs a text, --data text:FILE");
  const std::int64_t width = options.width > 0 ? options.width : 128;
  if (width % options.heads != 0)
    throw UsageError(fmt::format("--heads {}: must divide the width of {}", options.heads, width));
  return std::make_shared<Transformer>(options, width, shape.classes);
}

}  // namespace bellows::trainer
