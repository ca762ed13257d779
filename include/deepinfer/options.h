// Options of a process: which model, on what, and how large. Plain values; the engine checks them and names what it refuses.
#pragma once

#include <cstdint>
#include <string>

namespace deepinfer {

enum class Device { cpu, cuda };

// Which model, and on what.
struct ModelOptions {
  std::string model_dir;        // a checkpoint in the released format: config.json, *.safetensors, tokenizer.json
  Device device = Device::cpu;  // cuda is refused by builds without it
  int threads = 0;              // 0: one per core
  std::string
      instruction_set;  // cpu: avx512, avx2 or portable; empty: the best of this machine. All give the same bits
};

// How much at a time.
struct EngineOptions {
  int64_t max_batch = 8;        // sequences that run at the same time, at least 1
  int64_t prefill_chunk = 512;  // prompt tokens of a step, at least 1
  int64_t max_context = 0;      // tokens of a sequence, prompt and answer; 0: what the model was made for
  uint64_t seed = 0;            // of requests without their own: this + their number, counted from 0
};

}  // namespace deepinfer
