// Rows of svmlight text, one a line: "label [qid:N] index:value index:value ... # comment".
//
// A block of whole lines is cut into pieces, one a thread. Every piece writes into memory of its
// own, sized for the shortest entries there can be: pages that no entry reaches cost nothing.
#pragma once

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <system_error>
#include <vector>

#include "parallel.hpp"
#include "snapml/config.hpp"

namespace snapml::native {

// Where a block ceases to be svmlight text, and what should have stood there.
struct SvmlightError {
  int64 position = -1;  // none
  const char* expected = "";
};

template <class Real, class Index>
struct SvmlightPiece {
  std::unique_ptr<double[]> labels;
  std::unique_ptr<int64[]> lengths;
  std::unique_ptr<Index[]> indices;
  std::unique_ptr<Real[]> values;
  int64 n_rows = 0, n_stored = 0;
  int64 n_lines = 0;  // with empty ones and comments
  int64 smallest = std::numeric_limits<int64>::max(), largest = -1;
  SvmlightError error;
};

namespace svmlight {

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
    } else {
      const auto [stop, status] = std::from_chars(unsigned_text, p, value);
      if (status == std::errc::result_out_of_range) {
        if (exponent + n_digits > 0) return false;
        value = 0;  // below the smallest number
      } else if (status != std::errc() || stop != p) {
        return false;
      }
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

// Parses a piece; indices below `least` and, for 32-bit ones, beyond their type are errors.
template <class Real, class Index>
class Parser {
 public:
  Parser(const char* begin, const char* end, int64 least) : begin_(begin), least_(least) {
    text_ = {begin, end};
    const auto size = static_cast<std::size_t>(end - begin);
    // "1\n" is the shortest row, " 1:1" the shortest entry.
    piece_.labels.reset(new double[size / 2 + 1]);
    piece_.lengths.reset(new int64[size / 2 + 1]);
    piece_.indices.reset(new Index[size / 4 + 1]);
    piece_.values.reset(new Real[size / 4 + 1]);
  }

  SvmlightPiece<Real, Index> parse() {
    while (text_.here != text_.end && line()) {
      if (text_.here != text_.end) ++text_.here;  // the newline
      ++piece_.n_lines;
    }
    return std::move(piece_);
  }

 private:
  bool refuse(const char* at, const char* expected) {
    piece_.error = {at - begin_, expected};
    return false;
  }

  bool line() {
    text_.skip_blanks();
    if (!text_.at_line_end()) {
      const char* const token = text_.here;
      double& label = piece_.labels[piece_.n_rows];
      if (!text_.number(label) || !text_.at_token_end()) return refuse(token, "a finite label");
      const int64 before = piece_.n_stored;
      if (!query() || !entries()) return false;
      piece_.lengths[piece_.n_rows++] = piece_.n_stored - before;
    }
    text_.skip_comment();
    return true;
  }

  // Skips "qid:N", which ranking needs and nothing here.
  bool query() {
    text_.skip_blanks();
    const char* const token = text_.here;
    if (text_.end - token < 4 || std::memcmp(token, "qid:", 4) != 0) return true;
    text_.here += 4;
    int64 id;
    const bool is_good = text_.whole_number(id) && text_.at_token_end();
    return is_good || refuse(token, "qid:NUMBER");
  }

  bool entries() {
    int64 last = -1;
    for (text_.skip_blanks(); !text_.at_line_end(); text_.skip_blanks()) {
      const char* const token = text_.here;
      int64 index;
      double value;
      const bool is_number = text_.whole_number(index);
      if (!is_number && text_.here != text_.end && is_digit(*text_.here)) {
        return refuse(token, "an index of at most 18 digits");
      }
      const bool is_entry = is_number && text_.here != text_.end && *text_.here++ == ':' &&
                            text_.number(value) && text_.at_token_end();
      if (!is_entry) return refuse(token, "INDEX:VALUE with a finite value");
      if (index < least_) return refuse(token, "an index from 1 on");
      if (index <= last) return refuse(token, "indices that increase within a row");
      if (index > std::numeric_limits<Index>::max()) return refuse(token, kNeedsWide);
      last = index;
      const Real rounded = static_cast<Real>(value);
      if (!std::isfinite(rounded)) return refuse(token, "a number within the range of dtype");
      piece_.values[piece_.n_stored] = rounded;
      piece_.indices[piece_.n_stored++] = static_cast<Index>(index);
      if (index < piece_.smallest) piece_.smallest = index;
    }
    if (last > piece_.largest) piece_.largest = last;
    return true;
  }

 public:
  static constexpr const char* kNeedsWide = "64-bit indices";

 private:
  const char* begin_;
  int64 least_;
  Cursor text_{};
  SvmlightPiece<Real, Index> piece_;
};

}  // namespace svmlight

// Parses whole lines with the threads of a pool. The first error of the text is that of the first
// piece that has one; pieces after it say nothing.
template <class Real, class Index>
std::vector<SvmlightPiece<Real, Index>> parse_svmlight(const char* text, int64 size, int64 least,
                                                       ThreadPool& pool) {
  std::vector<int64> cuts{0};
  for (int part = 1; part < pool.size(); ++part) {
    const int64 at = std::max(cuts.back(), share(size, pool.size(), part).begin);
    const void* const newline = std::memchr(text + at, '\n', static_cast<std::size_t>(size - at));
    cuts.push_back(newline == nullptr ? size : static_cast<const char*>(newline) - text + 1);
  }
  cuts.push_back(size);
  std::vector<SvmlightPiece<Real, Index>> pieces(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    const auto part = static_cast<std::size_t>(worker);
    const char *const begin = text + cuts[part], *const end = text + cuts[part + 1];
    pieces[part] = svmlight::Parser<Real, Index>(begin, end, least).parse();
    if (pieces[part].error.position >= 0) pieces[part].error.position += cuts[part];
  });
  return pieces;
}

}  // namespace snapml::native
