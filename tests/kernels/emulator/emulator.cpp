// Runs a grid on the CPU: a worker (an OS thread) runs block after block, a fiber is a CUDA thread.
//
// A fiber runs until it must wait for others (`meet`) or ends. Where none can go on, the report
// says who waits where. Compiled without TSan: the order that it may assume is stated here, by
// barriers only, and never follows from the way fibers take turns.
#include <sched.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_on_cpu.hpp"

#if defined(EMULATOR_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(EMULATOR_TSAN)
#include <sanitizer/tsan_interface.h>
#define TSAN(call) call
#else
#define TSAN(call)
#endif

#if defined(__x86_64__) && !defined(EMULATOR_UCONTEXT)
using Context = void*;  // the stack pointer; the rest is on the stack
extern "C" void emulator_switch(Context* from, Context to);
asm(R"(
.text
.type emulator_switch,@function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
static void jump(Context& from, Context& to) { emulator_switch(&from, to); }
static void prepare(Context& context, char* stack, std::size_t bytes, void (*entry)()) {
  void** top = reinterpret_cast<void**>(stack + bytes) - 2;
  *top = reinterpret_cast<void*>(entry);  // where `ret` goes, with six registers below it
  context = top - 6;
}
#else
#include <ucontext.h>
using Context = ucontext_t;
static void jump(Context& from, Context& to) { swapcontext(&from, &to); }
static void prepare(Context& context, char* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = bytes;
  makecontext(&context, entry, 0);
}
#endif

namespace emulator {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;  // address space: only what is touched costs
// Stands at the far end of every stack. Pages without access would be two mappings for each lane,
// of which a process may not have enough.
constexpr std::uint64_t kCanary = 0x5afe57ac6b0770e5;

struct Fiber {
  Context context{};
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // ASan's
  void* tsan = nullptr;
};

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};

// Of the blocks of a cooperative launch. A block is stuck if it has asked again, and found nothing
// new, since any block last did anything else.
struct Grid {
  std::mutex mutex;
  std::uint64_t turn = 0;  // counts what blocks did besides asking
  int n_running = 0, n_stuck = 0;
  bool has_failed = false;

  void progress() {
    ++turn;
    n_stuck = 0;
  }
};

enum class State { ready, waiting, ended };

struct Lane {
  Position at;
  Fiber fiber;
  State state;
  Kind kind;
  unsigned mask;
  int source;
  Place place;
  std::uint64_t value, result;
  std::vector<Copy> copies;  // begun, not finished
};

// Fibers that pass a barrier release an address and acquire it. The next barrier uses the other
// one: it may be reached before all have left this one.
struct Order {
  unsigned turn = 0;
  char address[2] = {};
};

struct Warp {
  unsigned waiting = 0;
  Order order;
};

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::barrier:
      return "__syncthreads";
    case Kind::warp_barrier:
      return "__syncwarp";
    case Kind::shuffle:
      return "__shfl_sync";
    default:
      return "__ballot_sync";
  }
}

std::string hex(unsigned mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

std::string describe(Kind kind, Place place) {
  return std::string(name_of(kind)) + " of " + place.file + ":" + std::to_string(place.line);
}

struct Worker {
  const Launch& shape;
  Grid& grid;
  void (*body)(void**);
  void** args;
  int n_lanes;
  std::vector<Lane> lanes;
  std::vector<Warp> warps;
  std::vector<int> ready;
  Fiber scheduler;
  int current = -1;
  int n_ended = 0, n_at_barrier = 0;
  Order order;
  char begin = 0, end = 0;  // order the blocks of a worker, which use the same static memory
  char* shared = nullptr;
  std::uint64_t random = 0;
  std::string error;
  std::uint64_t asked_turn = 0;  // of the grid, when this block asked last
  int n_asked = 0;               // times in that turn
  bool has_asked = false;        // and done nothing else since

  Worker(const Launch& launch, Grid& all, void (*kernel)(void**), void** values, char* stacks);
  void run_block(dim3 block);
  void run_lane(int index);
  int next_lane();
  void arrive(Lane& lane);
  void complete_warp(int warp, unsigned mask);
  void ask(Place place);
  void finish();
  void report(const std::string& what);
  void report_deadlock();
  Warp& warp_of(const Lane& lane) { return warps[index_of(lane) / 32]; }
  std::size_t index_of(const Lane& lane) const {
    return static_cast<std::size_t>(&lane - &lanes[0]);
  }
};

thread_local Worker* worker = nullptr;

// Stacks of ended launches, for the next ones: to map them and touch them anew is what a small
// launch would mostly cost. Taken and given back by the thread that launches: a lock that workers
// take would order their blocks in the eyes of TSan, and hide races between these.
class Stacks {
 public:
  static constexpr std::size_t kMostKept = 4;  // of every program: what they touched stays

  char* take(int n_lanes) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (std::size_t i = 0; i < kept_.size(); ++i) {
        if (kept_[i].first != n_lanes) continue;
        char* const found = kept_[i].second;
        kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
        return found;
      }
    }
    void* memory = mmap(nullptr, bytes_of(n_lanes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    char* const stacks = static_cast<char*>(memory);
    for (int i = 0; i < n_lanes; ++i) {
      *reinterpret_cast<std::uint64_t*>(stacks + i * kStackBytes) = kCanary;
    }
    return stacks;
  }

  void give(int n_lanes, char* stacks) {
#if defined(EMULATOR_ASAN)
    __asan_unpoison_memory_region(stacks, bytes_of(n_lanes));  // of fibers that were given up
#endif
    std::pair<int, char*> oldest{0, nullptr};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      kept_.emplace_back(n_lanes, stacks);
      if (kept_.size() <= kMostKept) return;
      oldest = kept_.front();
      kept_.erase(kept_.begin());
    }
    munmap(oldest.second, bytes_of(oldest.first));
  }

 private:
  static std::size_t bytes_of(int n_lanes) { return n_lanes * kStackBytes; }

  std::mutex mutex_;
  std::vector<std::pair<int, char*>> kept_;
};

