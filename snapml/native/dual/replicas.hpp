// What an epoch visits and reports, and the epoch of several workers, each on a copy of the shared
// vector: what they changed is added up `rounds` times, in a fixed order (docs/algorithms.md,
// section 3).
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "rows/row_operations.hpp"
#include "snapml/math.hpp"
#include "threads/parallel.hpp"

namespace snapml::native {

struct EpochOptions {
  uint64 seed;
  uint64 epoch;
  int64 rounds;       // merges of the replicas per epoch
  double sigma;       // safety factor among this shard's workers to begin with, in [1, workers]
  double outer;       // safety factor among shards; 1 where this shard is all there is
  double relaxation;  // factor on the stiffness; above 1/2 the dual objective cannot fall
  int block_rows;     // rows visited together, at most kBlockRows

  int64 n_blocks(int64 n_rows) const { return (n_rows + block_rows - 1) / block_rows; }
};

// The rows that an epoch visits, and what it notes of them.
template <class Real>
struct RowVisits {
  const int64* rows;  // each once; null: all of the shard
  int64 n_rows;       // of `rows`, or of the shard
  Real* row_gaps;     // null, or one number a row of the shard: its gap as it was visited
  uint8* at_rest;     // null, or likewise: whether the visit found no gap and changed nothing

  int64 row(int64 position) const { return rows == nullptr ? position : rows[position]; }
};

struct EpochReport {
  double gap = 0;             // sum of the rows' gaps as each was visited
  double sigma = 1;           // factor to begin the next epoch with
  double sigma_measured = 1;  // largest factor that a merge of this epoch needed
};

// Squared norms that a merge measures: of the summed change, and summed over the single changes.
struct MergeNorms {
  double joint = 0;
  double single = 0;
};

// Adds the changes (replica - shared) / sigma of all workers to columns [range) of the shared
// vector and resets the replicas to it.
template <class Real>
MergeNorms merge_columns(Real* shared, Real* replicas, int64 stride, int workers, Range range,
                         double sigma) {
  constexpr int64 kChunk = 512;  // stays in the first-level cache
  const Real inverse = static_cast<Real>(1 / sigma);
  Real joint[kChunk], change[kChunk];
  MergeNorms norms;
  for (int64 begin = range.begin; begin < range.end; begin += kChunk) {
    const int64 n = minimum<int64>(kChunk, range.end - begin);
    for (int64 j = 0; j < n; ++j) joint[j] = 0;
    for (int k = 0; k < workers; ++k) {
      const Real* replica = replicas + k * stride + begin;
      for (int64 j = 0; j < n; ++j) {
        change[j] = (replica[j] - shared[begin + j]) * inverse;
        joint[j] += change[j];
      }
      norms.single += static_cast<double>(dense_dot<Real>(change, change, n));
    }
    norms.joint += static_cast<double>(dense_dot<Real>(joint, joint, n));
    for (int64 j = 0; j < n; ++j) shared[begin + j] += joint[j];
    for (int k = 0; k < workers; ++k) {
      Real* replica = replicas + k * stride + begin;
      for (int64 j = 0; j < n; ++j) replica[j] = shared[begin + j];
    }
  }
  return norms;
}

// The factor for the next round. A merge shows exactly which factor would have sufficed:
// joint / single, at most `workers`. It may rise at once and falls slowly.
inline double next_sigma(double sigma, double needed, int workers) {
  constexpr double kMargin = 1.1;  // the next round may need a little more than the last
  const double wanted = clamp(kMargin * needed, 1.0, static_cast<double>(workers));
  return wanted > sigma ? wanted : 0.9 * sigma + 0.1 * wanted;
}

// The shared vector, and as many numbers for each worker.
template <class Real>
struct Replicas {
  Real* shared;
  Real* copies;
  int64 size;
};

// Visits the blocks of the order in a range, on a vector; returns the gap that it met.
template <class Real>
using Sweep = std::function<double(int worker, Range range, Real* vector, double sigma)>;

// All workers on the shared vector itself.
template <class Real>
EpochReport sweep_one_vector(const Replicas<Real>& vectors, int64 n_blocks, ThreadPool& pool,
                             const Sweep<Real>& sweep) {
  std::vector<double> gaps(static_cast<std::size_t>(pool.size()));
  pool.run([&](int worker) {
    const Range own = share(n_blocks, pool.size(), worker);
    gaps[static_cast<std::size_t>(worker)] = sweep(worker, own, vectors.shared, 1.0);
  });
  EpochReport report;
  for (double gap : gaps) report.gap += gap;
  return report;
}

// Numbers of all replicas that one thread merges by itself.
inline constexpr int64 kSmallMerge = 1 << 14;

// Calls sweep for the blocks of the order that are a worker's in each round.
template <class Real>
EpochReport sweep_replicas(const Replicas<Real>& replicas, int64 n_blocks,
                           const EpochOptions& options, ThreadPool& pool,
                           const Sweep<Real>& sweep) {
  const int workers = pool.size();
  const int64 stride = replicas.size;
  const int rounds = static_cast<int>(options.rounds);
  const auto count = static_cast<std::size_t>(workers);
  std::vector<double> gaps(count);
  std::vector<MergeNorms> norms(count);
  EpochReport report{0, options.sigma, 1};
  for (int round = 0; round < rounds; ++round) {
    const double sigma = report.sigma;
    const Range part = share(n_blocks, rounds, round);
    pool.run([&](int worker) {
      Real* const mine = replicas.copies + worker * stride;
      if (round == 0) std::copy_n(replicas.shared, stride, mine);
      const Range own = share(part.end - part.begin, workers, worker);
      gaps[static_cast<std::size_t>(worker)] +=
          sweep(worker, Range{part.begin + own.begin, part.begin + own.end}, mine, sigma);
    });
    const auto merge = [&](int worker) {
      norms[static_cast<std::size_t>(worker)] = merge_columns(
          replicas.shared, replicas.copies, stride, workers, share(stride, workers, worker), sigma);
    };
    if (stride * workers > kSmallMerge) {
      pool.run(merge);
    } else {  // done before another thread would be awake
      for (int worker = 0; worker < workers; ++worker) merge(worker);
    }
    MergeNorms total;
    for (const MergeNorms& part_norms : norms) {
      total.joint += part_norms.joint;
      total.single += part_norms.single;
    }
    const double needed = total.single > 0 ? total.joint / total.single : 1.0;
    report.sigma_measured = maximum(report.sigma_measured, needed);
    report.sigma = next_sigma(sigma, needed, workers);
  }
  for (double gap : gaps) report.gap += gap;
  return report;
}

}  // namespace snapml::native
