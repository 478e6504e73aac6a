// What a sweep asks for before it needs it: jumps to random blocks of rows otherwise wait for
// memory. Asking moves no bit of the result.
//
// A core has few requests under way at once, and more of them make it wait. So the next block's
// rows are asked for bit by bit, while the rows of this one are visited.
#pragma once

#include "dual/dual_state.hpp"
#include "snapml/views.hpp"

namespace snapml::native {

constexpr int64 kLineBytes = 64;
constexpr int64 kNearBytes = 16 << 10;  // a vector of so many stays beside the core

// Asks for `count` numbers.
template <class T>
void prefetch_span(const T* first, int64 count) {
  constexpr int64 kStep = kLineBytes / static_cast<int64>(sizeof(T));
  for (int64 k = 0; k < count; k += kStep) __builtin_prefetch(first + k);
  if (count > 0) __builtin_prefetch(first + count - 1);
}

// Asks for what visits of the rows from `first` on read and write beside the rows.
template <class Real>
void prefetch_states(const DualState<Real>& state, int64 first, int64 count) {
  prefetch_span(state.duals + first, count);
  prefetch_span(state.labels + first, count);
  if (state.row_offsets != nullptr) prefetch_span(state.row_offsets + first, count);
  if (state.row_norms_sq != nullptr) prefetch_span(state.row_norms_sq + first, count);
  if (state.row_weights != nullptr) prefetch_span(state.row_weights + first, count);
}

// Asks for where a row begins.
template <class Real, class Index>
void prefetch_offset(const CompressedView<Real, Index>& view, int64 row) {
  __builtin_prefetch(view.indptr + row);
}

template <class Real>
void prefetch_offset(const DenseView<Real>&, int64) {}

// Asks for what the product of a row gathers, while the step of the row before still computes: it
// is a chain of dependent operations and leaves the memory idle.
template <class Real, class Index>
void prefetch_gathered(const CompressedView<Real, Index>& view, int64 row, const Real* vector) {
  for (Index k = view.indptr[row]; k < view.indptr[row + 1]; ++k) {
    __builtin_prefetch(vector + view.indices[k], 1);
  }
}

template <class Real>
void prefetch_gathered(const DenseView<Real>&, int64, const Real*) {}  // the hardware follows them

// Neighbouring rows, to be asked for in parts.
template <class View>
class RowsAhead;

template <class Real, class Index>
class RowsAhead<CompressedView<Real, Index>> {
 public:
  using View = CompressedView<Real, Index>;
  RowsAhead() = default;
  RowsAhead(const View& view, int64 first, int64 count, int parts)
      : indices_(view.indices),
        values_(view.values),
        next_(view.indptr[first]),
        last_(view.indptr[first + count]) {
    constexpr int64 kLine = kLineBytes / static_cast<int64>(sizeof(Index));
    // Rows that come alone save the division.
    const int64 part = parts == 1 ? last_ - next_ : (last_ - next_) / parts;
    step_ = (part / kLine + 1) * kLine;
  }

  // Asks for the next part.
  void ask() {
    const int64 count = minimum(step_, last_ - next_);
    if (count <= 0) return;
    prefetch_span(indices_ + next_, count);
    if (values_ != nullptr) prefetch_span(values_ + next_, count);
    next_ += count;
  }

 private:
  const Index* indices_ = nullptr;
  const Real* values_ = nullptr;
  int64 next_ = 0, last_ = 0, step_ = 0;
};

// The beginnings of dense rows: the hardware follows them from there.
template <class Real>
class RowsAhead<DenseView<Real>> {
 public:
  using View = DenseView<Real>;
  RowsAhead() = default;
  RowsAhead(const View& view, int64 first, int64 count, int parts)
      : next_(view.values + first * view.row_stride),
        stride_(view.row_stride),
        left_(count),
        step_((count + parts - 1) / parts) {}

  void ask() {
    for (int64 k = 0; k < step_ && left_ > 0; ++k, --left_, next_ += stride_) {
      __builtin_prefetch(next_);
    }
  }

 private:
  const Real* next_ = nullptr;
  int64 stride_ = 0, left_ = 0, step_ = 0;
};

}  // namespace snapml::native
