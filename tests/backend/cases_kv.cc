#include <cmath>
#include <memory>

#include "backend/reference/reference.h"
#include "op_case.h"

// Rows of the sequence state. The stored bytes must be those of the smaller ops one after the other, exactly: rms_norm, rope, quantiser.
namespace deepinfer::optest {
namespace {

std::vector<float> frequencies(int64_t half) {
  std::vector<float> out;
  for (int64_t j = 0; j < half; ++j) {
    out.push_back(static_cast<float>(std::pow(160000.0, -static_cast<double>(j) / static_cast<double>(half))));
  }
  return out;
}

struct WindowData {
  int64_t rows, d, half;
  std::vector<bf16> kv, weight;
  std::vector<float> cos, sin;
};

}  // namespace

std::vector<OpCase> window_rows_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    int64_t rows, d, half;
    int low, high;
  };
  for (const Shape& s : {Shape{1, 128, 16, -3, 3},
                         {2, 96, 16, -20, 20},
                         {3, 512, 32, -3, 3},
                         {17, 64, 16, -40, 10},
                         {64, 128, 16, -3, 3},
                         {5, 32, 8, -3, 3},
                         {2, 64, 0, -3, 3}}) {
    const std::string name = fmt::format("t{}_d{}_half{}", s.rows, s.d, s.half);
    Random random(name);
    auto data = std::make_shared<WindowData>();
    data->rows = s.rows, data->d = s.d, data->half = s.half;
    data->kv = random.wild_rows(s.rows, s.d, s.low, s.high);
    data->weight = random.bf16s(s.d, 0.5);
    for (int64_t i = 0; i < s.rows * s.half; ++i) {
      const double angle = random.uniform(0, 6.3);
      data->cos.push_back(static_cast<float>(std::cos(angle)));
      data->sin.push_back(static_cast<float>(std::sin(angle)));
    }
    OpCase op;
    op.op = "window_rows";
    op.name = name;
    op.units = s.rows;
    op.make = [data] {
      return Outputs{
          Output::dense("rows", Kind::bytes, data->rows, window_row_bytes(data->d), Output::Compare::related)};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      kernels.window_rows(context, {{data->kv.data() + begin * data->d, end - begin, data->d, data->d},
                                    data->weight.data(),
                                    1e-20f,
                                    data->cos.data() + begin * data->half,
                                    data->sin.data() + begin * data->half,
                                    data->half,
                                    out[0].row(begin)});
    };
    op.check = [data](const Kernels& kernels, Context& context, const Outputs& out) {
      Output row("row", Kind::bf16, data->rows, data->d, Output::Compare::exact);
      kernels.rms_norm(context, {rows_of<const bf16>(data->kv.data(), data->rows, data->d),
                                 data->weight.data(),
                                 1e-20f,
                                 row.all<bf16>(),
                                 {}});
      kernels.rope(context, {row.all<bf16>(), data->d, data->cos.data(), data->sin.data(), data->half, false, false});
      Output want = Output::dense("rows", Kind::bytes, data->rows, window_row_bytes(data->d), Output::Compare::exact);
      for (int64_t t = 0; t < data->rows; ++t)
        reference::encode_window_row(row.all<bf16>().row(t), data->d, want.row(t));
      return first_difference(want, out[0], 0, data->rows);
    };
    cases.push_back(op);
  }
  return cases;
}

