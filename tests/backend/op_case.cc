#include "op_case.h"

#include <algorithm>
#include <cmath>

namespace deepinfer::optest {
namespace {

constexpr std::byte kPoison{0xA7};  // as a bf16 or float a small negative number, as an index out of every range
constexpr int64_t kArenaBytes = int64_t{8} << 20;
constexpr int64_t kThreadBytes = int64_t{1} << 20;

}  // namespace

Machine::Machine(int threads)
    : pool_(threads),
      memory_(static_cast<size_t>(kArenaBytes), std::byte{0xFF}),
      scratch_(static_cast<size_t>(kThreadBytes * threads), std::byte{0xFF}),
      arena_(memory_.data(), kArenaBytes),
      context_{&pool_, &arena_, scratch_.data(), kThreadBytes} {}

int64_t kind_bytes(Kind kind) {
  switch (kind) {
    case Kind::bf16:
      return 2;
    case Kind::f32:
    case Kind::i32:
      return 4;
    case Kind::i64:
      return 8;
    case Kind::bytes:
      return 1;
  }
  return 0;
}

Output::Output(std::string name_in, Kind kind_in, int64_t rows_in, int64_t cols_in, Compare compare_in)
    : name(std::move(name_in)), kind(kind_in), rows(rows_in), cols(cols_in), stride(cols_in + 24), compare(compare_in) {
  storage.assign(static_cast<size_t>(rows * stride * kind_bytes(kind) + 2 * guard_bytes()), kPoison);
}

Output Output::dense(std::string name, Kind kind, int64_t rows, int64_t cols, Compare compare) {
  Output out(std::move(name), kind, rows, cols, compare);
  out.stride = cols;
  return out;
}

double Output::value(int64_t r, int64_t c) const {
  return kind == Kind::bf16 ? static_cast<double>(to_float(at<bf16>(r, c))) : static_cast<double>(at<float>(r, c));
}

bool Output::same_row(const Output& other, int64_t r) const {
  return std::memcmp(row(r), other.row(r), static_cast<size_t>(cols * kind_bytes(kind))) == 0;
}

std::string Output::touched_outside(int64_t begin, int64_t end) const {
  const auto at_byte = [&](const std::byte* from, const std::byte* to) {
    return std::find_if(from, to, [](std::byte b) { return b != kPoison; }) != to;
  };
  const std::byte* first = storage.data();
  const std::byte* last = first + storage.size();
  if (at_byte(first, row(0))) return fmt::format("{}: bytes before the first row", name);
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* row_end = row(r) + cols * kind_bytes(kind);
    if ((r < begin || r >= end) && at_byte(row(r), row_end)) return fmt::format("{}: row {} of another unit", name, r);
    if (at_byte(row_end, row(r + 1))) return fmt::format("{}: bytes after row {}", name, r);
  }
  if (at_byte(row(rows), last)) return fmt::format("{}: bytes after the last row", name);
  return {};
}

std::string first_difference(const Output& a, const Output& b, int64_t first_row, int64_t end_row) {
  const int64_t size = kind_bytes(a.kind);
  for (int64_t r = first_row; r < end_row; ++r) {
    if (a.same_row(b, r)) continue;
    int64_t c = 0;
    while (std::memcmp(a.row(r) + c * size, b.row(r) + c * size, static_cast<size_t>(size)) == 0) ++c;
    uint64_t bits_a = 0, bits_b = 0;
    std::memcpy(&bits_a, a.row(r) + c * size, static_cast<size_t>(size));
    std::memcpy(&bits_b, b.row(r) + c * size, static_cast<size_t>(size));
    return fmt::format("{}[{}][{}]: bits {:#x} and {:#x}", a.name, r, c, bits_a, bits_b);
  }
  return {};
}

double Random::normal() {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += uniform(0, 1);
  return sum - 6;
}

std::vector<bf16> Random::bf16s(int64_t count, double scale) {
  std::vector<bf16> out(static_cast<size_t>(count));
  for (bf16& x : out) x = to_bf16(static_cast<float>(normal() * scale));
  return out;
}

std::vector<float> Random::floats(int64_t count, double scale) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = static_cast<float>(normal() * scale);
  return out;
}

std::vector<bf16> Random::wild_rows(int64_t rows, int64_t cols, int low, int high) {
  std::vector<bf16> out;
  for (int64_t r = 0; r < rows; ++r) {
    const double scale = r % 7 == 6 ? 0.0 : std::ldexp(1.0, low + static_cast<int>(below(high - low + 1)));
    for (int64_t c = 0; c < cols; ++c) {
      // Within a row most values are alike, some far smaller, some zero (of either sign).
      const double shrink = chance(0.1) ? std::ldexp(1.0, -static_cast<int>(below(30))) : 1.0;
      const double value = chance(0.05) ? (chance(0.5) ? 0.0 : -0.0) : normal() * scale * shrink;
      out.push_back(to_bf16(static_cast<float>(value)));
    }
  }
  return out;
}