Stacks all_stacks;

void switch_fiber(Fiber& from, Fiber& to, bool from_ends) {
#if defined(EMULATOR_ASAN)
  __sanitizer_start_switch_fiber(from_ends ? nullptr : &from.fake_stack, to.stack, to.stack_bytes);
#endif
  TSAN(__tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync));
  (void)from_ends;
  jump(from.context, to.context);
#if defined(EMULATOR_ASAN)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

// The first function of every fiber.
void lane_main() {
  Worker& w = *worker;
#if defined(EMULATOR_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &w.scheduler.stack, &w.scheduler.stack_bytes);
#endif
  Lane& lane = w.lanes[w.current];
  TSAN(__tsan_acquire(&w.begin));
  w.body(w.args);
  TSAN(__tsan_release(&w.end));
  lane.state = State::ended;
  ++w.n_ended;
  switch_fiber(lane.fiber, w.scheduler, true);
  std::abort();
}

int count_lanes(const Launch& launch) {
  return static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
}

Worker::Worker(const Launch& launch, Grid& all, void (*kernel)(void**), void** values, char* stacks)
    : shape(launch), grid(all), body(kernel), args(values) {
  n_lanes = count_lanes(launch);
  lanes.resize(n_lanes);
  warps.resize((n_lanes + 31) / 32);
  for (int i = 0; i < n_lanes; ++i) {
    lanes[i].fiber.stack = stacks + i * kStackBytes;
    lanes[i].fiber.stack_bytes = kStackBytes;
    const unsigned plane = launch.block.x * launch.block.y;
    lanes[i].at.thread = {i % launch.block.x, i % plane / launch.block.x, i / plane};
  }
  TSAN(scheduler.tsan = __tsan_get_current_fiber());
}

void Worker::run_block(dim3 block) {
  // Exactly as large as asked for, so that ASan sees the end; not zero, as on a device.
  shared = static_cast<char*>(std::malloc(shape.shared_bytes));
  std::memset(shared, 0xff, shape.shared_bytes);
  n_ended = n_at_barrier = 0;
  ready.clear();
  for (Warp& warp : warps) warp.waiting = 0;
  TSAN(__tsan_release(&begin));
  for (int i = n_lanes - 1; i >= 0; --i) {
    Lane& lane = lanes[i];
    lane.at.block = block;
    lane.state = State::ready;
    lane.copies.clear();
    prepare(lane.fiber.context, static_cast<char*>(const_cast<void*>(lane.fiber.stack)),
            kStackBytes, lane_main);
    TSAN(lane.fiber.tsan = __tsan_create_fiber(0));
    ready.push_back(i);
  }
  has_asked = false;
  while (n_ended < n_lanes && error.empty()) {
    if (ready.empty()) {
      report_deadlock();
    } else {
      run_lane(next_lane());
    }
  }
  TSAN(__tsan_acquire(&end));
  TSAN(for (Lane& lane : lanes) __tsan_destroy_fiber(lane.fiber.tsan));
  std::free(shared);
}

