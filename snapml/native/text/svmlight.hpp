// Rows of svmlight text, one a line: "label [qid:N] index:value index:value ... # comment".
//
// A block of whole lines is cut into pieces, one a thread. Every piece writes into memory of its
// own, sized for the shortest entries there can be: pages that no entry reaches cost nothing.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "text/text_pieces.hpp"

namespace snapml::native {

template <class Real, class Index>
struct SvmlightPiece {
  std::unique_ptr<double[]> labels;
  std::unique_ptr<int64[]> lengths;
  std::unique_ptr<Index[]> indices;
  std::unique_ptr<Real[]> values;
  int64 n_rows = 0, n_stored = 0;
  int64 n_lines = 0;  // with empty ones and comments
  int64 smallest = std::numeric_limits<int64>::max(), largest = -1;
  TextError error;
};

namespace svmlight {

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

template <class Real, class Index>
std::vector<SvmlightPiece<Real, Index>> parse_svmlight(const char* text, int64 size, int64 least,
                                                       ThreadPool& pool) {
  return parse_in_pieces(text, size, pool, [&](const char* begin, const char* end) {
    return svmlight::Parser<Real, Index>(begin, end, least).parse();
  });
}

}  // namespace snapml::native