// Weights of at most 1, each after an exponential (1 ulp), a sum and a division; then two products and a sum.
std::vector<OpCase> pool_pairs_cases() {
  struct Data {
    int64_t pairs, d;
    std::vector<float> k, z;  // [pairs, 2, d]
    std::vector<const float*> k0, z0, k1, z1;
  };
  std::vector<OpCase> cases;
  struct Shape {
    int64_t pairs, d;
    double spread;
  };
  for (const Shape& s : {Shape{1, 128, 3}, {2, 96, 100}, {3, 512, 1}, {17, 48, 10}, {64, 64, 3}, {5, 16, 3}}) {
    const std::string name = fmt::format("p{}_d{}", s.pairs, s.d);
    Random random(name);
    auto data = std::make_shared<Data>();
    data->pairs = s.pairs, data->d = s.d;
    data->k = random.floats(s.pairs * 2 * s.d, 1);
    data->z = random.floats(s.pairs * 2 * s.d, s.spread);
    for (int64_t i = 0; i < s.d; ++i)
      data->z[static_cast<size_t>(s.d + i)] =
          i % 3 == 0 ? data->z[static_cast<size_t>(i)] : data->z[static_cast<size_t>(s.d + i)];
    for (int64_t p = 0; p < s.pairs; ++p) {
      data->k0.push_back(data->k.data() + p * 2 * s.d), data->k1.push_back(data->k0.back() + s.d);
      data->z0.push_back(data->z.data() + p * 2 * s.d), data->z1.push_back(data->z0.back() + s.d);
    }
    OpCase op;
    op.op = "pool_pairs";
    op.name = name;
    op.units = s.pairs;
    op.make = [data] { return Outputs{Output("out", Kind::bf16, data->pairs, data->d, Output::Compare::bounded)}; };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      kernels.pool_pairs(
          context, {end - begin, data->d, data->k0.data() + begin, data->z0.data() + begin, data->k1.data() + begin,
                    data->z1.data() + begin, out[0].rows_from<bf16>(begin, end - begin)});
    };
    op.bound = [data](const Output&, int64_t p, int64_t i, double) {
      const auto at = [&](int64_t token) {
        return std::fabs(static_cast<double>(data->k[static_cast<size_t>((p * 2 + token) * data->d + i)]));
      };
      return 8 * 0x1p-24 * (at(0) + at(1));
    };
    cases.push_back(op);
  }
  return cases;
}

namespace {

struct CompressData {
  int64_t rows, d, key_d, half;
  std::vector<bf16> latent, key, weight;
  std::vector<int64_t> positions;
  std::vector<float> frequencies;
};

}  // namespace

std::vector<OpCase> compress_rows_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    int64_t rows, d, key_d, half, ratio;
    int low, high;
  };
  for (const Shape& s : {Shape{1, 128, 64, 16, 2, -3, 3},
                         {2, 96, 96, 16, 1, -20, 20},
                         {3, 512, 128, 32, 2, -3, 3},
                         {17, 64, 64, 16, 1, -12, 6},
                         {64, 128, 64, 16, 2, -3, 3},
                         {5, 32, 32, 0, 1, -3, 12}}) {
    const std::string name = fmt::format("r{}_d{}_key{}_half{}", s.rows, s.d, s.key_d, s.half);
    Random random(name);
    auto data = std::make_shared<CompressData>();
    data->rows = s.rows, data->d = s.d, data->key_d = s.key_d, data->half = s.half;
    data->latent = random.wild_rows(s.rows, s.d, s.low, s.high);
    data->key = random.wild_rows(s.rows, s.key_d, s.low, s.high);
    data->weight = random.bf16s(s.key_d, 0.5);
    data->frequencies = frequencies(s.half);
    for (int64_t r = 0; r < s.rows; ++r) data->positions.push_back(random.below(500000) * s.ratio);
    OpCase op;
    op.op = "compress_rows";
    op.name = name;
    op.units = s.rows;
    op.make = [data] {
      return Outputs{
          Output("kv rows", Kind::bytes, data->rows, compressed_row_bytes(data->d), Output::Compare::related),
          Output("key rows", Kind::bytes, data->rows, index_row_bytes(data->key_d), Output::Compare::related)};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      std::vector<std::byte*> kv, key;
      for (int64_t r = begin; r < end; ++r) kv.push_back(out[0].row(r)), key.push_back(out[1].row(r));
      kernels.compress_rows(context, {{data->latent.data() + begin * data->d, end - begin, data->d, data->d},
                                      {data->key.data() + begin * data->key_d, end - begin, data->key_d, data->key_d},
                                      data->weight.data(),
                                      1e-20f,
                                      data->positions.data() + begin,
                                      data->frequencies.data(),
                                      data->half,
                                      kv.data(),
                                      key.data()});
    };
    op.check = [data](const Kernels& kernels, Context& context, const Outputs& out) {
      std::vector<float> cos(static_cast<size_t>(data->rows * data->half)), sin = cos;
      kernels.rope_table(
          context, {data->positions.data(), data->rows, data->frequencies.data(), data->half, cos.data(), sin.data()});
      const auto rotate = [&](Rows<bf16> rows) {
        kernels.rope(context, {rows, rows.cols, cos.data(), sin.data(), data->half, false, false});
      };
      std::vector<bf16> latent = data->latent;
      rotate(rows_of(latent.data(), data->rows, data->d));
      std::vector<bf16> key(data->key.size());
      const Rows<bf16> keys = rows_of(key.data(), data->rows, data->key_d);
      kernels.rms_norm(
          context,
          {rows_of<const bf16>(data->key.data(), data->rows, data->key_d), data->weight.data(), 1e-20f, keys, {}});
      rotate(keys);
      Output kv_rows("kv rows", Kind::bytes, data->rows, compressed_row_bytes(data->d), Output::Compare::exact);
      Output key_rows("key rows", Kind::bytes, data->rows, index_row_bytes(data->key_d), Output::Compare::exact);
      for (int64_t r = 0; r < data->rows; ++r) {
        reference::encode_compressed_row(latent.data() + r * data->d, data->d, kv_rows.row(r));
        reference::encode_index_key_row(keys.row(r), data->key_d, key_rows.row(r));
      }
      const std::string text = first_difference(kv_rows, out[0], 0, data->rows);
      return !text.empty() ? text : first_difference(key_rows, out[1], 0, data->rows);
    };
    cases.push_back(op);
  }
  return cases;
}

