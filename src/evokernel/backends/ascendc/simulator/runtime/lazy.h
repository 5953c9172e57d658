// A table of zeros that uses memory only where it is touched.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>
#include <sys/mman.h>

namespace simulator {

template <typename T> class Lazy {
 public:
  // A small table that is never cleared may use memory of the heap, which is faster than new pages.
  explicit Lazy(size_t count, bool clears = false) : bytes_(count * sizeof(T)), isMapped_(clears || bytes_ > HEAP_BYTES) {
    void* memory = isMapped_ ? mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : calloc(1, bytes_);
    if (!memory || memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(memory);
  }
  ~Lazy() {
    if (isMapped_ && data_) munmap(data_, bytes_);
    else free(data_);
  }
  Lazy(Lazy&& other) : data_(other.data_), bytes_(other.bytes_), isMapped_(other.isMapped_) { other.data_ = nullptr; }
  Lazy(const Lazy&) = delete;
  T* get() const { return data_; }
  // All zeros again, without memory.
  void clear() { madvise(data_, bytes_, MADV_DONTNEED); }

 private:
  static constexpr size_t HEAP_BYTES = 32u << 20;
  T* data_;
  size_t bytes_;
  bool isMapped_;
};

}  // namespace simulator
