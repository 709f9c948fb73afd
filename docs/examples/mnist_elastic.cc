// SPDX-License-Identifier: Apache-2.0
// mnist.cc made elastic: ten lines differ.
//
//   bellows-run --elastic 1-4 -n 2 mnist_elastic FOLDER [LEARNING RATE]
//
// FOLDER has the four files of MNIST, or of Fashion-MNIST, unpacked (train-images-idx3-ubyte, ...).
#include <bellows/bellows.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

namespace {

struct Net : torch::nn::Module {
  Net() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("norm", norm);
    register_module("full1", full1);
    register_module("full2", full2);
    register_module("dropout", dropout);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(norm(conv2(x))), 2);
    x = dropout(torch::relu(full1(x.flatten(1))));
    return torch::log_softmax(full2(x), 1);
  }
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 8, 3).padding(1)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(8, 16, 3).padding(1)};
  torch::nn::BatchNorm2d norm{16};
  torch::nn::Linear full1{16 * 7 * 7, 64};
  torch::nn::Linear full2{64, 10};
  torch::nn::Dropout dropout{0.25};
};

}  // namespace

int main(int argc, char** argv) {
  bellows::Elastic elastic(argc, argv, {.epochs = 3, .batch = 64});
  namespace data = torch::data;
  if (argc < 2) return std::fprintf(stderr, "usage: mnist FOLDER [LEARNING RATE]\n"), 2;
  const auto read = [&](auto mode) {
    return data::datasets::MNIST(argv[1], mode)
        .map(data::transforms::Normalize<>(0.5, 0.5))
        .map(data::transforms::Stack<>());
  };
  Net model;
  torch::optim::SGD optimizer(
      model.parameters(),
      torch::optim::SGDOptions(argc > 2 ? std::atof(argv[2]) : 0.05).momentum(0.9));
  auto train = elastic.loader(read(data::datasets::MNIST::Mode::kTrain));
  auto test = data::make_data_loader(read(data::datasets::MNIST::Mode::kTest), 1000);

  return elastic.run(model, optimizer, [&] {
    for ([[maybe_unused]] auto epoch : elastic.epochs()) {
      model.train();
      for (auto& batch : *train) {
        auto loss = torch::nll_loss(model.forward(batch.data), batch.target);
        elastic.backward(loss);
        elastic.step();
      }
      model.eval();
      const torch::NoGradGuard no_grad;
      double loss = 0, correct = 0, samples = 0;
      for (auto& batch : *test) {
        const auto output = model.forward(batch.data);
        loss += torch::nll_loss(output, batch.target, {}, torch::Reduction::Sum).item<double>();
        correct += output.argmax(1).eq(batch.target).sum().item<double>();
        samples += static_cast<double>(batch.target.size(0));
      }
      elastic.evaluated(loss, samples, correct);
    }
  });
}
