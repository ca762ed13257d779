// small_ops: pooling, the residual stream, index scores and the Engram write.
#include <algorithm>
#include <cmath>

#include "verify/kernel_vectors.h"

namespace deepinfer {
namespace {

Status check_pool(const KernelChecks& checks) {
  const VectorFile& file = checks.file;
  Vector k, z, u;
  DI_RETURN_IF_ERROR(file.take("pool.k", DType::f32, {-1, 2, -1}, k));
  const int64_t pairs = k.dim(0), d = k.dim(2), padded = (d + 15) / 16 * 16;
  DI_RETURN_IF_ERROR(file.take("pool.z", DType::f32, {pairs, 2, d}, z));
  DI_RETURN_IF_ERROR(file.take("pool.u", DType::f32, {pairs, d}, u));
  std::vector<float> wide(static_cast<size_t>(4 * pairs * padded));  // per pair: k0, z0, k1, z1
  std::vector<const float*> parts[4];
  for (int64_t p = 0; p < pairs; ++p) {
    for (int64_t part = 0; part < 4; ++part) {
      float* row = wide.data() + (p * 4 + part) * padded;
      std::copy_n((part % 2 == 0 ? k : z).as<float>() + (p * 2 + part / 2) * d, d, row);
      parts[part].push_back(row);
    }
  }
  std::vector<bf16> out(static_cast<size_t>(pairs * padded));
  checks.kernels.pool_pairs(checks.context, {pairs, padded, parts[0].data(), parts[1].data(), parts[2].data(),
                                             parts[3].data(), rows_of(out.data(), pairs, padded)});
  // The op rounds u to bf16: what counts is whether a u within 1e-6 of the golden one rounds to the result.
  int64_t outside = 0;
  for (int64_t p = 0; p < pairs; ++p) {
    for (int64_t i = 0; i < d; ++i) {
      const float want = u.as<float>()[p * d + i], got = to_float(out[static_cast<size_t>(p * padded + i)]);
      outside += !(got >= round_bf16(want - 1e-6f) && got <= round_bf16(want + 1e-6f));
    }
  }
  checks.at_most("small_ops/pool", "u: elements further than 1e-6 before the rounding", static_cast<double>(outside),
                 0);
  return {};
}

Status check_stream(const KernelChecks& checks, Bf16Tally& tally) {
  const VectorFile& file = checks.file;
  const std::string name = "small_ops/hc";
  Vector x, pre, post, comb, y, pre_out, post_out, tap;
  DI_RETURN_IF_ERROR(file.take("hc.X", DType::bf16, {-1, kHcMult, -1}, x));
  const int64_t rows = x.dim(0), d = x.dim(2);
  DI_RETURN_IF_ERROR(file.take("hc.pre", DType::f32, {rows, kHcMult}, pre));
  DI_RETURN_IF_ERROR(file.take("hc.post", DType::f32, {rows, kHcMult}, post));
  DI_RETURN_IF_ERROR(file.take("hc.comb", DType::f32, {rows, kHcMult, kHcMult}, comb));
  DI_RETURN_IF_ERROR(file.take("hc.y", DType::bf16, {rows, d}, y));
  DI_RETURN_IF_ERROR(file.take("hc.pre_out", DType::bf16, {rows, d}, pre_out));
  DI_RETURN_IF_ERROR(file.take("hc.post_out", DType::bf16, {rows, kHcMult, d}, post_out));
  DI_RETURN_IF_ERROR(file.take("hc.tap", DType::bf16, {rows, d}, tap));
  if (d % 32 != 0) return invalid("{}: 'hc.X' has copies of {} values, accepted is a multiple of 32", file.stem(), d);

  std::vector<bf16> stream(x.as<bf16>(), x.as<bf16>() + rows * kHcMult * d), collapsed(static_cast<size_t>(rows * d)),
      h(collapsed.size()), mean(collapsed.size());
  const std::vector<bf16> norm_weight(static_cast<size_t>(d), to_bf16(1.0f));
  HcSeamArgs args;
  args.x = rows_of(stream.data(), rows, kHcMult * d);
  args.d = d;
  args.tap = rows_of(mean.data(), rows, d);
  args.pre_in = pre.as<float>(), args.norm_weight = norm_weight.data(), args.norm_eps = 1e-20f;
  args.collapsed = rows_of(collapsed.data(), rows, d), args.h = rows_of(h.data(), rows, d);
  checks.kernels.hc_seam(checks.context, args);
  checks.bf16_close(name, "pre_out", collapsed.data(), pre_out.as<bf16>(), rows * d, tally);
  checks.bf16_close(name, "tap", mean.data(), tap.as<bf16>(), rows * d, tally);

  // The op only reads the mix of the sublayer that it leaves.
  std::vector<float> left_post(post.as<float>(), post.as<float>() + rows * 4),
      left_comb(comb.as<float>(), comb.as<float>() + rows * 16);
  HcSeamArgs leave;
  leave.x = args.x, leave.d = d;
  leave.y = rows_of(y.as<bf16>(), rows, d);
  leave.left = {nullptr, left_post.data(), left_comb.data()};
  checks.kernels.hc_seam(checks.context, leave);
  checks.bf16_close(name, "post_out", stream.data(), post_out.as<bf16>(), rows * kHcMult * d, tally);

  if (!checks.reporter.wants("small_ops/hcmix")) return {};
  Vector fn, mixes;
  DI_RETURN_IF_ERROR(file.take("hcmix.fn", DType::f32, {kHcMixes, kHcMult * d}, fn));
  DI_RETURN_IF_ERROR(file.take("hcmix.mixes", DType::f32, {rows, kHcMixes}, mixes));
  stream.assign(x.as<bf16>(), x.as<bf16>() + rows * kHcMult * d);
  std::vector<float> got(static_cast<size_t>(rows * kHcMixes)), base(kHcMixes), scale(3, 1.0f),
      out_pre(static_cast<size_t>(rows * 4)), out_post(out_pre.size()), out_comb(out_pre.size() * 4);
  HcSeamArgs enter;
  enter.x = args.x, enter.d = d;
  enter.fn = fn.as<float>(), enter.base = base.data(), enter.scale = scale.data();
  enter.norm_eps = 1e-20f, enter.hc_eps = 1e-6f, enter.iterations = 1;
  enter.entered = {out_pre.data(), out_post.data(), out_comb.data()};
  enter.mixes = rows_of(got.data(), rows, kHcMixes);
  checks.kernels.hc_seam(checks.context, enter);
  checks.largest_difference("small_ops/hcmix", "mixes", got.data(), mixes.as<float>(), rows * kHcMixes, 1e-6);
  return {};
}

// Scores of every query over all keys, `heads` heads with the given weights.
std::vector<bf16> index_scores(const KernelChecks& checks, const std::vector<std::byte>& keys, int64_t key_rows,
                               int64_t d, int64_t heads, const bf16* q, const bf16* weights, int64_t queries) {
  std::byte* page = const_cast<std::byte*>(keys.data());
  std::vector<RunView> runs;
  const std::vector<PagedRows> rows(static_cast<size_t>(queries), PagedRows{&page, key_rows, 0, index_row_bytes(d)});
  for (int64_t t = 0; t < queries; ++t) runs.push_back({key_rows - 1, t, 1, 0});
  std::vector<int32_t> selected(static_cast<size_t>(queries));
  std::vector<float> scores(static_cast<size_t>(queries * key_rows));
  IndexSelectArgs args;
  args.q = rows_of(q, queries, heads * d);
  args.weights = rows_of(weights, queries, heads);
  args.heads = heads, args.head_dim = d, args.ratio = 1;
  args.runs = runs.data(), args.rows = rows.data(), args.run_count = queries;
  args.block_size = 8;
  args.selected = rows_of(selected.data(), queries, 1);
  args.scores = rows_of(scores.data(), queries, key_rows);
  args.max_rows = key_rows;
  checks.kernels.index_select(checks.context, args);
  std::vector<bf16> out;
  for (const float score : scores) out.push_back(to_bf16(score));
  return out;
}

Status check_index_scores(const KernelChecks& checks, Bf16Tally& tally) {
  const VectorFile& file = checks.file;
  const std::string name = "small_ops/iscore";
  Vector q, k, w, dots, score;
  DI_RETURN_IF_ERROR(file.take("iscore.q", DType::bf16, {-1, -1, -1}, q));
  const int64_t queries = q.dim(0), heads = q.dim(1), d = q.dim(2);
  DI_RETURN_IF_ERROR(file.take("iscore.k", DType::bf16, {-1, d}, k));
  const int64_t rows = k.dim(0);
  DI_RETURN_IF_ERROR(file.take("iscore.w", DType::bf16, {queries, heads}, w));
  DI_RETURN_IF_ERROR(file.take("iscore.dots", DType::bf16, {queries, heads, rows}, dots));
  DI_RETURN_IF_ERROR(file.take("iscore.score", DType::bf16, {queries, rows}, score));
  std::vector<std::byte> keys;
  DI_RETURN_IF_ERROR(index_key_rows_of(k, file.stem() + ": iscore.k", keys));
  // A head alone with weight 1 scores relu(dot); with the query's sign turned, relu(-dot).
  std::vector<bf16> turned(q.as<bf16>(), q.as<bf16>() + q.elements());
  for (bf16& x : turned) x.bits ^= 0x8000;
  const std::vector<bf16> ones(static_cast<size_t>(queries * heads), to_bf16(1.0f));
  const std::vector<bf16> up = index_scores(checks, keys, rows, d, 1, q.as<bf16>(), ones.data(), queries * heads);
  const std::vector<bf16> down = index_scores(checks, keys, rows, d, 1, turned.data(), ones.data(), queries * heads);
  std::vector<bf16> got;
  for (size_t i = 0; i < up.size(); ++i) got.push_back(to_bf16(to_float(up[i]) - to_float(down[i])));
  checks.bf16_close(name, "dots", got.data(), dots.as<bf16>(), dots.elements(), tally);
  const std::vector<bf16> scores = index_scores(checks, keys, rows, d, heads, q.as<bf16>(), w.as<bf16>(), queries);
  checks.bf16_close(name, "score", scores.data(), score.as<bf16>(), score.elements(), tally);
  return {};
}

// The product with the float32 factor belongs to no operation: the model does it in these words.
Status check_index_weights(const KernelChecks& checks, Bf16Tally& tally) {
  struct Shape {
    const char* config;
    double head_dim, heads;
  };
  const VectorFile& file = checks.file;
  Vector w, want;
  DI_RETURN_IF_ERROR(file.take("iweight.w", DType::bf16, {-1}, w));
  for (const Shape& s : {Shape{"released", 128, 32}, {"nano", 64, 4}, {"odd", 96, 3}}) {
    if (!file.has(std::string("iweight.") + s.config)) continue;
    DI_RETURN_IF_ERROR(file.take(std::string("iweight.") + s.config, DType::bf16, {w.dim(0)}, want));
    const auto factor = static_cast<float>((1.0 / std::sqrt(s.head_dim)) * (1.0 / std::sqrt(s.heads)));
    std::vector<bf16> got;
    for (int64_t i = 0; i < w.dim(0); ++i) got.push_back(to_bf16(to_float(w.as<bf16>()[i]) * factor));
    checks.bf16_close("small_ops/iweight", s.config, got.data(), want.as<bf16>(), w.dim(0), tally);
  }
  return {};
}

Status check_engram(const KernelChecks& checks, Bf16Tally& tally) {
  const VectorFile& file = checks.file;
  const std::string name = "small_ops/engram";
  Vector x, key, value, q_weight, k_weight, gate, out;
  DI_RETURN_IF_ERROR(file.take("engram.X", DType::bf16, {-1, kHcMult, -1}, x));
  const int64_t rows = x.dim(0), d = x.dim(2);
  DI_RETURN_IF_ERROR(file.take("engram.key", DType::bf16, {rows, kHcMult, d}, key));
  DI_RETURN_IF_ERROR(file.take("engram.value", DType::bf16, {rows, d}, value));
  DI_RETURN_IF_ERROR(file.take("engram.q_weight", DType::bf16, {kHcMult, d}, q_weight));
  DI_RETURN_IF_ERROR(file.take("engram.k_weight", DType::bf16, {kHcMult, d}, k_weight));
  DI_RETURN_IF_ERROR(file.take("engram.gate", DType::f32, {rows, kHcMult}, gate));
  DI_RETURN_IF_ERROR(file.take("engram.out", DType::bf16, {rows, kHcMult, d}, out));
  if (d % 16 != 0)
    return invalid("{}: 'engram.X' has copies of {} values, accepted is a multiple of 16", file.stem(), d);
  std::vector<bf16> stream(x.as<bf16>(), x.as<bf16>() + x.elements()), kv;
  for (int64_t t = 0; t < rows; ++t) {
    kv.insert(kv.end(), key.as<bf16>() + t * kHcMult * d, key.as<bf16>() + (t + 1) * kHcMult * d);
    kv.insert(kv.end(), value.as<bf16>() + t * d, value.as<bf16>() + (t + 1) * d);
  }
  std::vector<float> got(static_cast<size_t>(rows * kHcMult));
  checks.kernels.engram_write(
      checks.context, {rows_of(stream.data(), rows, kHcMult * d), d, rows_of<const bf16>(kv.data(), rows, 5 * d),
                       q_weight.as<bf16>(), k_weight.as<bf16>(), 1e-20f, nullptr, got.data()});
  checks.largest_difference(name, "gate", got.data(), gate.as<float>(), rows * kHcMult, 1e-6);
  checks.bf16_close(name, "out", stream.data(), out.as<bf16>(), out.elements(), tally);
  return {};
}

}  // namespace

Status check_small_ops(const KernelChecks& checks) {
  Bf16Tally tally;
  if (checks.reporter.wants("small_ops/pool")) DI_RETURN_IF_ERROR(check_pool(checks));
  if (checks.reporter.wants("small_ops/hc")) DI_RETURN_IF_ERROR(check_stream(checks, tally));
  if (checks.reporter.wants("small_ops/iscore")) DI_RETURN_IF_ERROR(check_index_scores(checks, tally));
  if (checks.reporter.wants("small_ops/iweight")) DI_RETURN_IF_ERROR(check_index_weights(checks, tally));
  if (checks.reporter.wants("small_ops/engram")) DI_RETURN_IF_ERROR(check_engram(checks, tally));
  if (tally.total() > 0) checks.bf16_share("hc, iscore, iweight and engram.out", tally);
  return {};
}

}  // namespace deepinfer
