// What kernels take from <algorithm>, <cmath> and <limits>, for NVRTC, which has no C++ library.
#pragma once

#include <math.h>

namespace std {

using ::exp;
using ::fabs;
using ::isfinite;
using ::log1p;

template <typename> struct numeric_limits {
    static constexpr double infinity() { return 1.0 / 0.0; }
};

template <typename T> inline const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <typename T> inline const T& min(const T& a, const T& b) { return b < a ? b : a; }

template <typename T> inline void swap(T& a, T& b) {
    const T kept = a;
    a = b;
    b = kept;
}

template <typename T, typename Count, typename Value> inline void fill_n(T* to, Count count, const Value& value) {
    for (Count i = 0; i < count; i++) to[i] = value;
}

template <typename T, typename Count> inline void copy_n(const T* from, Count count, T* to) {
    for (Count i = 0; i < count; i++) to[i] = from[i];
}

// For a few.
template <typename T, typename Less> inline void sort(T* first, T* last, Less is_less) {
    for (T* end = first; end < last; end++)
        for (T* at = end; at > first && is_less(*at, at[-1]); at--) swap(*at, at[-1]);
}

template <typename T, typename Less> inline void sink(T* heap, long count, long at, Less is_less) {
    for (long child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_less(heap[child], heap[child + 1])) child++;
        if (!is_less(heap[at], heap[child])) return;
        swap(heap[at], heap[child]);
    }
}

template <typename T, typename Less> inline void make_heap(T* first, T* last, Less is_less) {
    for (long i = (last - first) / 2; i-- > 0;) sink(first, last - first, i, is_less);
}

template <typename T, typename Less> inline void push_heap(T* first, T* last, Less is_less) {
    for (long at = last - first - 1; at > 0 && is_less(first[(at - 1) / 2], first[at]); at = (at - 1) / 2)
        swap(first[(at - 1) / 2], first[at]);
}

template <typename T, typename Less> inline void pop_heap(T* first, T* last, Less is_less) {
    swap(*first, last[-1]);
    sink(first, last - first - 1, 0, is_less);
}

}  // namespace std
