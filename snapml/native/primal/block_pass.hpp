// The loop of every read that ends in a gradient: X^T f(X w), one block of rows after the other.
//
// A block is multiplied with the coefficients, f replaces the products, and the block, still in
// cache, is added up. Sums are float64 throughout, in an order fixed by the number of workers.
#pragma once

#include <algorithm>
#include <vector>

#include "dual/objective.hpp"
#include "primal/block_products.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

// A number for every row of a block. Sums over blocks are kept lane by lane as well: adding up the
// lanes of every block would be a chain of dependent additions.
struct Lanes {
  double lane[kBlockRows] = {};

  double sum() const {
    double part[kBlockRows];
    for (int j = 0; j < kBlockRows; ++j) part[j] = lane[j];
    for (int width = kBlockRows / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) part[j] += part[j + width];
    }
    return part[0];
  }
};

// K outputs of n_cols columns and the intercept's, one output after the other.
struct OutputShape {
  int n_outputs;
  int64 n_cols;
  double bias_column;  // value of the intercept's column, 0 without an intercept

  int64 stride() const { return n_cols + 1; }
  int64 size() const { return n_outputs * stride(); }
};

// Vectors as they come: what suits dense rows, which run along them.
template <class View>
class PlainVectors {
 public:
  PlainVectors(const OutputShape& shape, const double* coef, ThreadPool&)
      : shape_(shape), coef_(coef) {}

  class Worker {
   public:
    Worker(const PlainVectors& all, double* gradient)
        : shape_(all.shape_), coef_(all.coef_), gradient_(gradient) {}
    void dots(const RowReader<View>& reader, int count, double* z) const {
      block_dots(reader, count, shape_.n_cols, coef_, shape_.stride(), shape_.n_outputs, z);
    }
    void add(const RowReader<View>& reader, int count, const double* r) {
      block_add(reader, count, shape_.n_cols, r, gradient_, shape_.stride(), shape_.n_outputs);
    }
    void finish() {}

   private:
    const OutputShape& shape_;
    const double* coef_;
    double* gradient_;
  };

 private:
  const OutputShape& shape_;
  const double* coef_;
};

// The outputs of a column side by side: an entry of a sparse row then finds all of them in one or
// few cache lines, where it would otherwise gather one number from each of K vectors.
template <class View>
class InterleavedVectors {
 public:
  InterleavedVectors(const OutputShape& shape, const double* coef, ThreadPool& pool)
      : shape_(shape),
        width_((shape.n_outputs + kEight - 1) / kEight * kEight),
        coef_(static_cast<std::size_t>(shape.n_cols * width_)) {
    pool.run([&](int worker) {
      const Range columns = share(shape.n_cols, pool.size(), worker);
      for (int64 j = columns.begin; j < columns.end; ++j) {
        double* const to = coef_.data() + j * width_;
        for (int k = 0; k < shape.n_outputs; ++k) to[k] = coef[k * shape.stride() + j];
      }
    });
  }

  class Worker {
   public:
    Worker(const InterleavedVectors& all, double* gradient)
        : shape_(all.shape_),
          width_(all.width_),
          coef_(all.coef_.data()),
          gradient_(gradient),
          sums_(all.coef_.size()),
          row_(static_cast<std::size_t>(all.width_)) {}
    void dots(const RowReader<View>& reader, int count, double* z) {
      for (int j = 0; j < count; ++j) {
        interleaved_dots(reader.row(j), coef_, width_, row_.data());
        for (int k = 0; k < shape_.n_outputs; ++k) {
          z[k * kBlockRows + j] += row_[static_cast<std::size_t>(k)];
        }
      }
    }
    void add(const RowReader<View>& reader, int count, const double* r) {
      for (int j = 0; j < count; ++j) {
        for (int k = 0; k < shape_.n_outputs; ++k) {
          row_[static_cast<std::size_t>(k)] = r[k * kBlockRows + j];
        }
        for (auto k = static_cast<std::size_t>(shape_.n_outputs); k < row_.size(); ++k) row_[k] = 0;
        interleaved_add(reader.row(j), row_.data(), width_, sums_.data());
      }
    }
    void finish() {
      for (int64 j = 0; j < shape_.n_cols; ++j) {
        const double* const from = sums_.data() + j * width_;
        for (int k = 0; k < shape_.n_outputs; ++k) gradient_[k * shape_.stride() + j] += from[k];
      }
    }

