// Conversions, quantisers and matrix products.
#include <algorithm>
#include <cfenv>
#include <cmath>

#include "verify/kernel_vectors.h"

namespace deepinfer {
namespace {

// The conversions are compared in the machine's own floating-point mode: golden inputs reach below 2^-126 / 448, which no kernel does.
class PlainFloatMode {
 public:
  PlainFloatMode() { std::fegetenv(&saved_), std::fesetenv(FE_DFL_ENV); }
  ~PlainFloatMode() { std::fesetenv(&saved_); }
  PlainFloatMode(const PlainFloatMode&) = delete;
  PlainFloatMode& operator=(const PlainFloatMode&) = delete;

 private:
  std::fenv_t saved_;
};

bool same_number(float a, float b) { return float_to_bits(a) == float_to_bits(b) || (a != a && b != b); }

// Arguments of a norm that changes nothing: with eps = 4^k far above the mean square, rsqrt is 2^-k, and the weight 2^(k + shift) takes
// both that and the shift of the input back, exactly. There is no such k for rows near the ends of the range.
struct IdentityNorm {
  std::vector<bf16> x, weight;
  float eps = 0;
};
bool identity_norm(const bf16* row, int64_t d, IdentityNorm& norm) {
  double amax = 0, amin = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < d; ++i) {
    const double a = std::fabs(static_cast<double>(to_float(row[i])));
    amax = std::max(amax, a);
    if (a > 0) amin = std::min(amin, a);
  }
  const int top = amax > 0 ? std::ilogb(amax) + 1 : -60;
  const int shift = std::max(0, top - 40), k = std::max(top - shift + 13, -63);
  if (k > 63 || k + shift > 127 || (amax > 0 && std::ilogb(amin) - shift - std::max(k, 0) < -126)) return false;
  norm.eps = std::ldexp(1.0f, 2 * k);
  norm.weight.assign(static_cast<size_t>(d), to_bf16(std::ldexp(1.0f, k + shift)));
  norm.x.clear();
  for (int64_t i = 0; i < d; ++i) norm.x.push_back(to_bf16(std::ldexp(to_float(row[i]), -shift)));
  return true;
}

}  // namespace

Status check_conversions(const KernelChecks& checks) {
  const std::string& name = checks.file.stem();
  if (!checks.reporter.wants(name)) return {};
  const PlainFloatMode mode;
  const auto count = [&](const char* quantity, int64_t n, auto&& equal) {
    int64_t different = 0;
    for (int64_t i = 0; i < n; ++i) different += !equal(i);
    checks.at_most(name, std::string(quantity) + ": elements that differ", static_cast<double>(different), 0);
  };
  Vector in, out;
  DI_RETURN_IF_ERROR(checks.file.take("e4m3_decode", DType::f32, {256}, out));
  count("e4m3_decode", 256,
        [&](int64_t i) { return same_number(e4m3_to_float(static_cast<uint8_t>(i)), out.as<float>()[i]); });
  DI_RETURN_IF_ERROR(checks.file.take("e8m0_decode", DType::f32, {256}, out));
  count("e8m0_decode", 256,
        [&](int64_t i) { return same_number(e8m0_to_float(static_cast<uint8_t>(i)), out.as<float>()[i]); });
  DI_RETURN_IF_ERROR(checks.file.take("e2m1_decode", DType::f32, {16}, out));
  count("e2m1_decode", 16,
        [&](int64_t i) { return same_number(e2m1_to_float(static_cast<uint8_t>(i)), out.as<float>()[i]); });

  DI_RETURN_IF_ERROR(checks.file.take("e4m3_in", DType::f32, {-1}, in));
  DI_RETURN_IF_ERROR(checks.file.take("e4m3_out", DType::f8_e4m3, {in.dim(0)}, out));
  count("e4m3_out", in.dim(0), [&](int64_t i) { return to_e4m3(in.as<float>()[i]) == out.as<uint8_t>()[i]; });
  DI_RETURN_IF_ERROR(checks.file.take("e2m1_in", DType::f32, {-1}, in));
  DI_RETURN_IF_ERROR(checks.file.take("e2m1_out", DType::u8, {in.dim(0)}, out));
  count("e2m1_out", in.dim(0), [&](int64_t i) { return to_e2m1(in.as<float>()[i]) == out.as<uint8_t>()[i]; });
  DI_RETURN_IF_ERROR(checks.file.take("bf16_in", DType::f32, {-1}, in));
  DI_RETURN_IF_ERROR(checks.file.take("bf16_out", DType::bf16, {in.dim(0)}, out));
  count("bf16_out", in.dim(0), [&](int64_t i) { return to_bf16(in.as<float>()[i]) == out.as<bf16>()[i]; });
  DI_RETURN_IF_ERROR(checks.file.take("pow2_in", DType::f32, {-1}, in));
  for (const auto& [tensor, inverse] : {std::pair{"pow2_inv448_byte", kInverse448}, {"pow2_inv6_byte", kInverse6}}) {
    DI_RETURN_IF_ERROR(checks.file.take(tensor, DType::u8, {in.dim(0)}, out));
    count(tensor, in.dim(0), [&, inverse = inverse](int64_t i) {
      return pow2_scale_byte(in.as<float>()[i], inverse) == out.as<uint8_t>()[i];
    });
  }
  return {};
}

