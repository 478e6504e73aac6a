// Rows of a click log as sets of hashed columns: one for every field of the row.
//
// Text has a row a line: [label] TAB number ... TAB category ..., any of them empty. A number's
// field falls into a bin by its sign, its exponent and the first two bits behind its leading one,
// four bins from each power of two to the next; a category's is its bytes. What is missing is a
// category of its own. Nothing is learned from data, so that training and prediction agree.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "snapml/config.hpp"
#include "text/text_pieces.hpp"

namespace snapml::native {

namespace clicks {

constexpr uint64 kMissing = 1, kNumber = 2, kCategory = 3;

// The finaliser of MurmurHash3: every bit of x decides about every bit of the result.
inline uint64 mixed(uint64 x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

// Column of a field's content, uniform in [0, n_features).
class Hash {
 public:
  Hash(uint64 seed, int64 n_features) : seed_(seed), n_features_(static_cast<uint64>(n_features)) {}

  int64 missing(int64 field) const { return column(start(field, kMissing)); }

  int64 number(int64 field, double value) const {
    const double positive_zero = value + 0.0;
    const auto bits = static_cast<uint64>(scalar::to_bits(positive_zero)) >> 50;
    return column(mixed(start(field, kNumber) ^ bits));
  }

  // Eight bytes at a time; the length tells apart what zeros at the end would make equal.
  int64 category(int64 field, const char* text, int64 size) const {
    uint64 state = start(field, kCategory) ^ static_cast<uint64>(size);
    for (int64 k = 0; k < size; k += 8) {
      uint64 word = 0;
      for (int64 j = std::min<int64>(k + 8, size); j-- > k;) {
        word = word << 8 | static_cast<unsigned char>(text[j]);
      }
      state = mixed(state ^ word);
    }
    return column(state);
  }

 private:
  uint64 start(int64 field, uint64 kind) const {
    return mixed(mixed(seed_ + kind) + static_cast<uint64>(field));
  }

  int64 column(uint64 hash) const {
    return static_cast<int64>((static_cast<unsigned __int128>(mixed(hash)) * n_features_) >> 64);
  }

  uint64 seed_, n_features_;
};

}  // namespace clicks

struct ClickFormat {
  bool has_label;
  int64 n_numbers, n_categories;
};

template <class Index>
struct ClickPiece {
  std::vector<double> labels;
  std::vector<Index> indices;
  std::vector<int64> lengths;
  int64 n_lines = 0;
  TextError error;
};

// Parses the lines of one piece.
template <class Index>
class ClickParser {
 public:
  ClickParser(const char* begin, const char* end, const ClickFormat& format,
              const clicks::Hash& hash)
      : begin_(begin), here_(begin), end_(end), format_(format), hash_(hash) {}

  ClickPiece<Index> parse() {
    const int64 n_fields = format_.n_numbers + format_.n_categories;
    std::vector<Index> row(static_cast<std::size_t>(n_fields));
    while (here_ != end_ && line(row)) {
      if (here_ != end_) ++here_;  // the newline
      ++piece_.n_lines;
    }
    return std::move(piece_);
  }

 private:
  bool refuse(const char* at, const char* expected) {
    piece_.error = {at - begin_, expected};
    return false;
  }

  bool line(std::vector<Index>& row) {
    const char* const first = here_;
    const void* const newline = std::memchr(here_, '\n', static_cast<std::size_t>(end_ - here_));
    line_end_ = newline == nullptr ? end_ : static_cast<const char*>(newline);
    if (line_end_ != here_ && line_end_[-1] == '\r') --line_end_;
    is_over_ = false;
    if (line_end_ == here_ && format_.n_numbers + format_.n_categories + format_.has_label > 1) {
      here_ = newline == nullptr ? end_ : static_cast<const char*>(newline);
      return true;  // an empty line
    }
    double label = 0;
    if (format_.has_label) {
      const char* const text = here_;
      const char* const stop = field();
      Cursor cursor{text, stop};
      if (!cursor.number(label) || cursor.here != stop) return refuse(text, "a finite label");
    }
    std::size_t n = 0;
    for (int64 k = 0; k < format_.n_numbers + format_.n_categories; ++k) {
      if (is_over_) return refuse(first, "more fields in the line");
      const char* const text = here_;
      const char* const stop = field();
      if (text == stop) {
        row[n++] = static_cast<Index>(hash_.missing(k));
      } else if (k < format_.n_numbers) {
        Cursor cursor{text, stop};
        double value;
        if (!cursor.number(value) || cursor.here != stop) return refuse(text, "a finite number");
        row[n++] = static_cast<Index>(hash_.number(k, value));
      } else {
        row[n++] = static_cast<Index>(hash_.category(k, text, stop - text));
      }
    }
    if (!is_over_) return refuse(first, "fewer fields in the line");
    std::sort(row.begin(), row.end());
    const auto last = std::unique(row.begin(), row.end());  // two fields may share a column
    piece_.indices.insert(piece_.indices.end(), row.begin(), last);
    piece_.lengths.push_back(last - row.begin());
    if (format_.has_label) piece_.labels.push_back(label);
    here_ = newline == nullptr ? end_ : static_cast<const char*>(newline);
    return true;
  }

  // Returns the end of the field that begins here, and goes on behind its tab.
  const char* field() {
    const auto size = static_cast<std::size_t>(line_end_ - here_);
    const void* const tab = std::memchr(here_, '\t', size);
    const char* const stop = tab == nullptr ? line_end_ : static_cast<const char*>(tab);
    is_over_ = tab == nullptr;
    here_ = is_over_ ? line_end_ : stop + 1;
    return stop;
  }

  const char *begin_, *here_, *end_;
  const char* line_end_ = nullptr;
  bool is_over_ = false;  // whether the line has no further field
  const ClickFormat& format_;
  const clicks::Hash& hash_;
  ClickPiece<Index> piece_;
};

template <class Index>
std::vector<ClickPiece<Index>> parse_clicks(const char* text, int64 size, const ClickFormat& format,
                                            const clicks::Hash& hash, ThreadPool& pool) {
  return parse_in_pieces(text, size, pool, [&](const char* begin, const char* end) {
    return ClickParser<Index>(begin, end, format, hash).parse();
  });
}

}  // namespace snapml::native
