#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "paths.h"

namespace deepinfer {
namespace {

// A file of a header and so many bytes of data (0, 1, 2, ..).
std::string file_of(std::string header, size_t data_bytes) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

Status parse(const std::string& file, std::map<std::string, TensorView>& tensors) {
  return SafetensorsFile::parse(std::as_bytes(std::span(file)), "dir/x.safetensors", tensors);
}

std::string message_of(const std::string& file) {
  std::map<std::string, TensorView> tensors;
  const Status status = parse(file, tensors);
  EXPECT_FALSE(status.ok()) << "accepted: " << file;
  EXPECT_TRUE(tensors.empty());
  EXPECT_EQ(status.code(), Code::data_loss);
  EXPECT_EQ(status.message().find("dir/x.safetensors: "), 0u) << status.message();
  return status.message();
}

void expect_refused(const std::string& header, size_t data_bytes, std::vector<const char*> says) {
  const std::string message = message_of(file_of(header, data_bytes));
  for (const char* part : says)
    EXPECT_NE(message.find(part), std::string::npos) << "\"" << message << "\" lacks " << part;
}

// {"a": the given fields}
std::string one(const std::string& fields) { return R"({"a":{)" + fields + "}}"; }

TEST(Safetensors, ReadsTensorsWhereTheyLie) {
  const std::string file = file_of(
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("s":{"data_offsets":[0,4],"shape":[],"dtype":"F32"},"e":{"dtype":"U8","shape":[0,7],"data_offsets":[16,16]}})",
      16);
  std::map<std::string, TensorView> tensors;
  const Status status = parse(file, tensors);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(tensors.size(), 3u);
  const TensorView& w = tensors.at("w");
  EXPECT_EQ(w.dtype, DType::bf16);
  EXPECT_EQ(w.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(w.elements(), 6);
  EXPECT_EQ(w.bytes, 12);
  EXPECT_EQ(static_cast<int>(w.data[0]), 4);
  EXPECT_EQ(tensors.at("s").elements(), 1);
  EXPECT_EQ(tensors.at("e").bytes, 0);
}

TEST(Safetensors, TruncatedFiles) {
  EXPECT_NE(message_of("").find("0 bytes, too short"), std::string::npos);
  EXPECT_NE(message_of("1234567").find("7 bytes, too short"), std::string::npos);
  const std::string whole = file_of(one(R"("dtype":"U8","shape":[8],"data_offsets":[0,8])"), 8);
  std::map<std::string, TensorView> tensors;
  ASSERT_TRUE(parse(whole, tensors).ok());
  for (size_t length = 0; length < whole.size(); ++length) message_of(whole.substr(0, length));
  EXPECT_NE(message_of(whole.substr(0, whole.size() - 1))
                .find("tensor \"a\": data_offsets [0, 8] end beyond the file, which holds 7"),
            std::string::npos);
}

TEST(Safetensors, HeaderLengthLies) {
  std::string file = file_of(one(R"("dtype":"U8","shape":[8],"data_offsets":[0,8])"), 8);
  for (const uint64_t lie :
       {uint64_t{0}, uint64_t{3}, uint64_t{file.size() - 7}, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 7}) {
    std::memcpy(file.data(), &lie, sizeof lie);
    message_of(file);
  }
  EXPECT_NE(message_of(file).find("header length 18446744073709551608 is more than the"), std::string::npos);
  std::string large(100'000'100, ' ');
  const uint64_t length = 100'000'001;
  std::memcpy(large.data(), &length, sizeof length);
  EXPECT_NE(message_of(large).find("header length 100000001, accepted: at most 100000000"), std::string::npos);
}

TEST(Safetensors, HeaderIsNotWhatItShouldBe) {
  expect_refused("", 0, {"header is not valid JSON"});
  expect_refused("{", 0, {"header is not valid JSON"});
  expect_refused("{} {}", 0, {"header is not valid JSON"});
  expect_refused("[]", 0, {"found a list", "an object of tensors"});
  expect_refused("3", 0, {"found 3", "an object of tensors"});
  expect_refused(R"({"a":[]})", 0, {"tensor \"a\"", "found a list", "an object with dtype"});
  expect_refused(R"({"a":null})", 0, {"tensor \"a\"", "found null"});
  expect_refused(R"({"a":{}})", 0, {"tensor \"a\"", "dtype is missing"});
  expect_refused(R"({"__metadata__":3})", 0, {"found 3", "an object of texts"});
  expect_refused(R"({"__metadata__":{"a":3}})", 0, {"found 3", "texts"});
  expect_refused(R"({"__metadata__":{"a":{}}})", 0, {"found an object", "texts"});
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, {"__metadata__", "twice"});
  expect_refused(std::string(100000, '['), 0, {"found a list"});
  expect_refused(R"({"a)" + std::string("\xff\xfe") + R"(":{}})", 0, {"header is not valid JSON"});
  expect_refused(std::string("{\"a\\u0000\\n\":3}"), 0, {R"(tensor "a\x00\x0a")"});
  // The data ends with the header: nothing but tensors may follow.
  expect_refused("{}", 3, {"3 bytes at the end belong to no tensor"});
}

TEST(Safetensors, EntryFieldsAreWrong) {
  expect_refused(one(R"("shape":[1],"data_offsets":[0,1])"), 1, {"tensor \"a\"", "dtype is missing"});
  expect_refused(one(R"("dtype":"U8","data_offsets":[0,1])"), 1, {"tensor \"a\"", "shape is missing"});
  expect_refused(one(R"("dtype":"U8","shape":[1])"), 1, {"tensor \"a\"", "data_offsets is missing"});
  expect_refused(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":1)"), 1,
                 {"tensor \"a\"", "unknown field \"extra\""});
  expect_refused(one(R"("dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1])"), 1,
                 {"tensor \"a\"", "dtype appears twice"});
  expect_refused(one(R"("dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1])"), 1,
                 {"tensor \"a\"", "shape appears twice"});
  expect_refused(one(R"("dtype":"F16","shape":[1],"data_offsets":[0,2])"), 2,
                 {"tensor \"a\"", "dtype: found \"F16\"", "BF16, F32"});
  expect_refused(one(R"("dtype":3,"shape":[1],"data_offsets":[0,2])"), 2, {"tensor \"a\"", "found 3", "a dtype name"});
  expect_refused(one(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), 1,
                 {"tensor \"a\"", "found 1", "a list of whole numbers"});
  expect_refused(one(R"("dtype":"U8","shape":["1"],"data_offsets":[0,1])"), 1,
                 {"tensor \"a\"", "found \"1\"", "whole numbers"});
  expect_refused(one(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1,
                 {"tensor \"a\"", "found 1.0", "whole numbers"});
  expect_refused(one(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1,
                 {"tensor \"a\"", "found -1", "whole numbers"});
  expect_refused(one(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"), 1, {"tensor \"a\"", "found a list"});
  expect_refused(one(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"), 1,
                 {"tensor \"a\"", "more than 8"});
  expect_refused(one(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1,
                 {"tensor \"a\"", "data_offsets: found 1 numbers"});
  expect_refused(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1,
                 {"tensor \"a\"", "data_offsets has more than two"});
  expect_refused(one(R"("dtype":"U8","shape":[1],"data_offsets":[0.0,1])"), 1, {"tensor \"a\"", "found 0.0"});
  expect_refused(one(R"("dtype":"U8","shape":[1],"data_offsets":[-1,0])"), 1, {"tensor \"a\"", "found -1"});
  expect_refused(one(R"("dtype":"U8","shape":[1],"data_offsets":{"0":1})"), 1, {"tensor \"a\"", "found an object"});
}

TEST(Safetensors, SizesAndOffsetsLie) {
  expect_refused(one(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"), 4, {"tensor \"a\"", "[4, 0] run backwards"});
  expect_refused(one(R"("dtype":"U8","shape":[9],"data_offsets":[0,9])"), 8,
                 {"tensor \"a\"", "end beyond the file, which holds 8"});
  expect_refused(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,8])"), 8,
                 {"tensor \"a\"", "hold 8 bytes, but U8 of shape [4] takes 4"});
  expect_refused(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,7])"), 7,
                 {"tensor \"a\"", "hold 7 bytes, but F32 of shape [2] takes 8"});
  // Products that wrap around 2^64 to the right size.
  expect_refused(one(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0,
                 {"tensor \"a\"", "more than 2^63"});
  expect_refused(one(R"("dtype":"I64","shape":[2305843009213693952],"data_offsets":[0,0])"), 0,
                 {"tensor \"a\"", "more than 2^63"});
  expect_refused(one(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0])"), 0,
                 {"tensor \"a\"", "found 9223372036854775808"});
  expect_refused(one(R"("dtype":"U8","shape":[36893488147419103233],"data_offsets":[0,1])"), 1,
                 {"tensor \"a\"", "found 36893488147419103233"});
  expect_refused(one(R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551615,18446744073709551615])"), 1,
                 {"tensor \"a\"", "beyond"});
  // A zero dimension makes the rest harmless.
  std::map<std::string, TensorView> tensors;
  EXPECT_TRUE(
      parse(file_of(one(R"("dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0])"), 0), tensors).ok());
  // Data that no aligned pointer could read.
  expect_refused(
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
      6, {"tensor \"b\"", "not a multiple of the 4 bytes of F32"});
}

TEST(Safetensors, DuplicatesOverlapsAndHoles) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  expect_refused("{" + entry + "," + entry + "}", 4, {"tensor \"a\"", "appears twice"});
  const auto two = [&](const char* offsets) {
    return "{" + entry + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}}";
  };
  std::map<std::string, TensorView> tensors;
  EXPECT_TRUE(parse(file_of(two("[4,8]"), 8), tensors).ok());
  expect_refused(two("[3,7]"), 7, {"tensors \"a\" and \"b\" overlap", "begins at byte 3, the first ends at 4"});
  expect_refused(two("[0,4]"), 4, {"tensors \"a\" and \"b\" overlap"});
  expect_refused(two("[5,9]"), 9, {"tensor \"b\"", "bytes 4 to 5 before it belong to no tensor"});
  expect_refused(two("[4,8]"), 10, {"2 bytes at the end belong to no tensor"});
  expect_refused(one(R"("dtype":"U8","shape":[4],"data_offsets":[1,5])"), 5,
                 {"tensor \"a\"", "bytes 0 to 1 before it"});
  // An empty tensor inside another one.
  expect_refused("{" + entry + R"(,"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})", 4,
                 {"tensors \"a\" and \"b\" overlap"});
}

