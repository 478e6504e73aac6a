// The only threads of the CPU engine: a pool owned by whoever starts a fit.
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

// Between two looks at what another thread is to change.
inline void pause_a_little() {
#if defined(__x86_64__) || defined(_M_X64)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Runs task(worker) for worker = 0 .. size-1, each once: worker 0 on the calling thread, the others
// on whichever thread is free, the calling one among them. A thread that the system wakes late, or
// that shares its core with another process, so costs little more than not having it, and what a
// worker computes does not depend on the thread it runs on. No worker may wait for another. The
// first exception thrown by any worker is rethrown to the caller after all have finished. One run
// at a time.
class ThreadPool {
 public:
  explicit ThreadPool(int size) : size_(size < 1 ? 1 : size) {}
  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  void run(const std::function<void(int)>& task) {
    if (size_ == 1) return task(0);
    start();
    const std::exception_ptr error = team_->run(task, size_);
    if (error) std::rethrow_exception(error);
  }

 private:
  // The started threads and what they share. Threads do not survive fork(), but this memory does:
  // a forked child abandons its copy of a team and starts another.
  class Team {
   public:
    explicit Team(int size) {
      try {
        for (int k = 1; k < size; ++k) threads_.emplace_back([this] { help(); });
      } catch (...) {  // the system refused a thread
        stop();
        throw;
      }
    }
    ~Team() { stop(); }
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    bool is_of_this_process() const { return owner_ == process_number(); }

    std::exception_ptr run(const std::function<void(int)>& task, int size) {
      std::unique_lock<std::mutex> lock(mutex_);
      task_ = &task;
      error_ = nullptr;
      next_ = 0, size_ = n_unfinished_ = size;
      ++round_;
      wake_.notify_all();
      take_workers(lock);
      if (n_unfinished_ > 0) {
        lock.unlock();
        spin_while([this] { return n_unfinished_ > 0; });
        lock.lock();
        done_.wait(lock, [this] { return n_unfinished_ == 0; });
      }
      return error_;
    }

   private:
    // Rounds of a descent follow each other closely, and to be woken takes tens of microseconds:
    // a thread looks about as long for the next before it sleeps.
    template <class Condition>
    static void spin_while(Condition condition) {
      for (int spin = 0; spin < kSpins && condition(); ++spin) pause_a_little();
    }
    static constexpr int kSpins = 500;

    // Runs workers that nobody has begun. The lock is held on entry, between two, and on return.
    void take_workers(std::unique_lock<std::mutex>& lock) {
      while (next_ < size_) {
        const int worker = next_++;
        lock.unlock();
        std::exception_ptr caught;
        try {
          (*task_)(worker);
        } catch (...) {
          caught = std::current_exception();
        }
        lock.lock();
        if (caught && !error_) error_ = caught;
        if (--n_unfinished_ == 0) done_.notify_one();
      }
    }

    void help() {
      std::unique_lock<std::mutex> lock(mutex_);
      for (;;) {
        wake_.wait(lock, [this] { return stopping_ || next_ < size_; });
        if (stopping_) return;
        take_workers(lock);
        const long long seen = round_;
        lock.unlock();
        spin_while([&] { return round_ == seen && !stopping_; });
        lock.lock();
      }
    }

    void stop() {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        stopping_ = true;
      }
      wake_.notify_all();
      for (std::thread& thread : threads_) thread.join();
    }

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    const std::function<void(int)>* task_ = nullptr;
    int next_ = 0, size_ = 0;  // the first worker that nobody has begun, and their number
    std::exception_ptr error_;
    // Written with the lock held, and also looked at without it.
    std::atomic<long long> round_{0};
    std::atomic<int> n_unfinished_{0};
    std::atomic<bool> stopping_{false};
    const int64 owner_ = process_number();
    std::vector<std::thread> threads_;
  };

  void start() {
    if (team_ && team_->is_of_this_process()) return;
    abandon();
    team_ = std::make_unique<Team>(size_);
  }

  void stop() {
    if (team_ && !team_->is_of_this_process()) abandon();
    team_.reset();
  }

  // After a fork: its mutex and threads belong to the parent.
  void abandon() { (void)team_.release(); }

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
// free.
template <class Work>
void run_parts(ThreadPool& pool, int64 count, int64 size, Work work) {
  std::atomic<int64> next{0};
  pool.run([&](int worker) {
    for (int64 begin; (begin = next.fetch_add(size)) < count;) {
      work(worker, Range{begin, begin + size < count ? begin + size : count});
    }
  });
}

// Asked now and then by the thread that made it, whichever worker it runs; once it answers true,
// all workers wind down and the caller raises. The question may cost a lock, so it is put at most
// every 50 ms.
class Interrupt {
 public:
  explicit Interrupt(std::function<bool()> ask) : ask_(std::move(ask)) {}

  bool requested() const { return requested_.load(std::memory_order_relaxed); }

  void poll() {
    if (requested() || std::this_thread::get_id() != owner_) return;
    const Clock::time_point now = Clock::now();
    if (now - last_poll_ < std::chrono::milliseconds(50)) return;
    last_poll_ = now;
    if (ask_()) requested_.store(true, std::memory_order_relaxed);
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::function<bool()> ask_;
  const std::thread::id owner_ = std::this_thread::get_id();
  std::atomic<bool> requested_{false};
  Clock::time_point last_poll_ = Clock::now();
};

}  // namespace snapml::native
