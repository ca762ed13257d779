#include <gtest/gtest.h>

#include <algorithm>

#include "properties.h"

// The net has no holes of this size: a table with one planted fault in one operation must fail at least one property on one case.
namespace deepinfer::optest {
namespace {

const Kernels& sound() { return *cpu_kernels().front(); }

struct Fault {
  const char* name;
  const char* op;
  void (*plant)(Kernels&);
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};

// Calls the sound operation with changed arguments.
#define DI_FAULT(OP, ARGS, CHANGE)               \
  [](Kernels& kernels) {                         \
    kernels.OP = [](Context& c, const ARGS& a) { \
      ARGS b = a;                                \
      CHANGE;                                    \
      sound().OP(c, b);                          \
    };                                           \
  }
// Changes what the sound operation has written.
#define DI_FAULT_AFTER(OP, ARGS, CHANGE)         \
  [](Kernels& kernels) {                         \
    kernels.OP = [](Context& c, const ARGS& a) { \
      sound().OP(c, a);                          \
      CHANGE;                                    \
    };                                           \
  }

bf16 next(bf16 x) { return {static_cast<uint16_t>(x.bits + 1)}; }

const Fault kFaults[] = {
    {"last_output_left_out", "linear", DI_FAULT(linear, LinearArgs, b.w.n -= 1)},
    {"last_input_left_out", "linear",
     [](Kernels& kernels) {
       kernels.linear = [](Context& c, const LinearArgs& a) {
         std::vector<bf16> x;
         for (int64_t t = 0; t < a.x.rows; ++t) {
           x.insert(x.end(), a.x.row(t), a.x.row(t) + a.x.cols);
           x.back() = {0};
         }
         LinearArgs b = a;
         b.x = rows_of<const bf16>(x.data(), a.x.rows, a.x.cols);
         sound().linear(c, b);
       };
     }},
    {"one_ulp_of_one_element", "linear",
     DI_FAULT_AFTER(linear, LinearArgs, if (a.out.data != nullptr && a.x.rows > 1) a.out.row(1)[0] = next(a.out.row(1)[0]))},
    {"second_group_reads_the_first", "grouped_linear",
     [](Kernels& kernels) {
       kernels.grouped_linear = [](Context& c, const GroupedLinearArgs& a) {
         std::vector<bf16> x;
         for (int64_t t = 0; t < a.x.rows; ++t) {
           for (int64_t g = 0; g < a.groups; ++g) x.insert(x.end(), a.x.row(t), a.x.row(t) + a.w.k);
         }
         GroupedLinearArgs b = a;
         b.x = rows_of<const bf16>(x.data(), a.x.rows, a.x.cols);
         sound().grouped_linear(c, b);
       };
     }},
    {"writes_past_the_row", "act_quant",
     DI_FAULT_AFTER(act_quant, ActQuantArgs, if (a.x.rows > 0) a.out.row(a.x.rows - 1)[a.x.cols] = {0})},
    {"depends_on_the_batch", "act_quant",
     DI_FAULT_AFTER(act_quant, ActQuantArgs, if (a.x.rows > 3) a.out.row(2)[0] = next(a.out.row(2)[0]))},
    {"depends_on_the_threads", "rms_norm",
     DI_FAULT_AFTER(rms_norm, RmsNormArgs, if (c.pool->threads() == 3) a.y.row(0)[0] = next(a.y.row(0)[0]))},
    {"eps_of_another_norm", "rms_norm", DI_FAULT(rms_norm, RmsNormArgs, b.eps = 1e-6f)},
    {"quantises_the_input", "rms_norm",
     DI_FAULT_AFTER(rms_norm, RmsNormArgs, if (a.yq.data != nullptr) sound().act_quant(c, {a.x, a.yq}))},
    {"sine_negated", "rope_table",
     DI_FAULT_AFTER(rope_table, RopeTableArgs, for (int64_t i = 0; i < a.count * a.half; ++i) a.sin[i] = -a.sin[i])},
    {"inverse_ignored", "rope", DI_FAULT(rope, RopeArgs, b.inverse = false)},
    {"not_quantised", "rope", DI_FAULT(rope, RopeArgs, b.fp4_block32 = false)},
    {"pre_is_a_quarter", "embed",
     DI_FAULT_AFTER(embed, EmbedArgs, std::fill_n(a.pre, a.count * 4, 0.25f))},
    {"one_round_less", "hc_seam", DI_FAULT(hc_seam, HcSeamArgs, b.iterations -= 1)},
    {"tap_before_leaving", "hc_seam",
     [](Kernels& kernels) {
       kernels.hc_seam = [](Context& c, const HcSeamArgs& a) {
         HcSeamArgs tap, rest = a;
         tap.x = a.x, tap.d = a.d, tap.tap = a.tap;
         sound().hc_seam(c, tap);
         rest.tap = {};
         sound().hc_seam(c, rest);
       };
     }},
    {"hc_eps_of_zero", "hc_seam", DI_FAULT(hc_seam, HcSeamArgs, b.hc_eps = 0)},
    {"scales_swapped", "hc_seam",
     [](Kernels& kernels) {
       kernels.hc_seam = [](Context& c, const HcSeamArgs& a) {
         HcSeamArgs b = a;
         const float swapped[3] = {a.scale ? a.scale[1] : 0, a.scale ? a.scale[0] : 0, a.scale ? a.scale[2] : 0};
         b.scale = swapped;
         sound().hc_seam(c, b);
       };
     }},
    {"norm_left_out", "window_rows", DI_FAULT(window_rows, WindowRowsArgs, b.eps = 1.0f)},
    {"rotation_left_out", "window_rows", DI_FAULT(window_rows, WindowRowsArgs, b.half = 0)},
    {"gates_swapped", "pool_pairs", DI_FAULT(pool_pairs, PoolPairsArgs, std::swap(b.z0, b.z1))},
    {"positions_not_times_ratio", "compress_rows",
     [](Kernels& kernels) {
       kernels.compress_rows = [](Context& c, const CompressRowsArgs& a) {
         std::vector<int64_t> half(a.positions, a.positions + a.latent.rows);
         for (int64_t& position : half) position /= 2;
         CompressRowsArgs b = a;
         b.positions = half.data();
         sound().compress_rows(c, b);
       };
     }},
    {"ring_modulus_off", "ring_store",
     [](Kernels& kernels) {
       kernels.ring_store = [](Context& c, const RingStoreArgs& a) {
         std::vector<RunView> runs(a.runs, a.runs + a.run_count);
         for (RunView& run : runs) run.start += 1;
         RingStoreArgs b = a;
         b.runs = runs.data();
         sound().ring_store(c, b);
       };
     }},
    {"sees_a_row_too_many", "index_select",
     [](Kernels& kernels) {
       kernels.index_select = [](Context& c, const IndexSelectArgs& a) {
         std::vector<RunView> runs(a.runs, a.runs + a.run_count);
         for (RunView& run : runs) run.start -= run.start > 0;
         IndexSelectArgs b = a;
         b.runs = runs.data();
         sound().index_select(c, b);
       };
     }},
    {"candidates_ignored", "index_select", DI_FAULT(index_select, IndexSelectArgs, b.use_candidates = false)},
    {"one_row_too_few", "index_select",
     DI_FAULT_AFTER(index_select, IndexSelectArgs,
                    for (int64_t t = 0; t < a.q.rows; ++t) a.selected.row(t)[a.selected.cols - 1] = -1)},
    {"sink_ignored", "attention",
     [](Kernels& kernels) {
       kernels.attention = [](Context& c, const AttentionArgs& a) {
         const std::vector<float> none(static_cast<size_t>(a.heads), -1e30f);
         AttentionArgs b = a;
         b.sink = none.data();
         sound().attention(c, b);
       };
     }},
    {"suffix_window_not_clipped", "attention",
     [](Kernels& kernels) {
       kernels.attention = [](Context& c, const AttentionArgs& a) {
         std::vector<RunView> runs(a.runs, a.runs + a.run_count);
         for (RunView& run : runs) run.window_begin = run.window_begin > 0 ? run.window_begin + 1 : 0;
         AttentionArgs b = a;
         b.runs = runs.data();
         sound().attention(c, b);
       };
     }},
    {"drafts_see_the_past_only", "attention",
     DI_FAULT(attention, AttentionArgs, if (a.columns == WindowColumns::draft) b.columns = WindowColumns::causal)},
    {"output_not_turned_back", "attention", DI_FAULT(attention, AttentionArgs, b.half = 0)},
    {"scale_off_by_one_percent", "attention", DI_FAULT(attention, AttentionArgs, b.scale *= 1.01f)},
    {"image_bias_for_all", "moe_gate", DI_FAULT(moe_gate, MoeGateArgs, b.bias = a.bias_vl)},
    {"weights_of_biased_scores", "moe_gate",
     DI_FAULT_AFTER(moe_gate, MoeGateArgs, for (int64_t t = 0; t < a.logits.rows; ++t) a.weight.row(t)[0] *= 1.00001f)},
    {"routing_weight_in_bf16", "moe_experts",
     [](Kernels& kernels) {
       kernels.moe_experts = [](Context& c, const MoeExpertsArgs& a) {
         std::vector<float> weight;
         for (int64_t t = 0; t < a.weight.rows; ++t) {
           for (int64_t i = 0; i < a.weight.cols; ++i) weight.push_back(round_bf16(a.weight.row(t)[i]));
         }
         MoeExpertsArgs b = a;
         b.weight = {weight.data(), a.weight.rows, a.weight.cols, a.weight.cols};
         sound().moe_experts(c, b);
       };
     }},
    {"limit_ignored", "moe_experts", DI_FAULT(moe_experts, MoeExpertsArgs, b.limit = 1e30f)},
    {"shared_is_expert_0", "moe_experts", DI_FAULT(moe_experts, MoeExpertsArgs, b.shared = a.experts)},
    {"pad_of_another_class", "engram_hash", DI_FAULT(engram_hash, EngramHashArgs, b.pad_class = 3)},
    {"scales_of_the_next_row", "engram_gather",
     DI_FAULT(engram_gather, EngramGatherArgs, b.scales = a.scales + (a.ids.rows > 0 && a.ids.row(0)[0] > 100 ? -1 : 0))},
    {"images_written", "engram_write", DI_FAULT(engram_write, EngramWriteArgs, b.image = nullptr)},
    {"weights_of_the_keys_twice", "engram_write", DI_FAULT(engram_write, EngramWriteArgs, b.q_weight = a.k_weight)},
};

class FaultTest : public testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(, FaultTest, testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.op) + "_" + info.param.name; });

TEST_P(FaultTest, IsCaught) {
  const KernelFloatMode mode;
  Kernels faulty = sound();
  GetParam().plant(faulty);
  faulty.name = "faulty";
  for (const OpCase& op : cases_of(GetParam().op)) {
    for (const auto& property : {close_to_reference, relations, units_are_independent}) {
      if (!property(op, faulty).empty()) return;
    }
    if (!agrees_with(op, faulty, sound()).empty()) return;
  }
  FAIL() << "no case of " << GetParam().op << " shows it";
}

}  // namespace
}  // namespace deepinfer::optest
