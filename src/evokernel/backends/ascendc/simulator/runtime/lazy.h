// A table of zeros that uses memory only where it is touched.
#pragma once
#include <cstddef>
#include <new>
#include <sys/mman.h>

namespace simulator {

template <typename T> class Lazy {
 public:
  explicit Lazy(size_t count) : bytes_(count * sizeof(T)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(memory);
  }
  ~Lazy() {
    if (data_) munmap(data_, bytes_);
  }
  Lazy(Lazy&& other) : data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }
  Lazy(const Lazy&) = delete;
  T* get() const { return data_; }
  size_t bytes() const { return bytes_; }
  // All zeros again, without memory.
  void clear() { madvise(data_, bytes_, MADV_DONTNEED); }

 private:
  T* data_;
  size_t bytes_;
};

}  // namespace simulator
