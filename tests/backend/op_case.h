// The list of operation cases: inputs at several shapes, one place for every property that each table of kernels must have.
//
// A case is a function from (kernels, a range of units) to output buffers. A unit is what must not influence its neighbours: a token, a pair,
// a row, or a run. properties.h says what is then asked of every case and table.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backend/kernels.h"
#include "base/random.h"
#include "base/threads.h"

namespace deepinfer::optest {

// A Context with its own threads and scratch; far more scratch than any case takes, and filled with not-a-number bytes.
class Machine {
 public:
  explicit Machine(int threads);
  Context& context() { return context_; }
  // An op must leave the arena as it found it.
  int64_t arena_mark() const { return arena_.mark(); }

 private:
  ThreadPool pool_;
  std::vector<std::byte> memory_, scratch_;
  Arena arena_;
  Context context_;
};

enum class Kind : uint8_t { bf16, f32, i32, i64, bytes };
int64_t kind_bytes(Kind kind);

// One output of a case: `rows` x `cols` elements with a gap after each row and guards around, poisoned before the run.
class Output {
 public:
  // How (and whether) it is compared with the reference's.
  enum class Compare : uint8_t {
    exact,    // bit for bit
    bounded,  // by OpCase::bound, plus one unit of the last place for bf16; and `min_equal` of the elements bit for bit
    related,  // not at all: OpCase::check says what it must be, given other outputs
  };

  Output(std::string name, Kind kind, int64_t rows, int64_t cols, Compare compare);

  template <typename T>
  Rows<T> rows_from(int64_t first, int64_t count) {
    return {reinterpret_cast<T*>(row(first)), count, cols, stride};
  }
  template <typename T>
  Rows<T> all() {
    return rows_from<T>(0, rows);
  }
  // For outputs that the contracts want dense (no stride): built with a gap of zero.
  std::byte* row(int64_t r) { return storage.data() + guard_bytes() + r * stride * kind_bytes(kind); }
  const std::byte* row(int64_t r) const { return const_cast<Output*>(this)->row(r); }
  template <typename T>
  T at(int64_t r, int64_t c) const {
    T value;
    std::memcpy(&value, row(r) + c * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  // bf16 and f32 elements.
  double value(int64_t r, int64_t c) const;
  bool same_row(const Output& other, int64_t r) const;
  // The first byte outside rows [begin, end) that is not poison any more, as text; empty if there is none.
  std::string touched_outside(int64_t begin, int64_t end) const;

  static Output dense(std::string name, Kind kind, int64_t rows, int64_t cols, Compare compare);

  std::string name;
  Kind kind;
  int64_t rows, cols, stride;
  Compare compare;
  int64_t rows_per_unit = 1;
  std::vector<int64_t> first_rows;  // of units 0 .. units, where units have unequal numbers of rows
  int64_t row_of_unit(int64_t unit) const {
    return first_rows.empty() ? unit * rows_per_unit : first_rows[static_cast<size_t>(unit)];
  }
  double min_equal = 0.99;
  std::vector<std::byte> storage;

 private:
  int64_t guard_bytes() const { return 4096; }
};

// A bounded float32 output: no share of equal elements is asked for, since the order of sums shows in the last bits.
inline Output float_output(std::string name, int64_t rows, int64_t cols) {
  Output out(std::move(name), Kind::f32, rows, cols, Output::Compare::bounded);
  out.min_equal = 0;
  return out;
}

using Outputs = std::vector<Output>;

struct OpCase {
  std::string op;
  std::string name;
  int64_t units = 0;
  std::function<Outputs()> make;
  // Computes units [begin, end) and writes their rows.
  std::function<void(const Kernels&, Context&, int64_t begin, int64_t end, Outputs&)> run;
  // The largest allowed difference from the reference's `want`, beyond one unit in the last place of a bf16 output: what float32 sums in any
  // order may lose. Null: zero.
  std::function<double(const Output& output, int64_t row, int64_t col, double want)> bound;
  // Further conditions on outputs and the reference's; the first violation, or empty.
  std::function<std::string(const Outputs& got, const Outputs& want)> compare;
  // Relations between the outputs of one table, and to other ops of the same table; the first violation, or empty.
  std::function<std::string(const Kernels&, Context&, const Outputs&)> check;
};

// Cases of one op (tests/backend/cases_*.cc). Built when asked for, so that a test holds one op's data only.
std::vector<OpCase> cases_of(const std::string& op);
const std::vector<std::string>& op_names();

std::vector<OpCase> linear_cases();
std::vector<OpCase> grouped_linear_cases();
std::vector<OpCase> act_quant_cases();
std::vector<OpCase> rms_norm_cases();
std::vector<OpCase> rope_table_cases();
std::vector<OpCase> rope_cases();
std::vector<OpCase> embed_cases();
std::vector<OpCase> hc_seam_cases();
std::vector<OpCase> window_rows_cases();
std::vector<OpCase> pool_pairs_cases();
std::vector<OpCase> compress_rows_cases();
std::vector<OpCase> ring_store_cases();
std::vector<OpCase> index_select_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> moe_gate_cases();
std::vector<OpCase> moe_experts_cases();
std::vector<OpCase> engram_hash_cases();
std::vector<OpCase> engram_gather_cases();
std::vector<OpCase> engram_write_cases();

// Inputs, as functions of a seed.
class Random {
 public:
  explicit Random(std::string_view name) : base_(fnv1a64(name)) {}
  uint64_t word() { return random_word(base_, next_++); }
  int64_t below(int64_t n) { return static_cast<int64_t>(word() % static_cast<uint64_t>(n)); }
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(word() >> 11) * 0x1p-53; }
  // Roughly normal, standard deviation 1, within +-6.
  double normal();
  bool chance(double p) { return uniform(0, 1) < p; }

  std::vector<bf16> bf16s(int64_t count, double scale);
  std::vector<float> floats(int64_t count, double scale);
  // Rows of very different size: a scale of 2^low .. 2^high per row; every seventh row zero.
  std::vector<bf16> wild_rows(int64_t rows, int64_t cols, int low, int high);
  std::vector<bf16> integers(int64_t count, int largest);
  std::vector<uint8_t> bytes(int64_t count);

 private:
  uint64_t base_;
  uint64_t next_ = 0;
};

// A weight with its bytes. Random codes without not-a-number; scale bytes in [low, high].
struct Weight {
  std::vector<bf16> dense;
  std::vector<uint8_t> codes, scales;
  Matrix matrix;
};
Weight random_weight(Random& random, WeightKind kind, int64_t n, int64_t k, int scale_low, int scale_high);
// Small integers, so that every sum is exact in float32 in any order.
Weight integer_weight(Random& random, WeightKind kind, int64_t n, int64_t k);

// One unit in the last place of a bf16 near x.
double bf16_ulp(double x);
// First element where two equally shaped outputs differ, as text; empty if they are equal.
std::string first_difference(const Output& a, const Output& b, int64_t first_row, int64_t end_row);
// As the test does for `bounded` outputs, for relations inside a case.
struct Closeness {
  double min_equal = 0.99;
  int64_t equal = 0, total = 0;
  std::string worst;
  void add(std::string_view what, int64_t row, int64_t col, double got, double want, double bound);
  std::string verdict() const;
};

}  // namespace deepinfer::optest
