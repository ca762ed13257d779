// Measures of golden/README.md, "How to compare": spread of row errors, logits, sets with ties, codes of stored rows.
//
// A NaN anywhere makes a measure NaN, and a row with a NaN value fails. Everything is float64. Threading: values.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/ops/types.h"
#include "verify/golden_data.h"

namespace deepinfer {

// ||ours - golden|| / ||golden|| of one row.
double row_error(const bf16* ours, const bf16* golden, int64_t count);

struct Spread {
  double median = 0, p90 = 0, max = 0;
};
// Quantiles are interpolated between neighbours. Of no errors: zero.
Spread spread(std::vector<double> errors);

// The largest of values, and where it was. The first NaN stays.
struct Worst {
  double value = 0;
  std::string at;
  bool any = false;

  void take(double v, std::string_view where) {
    if (any && (std::isnan(value) || v <= value)) return;
    value = v;
    at = where;
    any = true;
  }
};

// Errors of rows, layer by layer; each statistic is the worst layer's.
struct LayerErrors {
  Worst median, p90, max;

  bool any() const { return median.any; }
  void add(int layer, std::vector<double> errors);
};

double max_difference(const float* ours, const float* golden, int64_t count);

// Differences in steps of bf16: 0 for equal values (zeros of both signs are), huge where only one is infinite.
double bf16_steps(float ours, bf16 golden);

// Equal elements of many.
struct Share {
  int64_t equal = 0, total = 0;

  void add(bool same) {
    equal += same;
    ++total;
  }
  double value() const { return total == 0 ? 1.0 : static_cast<double>(equal) / static_cast<double>(total); }
};

// Rows of logits against golden ones.
class LogitErrors {
 public:
  void add(const float* ours, const float* golden, int64_t vocab);

  int64_t rows() const { return rows_; }
  double rms() const;
  double kl_mean() const { return rows_ == 0 ? 0 : kl_sum_ / static_cast<double>(rows_); }
  double kl_max() const { return kl_max_; }
  double argmax_share() const { return argmax_.value(); }
  // The largest golden margin (top 1 - top 2) of a row whose argmax differs; 0 if none does.
  double lost_margin() const { return lost_margin_; }

 private:
  int64_t rows_ = 0, elements_ = 0;
  double squares_ = 0, kl_sum_ = 0, kl_max_ = 0, lost_margin_ = 0;
  Share argmax_;
};

int64_t argmax(const float* row, int64_t count);  // lowest index on ties

// A stored row of the state (backend/ops/quantize.h) as values, with the distance to each value's farther neighbour on
// its grid.
enum class StoredRow : uint8_t { window, compressed, index_key };
void decode_stored_row(StoredRow kind, const std::byte* row, int64_t d, float* values, float* steps);
// A window row that decodes to `values`, which must have come from one.
void encode_window_row(const bf16* values, int64_t d, std::byte* row);

// Elements of stored rows against golden ones: equal, or one code apart.
struct CodeErrors {
  Share share;
  int64_t beyond = 0;  // more than one code apart

  void add_row(StoredRow kind, const std::byte* row, const bf16* golden, int64_t d);
};

}  // namespace deepinfer
