#include "base/sha256.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

// The examples of FIPS 180-4 and its empty message.
TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PartsGiveTheSameAsTheWhole) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.update(text.data(), cut);
    hash.update(text.data() + cut, text.size() - cut);
    EXPECT_EQ(hash.finish_hex(), sha256_hex(text));
  }
}

}  // namespace
}  // namespace deepinfer
