// Step: what one forward computes. A ragged batch of runs; a run is consecutive token positions of one sequence: a prefill chunk, a decode
// token, a block of drafts to verify and a replayed suffix differ only in length and in which rows want logits. Source: design section 1.
#pragma once

#include <cstdint>
#include <span>

#include "model/probe.h"
#include "state/sequence_state.h"

namespace deepinfer {

enum class LogitRows : uint8_t { none, last, all };

struct Run {
  // Its length is the position of the first token. In one run of a step at most. Pages that reserve() has not taken yet are taken now.
  SequenceState* state = nullptr;
  std::span<const int32_t> tokens;  // at least one, each in the vocabulary
  LogitRows logits = LogitRows::last;
  // Bounded replay (spec 10): layers from the decoder's first on run only positions >= decoder_from. 0: all of them. Logit rows must be
  // among those. A state whose first decoder position is above 0 keeps it as its window_begin.
  int64_t decoder_from = 0;
};

struct Step {
  std::span<const Run> runs;
  Probe* probe = nullptr;
};

// Valid until the next forward of the same model.
struct StepResult {
  Rows<const float> logits;      // wanted rows, runs one after the other
  Rows<const bf16> main_hidden;  // taps of the decoder rows (spec 4.4)
};

}  // namespace deepinfer
