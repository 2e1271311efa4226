// Runs CUDA kernels on the processor, so that the source of a kernel is tested where there is no GPU.
//
// A block is a set of fibers, one for each thread. A fiber runs until a collective operation (a shuffle, a barrier) and
// goes on when all that take part have arrived; which one runs next is drawn at random from a seed, so that a missing
// barrier shows as a wrong or changing result. Blocks run one after the other, in a random order. What aborts with a
// message: lanes of a warp that meet in different operations, threads that never arrive, an allocation of shared memory
// beyond what a block may have. Shared memory begins as NaN. A copy by cp.async happens at once or when it is waited for.
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(16) float4 { float x, y, z, w; };

namespace emulator {

constexpr unsigned WARP = 32;
constexpr size_t STACK = 64 * 1024;
// A launch may take so much; more, up to the most that the smallest architecture has, with what the kernel itself
// declares, must have been allowed to the kernel before.
constexpr size_t FREE_SHARED = 40 * 1024;
constexpr size_t LARGEST_SHARED = 98 * 1024;

struct Fiber {
    void* stack_pointer = nullptr;
    std::unique_ptr<char[]> stack;  // of a thread; the scheduler's is found out
    const void* known_stack = nullptr;
    size_t known_size = 0;
#if !defined(__x86_64__)
    ucontext_t context;
#endif
    void* fake_stack = nullptr;
    unsigned thread = 0;
    bool is_done = false;
    struct Copy { void* to; const void* from; size_t bytes; };
    std::vector<std::vector<Copy>> copies;  // groups of cp.async, the last one open
};

struct Meeting {  // of the lanes of a warp, or of threads at a barrier
    unsigned arrived = 0;
    unsigned generation = 0;
    int operation = 0;
    uint64_t values[2][WARP] = {};
    uint64_t total[2] = {};
    std::vector<Fiber*> waiting;
};

struct Machine {
    dim3 grid, block, block_index;
    unsigned threads = 0;
    std::vector<Fiber> fibers;
    std::vector<Fiber*> runnable;
    std::vector<Meeting> warps;
    Meeting barriers[16];
    Fiber* current = nullptr;
    Fiber scheduler;
    std::function<void()> kernel;
    std::vector<unsigned char> shared;
    uint64_t random = 1;

