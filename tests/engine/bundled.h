// The bundled model, opened once a test binary.
#pragma once

#include <gtest/gtest.h>

#include "deepinfer/engine.h"

namespace deepinfer {

inline std::string bundled_model() { return DI_SOURCE_DIR "/models/deepseek-v4.1-tiny"; }

inline Engine open_engine(int64_t max_batch = 4, int64_t chunk = 128, int64_t max_context = 4096, int threads = 2) {
  ModelOptions model;
  model.model_dir = bundled_model();
  model.threads = threads;
  EngineOptions options;
  options.max_batch = max_batch;
  options.prefill_chunk = chunk;
  options.max_context = max_context;
  Result<Engine> engine = Engine::open(model, options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(engine).value();
}

inline Request question(const std::string& text, int64_t max_tokens = 48) {
  Request request;
  Message message;
  message.content = text;
  request.conversation.messages.push_back(message);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  return request;
}

}  // namespace deepinfer