// Window rows to ring slots: a unit is a run; its output rows are the slots of its ring.
std::vector<OpCase> ring_store_cases() {
  struct Data {
    std::vector<RunView> runs;
    std::vector<std::byte> rows;
    int64_t ring_rows, row_bytes;
  };
  std::vector<OpCase> cases;
  for (const int64_t ring_rows : {1, 8, 29, 140}) {
    Random random(fmt::format("ring {}", ring_rows));
    auto data = std::make_shared<Data>();
    data->ring_rows = ring_rows;
    data->row_bytes = 33 + ring_rows;
    int64_t first = 0;
    for (const int64_t rows :
         {int64_t{1}, int64_t{0}, ring_rows, int64_t{3}, 2 * ring_rows + 5, int64_t{2}, ring_rows + 1}) {
      data->runs.push_back({random.below(1000), first, rows, 0});
      first += rows;
    }
    for (const uint8_t byte : random.bytes(first * data->row_bytes)) data->rows.push_back(std::byte{byte});
    OpCase op;
    op.op = "ring_store";
    op.name = fmt::format("ring{}", ring_rows);
    op.units = static_cast<int64_t>(data->runs.size());
    op.make = [data] {
      Output rings = Output::dense("rings", Kind::bytes, static_cast<int64_t>(data->runs.size()) * data->ring_rows,
                                   data->row_bytes, Output::Compare::exact);
      rings.rows_per_unit = data->ring_rows;
      return Outputs{rings};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      std::vector<std::byte*> rings;
      for (int64_t run = begin; run < end; ++run) rings.push_back(out[0].row(run * data->ring_rows));
      kernels.ring_store(context, {data->runs.data() + begin, end - begin, data->rows.data(), data->row_bytes,
                                   rings.data(), data->ring_rows});
    };
    // Every live position is in its slot; every other slot is as it was.
    op.check = [data](const Kernels&, Context&, const Outputs& out) -> std::string {
      const Output untouched =
          Output::dense("rings", Kind::bytes, out[0].rows, data->row_bytes, Output::Compare::exact);
      for (size_t r = 0; r < data->runs.size(); ++r) {
        const RunView& run = data->runs[r];
        for (int64_t slot = 0; slot < data->ring_rows; ++slot) {
          const std::byte* want = untouched.row(0);
          for (int64_t i = 0; i < run.rows; ++i) {  // the newest comes last
            if ((run.start + i) % data->ring_rows == slot)
              want = data->rows.data() + (run.first_row + i) * data->row_bytes;
          }
          if (std::memcmp(want, out[0].row(static_cast<int64_t>(r) * data->ring_rows + slot),
                          static_cast<size_t>(data->row_bytes)) != 0) {
            return fmt::format("run {}, slot {}", r, slot);
          }
        }
      }
      return {};
    };
    cases.push_back(op);
  }
  return cases;
}

}  // namespace deepinfer::optest
