// Any bytes as a tokenizer.json: refused with a message, or a tokenizer that gives every text back, by decode and by
// stream.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "deepinfer/tokenizer.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const Result<Tokenizer> tokenizer = Tokenizer::from_json(input, "input");
  if (!tokenizer.ok()) {
    DI_CHECK(tokenizer.status().message().starts_with("input: "));
    return 0;
  }
  // The file is its own text: its end, backwards too, so that what was mutated is encoded as well.
  std::string text(input.substr(size > 2000 ? size - 2000 : 0));
  for (int turn = 0; turn < 2; ++turn) {
    std::string repaired;
    append_repaired(text, repaired);
    for (const std::vector<int32_t>& ids : {tokenizer->encode(text), tokenizer->encode_plain(text)}) {
      std::string bytes, streamed;
      StreamDecoder stream(*tokenizer);
      for (const int32_t id : ids) {
        bytes += tokenizer->token_bytes(id);
        streamed += stream.push(id).value();
      }
      DI_CHECK(bytes == text);
      DI_CHECK(tokenizer->decode(ids).value() == repaired);
      DI_CHECK(streamed + stream.finish() == repaired);
    }
    text.assign(text.rbegin(), text.rend());
  }
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    DI_CHECK(!tokenizer->token_bytes(id).empty());
    DI_CHECK(tokenizer->token_id(tokenizer->token_string(id)) == id);
  }
  DI_CHECK(!tokenizer->decode(std::vector<int32_t>{tokenizer->vocab_size()}).ok());
  return 0;
}
