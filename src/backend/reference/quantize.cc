#include "backend/ops/quantize.h"

#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"

namespace deepinfer::reference {
namespace {

// The code whose value is nearest to |x| (the even code on ties, the largest beyond the end), with the sign bit of x. The values of
// codes 0, 1, .. ascend.
uint8_t nearest_code(double x, float (*value)(uint8_t), uint8_t last_code, uint8_t sign_bit) {
  const double a = std::fabs(x);
  uint8_t code = 0;
  while (code < last_code) {
    const double middle = (static_cast<double>(value(code)) + static_cast<double>(value(code + 1))) / 2;
    if (a < middle || (a == middle && code % 2 == 0)) break;
    ++code;
  }
  return std::signbit(x) ? code | sign_bit : code;
}
float e4m3_value(uint8_t code) { return e4m3_to_float(code); }
float e2m1_value(uint8_t code) { return e2m1_to_float(code); }
uint8_t nearest_e4m3(double x) { return nearest_code(x, e4m3_value, 0x7E, 0x80); }
uint8_t nearest_e2m1(double x) { return nearest_code(x, e2m1_value, 7, 8); }

float largest_magnitude(const bf16* x, int64_t count, float at_least) {
  float amax = at_least;
  for (int64_t i = 0; i < count; ++i) amax = std::max(amax, std::fabs(to_float(x[i])));
  return amax;
}

// E8M0 byte of the smallest power of two >= fl32(amax * inverse).
uint8_t pow2_byte(float amax, float inverse) {
  const float t = amax * inverse;
  uint8_t byte = 1;
  while (e8m0_value(byte) < static_cast<double>(t)) ++byte;
  return byte;
}

uint8_t byte_at(const std::byte* row, int64_t i) { return static_cast<uint8_t>(row[i]); }
void put_nibble(std::byte* row, int64_t i, uint8_t code) {
  const int shift = i % 2 == 0 ? 0 : 4;
  row[i / 2] = (row[i / 2] & ~(std::byte{15} << shift)) | (std::byte{code} << shift);
}
uint8_t nibble_at(const std::byte* row, int64_t i) {
  return i % 2 == 0 ? byte_at(row, i / 2) & 15u : byte_at(row, i / 2) >> 4;
}

}  // namespace

void encode_window_row(const bf16* x, int64_t d, std::byte* row) {
  for (int64_t b = 0; b < d / 32; ++b) {
    const uint8_t scale = pow2_byte(largest_magnitude(x + b * 32, 32, 1e-4f), kInverse448);
    row[d + b] = std::byte{scale};
    for (int64_t i = b * 32; i < b * 32 + 32; ++i)
      row[i] = std::byte{nearest_e4m3(as_double(x[i]) / e8m0_value(scale))};
  }
}

double window_value(const std::byte* row, int64_t d, int64_t i) {
  return static_cast<double>(e4m3_to_float(byte_at(row, i))) * e8m0_value(byte_at(row, d + i / 32));
}

void encode_index_key_row(const bf16* x, int64_t d, std::byte* row) {
  for (int64_t b = 0; b < d / 32; ++b) {
    const uint8_t scale = pow2_byte(largest_magnitude(x + b * 32, 32, 6 * 0x1p-126f), kInverse6);
    row[d / 2 + b] = std::byte{scale};
    for (int64_t i = b * 32; i < b * 32 + 32; ++i)
      put_nibble(row, i, nearest_e2m1(as_double(x[i]) / e8m0_value(scale)));
  }
}

double index_key_value(const std::byte* row, int64_t d, int64_t i) {
  return static_cast<double>(e2m1_to_float(nibble_at(row, i))) * e8m0_value(byte_at(row, d / 2 + i / 32));
}

void encode_compressed_row(const bf16* x, int64_t d, std::byte* row) {
  for (int64_t b = 0; b < d / 16; ++b) {
    const float amax = largest_magnitude(x + b * 16, 16, 6 * 0x1p-9f);
    const uint8_t scale = nearest_e4m3(static_cast<double>(amax / 6.0f));
    row[d / 2 + b] = std::byte{scale};
    for (int64_t i = b * 16; i < b * 16 + 16; ++i) {
      put_nibble(row, i, nearest_e2m1(static_cast<double>(to_float(x[i]) / e4m3_to_float(scale))));
    }
  }
}

double compressed_value(const std::byte* row, int64_t d, int64_t i) {
  return static_cast<double>(e2m1_to_float(nibble_at(row, i))) *
         static_cast<double>(e4m3_to_float(byte_at(row, d / 2 + i / 16)));
}

void act_quant(Context&, const ActQuantArgs& args) {
  const int64_t d = args.x.cols;
  std::vector<std::byte> row(static_cast<size_t>(window_row_bytes(d)));
  for (int64_t t = 0; t < args.x.rows; ++t) {
    encode_window_row(args.x.row(t), d, row.data());
    for (int64_t i = 0; i < d; ++i) args.out.row(t)[i] = round_to_bf16(window_value(row.data(), d, i));
  }
}

}  // namespace deepinfer::reference
