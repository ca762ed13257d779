// Planted faults: typical mistakes that a test can switch on, one at a time, to see that `deepinfer verify` finds them.
//
// Only code compiled with DI_PLANTED_FAULTS has the switch (a second copy of the portable kernels and of the model, linked into
// one test); everywhere else planted() is the constant false and nothing of it is left. Threading: set before a run.
// Source: golden/mistakes.json and spec/traps.md, where most of these are described with what they do.
#pragma once

namespace deepinfer {

enum class Fault {
  none,
  // formats and products
  fp8_scale_index,  // the next 32 x 32 tile's scale
  fp4_scale_index,  // the next block's scale
  norm_eps,         // 1e-6 and 1e-20 exchanged
  // positions
  rope_halves,          // pairs (j, j + half) in place of (2j, 2j + 1)
  no_inverse_rope,      // attention output is not rotated back
  no_yarn,              // compressed layers without position scaling
  compressed_position,  // compressed rows at the last position of their group
  // attention
  no_sink,
  window_short,  // one position less
  probabilities_unrounded,
  empty_columns_dropped,  // chunks counted over keys that exist
  // compressor and indexer
  pooling_gate,      // plain mean of the two tokens
  index_key_source,  // scores against the keys of the first source of the same ratio
  rotated_latent,    // index keys from the latent after its rotation
  candidates_ignored,
  newest_block,  // not pinned
  // hyper connections
  pre_mix,  // experts collapse the stream by the mix of the sublayer before the last
  comb_transposed,
  sinkhorn_rounds,  // one less
  // experts
  weight_after_w2,
  no_clamp,
  biased_weights,
  // engram
  engram_lookback,  // every earlier token one place too near
  engram_root,      // gate without the signed square root
  // drafts and replay
  draft_rows,        // a draft block does not see itself
  confidence_input,  // after the norm
  replay_window,     // windows reach behind the segment
};

#ifdef DI_PLANTED_FAULTS
inline Fault planted_fault = Fault::none;
inline bool planted(Fault fault) { return planted_fault == fault; }
#else
constexpr bool planted(Fault) { return false; }
#endif

}  // namespace deepinfer
