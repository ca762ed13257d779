#include "verify/verify_kernels.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/threads.h"
#include "outcome.h"

namespace deepinfer {
namespace {

// The golden vectors: this tree's copy, and the full set beside it where there is one.
const std::string kBundled = DI_SOURCE_DIR "/tests/golden/kernels";

struct Machine {
  Machine()
      : pool(1),
        memory(kVerifyKernelsArenaBytes),
        scratch(kVerifyKernelsThreadBytes),
        arena(memory.data(), kVerifyKernelsArenaBytes) {
    context = {&pool, &arena, scratch.data(), kVerifyKernelsThreadBytes};
  }
  ThreadPool pool;
  std::vector<std::byte> memory, scratch;
  Arena arena;
  Context context;
};

Outcome check_kernels(const std::string& dir, const Kernels& kernels, const std::string& only = "",
                      bool keep_going = true) {
  Machine machine;
  return outcome_of([&](Reporter& reporter) { return verify_kernels(dir, kernels, machine.context, reporter); }, only,
                    keep_going);
}

std::vector<const Kernels*> all_tables() {
  std::vector<const Kernels*> tables = cpu_kernels();
  tables.push_back(&reference_kernels());
  return tables;
}

TEST(VerifyKernels, EveryTablePasses) {
  std::vector<std::string> dirs = {kBundled};
  const std::string shared = DI_SOURCE_DIR "/../shared/golden/kernels";
  if (std::filesystem::is_directory(shared)) dirs.push_back(shared);
  for (const std::string& dir : dirs) {
    for (const Kernels* table : all_tables()) {
      SCOPED_TRACE(std::string(table->name) + " on " + dir);
      const Outcome out = check_kernels(dir, *table);
      EXPECT_TRUE(out.status.ok()) << out.status.message();
      EXPECT_EQ(out.failed, 0u) << out.text;
      EXPECT_GT(out.cases, 40u);
      EXPECT_GT(out.checks, 120u);
      EXPECT_LE(out.skipped, 2u) << out.text;  // codes of two rows that no norm lets through
      if (std::getenv("DI_SHOW_ROWS") != nullptr) std::printf("%s\n", out.text.c_str());
    }
  }
}

// Each planted fault must make the case fail that is there to catch it.
const Kernels& sound() { return *all_tables().front(); }

struct Fault {
  const char* name;
  const char* expected_case;  // a failed row must be of this case
  void (*plant)(Kernels&);
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};

const Fault kFaults[] = {
    {"norm_eps", "rmsnorm/d128",
     [](Kernels& k) {
       k.rms_norm = [](Context& c, const RmsNormArgs& a) {
         RmsNormArgs b = a;
         b.eps = 1e-6f;
         sound().rms_norm(c, b);
       };
     }},
    {"rotation_backwards", "rope/nano_window",
     [](Kernels& k) {
       k.rope = [](Context& c, const RopeArgs& a) {
         RopeArgs b = a;
         b.inverse = !a.inverse;
         sound().rope(c, b);
       };
     }},
    {"angles_of_next_position", "rope/released_window",
     [](Kernels& k) {
       k.rope_table = [](Context& c, const RopeTableArgs& a) {
         std::vector<int64_t> next(a.positions, a.positions + a.count);
         for (int64_t& position : next) ++position;
         RopeTableArgs b = a;
         b.positions = next.data();
         sound().rope_table(c, b);
       };
     }},
    {"missing_sink", "sparse_attn/small",
     [](Kernels& k) {
       k.attention = [](Context& c, const AttentionArgs& a) {
         const std::vector<float> none(static_cast<size_t>(a.heads), -1e30f);
         AttentionArgs b = a;
         b.sink = none.data();
         sound().attention(c, b);
       };
     }},
    {"holes_closed_up", "sparse_attn",
     [](Kernels& k) {
       k.attention = [](Context& c, const AttentionArgs& a) {
         std::vector<int32_t> dense;
         for (int64_t t = 0; t < a.listed.rows; ++t) {
           std::vector<int32_t> row(a.listed.row(t), a.listed.row(t) + a.listed.cols);
           std::stable_partition(row.begin(), row.end(), [](int32_t r) { return r >= 0; });
           dense.insert(dense.end(), row.begin(), row.end());
         }
         AttentionArgs b = a;
         b.listed = {dense.data(), a.listed.rows, a.listed.cols, a.listed.cols};
         sound().attention(c, b);
       };
     }},
    {"scale_of_next_block", "gemm/fp4_1",
     [](Kernels& k) {
       k.linear = [](Context& c, const LinearArgs& a) {
         std::vector<uint8_t> scales;
         LinearArgs b = a;
         if (a.w.scale != nullptr) {
           const int64_t rows = a.w.kind == WeightKind::fp8_tile ? (a.w.n + 31) / 32 : a.w.n;
           scales.assign(a.w.scale, a.w.scale + rows * (a.w.k / 32));
           std::rotate(scales.begin(), scales.begin() + 1, scales.end());
           b.w.scale = scales.data();
         }
         sound().linear(c, b);
       };
     }},
    {"one_sinkhorn_round_less", "sinkhorn/b",
     [](Kernels& k) {
       k.hc_seam = [](Context& c, const HcSeamArgs& a) {
         HcSeamArgs b = a;
         b.iterations = a.iterations - 1;
         sound().hc_seam(c, b);
       };
     }},
    {"mixing_matrix_transposed", "small_ops/hc",
     [](Kernels& k) {
       k.hc_seam = [](Context& c, const HcSeamArgs& a) {
         std::vector<float> turned(static_cast<size_t>(a.x.rows * 16));
         for (size_t i = 0; i < turned.size() && a.left.comb != nullptr; ++i)
           turned[i] = a.left.comb[i / 16 * 16 + i % 4 * 4 + i / 4 % 4];
         HcSeamArgs b = a;
         b.left.comb = turned.data();
         sound().hc_seam(c, b);
       };
     }},
    {"no_swiglu_limit", "swiglu/b",
     [](Kernels& k) {
       k.moe_experts = [](Context& c, const MoeExpertsArgs& a) {
         MoeExpertsArgs b = a;
         b.limit = 1e30f;
         sound().moe_experts(c, b);
       };
     }},
    {"gate_without_bias", "gate/a",
     [](Kernels& k) {
       k.moe_gate = [](Context& c, const MoeGateArgs& a) {
         const std::vector<float> none(static_cast<size_t>(a.logits.cols), 0.0f);
         MoeGateArgs b = a;
         b.bias = none.data();
         sound().moe_gate(c, b);
       };
     }},
    {"image_tokens_hashed", "engram_hash/hash",
     [](Kernels& k) {
       k.engram_hash = [](Context& c, const EngramHashArgs& a) {
         EngramHashArgs b = a;
         b.pad_class = 0;
         sound().engram_hash(c, b);
       };
     }},
    {"candidate_blocks_one_less", "candidates/mixed",
     [](Kernels& k) {
       k.index_select = [](Context& c, const IndexSelectArgs& a) {
         IndexSelectArgs b = a;
         b.candidates.capacity = a.candidates.capacity - 1;
         sound().index_select(c, b);
       };
     }},
    {"index_weights_of_head_0", "small_ops/iscore",
     [](Kernels& k) {
       k.index_select = [](Context& c, const IndexSelectArgs& a) {
         std::vector<bf16> first;
         for (int64_t i = 0; i < a.weights.rows * a.heads; ++i) first.push_back(a.weights.row(i / a.heads)[0]);
         IndexSelectArgs b = a;
         b.weights = {first.data(), a.weights.rows, a.heads, a.heads};
         sound().index_select(c, b);
       };
     }},
    {"pooling_gate_swapped", "small_ops/pool",
     [](Kernels& k) {
       k.pool_pairs = [](Context& c, const PoolPairsArgs& a) {
         PoolPairsArgs b = a;
         std::swap(b.z0, b.z1);
         sound().pool_pairs(c, b);
       };
     }},
    {"engram_keys_unweighted", "small_ops/engram",
     [](Kernels& k) {
       k.engram_write = [](Context& c, const EngramWriteArgs& a) {
         const std::vector<bf16> ones(static_cast<size_t>(4 * a.d), to_bf16(1.0f));
         EngramWriteArgs b = a;
         b.k_weight = ones.data();
         sound().engram_write(c, b);
       };
     }},
    {"window_scale_one_up", "quantizers/act32",
     [](Kernels& k) {
       k.window_rows = [](Context& c, const WindowRowsArgs& a) {
         sound().window_rows(c, a);
         a.out[a.kv.cols] = static_cast<std::byte>(static_cast<int>(a.out[a.kv.cols]) + 1);
       };
     }},
    {"nibbles_swapped", "quantizers/fp4_e4m3_16",
     [](Kernels& k) {
       k.compress_rows = [](Context& c, const CompressRowsArgs& a) {
         sound().compress_rows(c, a);
         for (int64_t i = 0; i < a.latent.cols / 2; ++i) a.kv_out[0][i] = (a.kv_out[0][i] << 4) | (a.kv_out[0][i] >> 4);
       };
     }},
    {"index_query_not_quantised", "quantizers/fp4_e8m0_32",
     [](Kernels& k) {
       k.rope = [](Context& c, const RopeArgs& a) {
         RopeArgs b = a;
         b.fp4_block32 = false;
         sound().rope(c, b);
       };
     }},
};

class VerifyKernelsFault : public testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(, VerifyKernelsFault, testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(VerifyKernelsFault, IsCaught) {
  Kernels faulty = sound();
  GetParam().plant(faulty);
  const Outcome out = check_kernels(kBundled, faulty);
  EXPECT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_GT(out.failed, 0u);
  bool named = false;
  std::istringstream lines(out.text);
  for (std::string line; std::getline(lines, line);) {
    named |= line.starts_with("{\"case\":\"" + std::string(GetParam().expected_case) + "\"") &&
             line.find("\"ok\":false") != std::string::npos;
  }
  EXPECT_TRUE(named) << out.text;
}

TEST(VerifyKernels, StopsAtTheFirstFailureUnlessToldOtherwise) {
  Kernels faulty = sound();
  faulty.rms_norm = [](Context&, const RmsNormArgs&) {};
  faulty.act_quant = [](Context&, const ActQuantArgs&) {};
  const Outcome all = check_kernels(kBundled, faulty), first = check_kernels(kBundled, faulty, "", false);
  EXPECT_GT(all.failed, first.failed);
  EXPECT_LT(first.checks, all.checks);
}

TEST(VerifyKernels, OnlySelectsCases) {
  const Outcome out = check_kernels(kBundled, sound(), "rope/*");
  EXPECT_TRUE(out.status.ok());
  EXPECT_EQ(out.failed, 0u);
  EXPECT_EQ(out.text.find("gemm"), std::string::npos);
  EXPECT_NE(out.text.find("rope/nano_window"), std::string::npos);
}

// A copy of the golden directory with one file changed.
class Damaged : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/kernels_" + std::to_string(::getpid());
    std::filesystem::remove_all(dir_);
    std::filesystem::copy(kBundled, dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void replace(const std::string& file, const std::string& from, const std::string& to) {
    std::ifstream in(dir_ + "/" + file, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    ASSERT_EQ(from.size(), to.size());
    bytes.replace(at, from.size(), to);
    std::filesystem::remove(dir_ + "/" + file);
    std::ofstream(dir_ + "/" + file, std::ios::binary) << bytes;
  }
  std::string dir_;
};

TEST_F(Damaged, AMissingFileThatTheIndexListsIsAnError) {
  std::filesystem::remove(dir_ + "/gate.safetensors");
  const Outcome out = check_kernels(dir_, sound());
  ASSERT_FALSE(out.status.ok());
  EXPECT_NE(out.status.message().find("index.json: lists gate.safetensors"), std::string::npos) << out.status.message();
}

TEST_F(Damaged, FilesThatNoIndexListsAreSkippedByName) {
  std::filesystem::remove(dir_ + "/gate.safetensors");
  std::filesystem::remove(dir_ + "/index.json");
  const Outcome out = check_kernels(dir_, sound());
  EXPECT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_EQ(out.failed, 0u);
  EXPECT_NE(out.text.find("no gate.safetensors"), std::string::npos) << out.text;
}

TEST_F(Damaged, ErrorsNameFileAndTensor) {
  struct Case {
    const char *file, *from, *to, *expected;
  };
  for (const Case& c : {Case{"gemm.safetensors", "\"fp4_1.c\"", "\"fp4_1.z\"", "fp4_1.c"},
                        Case{"rope.safetensors", "\"nano_window.cos\"", "\"nano_window.coz\"", "nano_window.cos"},
                        Case{"sparse_attn.safetensors", "\"tiny.idx\"", "\"tiny.idz\"", "tiny.idx"}}) {
    SetUp();
    replace(c.file, c.from, c.to);
    const Outcome out = check_kernels(dir_, sound());
    ASSERT_FALSE(out.status.ok());
    EXPECT_NE(out.status.message().find(c.file), std::string::npos) << out.status.message();
    EXPECT_NE(out.status.message().find(c.expected), std::string::npos) << out.status.message();
  }
}

TEST_F(Damaged, HashConstantsAreChecked) {
  replace("engram_released.json", "\"76632096046245\"", "\"7663209604624x\"");
  Outcome out = check_kernels(dir_, sound());
  ASSERT_FALSE(out.status.ok());
  EXPECT_NE(out.status.message().find("engram_released.json: field 'multipliers'"), std::string::npos)
      << out.status.message();
  std::filesystem::remove(dir_ + "/engram_released.json");
  out = check_kernels(dir_, sound());
  ASSERT_FALSE(out.status.ok());
  EXPECT_NE(out.status.message().find("engram_released.json"), std::string::npos) << out.status.message();
}

TEST_F(Damaged, NoSuchDirectory) {
  const Outcome out = check_kernels(dir_ + "/none", sound());
  ASSERT_FALSE(out.status.ok());
  EXPECT_EQ(out.status.code(), Code::not_found);
}

}  // namespace
}  // namespace deepinfer
