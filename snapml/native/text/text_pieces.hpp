// What parsers of text share: a cursor, the first error, and lines in pieces, one a thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "snapml/config.hpp"
#include "text/decimal.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

// Where a text ceases to be what it should be, and what should have stood there.
struct TextError {
  int64 position = -1;  // none
  const char* expected = "";
};

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads the text of one piece from `here` on.
struct Cursor {
  const char* here;
  const char* end;

  bool at_line_end() const { return here == end || *here == '\n' || *here == '#'; }
  bool at_token_end() const { return at_line_end() || is_blank(*here); }

  void skip_blanks() {
    while (here != end && is_blank(*here)) ++here;
  }

  void skip_comment() {
    if (here == end || *here != '#') return;
    const void* const newline = std::memchr(here, '\n', static_cast<std::size_t>(end - here));
    here = newline == nullptr ? end : static_cast<const char*>(newline);
  }

  // Up to 18 decimal digits, which fit 64 bits; false, and nothing read, where there are none or
  // more.
  bool whole_number(int64& number) {
    const char* p = here;
    uint64 sum = 0;
    while (p != end && is_digit(*p)) sum = 10 * sum + static_cast<uint64>(*p++ - '0');
    const int64 n_digits = p - here;
    if (n_digits < 1 || n_digits > 18) return false;
    number = static_cast<int64>(sum);
    here = p;
    return true;
  }

  // A decimal number, rounded as the nearest double; false where there is none, or none so large.
  bool number(double& value) {
    static constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                         1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                         1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char* p = here;
    const bool is_negative = p != end && *p == '-';
    if (p != end && (*p == '-' || *p == '+')) ++p;
    const char* const unsigned_text = p;
    uint64 digits = 0;
    int64 n_digits = 0, exponent = 0;
    for (; p != end && is_digit(*p); ++p, ++n_digits) {
      digits = 10 * digits + static_cast<uint64>(*p - '0');
    }
    if (p != end && *p == '.') {
      for (++p; p != end && is_digit(*p); ++p, ++n_digits, --exponent) {
        digits = 10 * digits + static_cast<uint64>(*p - '0');
      }
    }
    if (n_digits == 0) return false;
    if (p != end && (*p == 'e' || *p == 'E') && !signed_exponent(p, exponent)) return false;
    here = p;
    // Digits and a power of ten that doubles hold exactly: one operation rounds rightly.
    if (n_digits <= 19 && digits <= (uint64{1} << 53) && exponent >= -22 && exponent <= 22) {
      const double whole = static_cast<double>(digits);
      value = exponent < 0 ? whole / kPowers[-exponent] : whole * kPowers[exponent];
    } else if (!read_decimal(unsigned_text, p, exponent + n_digits > 0, value)) {
      return false;
    }
    if (is_negative) value = -value;
    return true;
  }

  // Adds the exponent at p, "e-12", to `exponent`.
  bool signed_exponent(const char*& p, int64& exponent) const {
    ++p;
    const bool is_negative = p != end && *p == '-';
    if (p != end && (*p == '-' || *p == '+')) ++p;
    int64 sum = 0;
    const char* const first = p;
    for (; p != end && is_digit(*p); ++p) {
      if (sum < 1'000'000) sum = 10 * sum + (*p - '0');
    }
    exponent += is_negative ? -sum : sum;
    return p != first;
  }
};

// Where a text is cut for so many parts: whole lines each, about equal in bytes.
inline std::vector<int64> line_cuts(const char* text, int64 size, int parts) {
  std::vector<int64> cuts{0};
  for (int part = 1; part < parts; ++part) {
    const int64 at = std::max(cuts.back(), share(size, parts, part).begin);
    const void* const newline = std::memchr(text + at, '\n', static_cast<std::size_t>(size - at));
    cuts.push_back(newline == nullptr ? size : static_cast<const char*>(newline) - text + 1);
  }
  cuts.push_back(size);
  return cuts;
}

// Parses whole lines with the threads of a pool: parse(begin, end) returns a piece with an `error`
// that counts from its own begin, here from that of the text. The first error of the text is that
// of the first piece that has one; pieces after it say nothing.
template <class Parse>
auto parse_in_pieces(const char* text, int64 size, ThreadPool& pool, const Parse& parse) {
  const std::vector<int64> cuts = line_cuts(text, size, pool.size());
  std::vector<decltype(parse(text, text))> pieces(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    const auto part = static_cast<std::size_t>(worker);
    pieces[part] = parse(text + cuts[part], text + cuts[part + 1]);
    if (pieces[part].error.position >= 0) pieces[part].error.position += cuts[part];
  });
  return pieces;
}

}  // namespace snapml::native