namespace {

// What the three quantisers have in common: golden x, codes, scales and fake-quantised y.
struct Quantized {
  Vector x, codes, scale, y;
  int64_t rows = 0, d = 0;
};
Status take_quantized(const VectorFile& file, const std::string& prefix, const char* codes, DType code_type,
                      int64_t per_byte, DType scale_type, int64_t block, Quantized& q) {
  DI_RETURN_IF_ERROR(file.take(prefix + "x", DType::bf16, {-1, -1}, q.x));
  q.rows = q.x.dim(0), q.d = q.x.dim(1);
  if (q.d % 32 != 0) return invalid("{}: '{}x' has {} columns, accepted is a multiple of 32", file.stem(), prefix, q.d);
  DI_RETURN_IF_ERROR(file.take(prefix + codes, code_type, {q.rows, q.d / per_byte}, q.codes));
  DI_RETURN_IF_ERROR(file.take(prefix + "scale", scale_type, {q.rows, q.d / block}, q.scale));
  return file.take(prefix + "y", DType::bf16, {q.rows, q.d}, q.y);
}

// Golden stored rows: codes, then scales, as the state holds them.
std::vector<std::byte> stored_row(const Quantized& q, int64_t r) {
  const int64_t codes = q.codes.dim(1), scales = q.scale.dim(1);
  std::vector<std::byte> row(q.codes.data + r * codes, q.codes.data + (r + 1) * codes);
  row.insert(row.end(), q.scale.data + r * scales, q.scale.data + (r + 1) * scales);
  return row;
}

// Compares stored rows made by `store(x, weight, eps, out)` of one normalised row with the golden ones, where the norm can be passed.
template <typename Store>
void check_stored(const KernelChecks& checks, const std::string& name, const Quantized& q, int64_t row_bytes,
                  Store store) {
  int64_t different = 0, passed = 0;
  for (int64_t r = 0; r < q.rows; ++r) {
    IdentityNorm norm;
    if (!identity_norm(q.x.as<bf16>() + r * q.d, q.d, norm)) continue;
    std::vector<std::byte> row(static_cast<size_t>(row_bytes));
    store(norm, row.data());
    const std::vector<std::byte> want = stored_row(q, r);
    for (size_t i = 0; i < want.size(); ++i) different += row[i] != want[i];
    ++passed;
  }
  checks.at_most(name, "codes and scales: bytes that differ", static_cast<double>(different), 0);
  if (passed < q.rows) {
    checks.reporter.skip(
        fmt::format("{}: codes of {} of {} rows", name, q.rows - passed, q.rows),
        "their squares exceed float32, so they cannot pass the norm before the stored row; their values are compared");
  }
}

}  // namespace

Status check_quantizers(const KernelChecks& checks) {
  const VectorFile& file = checks.file;
  for (const std::string& prefix : file.prefixes(".x")) {
    const std::string name = checks.case_name(prefix);
    if (!checks.reporter.wants(name)) continue;
    Quantized q;
    std::vector<bf16> y;
    if (file.has(prefix + "q")) {  // act_quant
      DI_RETURN_IF_ERROR(take_quantized(file, prefix, "q", DType::f8_e4m3, 1, DType::f8_e8m0, 32, q));
      y.resize(static_cast<size_t>(q.rows * q.d));
      checks.kernels.act_quant(checks.context, {rows_of(q.x.as<bf16>(), q.rows, q.d), rows_of(y.data(), q.rows, q.d)});
      check_stored(checks, name, q, window_row_bytes(q.d), [&](const IdentityNorm& norm, std::byte* out) {
        checks.kernels.window_rows(
            checks.context, {rows_of(norm.x.data(), 1, q.d), norm.weight.data(), norm.eps, nullptr, nullptr, 0, out});
      });
    } else {
      Vector scale;
      const bool block32 = file.take(prefix + "scale", DType::f8_e8m0, {-1, -1}, scale).ok();
      DI_RETURN_IF_ERROR(take_quantized(file, prefix, "codes", DType::i8, 2, block32 ? DType::f8_e8m0 : DType::f8_e4m3,
                                        block32 ? 32 : 16, q));
      const int64_t position = 0;
      const std::vector<bf16> other(32, to_bf16(1.0f));  // the row that is not looked at
      std::vector<std::byte> other_row(static_cast<size_t>(compressed_row_bytes(32) + index_row_bytes(32)));
      std::byte* other_out = other_row.data();
      if (block32) {
        y.assign(q.x.as<bf16>(), q.x.as<bf16>() + q.rows * q.d);
        checks.kernels.rope(checks.context, {rows_of(y.data(), q.rows, q.d), q.d, nullptr, nullptr, 0, false, true});
        check_stored(checks, name, q, index_row_bytes(q.d), [&](const IdentityNorm& norm, std::byte* out) {
          checks.kernels.compress_rows(
              checks.context, {rows_of(other.data(), 1, 32), rows_of(norm.x.data(), 1, q.d), norm.weight.data(),
                               norm.eps, &position, nullptr, 0, &other_out, &out});
        });
      } else {
        int64_t different = 0;
        for (int64_t r = 0; r < q.rows; ++r) {
          std::vector<std::byte> row(static_cast<size_t>(compressed_row_bytes(q.d)));
          std::byte* out = row.data();
          checks.kernels.compress_rows(checks.context, {{q.x.as<bf16>() + r * q.d, 1, q.d, q.d},
                                                        rows_of(other.data(), 1, 32),
                                                        other.data(),
                                                        1e-20f,
                                                        &position,
                                                        nullptr,
                                                        0,
                                                        &out,
                                                        &other_out});
          const std::vector<std::byte> want = stored_row(q, r);
          for (size_t i = 0; i < want.size(); ++i) different += row[i] != want[i];
          for (int64_t i = 0; i < q.d; ++i) {
            const auto pair = static_cast<uint8_t>(row[static_cast<size_t>(i / 2)]),
                       code = static_cast<uint8_t>(pair >> (i % 2 * 4) & 15);
            const auto row_scale = static_cast<uint8_t>(row[static_cast<size_t>(q.d / 2 + i / 16)]);
            y.push_back(to_bf16(e2m1_to_float(code) * e4m3_to_float(row_scale)));
          }
        }
        checks.at_most(name, "codes and scales: bytes that differ", static_cast<double>(different), 0);
      }
    }
    checks.all_equal(name, "y", y.data(), q.y.data, q.rows * q.d, sizeof(bf16));
  }
  return {};
}

