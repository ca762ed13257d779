// Speed of the tokenizer on one core: MB/s on ordinary text, and seconds on the worst texts there are.
//
// usage: bench_tokenizer [--tokenizer FILE] [--repeat N] [--no-worst] [TEXT_FILE...]
//        bench_tokenizer --dump FILE     writes the default text
//   --tokenizer  a tokenizer.json; default: the bundled model's
//   TEXT_FILE    ordinary text; default: the sources of this project, and the languages of its golden cases
// Prints `encode FILE: bytes, tokens, MB/s` (median of N) for the text as a whole and by lines, `decode`, the load
// time, and a line for each worst case. tokenizer_vs_oracle.py runs this and PyPI `tokenizers` over the same text.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "deepinfer/tokenizer.h"
#include "verify/tokenizer_cases.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

double seconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median_seconds(int repeat, const std::function<void()>& body) {
  std::vector<double> times;
  for (int i = 0; i < repeat; ++i) times.push_back(seconds(body));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

std::string repeated(const std::string& unit, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += unit;
  return out;
}

std::string default_text() {
  std::string text;
  std::vector<std::string> files;
  for (const char* folder : {"include", "src", "tests", "docs"}) {
    std::error_code code;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(DI_SOURCE_DIR) / folder, code)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".cc" || extension == ".h" || extension == ".md") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    if (const auto content = read_file(file); content.ok()) text += *content;
  }
  if (const auto cases = read_tokenizer_cases(DI_SOURCE_DIR "/tests/golden/tokenizer/cases-tiny.jsonl"); cases.ok()) {
    std::string languages;
    for (const TokenizerCase& c : *cases) {
      if (c.text && c.name.starts_with("language/")) languages += c.text->text + "\n";
    }
    if (!languages.empty()) text += repeated(languages, text.size() / 3);
  }
  return repeated(text, 8'000'000);
}

void ordinary(const Tokenizer& tokenizer, const std::string& name, const std::string& text, int repeat) {
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  std::vector<int32_t> ids;
  const double whole = median_seconds(repeat, [&] { ids = tokenizer.encode(text); });
  std::printf("encode %s: %zu bytes, %zu tokens, %.2f MB/s\n", name.c_str(), text.size(), ids.size(),
              megabytes / whole);
  std::string back;
  const double decode = median_seconds(repeat, [&] { back = tokenizer.decode(ids).value(); });
  std::printf("decode %s: %zu bytes, %zu tokens, %.2f MB/s\n", name.c_str(), back.size(), ids.size(),
              megabytes / decode);
  size_t tokens = 0;
  const double lines = median_seconds(repeat, [&] {
    tokens = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t newline = text.find('\n', begin);
      const size_t end = newline == text.npos ? text.size() : newline + 1;
      tokens += tokenizer.encode(std::string_view(text).substr(begin, end - begin)).size();
      begin = end;
    }
  });
  std::printf("encode by lines %s: %zu bytes, %zu tokens, %.2f MB/s\n", name.c_str(), text.size(), tokens,
              megabytes / lines);
}

void worst(const Tokenizer& tokenizer) {
  uint64_t state = 1;
  const auto random_text = [&state](const std::string& letters, size_t bytes) {
    std::string out;
    while (out.size() < bytes) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      out += letters[(state >> 33) % letters.size()];
    }
    return out;
  };
  const std::vector<std::pair<const char*, std::string>> texts = {
      {"1 MB of one letter", std::string(1'000'000, 'a')},
      {"20 MB of blanks", std::string(20'000'000, ' ')},
      {"20 MB of blanks, then a letter", std::string(20'000'000, ' ') + "x"},
      {"20 MB of newlines", std::string(20'000'000, '\n')},
      {"1 MB of blanks and newlines by turns", repeated("\n ", 1'000'000)},
      {"1 MB of one emoji", repeated("😀", 1'000'000)},
      {"1 MB of joined emoji", repeated("👩🏿\u200D💻", 1'000'000)},
      {"1 MB of one CJK character", repeated("中", 1'000'000)},
      {"1 MB of kana", repeated("のカ゛ー", 1'000'000)},
      {"1 MB of one sign", std::string(1'000'000, '!')},
      {"1 MB of random signs", random_text("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", 1'000'000)},
      {"1 MB of random letters", random_text("abcdefghijklmnopqrstuvwxyz", 1'000'000)},
      {"1 MB of random digits", random_text("0123456789", 1'000'000)},
      {"1 MB of combining marks", repeated("\u0301", 1'000'000)},
      {"1 MB of NUL", std::string(1'000'000, '\0')},
      {"1 MB of random bytes", random_text("\x80\xBF\xC3\xE4\xB8\xF0\xFF"
                                           "a ",
                                           1'000'000)},
      {"1 MB of beginnings of a control token", repeated("<｜User", 1'000'000)},
      {"1 MB of control tokens", repeated("<｜User｜>", 1'000'000)},
  };
  for (const auto& [name, text] : texts) {
    size_t tokens = 0;
    const double time = seconds([&] { tokens = tokenizer.encode(text).size(); });
    std::printf("worst %s: %zu tokens, %.3f s\n", name, tokens, time);
  }
}

int main(int argc, char** argv) {
  std::string path = DI_SOURCE_DIR "/models/deepseek-v4.1-tiny/tokenizer.json";
  std::vector<std::string> files;
  int repeat = 3;
  bool with_worst = true;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--tokenizer") == 0 && i + 1 < argc) {
      path = argv[++i];
    } else if (std::strcmp(argv[i], "--repeat") == 0 && i + 1 < argc) {
      repeat = std::max(1, std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--dump") == 0 && i + 1 < argc) {
      const Status status = write_file_atomic(argv[++i], default_text());
      if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
      return status.ok() ? 0 : 2;
    } else if (std::strcmp(argv[i], "--no-worst") == 0) {
      with_worst = false;
    } else if (argv[i][0] == '-') {
      std::fprintf(stderr,
                   "%s: unknown option; accepted: --tokenizer FILE, --repeat N, --no-worst, --dump FILE, text files\n",
                   argv[i]);
      return 2;
    } else {
      files.emplace_back(argv[i]);
    }
  }
  Result<Tokenizer> tokenizer = Tokenizer::open(path);
  const double load = median_seconds(repeat, [&] { tokenizer = Tokenizer::open(path); });
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().message().c_str());
    return 2;
  }
  std::printf("load %s: %d ids, %.3f s\n", path.c_str(), tokenizer->vocab_size(), load);
  if (files.empty()) ordinary(*tokenizer, "default", default_text(), repeat);
  for (const std::string& file : files) {
    const auto text = read_file(file);
    if (!text.ok()) {
      std::fprintf(stderr, "%s\n", text.status().message().c_str());
      return 2;
    }
    ordinary(*tokenizer, file, *text, repeat);
  }
  if (with_worst) worst(*tokenizer);
  return 0;
}

}  // namespace
}  // namespace deepinfer

int main(int argc, char** argv) { return deepinfer::main(argc, argv); }
