// Rows on standard input -> sampled tokens, one a line, for sampling_twin_test.py.
// Line  seed choice position temperature top_k top_p min_p logit logit ...      numbers in any form strtod reads
// (hexadecimal: exact) Out   id and the log-probability in hexadecimal, or "error: " and the message
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "sampling/sampler.h"

int main() {
  deepinfer::Scratch scratch;
  for (std::string line; std::getline(std::cin, line);) {
    char* at = line.data();
    const auto number = [&] { return std::strtod(at, &at); };
    deepinfer::NoiseKey key;
    key.seed = std::strtoull(at, &at, 10);
    key.choice = static_cast<int32_t>(std::strtol(at, &at, 10));
    key.position = std::strtoll(at, &at, 10);
    deepinfer::SamplingParams params;
    params.temperature = number();
    params.top_k = std::strtoll(at, &at, 10);
    params.top_p = number();
    params.min_p = number();
    std::vector<float> row;
    for (;;) {
      char* before = at;
      const double value = number();
      if (at == before) break;
      row.push_back(static_cast<float>(value));
    }
    const auto sampled = deepinfer::sample(row, params, key, scratch);
    if (sampled.ok()) {
      std::printf("%d %a\n", sampled->id, static_cast<double>(sampled->logprob));
    } else {
      std::printf("error: %s\n", sampled.status().message().c_str());
    }
  }
}