   private:
    const OutputShape& shape_;
    int64 width_;
    const double* coef_;
    double* gradient_;
    std::vector<double> sums_, row_;
  };

 private:
  const OutputShape& shape_;
  int64 width_;
  std::vector<double> coef_;
};

// Calls transforms[worker](reader, first, count, z) on the products z (K x kBlockRows) of every
// block and adds the rows up with what it leaves there: in one gradient (K x (n_cols + 1)) per
// worker, added up into the first. Of a part of the rows, the workers' gradients go on from what
// the parts before have left, and the caller adds up the workers after the last one.
template <class Vectors, class View, class Transform>
void block_pass_on(const View& view, const OutputShape& shape, const double* coef,
                   std::vector<Transform>& transforms, double* gradients, bool is_part,
                   ThreadPool& pool, Interrupt& interrupt) {
  const Vectors vectors(shape, coef, pool);
  const int64 stride = shape.stride();
  pool.run([&](int worker) {
    double* const gradient = gradients + worker * shape.size();
    if (!is_part) std::fill_n(gradient, shape.size(), 0.0);
    typename Vectors::Worker products(vectors, gradient);
    Transform transform = transforms[static_cast<std::size_t>(worker)];
    std::vector<double> block(static_cast<std::size_t>(shape.n_outputs * kBlockRows));
    std::vector<Lanes> bias_slopes(static_cast<std::size_t>(shape.n_outputs));
    RowReader<View> reader(view);
    const Range rows = share(view.n_rows, pool.size(), worker);
    for (int64 first = rows.begin; first < rows.end; first += kBlockRows) {
      if (first / kBlockRows % 16 == 0) interrupt.poll();
      if (interrupt.requested()) return;
      const int count = static_cast<int>(minimum<int64>(kBlockRows, rows.end - first));
      reader.load(first, count);
      for (int k = 0; k < shape.n_outputs; ++k) {
        const double bias = shape.bias_column * coef[k * stride + shape.n_cols];
        for (int j = 0; j < kBlockRows; ++j) {
          block[static_cast<std::size_t>(k * kBlockRows + j)] = bias;
        }
      }
      products.dots(reader, count, block.data());
      transform(reader, first, count, block.data());
      products.add(reader, count, block.data());
      for (int k = 0; k < shape.n_outputs; ++k) {
        const double* const r = block.data() + k * kBlockRows;
        Lanes& slopes = bias_slopes[static_cast<std::size_t>(k)];
        for (int j = 0; j < kBlockRows; ++j) slopes.lane[j] += r[j];
      }
    }
    products.finish();
    for (int k = 0; k < shape.n_outputs; ++k) {
      gradient[k * stride + shape.n_cols] +=
          shape.bias_column * bias_slopes[static_cast<std::size_t>(k)].sum();
    }
    transforms[static_cast<std::size_t>(worker)] = transform;
  });
  if (!is_part) add_up_rows(gradients, shape.size(), pool);
}

template <class Real, class Transform>
void block_pass(const DenseView<Real>& view, const OutputShape& shape, const double* coef,
                std::vector<Transform>& transforms, double* gradients, bool is_part,
                ThreadPool& pool, Interrupt& interrupt) {
  block_pass_on<PlainVectors<DenseView<Real>>>(view, shape, coef, transforms, gradients, is_part,
                                               pool, interrupt);
}

template <class Real, class Index, class Transform>
void block_pass(const CompressedView<Real, Index>& view, const OutputShape& shape,
                const double* coef, std::vector<Transform>& transforms, double* gradients,
                bool is_part, ThreadPool& pool, Interrupt& interrupt) {
  using View = CompressedView<Real, Index>;
  if (shape.n_outputs > 1) {
    block_pass_on<InterleavedVectors<View>>(view, shape, coef, transforms, gradients, is_part, pool,
                                            interrupt);
  } else {
    block_pass_on<PlainVectors<View>>(view, shape, coef, transforms, gradients, is_part, pool,
                                      interrupt);
  }
}

}  // namespace snapml::native