int Worker::next_lane() {
  if (shape.seed != 0) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    std::swap(ready[(random >> 33) % ready.size()], ready.back());
  }
  const int index = ready.back();
  ready.pop_back();
  return index;
}

// Lets other threads and blocks run; where all blocks only ask, nothing will ever answer.
void Worker::ask(Place place) {
  const int self = current;
  {
    const std::lock_guard<std::mutex> lock(grid.mutex);
    if (shape.is_cooperative == 0) {
      report("waits for another block at " + std::string(place.file) + ":" +
             std::to_string(place.line) + " in a launch that is not cooperative");
    }
    if (!has_asked) grid.progress();
    if (asked_turn != grid.turn) n_asked = 0;
    asked_turn = grid.turn;
    if (++n_asked == 2 && ++grid.n_stuck == grid.n_running) {
      report("waits at " + std::string(place.file) + ":" + std::to_string(place.line) +
             " for blocks that wait too, or have ended");
    }
    if (grid.has_failed && error.empty()) report("gave up with another block");
    has_asked = true;
  }
  ready.insert(ready.begin(), self);
  sched_yield();
  switch_fiber(lanes[self].fiber, scheduler, false);
}

// A block has ended, or failed.
void Worker::finish() {
  const std::lock_guard<std::mutex> lock(grid.mutex);
  grid.has_failed = grid.has_failed || !error.empty();
  --grid.n_running;
  grid.progress();
}

void Worker::run_lane(int index) {
  current = index;
  switch_fiber(scheduler, lanes[index].fiber, false);
  if (*static_cast<const std::uint64_t*>(lanes[index].fiber.stack) != kCanary) {
    std::fprintf(stderr, "emulator: a thread needs more than %zu bytes of stack\n", kStackBytes);
    std::abort();  // its neighbour's is overwritten
  }
}

void Worker::report(const std::string& what) {
  const dim3 b = lanes[0].at.block;
  if (!error.empty()) return;
  error = "block (" + std::to_string(b.x) + ", " + std::to_string(b.y) + ", " +
          std::to_string(b.z) + "): " + what;
}

// One line for all lanes of a warp that are in the same state.
void Worker::report_deadlock() {
  std::string text = "no thread can go on";
  for (std::size_t first = 0; first < lanes.size(); first += 32) {
    std::vector<std::pair<std::string, unsigned>> groups;
    for (std::size_t i = first; i < first + 32 && i < lanes.size(); ++i) {
      const Lane& lane = lanes[i];
      std::string where = "have ended";
      if (lane.state == State::waiting) {
        where = "wait at " + describe(lane.kind, lane.place);
        if (lane.kind != Kind::barrier) where += " for lanes " + hex(lane.mask);
      }
      std::size_t g = 0;
      while (g < groups.size() && groups[g].first != where) ++g;
      if (g == groups.size()) groups.push_back({where, 0});
      groups[g].second |= 1u << (i - first);
    }
    for (const auto& [where, mask] : groups) {
      text += "\n  warp " + std::to_string(first / 32) + ": lanes " + hex(mask) + " " + where;
    }
  }
  report(text);
}

// A lane waits; if it is the last one, all go on.
void Worker::arrive(Lane& lane) {
  has_asked = false;
  lane.state = State::waiting;
  const int index = static_cast<int>(index_of(lane));
  if (lane.kind == Kind::barrier) {
    if (++n_at_barrier < n_lanes) return;
    n_at_barrier = 0;
    ++order.turn;
    for (int i = n_lanes - 1; i >= 0; --i) {
      if (lanes[i].place.line != lane.place.line) {
        report("threads meet at " + describe(lane.kind, lane.place) + " and at " +
               describe(lane.kind, lanes[i].place));
      }
      lanes[i].state = State::ready;
      ready.push_back(i);
    }
    return;
  }
  const unsigned self = 1u << (index % 32);
  if ((lane.mask & self) == 0) {
    report("lane " + std::to_string(index % 32) + " calls " + describe(lane.kind, lane.place) +
           " with the mask " + hex(lane.mask) + ", which leaves it out");
  }
  Warp& warp = warps[index / 32];
  warp.waiting |= self;
  if ((warp.waiting & lane.mask) == lane.mask) complete_warp(index / 32, lane.mask);
}