// One byte of a header changed, at every place, to many values: never a crash, and never a view outside the file.
TEST(Safetensors, AnyHeaderByteMayBeWrong) {
  const std::string file = file_of(
      R"({"__metadata__":{"f":"p"},"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
      16);
  std::mt19937 random(1);
  int accepted = 0;
  for (size_t at = 0; at + 16 < file.size(); ++at) {
    for (int trial = 0; trial < 20; ++trial) {
      std::string changed = file;
      changed[at] = static_cast<char>(random());
      std::map<std::string, TensorView> tensors;
      if (!parse(changed, tensors).ok()) continue;
      ++accepted;
      for (const auto& [name, view] : tensors) {
        ASSERT_GE(view.data, std::as_bytes(std::span(changed)).data());
        ASSERT_LE(view.data + view.bytes, std::as_bytes(std::span(changed)).data() + changed.size());
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(Safetensors, OpensFilesAndNamesThem) {
  const auto file = SafetensorsFile::open(golden("nano/token_map.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_NE(file->find("token_map"), nullptr);
  EXPECT_EQ(file->find("token_map")->shape, (std::vector<int64_t>{512}));
  EXPECT_EQ(file->find("other"), nullptr);
  EXPECT_EQ(SafetensorsFile::open("/no/such.safetensors").status().code(), Code::not_found);
  EXPECT_EQ(SafetensorsFile::open(golden("nano/config.json")).status().code(), Code::data_loss);
}

TEST(Safetensors, ReadsAllGoldenFiles) {
  DI_NEEDS_SHARED();
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shared("golden"))) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = SafetensorsFile::open(entry.path().string());
    EXPECT_TRUE(file.ok()) << file.status().message();
    ++files;
  }
  EXPECT_GT(files, 40);
}

TEST(Safetensors, DTypes) {
  EXPECT_EQ(dtype_bytes(DType::bf16), 2);
  EXPECT_EQ(dtype_bytes(DType::f32), 4);
  EXPECT_EQ(dtype_bytes(DType::f8_e4m3), 1);
  EXPECT_EQ(dtype_bytes(DType::f8_e8m0), 1);
  EXPECT_EQ(dtype_bytes(DType::i8), 1);
  EXPECT_EQ(dtype_bytes(DType::i32), 4);
  EXPECT_EQ(dtype_bytes(DType::i64), 8);
  EXPECT_EQ(dtype_bytes(DType::u8), 1);
  EXPECT_EQ(dtype_name(DType::f8_e4m3), "F8_E4M3");
  EXPECT_EQ(dtype_name(DType::f8_e8m0), "F8_E8M0");
  EXPECT_EQ(dtype_name(DType::u8), "U8");
}

}  // namespace
}  // namespace deepinfer
