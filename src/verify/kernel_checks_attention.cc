// Attention over explicit lists, the indexer's candidate blocks, and the n-gram hash.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "verify/kernel_vectors.h"

namespace deepinfer {

Status check_sparse_attn(const KernelChecks& checks) {
  const VectorFile& file = checks.file;
  Bf16Tally tally;
  for (const std::string& prefix : file.prefixes(".q")) {
    const std::string name = checks.case_name(prefix);
    if (!checks.reporter.wants(name)) continue;
    Vector q, kv, sink, idx, out, exact;
    DI_RETURN_IF_ERROR(file.take(prefix + "q", DType::bf16, {-1, -1, -1}, q));
    const int64_t m = q.dim(0), heads = q.dim(1), d = q.dim(2);
    DI_RETURN_IF_ERROR(file.take(prefix + "kv", DType::bf16, {-1, d}, kv));
    DI_RETURN_IF_ERROR(file.take(prefix + "sink", DType::f32, {heads}, sink));
    DI_RETURN_IF_ERROR(file.take(prefix + "idx", DType::i32, {m, -1}, idx));
    DI_RETURN_IF_ERROR(file.take(prefix + "out", DType::bf16, {m, heads, d}, out));
    DI_RETURN_IF_ERROR(file.take(prefix + "exact", DType::f32, {m, heads, d}, exact));
    const int64_t columns = idx.dim(1);
    for (int64_t i = 0; i < m * columns; ++i) {
      const int32_t row = idx.as<int32_t>()[i];
      if (row < -1 || row >= kv.dim(0)) {
        return invalid("{}: '{}idx' element {} is {}, accepted are -1 and the {} rows of kv", file.stem(), prefix, i,
                       row, kv.dim(0));
      }
    }
    std::vector<std::byte> rows;  // the golden kv lies on the grid of act_quant: stored as window rows it is the same
    DI_RETURN_IF_ERROR(window_rows_of(kv, file.stem() + ": " + prefix + "kv", rows));
    std::vector<bf16> got(static_cast<size_t>(out.elements()));
    const RunView run{0, 0, m, 0};
    const std::byte* ring = rows.data();
    AttentionArgs args;
    args.q = rows_of(q.as<bf16>(), m, heads * d);
    args.out = rows_of(got.data(), m, heads * d);
    args.heads = heads, args.head_dim = d;
    args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
    args.sink = sink.as<float>();
    args.columns = WindowColumns::listed;
    args.listed = rows_of(idx.as<int32_t>(), m, columns);
    args.runs = &run, args.run_count = 1;
    args.step_rows = rows.data();
    args.rings = &ring, args.ring_rows = 1;
    checks.kernels.attention(checks.context, args);

    double worst = 0;
    int64_t not_zero = 0;
    for (int64_t t = 0; t < m; ++t) {
      const int32_t* list = args.listed.row(t);
      const bool empty = std::all_of(list, list + columns, [](int32_t row) { return row < 0; });
      for (int64_t h = 0; h < heads; ++h) {
        double difference = 0, norm = 0;
        for (int64_t i = (t * heads + h) * d; i < (t * heads + h + 1) * d; ++i) {
          const double value = static_cast<double>(to_float(got[static_cast<size_t>(i)])),
                       want = static_cast<double>(exact.as<float>()[i]);
          difference += (value - want) * (value - want), norm += want * want;
          not_zero += empty && value != 0;
        }
        if (!empty)
          worst = std::sqrt(difference / norm) >= 0 ? std::max(worst, std::sqrt(difference / norm)) : HUGE_VAL;
      }
    }
    checks.at_most(name, "out against exact: worst head row, share of its norm", worst, 0.004);
    checks.at_most(name, "out of rows without keys: elements not zero", static_cast<double>(not_zero), 0);
    for (size_t i = 0; i < got.size(); ++i) tally.add(got[i], out.as<bf16>()[i]);
  }
  if (tally.total() > 0) checks.bf16_share("out", tally);
  return {};
}

namespace {

// Index keys and queries by which the op scores a row exactly `value`, whatever bf16 that is: the key holds the magnitude's eight bits as
// four E2M1 digits of two bits, each in a block with its own scale; two heads bring in the sign past the relu. A third head, with a weight
// that overflows, makes a score -infinity.
constexpr int64_t kHeads = 3, kHeadDim = 160, kHiddenDim = 128;

Status encode_score(bf16 value, std::byte* key) {
  std::fill(key, key + index_row_bytes(kHeadDim), std::byte{0});
  std::byte* scales = key + kHeadDim / 2;
  std::fill(scales, scales + kHeadDim / 32, std::byte{127});
  const int exponent = (value.bits >> 7) & 255;
  const bool negative = (value.bits & 0x8000) != 0;
  if (value.bits == 0xFF80) {
    key[kHiddenDim / 2] = std::byte{2};  // 1.0
    scales[kHiddenDim / 32] = std::byte{127 + 100};
    return {};
  }
  if ((value.bits & 0x7FFF) == 0) return {};
  if (exponent < 16 || exponent > 240)
    return invalid("a logit of {}, accepted are 0, -infinity and 2^-110 to 2^110", to_float(value));
  const int mantissa = 128 | (value.bits & 127);  // value = mantissa * 2^(exponent - 134)
  for (int digit = 0; digit < 4; ++digit) {
    const int two_bits = mantissa >> (2 * digit) & 3;  // E2M1 codes 0..3 are halves
    key[digit * 16] = static_cast<std::byte>(two_bits | (negative ? 8 : 0));
    scales[digit] = static_cast<std::byte>(exponent - 134 + 2 * digit + 1 + 127);
  }
  return {};
}

std::vector<bf16> score_query() {
  std::vector<bf16> q(static_cast<size_t>(kHeads * kHeadDim));
  for (size_t digit = 0; digit < 4; ++digit) {
    q[digit * 32] = to_bf16(1.0f);
    q[kHeadDim + digit * 32] = to_bf16(-1.0f);
  }
  q[2 * kHeadDim + kHiddenDim] = to_bf16(1.0f);
  return q;
}

}  // namespace

Status check_candidates(const KernelChecks& checks) {
  const VectorFile& file = checks.file;
  for (const std::string& prefix : file.prefixes(".logits")) {
    const std::string name = checks.case_name(prefix);
    if (!checks.reporter.wants(name)) continue;
    Vector logits, lens, mask, blocks_size;
    DI_RETURN_IF_ERROR(file.take(prefix + "logits", DType::bf16, {-1, -1}, logits));
    const int64_t queries = logits.dim(0), width = logits.dim(1);
    DI_RETURN_IF_ERROR(file.take(prefix + "lens", DType::i32, {queries}, lens));
    DI_RETURN_IF_ERROR(file.take(prefix + "mask", DType::u8, {queries, width}, mask));
    DI_RETURN_IF_ERROR(file.take(prefix + "blocks_size", DType::i32, {2}, blocks_size));
    const int64_t blocks = blocks_size.as<int32_t>()[0], size = blocks_size.as<int32_t>()[1];
    if (blocks < 1 || size < 1)
      return invalid("{}: '{}blocks_size' is [{}, {}], accepted are numbers from 1", file.stem(), prefix, blocks, size);
    const std::vector<bf16> q = score_query(), weights = {to_bf16(1.0f), to_bf16(-1.0f), to_bf16(-0x1p100f)};
    std::vector<std::byte> page(static_cast<size_t>(width * index_row_bytes(kHeadDim)));
    int64_t different = 0, wrong_scores = 0;
    for (int64_t t = 0; t < queries; ++t) {
      const int64_t visible = lens.as<int32_t>()[t];
      if (visible < 0 || visible > width)
        return invalid("{}: '{}lens' is {}, accepted is 0 to {}", file.stem(), prefix, visible, width);
      const bf16* golden = logits.as<bf16>() + t * width;
      for (int64_t r = 0; r < width; ++r)
        DI_RETURN_IF_ERROR(encode_score(golden[r], page.data() + r * index_row_bytes(kHeadDim)));
      std::byte* pages = page.data();
      const PagedRows rows{&pages, width, 0, index_row_bytes(kHeadDim)};
      const RunView run{2 * visible, 0, 1, 0};  // with ratio 2, sees (2 * visible + 1) / 2 rows
      std::vector<int32_t> kept(static_cast<size_t>(blocks)), selected(1);
      std::vector<float> scores(static_cast<size_t>(width));
      int32_t count = 0;
      IndexSelectArgs args;
      args.q = rows_of(q.data(), 1, kHeads * kHeadDim);
      args.weights = rows_of(weights.data(), 1, kHeads);
      args.heads = kHeads, args.head_dim = kHeadDim, args.ratio = 2;
      args.runs = &run, args.rows = &rows, args.run_count = 1;
      args.block_size = size, args.publish_candidates = true;
      args.candidates = {kept.data(), &count, blocks};
      args.selected = rows_of(selected.data(), 1, 1);
      args.scores = rows_of(scores.data(), 1, width);
      args.max_rows = width;
      checks.kernels.index_select(checks.context, args);
      for (int64_t r = 0; r < width; ++r) {
        wrong_scores += !(r < visible ? scores[static_cast<size_t>(r)] == to_float(golden[r])
                                      : scores[static_cast<size_t>(r)] == -HUGE_VALF);
        const int64_t block = r / size;
        bool keeps =
            std::find(kept.begin(), kept.begin() + std::max(count, 0), block) != kept.begin() + std::max(count, 0);
        if (count < 0) {  // every block that has something to keep
          const int64_t end = std::min(visible, (block + 1) * size);
          keeps = block * size < visible &&
                  (block == (visible - 1) / size ||
                   std::any_of(golden + block * size, golden + end, [](bf16 x) { return x.bits != 0xFF80; }));
        }
        different += keeps != (mask.as<uint8_t>()[t * width + r] != 0);
      }
    }
    checks.at_most(name, "scores that the op was given: elements that differ", static_cast<double>(wrong_scores), 0);
    checks.at_most(name, "mask: elements that differ", static_cast<double>(different), 0);
  }
  return {};
}

namespace {

using Json = nlohmann::json;

struct HashConstants {
  int64_t layers = 0, max_ngram = 0, heads = 0;
  int32_t pad_class = 0, classes = 0;
  std::vector<std::vector<uint64_t>> multipliers, primes, offsets;  // [layers]
};

// Numbers, nested lists of numbers, or numbers as text (multipliers exceed what a double holds).
Status flatten(const Json& json, const std::string& what, std::vector<uint64_t>& out) {
  if (json.is_array()) {
    for (const Json& item : json) DI_RETURN_IF_ERROR(flatten(item, what, out));
  } else if (json.is_number_unsigned()) {
    out.push_back(json.get<uint64_t>());
  } else if (json.is_string() && !json.get_ref<const std::string&>().empty() &&
             json.get_ref<const std::string&>().size() < 20 &&
             json.get_ref<const std::string&>().find_first_not_of("0123456789") == std::string::npos) {
    out.push_back(std::stoull(json.get_ref<const std::string&>()));
  } else {
    return invalid("{}: accepted are whole numbers and lists of them", what);
  }
  return {};
}

Status per_layer(const Json& json, const std::string& path, const char* field, int64_t layers, int64_t count,
                 std::vector<std::vector<uint64_t>>& out) {
  const std::string what = path + ": field '" + field + "'";
  if (!json.contains(field) || !json[field].is_array() || json[field].size() != static_cast<size_t>(layers)) {
    return invalid("{}: accepted is a list of {} layers", what, layers);
  }
  for (const Json& layer : json[field]) {
    DI_RETURN_IF_ERROR(flatten(layer, what, out.emplace_back()));
    if (out.back().size() != static_cast<size_t>(count))
      return invalid("{}: has {} numbers a layer, accepted is {}", what, out.back().size(), count);
  }
  return {};
}

Result<HashConstants> read_constants(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return invalid("{}: is not a JSON object", path);
  HashConstants c;
  const auto number = [&](const char* field, int64_t highest, auto& out) -> Status {
    if (!json.contains(field) || !json[field].is_number_unsigned() ||
        json[field].get<uint64_t>() > static_cast<uint64_t>(highest)) {
      return invalid("{}: field '{}': accepted is a whole number up to {}", path, field, highest);
    }
    out = json[field].get<std::remove_reference_t<decltype(out)>>();
    return {};
  };
  DI_RETURN_IF_ERROR(number("max_ngram_size", 16, c.max_ngram));
  DI_RETURN_IF_ERROR(number("n_heads", 1024, c.heads));
  DI_RETURN_IF_ERROR(number("compressed_pad_id", 1 << 30, c.pad_class));
  DI_RETURN_IF_ERROR(number("compressed_vocab_size", 1 << 30, c.classes));
  if (c.max_ngram < 2 || c.heads < 1)
    return invalid("{}: max_ngram_size {} and n_heads {}, accepted are at least 2 and 1", path, c.max_ngram, c.heads);
  std::vector<uint64_t> layers;
  if (!json.contains("layer_ids")) return invalid("{}: has no field 'layer_ids'", path);
  DI_RETURN_IF_ERROR(flatten(json["layer_ids"], path + ": field 'layer_ids'", layers));
  c.layers = static_cast<int64_t>(layers.size());
  const int64_t columns = (c.max_ngram - 1) * c.heads;
  DI_RETURN_IF_ERROR(per_layer(json, path, "multipliers", c.layers, c.max_ngram, c.multipliers));
  DI_RETURN_IF_ERROR(per_layer(json, path, "primes", c.layers, columns, c.primes));
  DI_RETURN_IF_ERROR(per_layer(json, path, "offsets", c.layers, columns, c.offsets));
  for (const std::vector<uint64_t>& primes : c.primes) {
    if (std::count(primes.begin(), primes.end(), 0u) > 0) return invalid("{}: a prime of 0", path);
  }
  return c;
}

}  // namespace

Status check_engram_hash(const KernelChecks& checks, const std::string& constants_path) {
  const VectorFile& file = checks.file;
  DI_ASSIGN_OR_RETURN(const HashConstants c, read_constants(constants_path));
  const int64_t columns = (c.max_ngram - 1) * c.heads, tail = c.max_ngram - 1;
  for (const std::string& prefix : file.prefixes("compressed_ids")) {
    const std::string name = checks.case_name(prefix.empty() ? "hash" : prefix + "hash");
    if (!checks.reporter.wants(name)) continue;
    Vector ids, hash;
    DI_RETURN_IF_ERROR(file.take(prefix + "compressed_ids", DType::i32, {-1, -1}, ids));
    const int64_t sequences = ids.dim(0), length = ids.dim(1);
    DI_RETURN_IF_ERROR(file.take(prefix + "hash", DType::i64, {sequences, length, c.layers, columns}, hash));
    // Every sequence is a run of its own, with nothing before it.
    std::vector<int32_t> classes;
    std::vector<const int32_t*> starts;
    std::vector<RunView> runs;
    for (int64_t s = 0; s < sequences; ++s) {
      classes.insert(classes.end(), static_cast<size_t>(tail), -2);
      classes.insert(classes.end(), ids.as<int32_t>() + s * length, ids.as<int32_t>() + (s + 1) * length);
      runs.push_back({0, s * length, length, 0});
    }
    for (int64_t s = 0; s < sequences; ++s) starts.push_back(classes.data() + s * (tail + length) + tail);
    for (int64_t i = 0; i < sequences * length; ++i) {
      const int32_t id = ids.as<int32_t>()[i];
      if (id < -1 || id >= c.classes)
        return invalid("{}: '{}compressed_ids' element {} is {}, accepted is -1 to {}", file.stem(), prefix, i, id,
                       c.classes - 1);
    }
    int64_t different = 0;
    for (int64_t layer = 0; layer < c.layers; ++layer) {
      const auto l = static_cast<size_t>(layer);
      std::vector<int64_t> got(static_cast<size_t>(sequences * length * columns));
      checks.kernels.engram_hash(checks.context, {starts.data(), runs.data(), sequences, c.max_ngram, c.heads,
                                                  c.multipliers[l].data(), c.primes[l].data(), c.offsets[l].data(),
                                                  c.pad_class, rows_of(got.data(), sequences * length, columns)});
      for (int64_t i = 0; i < sequences * length; ++i) {
        for (int64_t column = 0; column < columns; ++column) {
          different += got[static_cast<size_t>(i * columns + column)] !=
                       hash.as<int64_t>()[(i * c.layers + layer) * columns + column];
        }
      }
    }
    checks.at_most(name, "ids: elements that differ", static_cast<double>(different), 0);
  }
  return {};
}

}  // namespace deepinfer