Status check_gemm(const KernelChecks& checks) {
  const VectorFile& file = checks.file;
  Bf16Tally golden, exact_tally;
  for (const std::string& prefix : file.prefixes(".x")) {
    const std::string name = checks.case_name(prefix);
    if (!checks.reporter.wants(name)) continue;
    Vector x, a, a_scale, b, b_scale, c, exact;
    DI_RETURN_IF_ERROR(file.take(prefix + "x", DType::bf16, {-1, -1}, x));
    const int64_t m = x.dim(0), k = x.dim(1);
    if (k % 32 != 0) return invalid("{}: '{}x' has {} columns, accepted is a multiple of 32", file.stem(), prefix, k);
    DI_RETURN_IF_ERROR(file.take(prefix + "a", DType::f8_e4m3, {m, k}, a));
    DI_RETURN_IF_ERROR(file.take(prefix + "a_scale", DType::f8_e8m0, {m, k / 32}, a_scale));
    DI_RETURN_IF_ERROR(file.take(prefix + "c", DType::bf16, {m, -1}, c));
    const int64_t n = c.dim(1);
    DI_RETURN_IF_ERROR(file.take(prefix + "exact", DType::f32, {m, n}, exact));
    const bool fp8 = file.take(prefix + "b", DType::f8_e4m3, {n, k}, b).ok();
    if (!fp8) DI_RETURN_IF_ERROR(file.take(prefix + "b", DType::i8, {n, k / 2}, b));
    DI_RETURN_IF_ERROR(file.take(prefix + "b_scale", DType::f8_e8m0, {fp8 ? (n + 31) / 32 : n, k / 32}, b_scale));

    std::vector<bf16> xq(static_cast<size_t>(m * k)), want(xq.size()), out(static_cast<size_t>(m * n)),
        rounded(out.size());
    checks.kernels.act_quant(checks.context, {rows_of(x.as<bf16>(), m, k), rows_of(xq.data(), m, k)});
    for (int64_t i = 0; i < m * k; ++i) {
      want[static_cast<size_t>(i)] =
          to_bf16(e4m3_to_float(a.as<uint8_t>()[i]) * e8m0_to_float(a_scale.as<uint8_t>()[i / 32]));
    }
    checks.all_equal(name, "a", xq.data(), want.data(), m * k, sizeof(bf16));
    const Matrix w{fp8 ? WeightKind::fp8_tile : WeightKind::fp4_row, b.data, b_scale.as<uint8_t>(), n, k};
    checks.kernels.linear(checks.context, {rows_of<const bf16>(xq.data(), m, k), w, rows_of(out.data(), m, n), {}});
    for (int64_t i = 0; i < m * n; ++i) rounded[static_cast<size_t>(i)] = to_bf16(exact.as<float>()[i]);
    checks.bf16_close(name, "c", out.data(), c.as<bf16>(), m * n, golden);
    checks.bf16_close(name, "c against bf16(exact)", out.data(), rounded.data(), m * n, exact_tally);
  }
  if (golden.total() > 0) {
    checks.bf16_share("c", golden);
    checks.bf16_share("c against bf16(exact)", exact_tally);
  }
  return {};
}

}  // namespace deepinfer
