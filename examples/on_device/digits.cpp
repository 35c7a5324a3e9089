// Trains the network digits.onnx in C++, evaluates it, infers, and saves it. docs/devices.md has the commands.
#include "digits.h"

#include <array>
#include <cstdio>
#include <memory>
#include <string>

namespace {

// A state, which is too large for most stacks; `new` aligns it as its type says.
using State = std::unique_ptr<digits_state>;

bool failed(int status, const char *what) {
  if (status) std::fprintf(stderr, "%s: status %d\n", what, status);
  return status != 0;
}

}  // namespace

int main(int count, char **words) {
  const std::string begin = count > 1 ? words[1] : "digits.safetensors";
  const std::string end = count > 2 ? words[2] : "trained.safetensors";
  State state(new digits_state());
  if (failed(digits_load(state.get(), begin.c_str()), begin.c_str())) return 1;

  // Class k of ten: an image whose column or row k % 8 is bright, with a pattern that differs by example.
  static std::array<float, 64 * 64> images;
  static std::array<std::int32_t, 64> labels;
  for (int i = 0; i < 64; i++) {
    labels[i] = i % 10;
    for (int j = 0; j < 64; j++)
      images[64 * i + j] = float((labels[i] < 8 ? j % 8 : j / 8) == labels[i] % 8) + 0.01f * float((7 * i + 5 * j) % 13);
  }
  float before = 0, loss = 0, after = 0;
  const digits_loss_batch evaluated = {images.data(), labels.data()};
  const digits_batch batch = {images.data(), labels.data(), 0.01f};
  if (failed(digits_loss(state.get(), &evaluated, &before), "loss")) return 1;
  for (int i = 0; i < 30; i++)
    if (failed(digits_step(state.get(), &batch, &loss), "step")) return 1;
  if (failed(digits_loss(state.get(), &evaluated, &after), "loss")) return 1;

  static std::array<float, 64 * 10> scores;
  const digits_infer_batch inputs = {images.data()};
  if (failed(digits_infer(state.get(), &inputs, scores.data()), "infer")) return 1;
  int right = 0;
  for (int i = 0; i < 64; i++) {
    int best = 0;
    for (int k = 1; k < 10; k++)
      if (scores[10 * i + k] > scores[10 * i + best]) best = k;
    right += best == labels[i];
  }
  std::printf("loss %.3f, then %.3f; %d of 64 right\n", double(before), double(after), right);
  if (failed(digits_save(state.get(), end.c_str()), end.c_str())) return 1;
  return after < before ? 0 : 1;
}
