// Tiling data. The same header is compiled twice: for the host as a class with set_ and get_, for the kernel (SIMULATOR_KERNEL_TU) as a plain
// struct with the same layout.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernel_tiling/kernel_tiling.h"

#ifdef SIMULATOR_KERNEL_TU

#define BEGIN_TILING_DATA_DEF(className) struct className {
#define TILING_DATA_FIELD_DEF(type, name) type name;
#define TILING_DATA_FIELD_DEF_ARR(type, count, name) type name[count];
#define TILING_DATA_FIELD_DEF_STRUCT(type, name) type name;
#define END_TILING_DATA_DEF };
#define REGISTER_TILING_DATA_CLASS(opType, className)

#else

namespace simulator {
void savedTiling(size_t bytes, size_t capacity, const char* name);
}

#define BEGIN_TILING_DATA_DEF(className)                                \
  class className {                                                     \
   public:                                                              \
    className() = default;                                              \
    size_t GetDataSize() const { return sizeof(className); }            \
    const char* GetTilingClassName() const { return #className; }       \
    void SetDataPtr(void*) {}                                           \
    void SaveToBuffer(void* buffer, size_t capacity) const {            \
      static_assert(std::is_trivially_copyable<className>::value, "");  \
      ::simulator::savedTiling(sizeof(className), capacity, #className);     \
      std::memcpy(buffer, this, sizeof(className));                     \
    }

#define TILING_DATA_FIELD_DEF(type, name)               \
 public:                                                \
  void set_##name(type name) { this->name##_ = name; }  \
  type get_##name() const { return this->name##_; }     \
                                                        \
 private:                                               \
  type name##_ = {};

#define TILING_DATA_FIELD_DEF_ARR(type, count, name)                                                            \
 public:                                                                                                        \
  void set_##name(const type* name) { std::memcpy(this->name##_, name, sizeof(this->name##_)); }                \
  type* get_##name() { return this->name##_; }                                                                  \
  const type* get_##name() const { return this->name##_; }                                                      \
                                                                                                                \
 private:                                                                                                       \
  type name##_[count] = {};

#define TILING_DATA_FIELD_DEF_STRUCT(type, name) \
 public:                                         \
  type name;

#define END_TILING_DATA_DEF };

#define REGISTER_TILING_DATA_CLASS(opType, className) static_assert(sizeof(className) > 0, "tiling data of " #opType);

#endif
