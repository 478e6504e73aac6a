// libFuzzer harness of the svmlight parser: no input may lead it outside its memory, and how many
// threads share the text must not show in what they find.
//
//   flags="-std=c++17 -g -O1 -fsanitize=fuzzer,address,undefined"
//   clang++ $flags -I snapml/core/include -I snapml/native tests/fuzz/svmlight_fuzzer.cpp
//   ./a.out tests/fuzz/svmlight_corpus
#include <cstdlib>
#include <cstring>

#include "text/svmlight.hpp"

namespace {

using namespace snapml;
using namespace snapml::native;

struct Found {
  std::vector<double> labels, values;
  std::vector<int64> indices, lengths;
  int64 error = -1;
};

template <class Real, class Index>
Found found(const char* text, int64 size, int n_threads) {
  ThreadPool pool(n_threads);
  Found out;
  for (const auto& piece : parse_svmlight<Real, Index>(text, size, 0, pool)) {
    int64 n_entries = 0;
    for (int64 i = 0; i < piece.n_rows; ++i) {
      out.labels.push_back(piece.labels[i]);
      out.lengths.push_back(piece.lengths[i]);
      n_entries += piece.lengths[i];
    }
    const bool is_whole = piece.error.position < 0;
    if (is_whole && n_entries != piece.n_stored) std::abort();
    for (int64 k = 0; k < n_entries; ++k) {
      if (piece.indices[k] < 0 || piece.indices[k] > piece.largest) std::abort();
      out.indices.push_back(piece.indices[k]);
      out.values.push_back(static_cast<double>(piece.values[k]));
    }
    if (!is_whole) {
      if (piece.error.position > size) std::abort();
      out.error = piece.error.position;
      break;
    }
  }
  return out;
}

template <class Real, class Index>
void compare(const char* text, int64 size) {
  const Found one = found<Real, Index>(text, size, 1), three = found<Real, Index>(text, size, 3);
  const bool is_same = one.error == three.error && one.labels == three.labels &&
                       one.lengths == three.lengths && one.indices == three.indices &&
                       one.values == three.values;
  if (!is_same) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size: AddressSanitizer sees the first byte that is read beyond it.
  const std::unique_ptr<char[]> text(new char[size]);
  if (size > 0) std::memcpy(text.get(), data, size);
  compare<float, std::int32_t>(text.get(), static_cast<int64>(size));
  compare<double, std::int64_t>(text.get(), static_cast<int64>(size));
  return 0;
}
