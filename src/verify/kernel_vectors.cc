#include "verify/kernel_vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace deepinfer {

int64_t Vector::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Result<VectorFile> VectorFile::open(const std::string& dir, const std::string& stem) {
  VectorFile out;
  DI_ASSIGN_OR_RETURN(out.file_, SafetensorsFile::open(dir + "/" + stem + ".safetensors"));
  out.stem_ = stem;
  return out;
}

Status VectorFile::take(const std::string& name, DType dtype, const std::vector<int64_t>& shape, Vector& out) const {
  const TensorView* tensor = file_.find(name);
  if (tensor == nullptr) return error(Code::not_found, "{}: has no tensor '{}'", file_.path(), name);
  if (tensor->dtype != dtype) {
    return invalid("{}: tensor '{}' is {}, accepted is {}", file_.path(), name, dtype_name(tensor->dtype),
                   dtype_name(dtype));
  }
  bool same = tensor->shape.size() == shape.size();
  for (size_t i = 0; same && i < shape.size(); ++i) {
    same = tensor->shape[i] >= 1 && (shape[i] < 0 || tensor->shape[i] == shape[i]);
  }
  if (!same) {
    return invalid("{}: tensor '{}' has the shape [{}], accepted is [{}] (-1: any)", file_.path(), name,
                   fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
  }
  out = {tensor->data, tensor->shape};
  return {};
}

std::vector<std::string> VectorFile::prefixes(const std::string& suffix) const {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : file_.tensors()) {
    if (name.ends_with(suffix)) out.push_back(name.substr(0, name.size() - suffix.size() + (suffix.front() == '.')));
  }
  return out;
}

namespace {

// Neighbouring bf16 numbers have neighbouring keys; both zeros are 0.
int32_t grid_position(bf16 x) {
  const int32_t magnitude = x.bits & 0x7FFF;
  return (x.bits & 0x8000) != 0 ? -magnitude : magnitude;
}
bool is_nan(bf16 x) { return (x.bits & 0x7FFF) > 0x7F80; }

}  // namespace

void Bf16Tally::add(bf16 got, bf16 want) {
  ++total_;
  if (is_nan(got) && is_nan(want)) return;
  if (is_nan(got) || is_nan(want)) {
    ++different_;
    worst_ = std::numeric_limits<double>::infinity();
    return;
  }
  const int32_t steps = std::abs(grid_position(got) - grid_position(want));
  different_ += steps != 0;
  worst_ = std::max(worst_, static_cast<double>(steps));
}

std::string KernelChecks::case_name(const std::string& prefix) const {
  if (prefix.empty()) return file.stem();
  return file.stem() + "/" + (prefix.ends_with('.') ? prefix.substr(0, prefix.size() - 1) : prefix);
}

void KernelChecks::at_most(const std::string& case_name, const std::string& quantity, double value,
                           double limit) const {
  reporter.row({case_name, "2", quantity, value, limit, value <= limit});
}

void KernelChecks::largest_difference(const std::string& case_name, const std::string& quantity, const float* got,
                                      const float* want, int64_t count, double limit) const {
  double worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double difference = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    worst = difference >= 0 ? std::max(worst, difference) : std::numeric_limits<double>::infinity();
  }
  at_most(case_name, quantity + ": largest difference", worst, limit);
}

void KernelChecks::all_equal(const std::string& case_name, const std::string& quantity, const void* got,
                             const void* want, int64_t count, size_t element_bytes) const {
  int64_t different = 0;
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i) * element_bytes;
    different += std::memcmp(static_cast<const std::byte*>(got) + at, static_cast<const std::byte*>(want) + at,
                             element_bytes) != 0;
  }
  at_most(case_name, quantity + ": elements that differ", static_cast<double>(different), 0);
}

void KernelChecks::bf16_close(const std::string& case_name, const std::string& quantity, const bf16* got,
                              const bf16* want, int64_t count, Bf16Tally& tally) const {
  Bf16Tally own;
  for (int64_t i = 0; i < count; ++i) own.add(got[i], want[i]), tally.add(got[i], want[i]);
  at_most(case_name, quantity + ": largest distance, bf16 ulp", own.worst_ulps(), 1);
}

void KernelChecks::bf16_share(const std::string& quantity, const Bf16Tally& tally) const {
  at_most(file.stem(), quantity + ": share of elements that differ", tally.share(), 0.001);
}

Status window_rows_of(const Vector& values, const std::string& what, std::vector<std::byte>& rows) {
  const int64_t d = values.shape.back(), count = values.elements() / d;
  if (d % 32 != 0) return invalid("{}: rows of {} values, accepted is a multiple of 32", what, d);
  rows.assign(static_cast<size_t>(count * window_row_bytes(d)), std::byte{0});
  for (int64_t b = 0; b < count * d / 32; ++b) {
    const bf16* x = values.as<bf16>() + b * 32;
    float amax = 1e-4f;
    for (int i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(to_float(x[i])));
    const uint8_t scale = pow2_scale_byte(amax, kInverse448);
    std::byte* row = rows.data() + b / (d / 32) * window_row_bytes(d);
    const int64_t block = b % (d / 32);
    row[d + block] = std::byte{scale};
    for (int i = 0; i < 32; ++i) {
      const uint8_t code = to_e4m3(to_float(x[i]) / e8m0_to_float(scale));
      if (e4m3_to_float(code) * e8m0_to_float(scale) != to_float(x[i])) {
        return invalid("{}: element {} does not lie on the grid of act_quant", what, b * 32 + i);
      }
      row[block * 32 + i] = std::byte{code};
    }
  }
  return {};
}

Status index_key_rows_of(const Vector& values, const std::string& what, std::vector<std::byte>& rows) {
  const int64_t d = values.shape.back(), count = values.elements() / d;
  if (d % 32 != 0) return invalid("{}: rows of {} values, accepted is a multiple of 32", what, d);
  rows.assign(static_cast<size_t>(count * index_row_bytes(d)), std::byte{0});
  for (int64_t b = 0; b < count * d / 32; ++b) {
    const bf16* x = values.as<bf16>() + b * 32;
    float amax = 6 * 0x1p-126f;
    for (int i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(to_float(x[i])));
    const uint8_t scale = pow2_scale_byte(amax, kInverse6);
    std::byte* row = rows.data() + b / (d / 32) * index_row_bytes(d);
    const int64_t block = b % (d / 32);
    row[d / 2 + block] = std::byte{scale};
    for (int i = 0; i < 32; ++i) {
      const uint8_t code = to_e2m1(to_float(x[i]) / e8m0_to_float(scale));
      if (e2m1_to_float(code) * e8m0_to_float(scale) != to_float(x[i])) {
        return invalid("{}: element {} does not lie on the grid of fp4_block32", what, b * 32 + i);
      }
      row[(block * 32 + i) / 2] |= std::byte{code} << (i % 2 * 4);
    }
  }
  return {};
}

}  // namespace deepinfer