std::vector<bf16> Random::integers(int64_t count, int largest) {
  std::vector<bf16> out(static_cast<size_t>(count));
  for (bf16& x : out) x = to_bf16(static_cast<float>(below(2 * largest + 1) - largest));
  return out;
}

std::vector<uint8_t> Random::bytes(int64_t count) {
  std::vector<uint8_t> out(static_cast<size_t>(count));
  for (uint8_t& x : out) x = static_cast<uint8_t>(word());
  return out;
}

namespace {

void finish_weight(Weight& weight, WeightKind kind, int64_t n, int64_t k) {
  weight.matrix = {kind, kind == WeightKind::bf16 ? static_cast<const void*>(weight.dense.data()) : weight.codes.data(),
                   weight.scales.data(), n, k};
}

int64_t scale_count(WeightKind kind, int64_t n, int64_t k) {
  if (kind == WeightKind::bf16) return 0;
  return kind == WeightKind::fp8_tile ? (n + 31) / 32 * (k / 32) : n * (k / 32);
}

}  // namespace

Weight random_weight(Random& random, WeightKind kind, int64_t n, int64_t k, int scale_low, int scale_high) {
  Weight weight;
  if (kind == WeightKind::bf16) {
    weight.dense = random.bf16s(n * k, std::ldexp(1.0, (scale_low + scale_high) / 2 - 127));
  } else {
    weight.codes = random.bytes(kind == WeightKind::fp8_tile ? n * k : n * k / 2);
    for (uint8_t& code : weight.codes) {
      if (kind == WeightKind::fp8_tile && (code & 0x7F) == 0x7F) code = 0x80;
    }
  }
  for (int64_t i = 0; i < scale_count(kind, n, k); ++i) {
    weight.scales.push_back(static_cast<uint8_t>(scale_low + random.below(scale_high - scale_low + 1)));
  }
  finish_weight(weight, kind, n, k);
  return weight;
}

Weight integer_weight(Random& random, WeightKind kind, int64_t n, int64_t k) {
  Weight weight;
  if (kind == WeightKind::bf16) {
    weight.dense = random.integers(n * k, 8);
  } else if (kind == WeightKind::fp8_tile) {
    for (int64_t i = 0; i < n * k; ++i) weight.codes.push_back(to_e4m3(static_cast<float>(random.below(17) - 8)));
  } else {
    weight.codes = random.bytes(n * k / 2);
  }
  for (int64_t i = 0; i < scale_count(kind, n, k); ++i)
    weight.scales.push_back(static_cast<uint8_t>(126 + random.below(4)));
  finish_weight(weight, kind, n, k);
  return weight;
}

double bf16_ulp(double x) {
  if (x == 0 || !std::isfinite(x)) return 0x1p-133;
  return std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7);
}

void Closeness::add(std::string_view what, int64_t row, int64_t col, double got, double want, double bound) {
  ++total;
  if (got == want || (std::isnan(got) && std::isnan(want))) {
    ++equal;
  } else if (!(std::fabs(got - want) <= bound) && worst.empty()) {
    worst = fmt::format("{}[{}][{}]: got {}, want {}, allowed difference {}", what, row, col, got, want, bound);
  }
}

std::string Closeness::verdict() const {
  if (!worst.empty()) return worst;
  // Few elements: two may differ however rare that is.
  if (static_cast<double>(total - equal) > std::max(2.0, (1 - min_equal) * static_cast<double>(total))) {
    return fmt::format("{} of {} elements are equal, fewer than {} of them", equal, total, min_equal);
  }
  return {};
}

std::vector<OpCase> cases_of(const std::string& op) {
  static const std::vector<std::pair<std::string, std::vector<OpCase> (*)()>> builders = {
      {"linear", linear_cases},
      {"grouped_linear", grouped_linear_cases},
      {"act_quant", act_quant_cases},
      {"rms_norm", rms_norm_cases},
      {"rope_table", rope_table_cases},
      {"rope", rope_cases},
      {"embed", embed_cases},
      {"hc_seam", hc_seam_cases},
      {"window_rows", window_rows_cases},
      {"pool_pairs", pool_pairs_cases},
      {"compress_rows", compress_rows_cases},
      {"ring_store", ring_store_cases},
      {"index_select", index_select_cases},
      {"attention", attention_cases},
      {"moe_gate", moe_gate_cases},
      {"moe_experts", moe_experts_cases},
      {"engram_hash", engram_hash_cases},
      {"engram_gather", engram_gather_cases},
      {"engram_write", engram_write_cases},
  };
  for (const auto& [name, builder] : builders) {
    if (name == op) return builder();
  }
  return {};
}

const std::vector<std::string>& op_names() {
  static const std::vector<std::string> names = {
      "linear",   "grouped_linear", "act_quant",   "rms_norm",      "rope_table",  "rope",         "embed",
      "hc_seam",  "window_rows",    "pool_pairs",  "compress_rows", "ring_store",  "index_select", "attention",
      "moe_gate", "moe_experts",    "engram_hash", "engram_gather", "engram_write"};
  return names;
}

}  // namespace deepinfer::optest
