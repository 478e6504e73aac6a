// The only threads of the CPU engine: a pool owned by whoever starts a fit, and its barrier.
//
// No pool outlives its owner, so a finished or failed fit leaves no thread behind, and a process
// may fork between fits. std::thread instead of OpenMP: libgomp hangs in a forked child and spins
// when cores are shared.
#pragma once

#ifndef _WIN32
#include <unistd.h>
#endif

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "snapml/config.hpp"

namespace snapml::native {

// Differs in a forked child.
inline int64 process_number() {
#ifdef _WIN32  // which has no forks
  return 0;
#else
  return getpid();
#endif
}

// All workers wait until the last has arrived. Rounds of a descent are short, so arriving spins a
// little before it yields the core.
class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}

  void arrive_and_wait() {
    const int generation = generation_.load(std::memory_order_acquire);
    if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
      waiting_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    for (int spin = 0; generation_.load(std::memory_order_acquire) == generation; ++spin) {
      if (spin > 2000) std::this_thread::yield();
    }
  }

 private:
  const int count_;
  std::atomic<int> waiting_{0};
  std::atomic<int> generation_{0};
};

// Runs task(worker) for worker = 0 .. size-1; the calling thread is worker 0. The first exception
// thrown by any worker is rethrown to the caller after all have finished. One run at a time. A
// task that meets others at a Barrier must not throw.
class ThreadPool {
 public:
  explicit ThreadPool(int size) : size_(size < 1 ? 1 : size) {}
  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  void run(const std::function<void(int)>& task) {
    if (size_ > 1) start();
    Team* team = team_.get();
    if (team != nullptr) team->begin(task);
    std::exception_ptr error;
    try {
      task(0);
    } catch (...) {
      error = std::current_exception();
    }
    if (team != nullptr) {
      const std::exception_ptr other = team->finish();
      if (!error) error = other;
    }
    if (error) std::rethrow_exception(error);
  }

 private:
  // The started threads and what they share. Threads do not survive fork(), but this memory does:
  // a forked child abandons its copy of a team and starts another.
  struct Team {
    std::mutex mutex;
    std::condition_variable wake, done;
    const std::function<void(int)>* task = nullptr;
    long long round = 0;
    int running = 0;
    bool stopping = false;
    std::exception_ptr error;
    std::vector<std::thread> threads;
    int64 owner = process_number();

    void begin(const std::function<void(int)>& work) {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        task = &work;
        error = nullptr;
        running = static_cast<int>(threads.size());
        ++round;
      }
      wake.notify_all();
    }

    std::exception_ptr finish() {
      std::unique_lock<std::mutex> lock(mutex);
      done.wait(lock, [this] { return running == 0; });
      return error;
    }

    void loop(int worker) {
      std::unique_lock<std::mutex> lock(mutex);
      for (long long seen = 0;;) {
        wake.wait(lock, [&] { return stopping || round != seen; });
        if (stopping) return;
        seen = round;
        lock.unlock();
        std::exception_ptr caught;
        try {
          (*task)(worker);
        } catch (...) {
          caught = std::current_exception();
        }
        lock.lock();
        if (caught && !error) error = caught;
        if (--running == 0) done.notify_one();
      }
    }
  };

  void start() {
    if (team_ && team_->owner == process_number()) return;
    if (team_) (void)team_.release();  // after fork: its mutex and threads belong to the parent
    team_ = std::make_unique<Team>();
    try {
      for (int worker = 1; worker < size_; ++worker) {
        team_->threads.emplace_back([team = team_.get(), worker] { team->loop(worker); });
      }
    } catch (...) {  // the system refused a thread: a smaller team would wait for it for ever
      stop();
      team_.reset();
      throw;
    }
  }

  void stop() {
    if (!team_) return;
    if (team_->owner != process_number()) {
      (void)team_.release();
      return;
    }
    {
      const std::lock_guard<std::mutex> lock(team_->mutex);
      team_->stopping = true;
    }
    team_->wake.notify_all();
    for (std::thread& thread : team_->threads) thread.join();
  }

  const int size_;
  std::unique_ptr<Team> team_;
};

// The part of 0 .. count-1 that belongs to one of `parts` workers: contiguous, sizes differ by 1.
struct Range {
  int64 begin, end;
};

inline Range share(int64 count, int parts, int part) {
  const int64 base = count / parts, extra = count % parts;
  const int64 begin = base * part + (part < extra ? part : extra);
  return {begin, begin + base + (part < extra ? 1 : 0)};
}

// Runs work(worker, part) for parts of 0 .. count-1 of a size, the next one by whichever worker is
// free: one that wakes late, or shares its core, does not keep the others.
template <class Work>
void run_parts(ThreadPool& pool, int64 count, int64 size, Work work) {
  std::atomic<int64> next{0};
  pool.run([&](int worker) {
    for (int64 begin; (begin = next.fetch_add(size)) < count;) {
      work(worker, Range{begin, begin + size < count ? begin + size : count});
    }
  });
}

// Asked now and then by worker 0 of a long call; once it answers true, all workers wind down and
// the caller raises. The question may cost a lock, so it is put at most every 50 ms.
class Interrupt {
 public:
  explicit Interrupt(std::function<bool()> ask) : ask_(std::move(ask)) {}

  bool requested() const { return requested_.load(std::memory_order_relaxed); }

  void poll(int worker) {
    if (worker != 0 || requested()) return;
    const Clock::time_point now = Clock::now();
    if (now - last_poll_ < std::chrono::milliseconds(50)) return;
    last_poll_ = now;
    if (ask_()) requested_.store(true, std::memory_order_relaxed);
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::function<bool()> ask_;
  std::atomic<bool> requested_{false};
  Clock::time_point last_poll_ = Clock::now();
};

}  // namespace snapml::native
