// ChatFormat: the prompt of DeepSeek-V4.1 from a conversation.
//
// A prompt is text plus the byte ranges in it that are control tokens. Everything outside the ranges is plain text,
// even where it spells a control token, and must be encoded without them: Tokenizer::encode_ranges does.
//
// Threading pure functions
// Errors    invalid_argument naming the message or field
// Source    DeepSeek's published chat format; docs/requests.md has the rules
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "deepinfer/byte_range.h"
#include "deepinfer/request.h"
#include "deepinfer/status.h"

namespace deepinfer {

// What the model's first token continues.
enum class AnswerStart {
  content,              // a new answer, no thinking
  reasoning,            // a new answer that begins inside <think>
  continued_reasoning,  // the reasoning of a prefix message
  continued_content,    // the content of a prefix message
  tool_calls,           // the prompt already opened the block of calls
};

// A prompt, and which of its bytes are control tokens.
struct RenderedPrompt {
  std::string text;
  std::vector<ByteRange> special_ranges;  // ascending, disjoint, each one control token
  AnswerStart answer_start = AnswerStart::content;
};

// The published prompt format.
class ChatFormat {
 public:
  // The prompt of a conversation, which need not have passed validate(): any order of messages gives some prompt.
  static Result<RenderedPrompt> render(const Conversation& conversation);
};

}  // namespace deepinfer