    uint64_t draw() {  // xorshift
        random ^= random << 13;
        random ^= random >> 7;
        return random ^= random << 17;
    }
};

inline Machine& machine() {
    static Machine it;
    return it;
}

[[noreturn]] inline void fail(const char* what) {
    const Machine& m = machine();
    fprintf(stderr, "CUDA emulator: block %u, thread %u: %s\n", m.block_index.x, m.current ? m.current->thread : 0, what);
    abort();
}

#if defined(__x86_64__)
// Keeps the registers that a call must keep on the old stack, takes those of the new one.
extern "C" void emulator_switch(void** save, void* load);
__asm__(
    ".text\n.weak emulator_switch\n.type emulator_switch,@function\nemulator_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#endif

inline void switch_to(Fiber* next) {
    Machine& m = machine();
    Fiber* const before = m.current;
    m.current = next;
#if defined(__SANITIZE_ADDRESS__)
    void** const keep = before->is_done ? nullptr : &before->fake_stack;
    __sanitizer_start_switch_fiber(keep, next->known_stack, next->known_size);
#endif
#if defined(__x86_64__)
    emulator_switch(&before->stack_pointer, next->stack_pointer);
#else
    swapcontext(&before->context, &next->context);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(before->fake_stack, nullptr, nullptr);
#endif
}

// Goes to any fiber that can run, or back to the scheduler when none is left.
inline void run_another() {
    Machine& m = machine();
    if (m.runnable.empty()) return switch_to(&m.scheduler);
    const size_t which = m.draw() % m.runnable.size();
    Fiber* const next = m.runnable[which];
    m.runnable[which] = m.runnable.back();
    m.runnable.pop_back();
    switch_to(next);
}

inline void fiber_main() {
    Machine& m = machine();
#if defined(__SANITIZE_ADDRESS__)
    const void* from;
    size_t size;
    __sanitizer_finish_switch_fiber(nullptr, &from, &size);
    if (!m.scheduler.known_stack) {  // the first fiber comes from there
        m.scheduler.known_stack = from;
        m.scheduler.known_size = size;
    }
#endif
    m.kernel();
    m.current->is_done = true;
    run_another();
    fail("a finished thread ran again");
}

inline void prepare(Fiber& fiber, unsigned thread) {
    if (!fiber.stack) fiber.stack.reset(new char[STACK]);
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(fiber.stack.get(), STACK);  // the last thread on it never returned
#endif
    fiber.known_stack = fiber.stack.get();
    fiber.known_size = STACK;
    fiber.thread = thread;
    fiber.is_done = false;
    fiber.copies.assign(1, {});
#if defined(__x86_64__)
    void** top = (void**)((uintptr_t)(fiber.stack.get() + STACK) & ~uintptr_t(15));
    *--top = nullptr;  // where a caller's return address would be
    *--top = (void*)fiber_main;
    for (int i = 0; i < 6; i++) *--top = nullptr;
    fiber.stack_pointer = top;
#else
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
#endif
}

// Waits until `expected` threads have come. The values and the total of all of them stay until the next meeting but one.
inline unsigned meet(Meeting& meeting, unsigned expected, int operation, unsigned place, uint64_t value) {
    Machine& m = machine();
    const unsigned generation = meeting.generation, side = generation % 2;
    if (meeting.arrived == 0) {
        meeting.operation = operation;
        meeting.total[side] = 0;
    } else if (meeting.operation != operation) {
        fail("threads meet in different operations");
    }
    if (place < WARP) meeting.values[side][place] = value;
    meeting.total[side] += value;
    if (++meeting.arrived == expected) {
        meeting.arrived = 0;
        meeting.generation++;
        m.runnable.insert(m.runnable.end(), meeting.waiting.begin(), meeting.waiting.end());
        meeting.waiting.clear();
    } else {
        meeting.waiting.push_back(m.current);
        run_another();
    }
    return side;
}

inline unsigned lane() { return machine().current->thread % WARP; }

enum Operation { SYNC_WARP, SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, REDUCE_MAX, BALLOT, BARRIER, BARRIER_COUNT };

inline const uint64_t* exchange(Operation operation, uint64_t value) {
    Machine& m = machine();
    Meeting& warp = m.warps[m.current->thread / WARP];
    return warp.values[meet(warp, WARP, operation, lane(), value)];
}

template <typename T> inline T shuffle(Operation operation, T value, unsigned from) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    const uint64_t* const all = exchange(operation, bits);
    memcpy(&value, all + from % WARP, sizeof value);
    return value;
}

inline long barrier(unsigned id, unsigned threads, Operation operation = BARRIER, long value = 0) {
    Meeting& meeting = machine().barriers[id];
    return long(meeting.total[meet(meeting, threads, operation, WARP, uint64_t(value))]);
}

inline void run_block() {
    Machine& m = machine();
    m.warps.assign((m.threads + WARP - 1) / WARP, Meeting());
    for (Meeting& meeting : m.barriers) meeting = Meeting();
    std::fill(m.shared.begin(), m.shared.end(), (unsigned char)0xff);
    if (m.fibers.size() < m.threads) m.fibers.resize(m.threads);
    m.runnable.clear();
    for (unsigned i = 0; i < m.threads; i++) {
        prepare(m.fibers[i], i);
        m.runnable.push_back(&m.fibers[i]);
    }
    m.current = &m.scheduler;
    run_another();
    for (unsigned i = 0; i < m.threads; i++)
        if (!m.fibers[i].is_done) fail("some threads wait for others that never come");
}

// All blocks of a grid.
inline void run_grid(dim3 grid, dim3 block, size_t shared_bytes, std::function<void()> kernel) {
    Machine& m = machine();
    if (block.x % WARP || block.x > 1024 || block.x == 0 || grid.x == 0) fail("such a block or grid cannot be");
    m.grid = grid;
    m.block = block;
    m.threads = block.x;
    m.shared.assign(shared_bytes, 0xff);
    m.kernel = kernel;
    std::vector<unsigned> order(grid.x);
    for (unsigned i = 0; i < grid.x; i++) order[i] = i;
    for (unsigned i = grid.x; i > 1; i--) std::swap(order[i - 1], order[m.draw() % i]);
    for (unsigned index : order) {
        m.block_index = dim3(index, 0, 0);
        run_block();
    }
}

struct ThreadIndex { operator unsigned() const { return machine().current->thread; } };
struct BlockIndexX { operator unsigned() const { return machine().block_index.x; } };
struct BlockDimX { operator unsigned() const { return machine().block.x; } };
struct GridDimX { operator unsigned() const { return machine().grid.x; } };

}  // namespace emulator

