#include "verify/compare.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/ops/quantize.h"

namespace deepinfer {
namespace {

// The value at a fraction of a sorted list.
double quantile(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(place);
  if (low + 1 >= sorted.size()) return sorted.back();
  return sorted[low] + (sorted[low + 1] - sorted[low]) * (place - static_cast<double>(low));
}

double log_sum_exp(const float* row, int64_t count) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<double>(row[i]));
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(row[i]) - largest);
  return largest + std::log(sum);
}

float e4m3_step(uint8_t code) {
  const int exponent = std::max((code & 0x7F) >> 3, 1);  // subnormals share the smallest normal's spacing
  return std::ldexp(1.0f, exponent - 10);
}

float e2m1_step(uint8_t code) { return (code & 7) >= 6 ? 2.0f : (code & 7) >= 4 ? 1.0f : 0.5f; }

}  // namespace

double row_error(const bf16* ours, const bf16* golden, int64_t count) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double a = to_float(ours[i]), b = to_float(golden[i]);
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  return std::sqrt(difference) / (std::isnan(norm) ? norm : std::max(std::sqrt(norm), 1e-30));
}

Spread spread(std::vector<double> errors) {
  if (errors.empty()) return {};
  for (const double e : errors) {
    if (std::isnan(e)) return {e, e, e};
  }
  std::sort(errors.begin(), errors.end());
  return {quantile(errors, 0.5), quantile(errors, 0.9), errors.back()};
}

void LayerErrors::add(int layer, std::vector<double> errors) {
  const Spread s = spread(std::move(errors));
  const std::string where = fmt::format("layer {}", layer);
  median.take(s.median, where);
  p90.take(s.p90, where);
  max.take(s.max, where);
}

double max_difference(const float* ours, const float* golden, int64_t count) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double d = std::fabs(static_cast<double>(ours[i]) - golden[i]);
    if (std::isnan(d)) return d;
    largest = std::max(largest, d);
  }
  return largest;
}

double bf16_steps(float ours, bf16 golden) {
  const auto place = [](float x) {
    const int32_t bits = static_cast<int32_t>(float_to_bits(x) >> 16);
    return (bits & 0x8000) != 0 ? -(bits & 0x7FFF) : bits;
  };
  const float other = to_float(golden);
  if (std::isnan(ours) || std::isnan(other)) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(ours) != std::isinf(other)) return 65536;
  return std::abs(place(ours) - place(other));
}

void LogitErrors::add(const float* ours, const float* golden, int64_t vocab) {
  const double ours_total = log_sum_exp(ours, vocab), golden_total = log_sum_exp(golden, vocab);
  double kl = 0;
  for (int64_t i = 0; i < vocab; ++i) {
    const double a = ours[i], b = golden[i];
    squares_ += (a - b) * (a - b);
    const double log_p = b - golden_total;
    kl += std::exp(log_p) * (log_p - (a - ours_total));
  }
  ++rows_;
  elements_ += vocab;
  kl_sum_ += kl;
  kl_max_ = std::isnan(kl) ? kl : std::max(kl_max_, kl);
  const int64_t best = argmax(golden, vocab);
  const bool same = argmax(ours, vocab) == best;
  argmax_.add(same);
  if (same) return;
  float second = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < vocab; ++i) {
    if (i != best) second = std::max(second, golden[i]);
  }
  lost_margin_ = std::max(lost_margin_, static_cast<double>(golden[best] - second));
}

double LogitErrors::rms() const { return elements_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(elements_)); }

int64_t argmax(const float* row, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i) {
    if (row[i] > row[best]) best = i;
  }
  return best;
}

void decode_stored_row(StoredRow kind, const std::byte* row, int64_t d, float* values, float* steps) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(row);
  for (int64_t i = 0; i < d; ++i) {
    if (kind == StoredRow::window) {
      const float scale = e8m0_to_float(bytes[d + i / 32]);
      values[i] = e4m3_to_float(bytes[i]) * scale;
      steps[i] = e4m3_step(bytes[i]) * scale;
      continue;
    }
    const auto code = static_cast<uint8_t>(i % 2 == 0 ? bytes[i / 2] & 0xF : bytes[i / 2] >> 4);
    const float scale =
        kind == StoredRow::compressed ? e4m3_to_float(bytes[d / 2 + i / 16]) : e8m0_to_float(bytes[d / 2 + i / 32]);
    values[i] = e2m1_to_float(code) * scale;
    steps[i] = e2m1_step(code) * scale;
  }
}

void encode_window_row(const bf16* values, int64_t d, std::byte* row) {
  auto* bytes = reinterpret_cast<uint8_t*>(row);
  for (int64_t b = 0; b < d; b += 32) {
    float largest = 1e-4f;
    for (int64_t i = b; i < b + 32; ++i) largest = std::max(largest, std::fabs(to_float(values[i])));
    bytes[d + b / 32] = pow2_scale_byte(largest, kInverse448);
    const float scale = e8m0_to_float(bytes[d + b / 32]);
    for (int64_t i = b; i < b + 32; ++i) bytes[i] = to_e4m3(to_float(values[i]) / scale);
  }
}

void CodeErrors::add_row(StoredRow kind, const std::byte* row, const bf16* golden, int64_t d) {
  std::vector<float> values(static_cast<size_t>(d)), steps(static_cast<size_t>(d));
  decode_stored_row(kind, row, d, values.data(), steps.data());
  for (int64_t i = 0; i < d; ++i) {
    // A scale one code apart moves its elements by less than a step of theirs.
    const float expected = to_float(golden[i]), value = values[static_cast<size_t>(i)];
    share.add(value == expected);
    beyond += !(std::fabs(value - expected) <= steps[static_cast<size_t>(i)]);
  }
}

}  // namespace deepinfer