void Worker::complete_warp(int index, unsigned mask) {
  Warp& warp = warps[index];
  Lane* const group = &lanes[32 * index];
  const Lane& any = lanes[current];
  unsigned votes = 0;
  for (int i = 31; i >= 0; --i) {
    if ((mask >> i & 1) == 0) continue;
    Lane& lane = group[i];
    if (lane.kind != any.kind || lane.mask != mask || lane.place.line != any.place.line) {
      report("lanes meet at " + describe(any.kind, any.place) + " for " + hex(mask) + " and at " +
             describe(lane.kind, lane.place) + " for " + hex(lane.mask));
      return;
    }
    if (lane.kind == Kind::shuffle) {
      if (lane.source < 0 || lane.source > 31 || (mask >> lane.source & 1) == 0) {
        report("lane " + std::to_string(i) + " reads lane " + std::to_string(lane.source) +
               ", which is not in the mask " + hex(mask) + " of " +
               describe(lane.kind, lane.place));
        return;
      }
      lane.result = group[lane.source].value;
    }
    votes |= static_cast<unsigned>(lane.value & 1) << i;
    lane.state = State::ready;
    ready.push_back(32 * index + i);
  }
  for (int i = 0; i < 32; ++i) {
    if ((mask >> i & 1) != 0 && any.kind == Kind::vote) group[i].result = votes;
  }
  warp.waiting &= ~mask;
  if (any.kind == Kind::warp_barrier) ++warp.order.turn;
}

}  // namespace

const Position& here() { return worker->lanes[worker->current].at; }
const Launch& launch() { return worker->shape; }
void* dynamic_shared() { return worker->shared; }

std::uint64_t meet(Kind kind, unsigned mask, std::uint64_t value, int source, Place place) {
  Worker& w = *worker;
  Lane& lane = w.lanes[w.current];
  lane.kind = kind;
  lane.mask = mask;
  lane.value = value;
  lane.source = source;
  lane.place = place;
  // Shuffles and votes exchange registers; CUDA promises nothing about memory beside them.
  Order* const order = kind == Kind::barrier        ? &w.order
                       : kind == Kind::warp_barrier ? &w.warp_of(lane).order
                                                    : nullptr;
  char* const address = order == nullptr ? nullptr : &order->address[order->turn % 2];
  TSAN(if (address != nullptr) __tsan_release(address));
  w.arrive(lane);
  switch_fiber(lane.fiber, w.scheduler, false);
  TSAN(if (address != nullptr) __tsan_acquire(address));
  (void)address;
  return lane.result;
}

void fence() {
  static char address;
  TSAN(__tsan_acquire(&address));
  TSAN(__tsan_release(&address));
  (void)address;
}

void pause(Place place) { worker->ask(place); }

void begin_copy(void* to, const void* from, std::size_t bytes) {
  const auto places = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if (places % bytes != 0) {
    worker->report("copy of " + std::to_string(bytes) + " bytes between addresses not aligned so");
  }
  worker->lanes[worker->current].copies.push_back({to, from, bytes});
}

void finish_copies(void (*copy)(void*, const void*, std::size_t)) {
  std::vector<Copy>& copies = worker->lanes[worker->current].copies;
  for (const Copy& c : copies) copy(c.to, c.from, c.bytes);
  copies.clear();
}

const char* run(const Launch& launch, void (*body)(void**), void** args) {
  const std::uint64_t n_blocks = std::uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
  const int n_workers = launch.is_cooperative ? static_cast<int>(n_blocks) : launch.n_workers;
  Grid grid;
  grid.n_running = n_workers;
  std::vector<std::string> errors(n_workers);
  std::vector<char*> stacks(n_workers);
  for (char*& of_worker : stacks) of_worker = all_stacks.take(count_lanes(launch));
  const auto work = [&](int index) {
    Worker mine(launch, grid, body, args, stacks[index]);
    worker = &mine;
    for (std::uint64_t b = index; b < n_blocks && mine.error.empty(); b += n_workers) {
      mine.random = launch.seed * 0x9e3779b97f4a7c15u + b;
      const std::uint64_t plane = std::uint64_t(launch.grid.x) * launch.grid.y;
      mine.run_block({static_cast<unsigned>(b % launch.grid.x),
                      static_cast<unsigned>(b % plane / launch.grid.x),
                      static_cast<unsigned>(b / plane)});
    }
    mine.finish();
    errors[index] = mine.error;
  };
  std::vector<std::thread> threads;  // besides this one: a thread takes longer than most launches
  for (int i = 1; i < n_workers; ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
  for (char* of_worker : stacks) all_stacks.give(count_lanes(launch), of_worker);
  static thread_local std::string message;
  message.clear();
  for (const std::string& error : errors) {  // the cause, rather than who gave up for it
    if (message.empty() || message.find("gave up") != std::string::npos) message = error;
  }
  return message.empty() ? nullptr : message.c_str();
}

}  // namespace emulator