static const struct { emulator::ThreadIndex x; } threadIdx = {};
static const struct { emulator::BlockIndexX x; } blockIdx = {};
static const struct { emulator::BlockDimX x; } blockDim = {};
static const struct { emulator::GridDimX x; } gridDim = {};

#define CTC_DYNAMIC_SHARED(name) unsigned char* const name = emulator::machine().shared.data()

template <typename T> static inline T __shfl_sync(unsigned, T value, int from) {
    return emulator::shuffle(emulator::SHUFFLE, value, unsigned(from));
}
template <typename T> static inline T __shfl_up_sync(unsigned, T value, unsigned by) {
    const unsigned lane = emulator::lane();
    return emulator::shuffle(emulator::SHUFFLE_UP, value, lane < by ? lane : lane - by);
}
template <typename T> static inline T __shfl_down_sync(unsigned, T value, unsigned by) {
    const unsigned lane = emulator::lane();
    return emulator::shuffle(emulator::SHUFFLE_DOWN, value, lane + by > 31 ? lane : lane + by);
}
template <typename T> static inline T __shfl_xor_sync(unsigned, T value, int mask) {
    return emulator::shuffle(emulator::SHUFFLE_XOR, value, emulator::lane() ^ unsigned(mask));
}
static inline unsigned __reduce_max_sync(unsigned, unsigned value) {
    const uint64_t* const all = emulator::exchange(emulator::REDUCE_MAX, value);
    return unsigned(*std::max_element(all, all + emulator::WARP));
}
static inline unsigned __ballot_sync(unsigned, int predicate) {
    const uint64_t* const all = emulator::exchange(emulator::BALLOT, predicate != 0);
    unsigned bits = 0;
    for (unsigned i = 0; i < emulator::WARP; i++) bits |= unsigned(all[i]) << i;
    return bits;
}
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline int __clz(int bits) { return bits ? __builtin_clz(unsigned(bits)) : 32; }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }
static inline void __syncwarp(unsigned = ~0u) { emulator::exchange(emulator::SYNC_WARP, 0); }
static inline void __syncthreads() { emulator::barrier(0, emulator::machine().threads); }
static inline int __syncthreads_count(int predicate) {
    return int(emulator::barrier(0, emulator::machine().threads, emulator::BARRIER_COUNT, predicate != 0));
}
static inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) > 0; }
static inline int __syncthreads_and(int predicate) {
    return __syncthreads_count(predicate) == int(emulator::machine().threads);
}
static inline void named_barrier(unsigned id, unsigned threads) { emulator::barrier(id, threads); }

static inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static inline long long __double_as_longlong(double x) {
    long long bits;
    memcpy(&bits, &x, 8);
    return bits;
}
static inline double __longlong_as_double(long long bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

namespace emulator {
inline void perform(std::vector<Fiber::Copy>& group) {
    for (const Fiber::Copy& copy : group) memcpy(copy.to, copy.from, copy.bytes);
    group.clear();
}
}  // namespace emulator

template <size_t BYTES> static inline void copy_ahead(void* to, const void* from) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "");
    if (uintptr_t(to) % BYTES || uintptr_t(from) % BYTES) emulator::fail("cp.async of a wrong alignment");
    emulator::Machine& m = emulator::machine();
    m.current->copies.back().push_back({to, from, BYTES});
    if (m.draw() % 2) emulator::perform(m.current->copies.back());
}
static inline void close_copies() { emulator::machine().current->copies.emplace_back(); }
template <size_t KEPT> static inline void wait_for_copies() {
    auto& groups = emulator::machine().current->copies;
    const size_t closed = groups.size() - 1;
    for (size_t i = 0; i + KEPT < closed; i++) emulator::perform(groups[i]);
    if (closed > KEPT) groups.erase(groups.begin(), groups.begin() + long(closed - KEPT));
}
